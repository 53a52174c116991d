#include "backend/model/prompt_pass.h"

namespace foxscope {

PromptPass::PromptPass(const PromptRequest& prompt, const CausalLM& model) : given_(prompt.recorder) {
  request_.batch = 1;
  request_.length = static_cast<std::int64_t>(prompt.input_ids.size());
  request_.input_ids = prompt.input_ids;
  request_.labels = prompt.recorder != nullptr ? prompt.labels : prompt.input_ids;
  request_.pruning_tolerance = prompt.pruning_tolerance;
  request_.interventions = prompt.interventions;
  if (given_ != nullptr) return;
  const ModelConfig& config = model.config();
  TraceInfo info;
  info.layers = config.layers;
  info.heads = config.heads;
  info.key_heads = config.key_heads;
  info.head_dim = config.head_dim;
  info.length = request_.length;
  info.dtype = model.dtype();
  recorder_.emplace(info, KeepSet{}, nullptr);
}

}  // namespace foxscope
