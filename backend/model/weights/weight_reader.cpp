#include "backend/model/weights/weight_reader.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <future>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/model/weights/mapped_experts.h"

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
  if (!weights.query_norm.empty()) {
    // The norm would undo what the projection is multiplied by.
    scale(weights.query_norm, columns.key);
    return;
  }
  scale(weights.projection, columns.key * config.input_size(layer));
  scale(weights.projection_bias, columns.key);
}

/// W += U D of rows [first, end) of W [out, in].
/// @param down  [rank, in]
/// @param up    [out, rank]
void add_adapter(std::int64_t first, std::int64_t end, std::span<const float> down, std::span<const float> up,
                 std::int64_t rank, FloatArray& matrix) {
  const std::int64_t in = std::ssize(down) / rank;
  for (std::int64_t row = first; row < end; ++row) {
    float* const to = matrix.data() + row * in;
    for (std::int64_t n = 0; n < rank; ++n) {
      const float factor = up[index_of(row * rank + n)];
      const float* const from = down.data() + n * in;
      for (std::int64_t column = 0; column < in; ++column) to[column] += factor * from[column];
    }
  }
}

/// Adds the adapters of a layer to its matrices, and lets go of them.
void merge_adapters(const ModelConfig& config, LayerWeights& weights) {
  if (!weights.mlp_in_down.empty()) {
    const std::int64_t rank = std::ssize(weights.mlp_in_down) / config.hidden_size;
    const std::int64_t out = std::ssize(weights.mlp_in_up) / rank;
    add_adapter(0, out, weights.mlp_in_down, weights.mlp_in_up, rank, weights.mlp_in);
    weights.mlp_in_down = weights.mlp_in_up = {};
  }
  if (weights.projection_down.empty()) return;
  const ProjectionColumns columns(config);
  const std::int64_t rank = std::ssize(weights.projection_up) / columns.key_shift;
  const std::span<const float> down = weights.projection_down;
  const std::size_t each = down.size() / 3;
  const std::int64_t ends[] = {0, columns.key, columns.value, columns.key_shift};
  for (std::size_t part = 0; part < 3; ++part) {
    add_adapter(ends[part], ends[part + 1], down.subspan(part * each, each), weights.projection_up, rank,
                weights.projection);
  }
  weights.projection_down = weights.projection_up = {};
}

/// log alpha = -exp(A) dt must be a number.
void check_decay_rates(const Parameter& parameter, const FloatArray& values) {
  constexpr float kLargest = 60;
  const auto large = std::ranges::find_if(values, [](float value) { return value > kLargest; });
  if (large == values.end()) return;
  throw Error(
      fmt::format("tensor {} holds {} at element {}: a decay of exp({}) nats for each unit of dt is too large to "
                  "compute with: the training diverged or the file is damaged",
                  parameter.name, *large, large - values.begin(), *large));
}

}  // namespace

std::int64_t CheckpointSource::bytes(const Parameter& parameter) const {
  return static_cast<std::int64_t>(checkpoint_.tensor(parameter.name).bytes.size());
}

void CheckpointSource::read(const Parameter& parameter,
                            const std::function<bool(std::span<const float> piece)>& take) const {
  checkpoint_.read(parameter.name, take);
}

WeightReader::WeightReader(const ModelConfig& config, const ParameterSource& source, const Job& job, Experts experts)
    : config_(config), source_(source), job_(job), parameters_(parameters(config)) {
  if (experts == Experts::left) std::erase_if(parameters_, is_mapped);
  for (const Parameter& parameter : parameters_) total_ += source.bytes(parameter);
}

FloatArray WeightReader::read(const Parameter& parameter) {
  if (stopped()) return {};
  const std::int64_t elements = parameter.elements();
  const std::int64_t bytes = source_.bytes(parameter);
  FloatArray values;
  // Memory is touched piece by piece too: that of a large table takes seconds.
  values.reserve(static_cast<std::size_t>(elements));
  source_.read(parameter, [&](std::span<const float> piece) {
    values.insert(values.end(), piece.begin(), piece.end());
    const std::scoped_lock lock(mutex_);
    if (stopped()) return false;
    done_ += std::ssize(piece) * (bytes / elements);
    job_.tell({done_, total_, "bytes", "load"});
    return !stopped();
  });
  return values;
}

std::optional<ModelWeights> WeightReader::read_outside() {
  ModelWeights weights;
  for (const Parameter& parameter : parameters_) {
    if (parameter.of_model == nullptr) continue;
    FloatArray values = read(parameter);
    if (stopped()) return std::nullopt;
    place_parameter(config_, parameter, std::move(values), weights.*parameter.of_model);
  }
  return weights;
}

std::optional<LayerWeights> WeightReader::read_layer(int layer) {
  LayerWeights weights;
  const auto is_here = [layer](const Parameter& parameter) {
    return parameter.of_layer != nullptr && parameter.layer == layer;
  };
  // A weight of several tensors has its memory at once.
  for (const Parameter& parameter : parameters_) {
    if (!is_here(parameter) || parameter.first == 0) continue;
    FloatArray& weight = weights.*parameter.of_layer;
    const auto end = static_cast<std::size_t>(parameter.first + parameter.elements());
    if (weight.capacity() < end) weight.reserve(end);
  }
  for (const Parameter& parameter : parameters_) {
    if (!is_here(parameter)) continue;
    FloatArray values = read(parameter);
    if (stopped()) return std::nullopt;
    if (parameter.of_layer == &LayerWeights::decay_rate) check_decay_rates(parameter, values);
    place_parameter(config_, parameter, std::move(values), weights.*parameter.of_layer);
  }
  merge_adapters(config_, weights);
  if (config_.layer(layer).has_softmax()) finish_projection(config_, layer, weights);
  return weights;
}

bool WeightReader::read_layers(const std::function<void(int layer, LayerWeights weights)>& take) {
  constexpr unsigned kMostThreads = 8;
  const std::size_t threads = std::clamp(std::thread::hardware_concurrency() / 2, 2U, kMostThreads);
  std::deque<std::future<std::optional<LayerWeights>>> coming;
  int next = 0;
  for (int layer = 0; layer < config_.layers; ++layer) {
    for (; next < config_.layers && coming.size() < threads; ++next) {
      coming.push_back(
          std::async(std::launch::async | std::launch::deferred, [this, next] { return read_layer(next); }));
    }
    std::optional<LayerWeights> weights = coming.front().get();
    coming.pop_front();
    if (!weights) return false;
    take(layer, std::move(*weights));
  }
  return true;
}

}  // namespace foxscope
