#pragma once

#include "backend/model/training/trainable_model.h"

namespace foxscope {

/// TrainableModel::make, where LibTorch is.
std::unique_ptr<TrainableModel> make_torch_trainable_model(const ModelConfig& config, const ParameterSource& weights,
                                                           const TrainableOptions& options, const Job& job);

}  // namespace foxscope
