#include "backend/model/backward/gradient_attention_torch.h"

#include <ATen/ATen.h>

#include "backend/base/index.h"

namespace foxscope {

AttentionTensors GradientAttentionSteps::attention_of(int layer, const at::Tensor& query, const at::Tensor& key,
                                                      const at::Tensor& value, const at::Tensor& cumulative) const {
  AttentionTensors attention;
  attention.query = query;
  attention.key = key;
  attention.value = value;
  attention.cumulative = cumulative;
  attention.scale = softmax_scale<double>(pass_.config().head_dim);
  attention.window_size = pass_.config().attention[index_of(layer)].window_size;
  attention.pruning_tolerance = pass_.input().pruning_tolerance;
  return attention;
}

void GradientAttentionSteps::report_attention(const AttentionDone& done) {
  pass_.report().attention_kernel = done.kernel;
  pass_.report().attention_blocks += done.blocks;
  pass_.report().skipped_blocks += done.skipped_blocks;
}

void GradientAttentionSteps::keep_gate_sum(int layer) {
  if (!cumulative_.defined()) return;
  // f_0 is in no F.
  gate_sums_[index_of(layer)] = (cumulative_.select(2, pass_.length() - 1) - cumulative_.select(2, 0)).sum(0);
}

}  // namespace foxscope
