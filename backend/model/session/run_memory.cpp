#include "backend/model/session/run_memory.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/base/measures.h"
#include "backend/base/system_memory.h"
#include "backend/model/forward_library.h"
#include "backend/model/layer/chunk_sizes.h"
#include "backend/model/spec/parameters.h"
#include "backend/model/spec/trace_sizes.h"

namespace foxscope {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
/// Threads' scratch, packed keys and values of the attention kernel, libraries.
constexpr std::int64_t kWorkspace = 256 * kMebibyte;
/// Ids, byte offsets and the string of a token.
constexpr std::int64_t kTokenTable = 96;

/// On a GPU: kernels' code, cuBLAS's workspace, what LibTorch's allocator cannot use of its blocks.
constexpr std::int64_t kDeviceWorkspace = 512 * kMebibyte;

/// Tokens of a pass beyond which more of them together are no faster.
constexpr std::int64_t kDeviceTokens = 65536;
constexpr std::int64_t kHostTokens = 2048;

/// Bytes of the arrays that are kept of so many tokens.
std::int64_t kept_of(const ModelConfig& config, std::int64_t tokens, const KeepSet& keep, Storage storage,
                     DType dtype) {
  return static_cast<std::int64_t>(bytes_of(keep, storage, sizes_of(config, tokens), dtype));
}

/// Bytes that each token adds to them: not all have positions.
std::int64_t kept_per_token(const ModelConfig& config, const KeepSet& keep, Storage storage, DType dtype) {
  return kept_of(config, 2, keep, storage, dtype) - kept_of(config, 1, keep, storage, dtype);
}

/// Bytes of one head's statistics beside queries and keys: gates, normalisers, sums by distance and of keys.
constexpr std::int64_t kMeasuredPerToken = 512;

/// Autograd's graph of a layer, in units of what the written way back keeps.
constexpr std::int64_t kAutogradFactor = 4;

/// One of the memories, in the words of a message.
struct MemoryKind {
  const char* name;
  const char* there;    ///< "available"
  const char* instead;  ///< what needs none of it; null: nothing does
};
constexpr MemoryKind kHost = {"memory", "available", nullptr};
constexpr MemoryKind kGpu = {"GPU memory", "free", "--device cpu"};

/// "a, b, or c".
std::string alternatives(const std::vector<std::string>& list) {
  std::string text = list.front();
  for (std::size_t n = 1; n < list.size(); ++n) text += (n + 1 < list.size() ? ", " : ", or ") + list[n];
  return text;
}

std::int64_t left_of(const RunMemory& memory, std::int64_t length, std::int64_t free, const MemoryKind& kind,
                     const MemoryUser& user) {
  const std::int64_t needed = memory.fixed + memory.per_token * length;
  log_line(LogCategory::model, [&] {
    return fmt::format("{} about {:.1f} GiB of {}, {:.1f} GiB are {}", user.what, gibibytes(needed), kind.name,
                       gibibytes(free), kind.there);
  });
  if (needed <= free) return free - needed;
  const std::int64_t fitting = (free - memory.fixed) / memory.per_token;
  std::vector<std::string> remedies;
  if (!user.length_option.empty() && fitting > 0) {
    remedies.push_back(fmt::format("use {} {}", user.length_option, fitting));
  } else if (!user.length_option.empty()) {
    remedies = {fmt::format("free {}", kind.name), "use a smaller model"};
  }
  remedies.insert(remedies.end(), user.remedies.begin(), user.remedies.end());
  if (kind.instead != nullptr) remedies.emplace_back(kind.instead);
  throw Error(fmt::format("{} about {:.1f} GiB of {} and {:.1f} GiB are {}: {}", user.what, gibibytes(needed),
                          kind.name, gibibytes(free), kind.there, alternatives(remedies)));
}

/// Bytes that a pass keeps of each layer for the backward pass, and one layer's own on that way (FusedGradientForward;
/// LibTorch's autograd keeps what each of its operations read).
std::int64_t way_back_per_token(const ModelConfig& config, DType dtype, Recompute recompute = Recompute::none) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t projected = config.query_size() + 2 * config.key_size();
  const std::int64_t gate = config.output_gate ? config.query_size() : 0;
  const std::int64_t gates = ProjectionColumns(config).count - projected;
  const bool fused = config.norm == NormKind::rms && config.mlp == MlpKind::swiglu;
  const std::int64_t wide = (config.mlp == MlpKind::swiglu ? 2 : 1) * config.widest_intermediate();
  const std::int64_t layer = size * (projected + gate + config.query_size() + wide) +
                             4 * (2 * config.hidden_size + gates) + config.heads * (8 + 4);
  const std::int64_t own = size * (3 * projected + gate + 2 * wide) + 4 * 4 * config.hidden_size;
  const std::int64_t whole = (fused ? 1 : kAutogradFactor) * layer;
  if (recompute == Recompute::none) return config.layers * whole + own;
  // Arrays that are made again exist for one layer at a time.
  if (fused && recompute == Recompute::mlp) return config.layers * layer - (config.layers - 1) * size * wide + own;
  const std::int64_t entered = 4 * config.hidden_size;
  return config.layers * entered + whole + own;
}

}  // namespace

