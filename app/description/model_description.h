#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/model/spec/model_config.h"

namespace foxscope {

/// The paper's name for a model of this configuration: "FoX (Pro)", "Transformer (LLaMA)", or the nearest of them with
/// what differs, as in "FoX (LLaMA) with QK-norm".
std::string modelTitle(const ModelConfig& config);

/// One option of a model's layers.
struct ConfigOption {
  std::string key;    ///< in JSON
  std::string label;  ///< for people
  nlohmann::ordered_json value;
};

/// All options that mean something in the model: those of attention where a layer has it, those of an MLP where there
/// is one, those of a linear mixer where a layer is one.
std::vector<ConfigOption> configOptions(const ModelConfig& config);

}  // namespace foxscope
