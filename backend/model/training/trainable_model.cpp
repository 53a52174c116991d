#include "backend/model/training/trainable_model.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/forward_library.h"
#include "backend/model/layer/checks.h"
#include "backend/model/spec/parameters.h"

namespace foxscope {

std::unique_ptr<TrainableModel> TrainableModel::make(const ModelConfig& config, const ParameterSource& weights,
                                                     const TrainableOptions& options, const Job& job) {
  check_dtype(options.dtype, options.device);
  if (config.query_factor != 1 || config.query_factor_by_layer) {
    throw Error(
        "config.json scales attention by other than 1/sqrt(d) (scale_attn_weights, scale_attn_by_inverse_layer_idx): "
        "such a model is run, but not trained");
  }
  const std::vector<Parameter> all = parameters(config);
  if (std::ranges::any_of(all, &Parameter::zero_centered)) {
    throw Error(fmt::format("model_type {}: its norms hold what is beyond 1: such a model is run, but not trained",
                            config.model_type));
  }
  return forward_library().make_trainable(config, weights, options, job);
}

}  // namespace foxscope
