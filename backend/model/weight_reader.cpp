#include "backend/model/weight_reader.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace foxscope {
namespace {

/// Multiplies the queries of a layer, and fills the bias of the merged projection up.
void finish_projection(const ModelConfig& config, int layer, LayerWeights& weights) {
  const ProjectionColumns columns(config);
  if (!weights.projection_bias.empty()) weights.projection_bias.resize(static_cast<std::size_t>(columns.count));
  const double factor = config.query_factor / (config.query_factor_by_layer ? layer + 1 : 1);
  if (factor == 1) return;
  const auto scale = [factor](FloatArray& values, std::int64_t count) {
    for (std::size_t n = 0; n < std::min(values.size(), static_cast<std::size_t>(count)); ++n) {
      values[n] = static_cast<float>(static_cast<double>(values[n]) * factor);
    }
  };
  scale(weights.projection, columns.key * config.hidden_size);
  scale(weights.projection_bias, columns.key);
}

}  // namespace

WeightReader::WeightReader(const Checkpoint& checkpoint, const Job& job)
    : checkpoint_(checkpoint), job_(job), parameters_(parameters(checkpoint.config())) {
  for (const Parameter& parameter : parameters_) {
    total_ += static_cast<std::int64_t>(checkpoint.tensor(parameter.name).bytes.size());
  }
}

FloatArray WeightReader::read(const std::string& name) {
  if (stopped()) return {};
  const TensorView& view = checkpoint_.tensor(name);
  FloatArray values;
  // Memory is touched piece by piece too: that of a large table takes seconds.
  values.reserve(static_cast<std::size_t>(view.elements()));
  checkpoint_.read(name, [&](std::span<const float> piece) {
    values.insert(values.end(), piece.begin(), piece.end());
    done_ += static_cast<std::int64_t>(piece.size() * size_of(view.dtype));
    job_.tell({done_, total_, "bytes", "load"});
    return !stopped();
  });
  return values;
}

std::optional<ModelWeights> WeightReader::read_outside() {
  ModelWeights weights;
  for (const Parameter& parameter : parameters_) {
    if (parameter.of_model == nullptr) continue;
    FloatArray values = read(parameter.name);
    if (stopped()) return std::nullopt;
    place_parameter(config(), parameter, std::move(values), weights.*parameter.of_model);
  }
  return weights;
}

std::optional<LayerWeights> WeightReader::read_layer(int layer) {
  LayerWeights weights;
  for (const Parameter& parameter : parameters_) {
    if (parameter.of_layer == nullptr || parameter.layer != layer) continue;
    FloatArray values = read(parameter.name);
    if (stopped()) return std::nullopt;
    place_parameter(config(), parameter, std::move(values), weights.*parameter.of_layer);
  }
  finish_projection(config(), layer, weights);
  return weights;
}

}  // namespace foxscope