std::int64_t spared_per_token(const ModelConfig& config, DType dtype, Recompute recompute) {
  return way_back_per_token(config, dtype) - way_back_per_token(config, dtype, recompute);
}

RunMemory estimate_memory(const ModelConfig& config, std::int64_t parameters, const KeepSet& keep, DType dtype,
                          bool on_gpu) {
  const std::int64_t heads = config.heads;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t queries = config.query_size();
  const std::int64_t keys = config.key_size();
  RunMemory memory;
  memory.fixed = kWorkspace + (on_gpu ? 0 : parameters * 4) + kept_of(config, 1, keep, Storage::raw, dtype) -
                 kept_per_token(config, keep, Storage::raw, dtype);
  // The forward's own of one layer, beside those of all layers that are kept: losses, log f and c, normalisers.
  memory.per_token = kTokenTable + 4 + heads * (8 + 8 + 4) + kept_per_token(config, keep, Storage::packed, dtype) +
                     kept_per_token(config, keep, Storage::raw, dtype);
  if (keep.contains(Keep::ungated)) memory.per_token += heads * 4;
  memory.stored_per_token = kept_per_token(config, keep, Storage::store, dtype);
  if (on_gpu) return memory;
  memory.per_token += config.linear_bytes_per_position();
  memory.per_token += 4 * (hidden + std::max(hidden, queries) + config.rotary_dim);
  // Arrays that are kept need no memory of the forward's own.
  if (!keep.contains(Keep::query_key)) memory.per_token += 4 * (queries + keys);
  if (!keep.contains(Keep::values)) memory.per_token += 4 * keys;
  if (keep.contains(Keep::saliency)) memory.per_token += way_back_per_token(config, dtype);
  return memory;
}

RunMemory estimate_device_memory(const ModelConfig& config, std::int64_t parameters, const KeepSet& keep, DType dtype) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t heads = config.heads;
  const std::int64_t queries = config.query_size();
  const std::int64_t projected = queries + 2 * config.key_size();
  const std::int64_t gate = config.output_gate ? queries : 0;
  RunMemory memory;
  // The embedding is float32 in every run.
  memory.fixed = parameters * size + config.vocabulary_size * hidden * 4 + kDeviceWorkspace +
                 kDeviceMlpRows * 3 * config.widest_intermediate() * size + kDeviceLogitElements * 4;
  // Ids, labels, losses; residual stream, norm with what rounding took from it, projection, heads and what they attend
  // to; gates and normalisers; the attention kernel's workspace.
  memory.per_token = 20 + 4 * hidden + 2 * size * hidden + size * (projected + gate) + size * (projected + queries) +
                     heads * (8 + 4 + 4) + heads * 24;
  // LibTorch's operations have results of their own, of which a few are there at once.
  memory.per_token += 4 * config.linear_bytes_per_position();
  // In float32 the steps are LibTorch's operations, each with a result of its own.
  if (dtype == DType::float32) memory.per_token += 4 * 2 * projected + 4 * 4 * std::max(hidden, queries);
  if (keep.contains(Keep::hidden)) memory.per_token += 4 * hidden;
  if (keep.contains(Keep::logits)) memory.fixed += kDeviceLogitElements * 4;
  if (keep.contains(Keep::saliency)) {
    memory.per_token += way_back_per_token(config, dtype);
    memory.fixed += kDeviceLogitElements * 4;
  }
  memory.stored_per_token = kept_per_token(config, keep, Storage::store, dtype);
  // One layer on its way to the host, and afterwards a head.
  if (memory.stored_per_token > 0) memory.per_token += size * queries + kMeasuredPerToken;
  return memory;
}

FreeMemory free_memory(const Device& device) {
  return {available_memory(), device.cuda ? forward_library().free_device_memory(device.index) : 0};
}

RunNeeds estimate_needs(const ModelConfig& config, std::int64_t parameters, const KeepSet& keep, DType dtype,
                        const Device& device) {
  RunNeeds needs{estimate_memory(config, parameters, keep, dtype, device.cuda), {}};
  if (device.cuda) needs.gpu = estimate_device_memory(config, parameters, keep, dtype);
  return needs;
}

std::int64_t batch_tokens(const RunNeeds& needs, const FreeMemory& free) {
  const auto fit = [](const RunMemory& memory, std::int64_t bytes) {
    return std::max<std::int64_t>(0, bytes / 2 - memory.fixed) / (memory.per_token + memory.stored_per_token);
  };
  const std::int64_t host = fit(needs.host, free.host);
  return needs.gpu ? std::min({kDeviceTokens, host, fit(*needs.gpu, free.gpu)}) : std::min(kHostTokens, host);
}

FreeMemory memory_left(const RunNeeds& needs, std::int64_t length, const FreeMemory& free, const MemoryUser& user) {
  FreeMemory left;
  left.host = left_of(needs.host, length, free.host, kHost, user);
  if (needs.gpu) left.gpu = left_of(*needs.gpu, length, free.gpu, kGpu, user);
  return left;
}

}  // namespace foxscope
