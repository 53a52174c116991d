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
#include "backend/model/spec/trace_sizes.h"

namespace foxscope {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
/// Threads' scratch, packed keys and values of the attention kernel, libraries.
constexpr std::int64_t kWorkspace = 256 * kMebibyte;
/// Ids, byte offsets and the string of a token.
constexpr std::int64_t kTokenTable = 96;

/// GPU memory of kernels' code, cuBLAS's workspace, what LibTorch's allocator cannot use of its blocks.
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

}  // namespace

FreeMemory free_memory(const Device& device) {
  return {available_memory(), device.cuda ? forward_library().free_device_memory(device.index) : 0};
}

RunNeeds estimate_needs(const ModelConfig& config, std::int64_t parameters, const KeepSet& keep, DType dtype,
                        const Device& device, Recompute recompute) {
  const PassNeeds pass = forward_library().pass_needs(config, device.cuda, dtype, keep, recompute);
  const std::int64_t raw = kept_per_token(config, keep, Storage::raw, dtype);
  const std::int64_t stored = kept_per_token(config, keep, Storage::store, dtype);
  RunNeeds needs;
  needs.host.fixed = kWorkspace + kept_of(config, 1, keep, Storage::raw, dtype) - raw + pass.host.fixed;
  needs.host.per_token = kTokenTable + kept_per_token(config, keep, Storage::packed, dtype) + raw + pass.host.per_token;
  needs.host.stored_per_token = stored;
  if (!device.cuda) {
    needs.host.fixed += parameters * 4;
    return needs;
  }
  // The embedding is float32 in every run.
  const std::int64_t weights =
      parameters * static_cast<std::int64_t>(size_of(dtype)) + config.vocabulary_size * config.hidden_size * 4;
  needs.gpu = {weights + kDeviceWorkspace + pass.gpu.fixed, pass.gpu.per_token + (stored > 0 ? kMeasuredPerToken : 0),
               stored};
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
