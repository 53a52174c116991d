#include "backend/model/weights/logit_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/base/index.h"
#include "kernels/cpu/matrix_product.h"

namespace foxscope {
namespace {

/// float32 rounds the products below by far less.
constexpr double kRounding = 1.001;

/// Largest singular value of W [rows, depth], from above.
double spectral_bound(const FloatArray& matrix, std::int64_t rows) {
  const auto depth = static_cast<std::int64_t>(matrix.size()) / rows;
  const auto product = [rows](const FloatArray& in, std::int64_t inner) {
    FloatArray out(static_cast<std::size_t>(rows * rows));
    kernels::cpu::matrix_product({.rows = rows,
                                  .columns = rows,
                                  .depth = inner,
                                  .in = in.data(),
                                  .in_stride = inner,
                                  .weight = in.data(),
                                  .out = out.data(),
                                  .out_stride = rows});
    return out;
  };
  FloatArray gram = product(matrix, depth);
  double log_scale = 0;  // of gram, as powers of it would leave float32's range
  double power = 1;
  for (int squaring = 0; squaring <= 3; ++squaring) {
    double trace = 0;
    for (std::int64_t n = 0; n < rows; ++n) trace += static_cast<double>(gram[index_of(n * (rows + 1))]);
    if (!(trace > 0)) return 0;
    for (float& value : gram) value = static_cast<float>(static_cast<double>(value) / trace);
    log_scale += std::log(trace) / power;
    if (squaring == 3) break;
    gram = product(gram, rows);
    power *= 2;
  }
  return std::exp(log_scale / 2) * kRounding;
}

/// Longest query (or key) of one head.
/// @param row   first row of the head in the merged projection
/// @param norm  weights of the head's norm; null without
double longest(const ModelConfig& config, const LayerWeights& weights, std::int64_t row, const float* norm) {
  const std::int64_t dim = config.head_dim;
  const auto hidden = std::ssize(weights.attention_norm);  // numbers that the projection reads
  const auto largest = [](const float* values, std::int64_t count) {
    double most = 0;
    for (std::int64_t n = 0; n < count; ++n) most = std::max(most, std::abs(static_cast<double>(values[n])));
    return most;
  };
  if (norm != nullptr) {
    // One head may hold all that the norm over all heads leaves.
    const bool whole = config.query_key_norm == QueryKeyNorm::whole;
    const auto normed = static_cast<double>(!whole                      ? dim
                                            : row < config.query_size() ? config.query_size()
                                                                        : config.key_size());
    return std::sqrt(normed) * largest(norm, dim) * kRounding;
  }
  if (weights.attention_norm.empty()) return std::numeric_limits<double>::infinity();
  const float* first = weights.projection.data() + row * hidden;
  FloatArray scaled(first, first + dim * hidden);
  for (std::int64_t n = 0; n < dim * hidden; ++n) {
    scaled[index_of(n)] *= weights.attention_norm[index_of(n % hidden)];
  }
  double bias = 0;
  for (std::int64_t n = 0; n < dim; ++n) {
    double value = 0;
    if (!weights.projection_bias.empty()) value = weights.projection_bias[index_of(row + n)];
    for (std::int64_t m = 0; m < hidden && !weights.attention_norm_bias.empty(); ++m) {
      value +=
          static_cast<double>(first[n * hidden + m]) * static_cast<double>(weights.attention_norm_bias[index_of(m)]);
    }
    bias += value * value;
  }
  return spectral_bound(scaled, dim) * std::sqrt(static_cast<double>(hidden)) + std::sqrt(bias);
}

}  // namespace

std::vector<double> bound_logits(const ModelConfig& config, int layer, const LayerWeights& weights) {
  if (!config.layer(layer).has_softmax()) return {};
  const std::int64_t dim = config.head_dim;
  if (config.latent) {
    return std::vector<double>(static_cast<std::size_t>(config.heads), std::numeric_limits<double>::infinity());
  }
  const ProjectionColumns columns(config);
  const auto norm = [dim](const FloatArray& weight, std::int64_t head) {
    return weight.empty() ? nullptr : weight.data() + head * dim;
  };
  std::vector<double> keys;
  for (std::int64_t head = 0; head < config.key_heads; ++head) {
    keys.push_back(longest(config, weights, columns.key + head * dim, norm(weights.key_norm, head)));
  }
  std::vector<double> bounds;
  const std::int64_t group = config.heads / config.key_heads;
  for (std::int64_t head = 0; head < config.heads; ++head) {
    const double query = longest(config, weights, head * dim, norm(weights.query_norm, head));
    bounds.push_back(query * keys[index_of(head / group)] / std::sqrt(static_cast<double>(dim)));
  }
  if (const Rotary* const rotary = config.rotary_at(layer)) {
    // Queries that grow with their position have no bound.
    const double turned = rotary->query_growth > 0 ? std::numeric_limits<double>::infinity()
                                                   : std::max(1.0, rotary->factor * rotary->factor);
    for (double& bound : bounds) bound *= turned;
  }
  if (config.attention_cap > 0) {
    for (double& bound : bounds) bound = std::min(bound, config.attention_cap);
  }
  return bounds;
}

}  // namespace foxscope
