#include "backend/model/session/causal_lm.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/forward_library.h"
#include "backend/model/layer/checks.h"
#include "backend/model/session/decode_state.h"
#include "backend/model/spec/trace_sizes.h"

namespace foxscope {

std::unique_ptr<CausalLM> CausalLM::load(const Checkpoint& checkpoint, const Device& device, DType dtype,
                                         const Job& job) {
  check_dtype(dtype, device);
  return forward_library().load(checkpoint, device, dtype, job);
}

std::unique_ptr<DecodeState> CausalLM::begin(const PromptRequest& prompt, const Job& job) {
  auto begun = prefill({&prompt, 1}, job);
  return begun.empty() ? nullptr : std::move(begun.front());
}

void check_request(const ForwardRequest& request, std::span<Recorder* const> recorders, const ModelConfig& config) {
  if (request.batch < 1 || request.length < 1) {
    throw ShapeError(fmt::format("[forward] {} sequences of {} positions: there must be at least one of each",
                                 request.batch, request.length));
  }
  const auto check = [](const char* what, std::size_t found, std::int64_t wanted) {
    if (static_cast<std::int64_t>(found) == wanted) return;
    throw ShapeError(fmt::format("[forward] {}: expected {}, got {}", what, wanted, found));
  };
  check("input_ids", request.input_ids.size(), request.batch * request.length);
  check("labels", request.labels.size(), request.batch * request.length);
  check("recorders", recorders.size(), request.batch);
  const ForwardRequest::Start& start = request.start;
  if (start.layer < 0 || start.layer >= config.layers) {
    throw ShapeError(fmt::format("[forward] start: there is no layer {} of {}", start.layer, config.layers));
  }
  const bool known = start.layer > 0 || !start.hidden.empty();
  check("start.hidden", start.hidden.size(), known ? request.batch * request.length * config.hidden_size : 0);
  for (const Recorder* recorder : recorders) {
    const TraceInfo& info = recorder->info();
    const TraceSizes sizes = sizes_of(config, request.length);
    if (info.layers != sizes.layers || info.heads != sizes.heads || info.key_heads != sizes.key_heads ||
        info.head_dim != sizes.head_dim || info.mixers != sizes.mixers || info.length != request.length) {
      throw ShapeError("[forward] recorders: made for another model or another length");
    }
  }
  const auto length = static_cast<std::size_t>(request.length);
  for (std::size_t first = 0; first < request.input_ids.size(); first += length) {
    check_ids(request.input_ids.subspan(first, length), config.vocabulary_size, "input_ids");
    check_ids(request.labels.subspan(first, length), config.vocabulary_size, "labels");
  }
  check_pass(request, config, request.length);
}

}  // namespace foxscope
