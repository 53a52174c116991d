#include "backend/model/parameters.h"

#include <algorithm>
#include <cassert>

#include "backend/model/model_family.h"

namespace foxscope {
namespace {

std::size_t index(std::int64_t number) { return static_cast<std::size_t>(number); }

/// The values as rows [out, in] of the weight.
FloatArray as_rows(const ModelConfig& config, const Parameter& parameter, FloatArray values) {
  if (parameter.layout == ParameterLayout::transposed) {
    const std::int64_t in = parameter.shape[0];
    const std::int64_t out = parameter.shape[1];
    FloatArray rows(values.size());
    for (std::int64_t row = 0; row < out; ++row) {
      for (std::int64_t column = 0; column < in; ++column)
        rows[index(row * in + column)] = values[index(column * out + row)];
    }
    return rows;
  }
  if (parameter.layout == ParameterLayout::per_head) {
    const std::int64_t size = static_cast<std::int64_t>(values.size()) / (3 * config.heads);  // of one head's part
    FloatArray rows(values.size());
    for (std::int64_t head = 0; head < config.heads; ++head) {
      for (std::int64_t part = 0; part < 3; ++part) {
        const auto from = values.begin() + (head * 3 + part) * size;
        std::copy(from, from + size, rows.begin() + (part * config.heads + head) * size);
      }
    }
    return rows;
  }
  if (parameter.layout == ParameterLayout::query_of_pairs || parameter.layout == ParameterLayout::gate_of_pairs) {
    const std::int64_t size = static_cast<std::int64_t>(values.size()) / (2 * config.heads);
    FloatArray rows;
    for (std::int64_t head = 0; head < config.heads; ++head) {
      const std::int64_t part = parameter.layout == ParameterLayout::gate_of_pairs ? 1 : 0;
      const auto from = values.begin() + (head * 2 + part) * size;
      rows.insert(rows.end(), from, from + size);
    }
    return rows;
  }
  if (parameter.layout == ParameterLayout::every_head) {
    const bool keys = parameter.of_layer == &LayerWeights::key_norm;
    const FloatArray once = values;
    for (int head = 1; head < (keys ? config.key_heads : config.heads); ++head) {
      values.insert(values.end(), once.begin(), once.end());
    }
  }
  return values;
}

}  // namespace

std::int64_t Parameter::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

ProjectionColumns::ProjectionColumns(const ModelConfig& config) {
  key = config.query_size();
  value = key + config.key_size();
  key_shift = value + config.key_size();
  value_shift = key_shift + (config.key_shift ? config.key_heads : 0);
  forget = value_shift + (config.value_shift ? config.key_heads : 0);
  count = forget + (config.forget_gate == ForgetGate::full ? config.heads : 0);
}

void ParameterList::add(const std::string& name, std::vector<std::int64_t> shape, FloatArray ModelWeights::*weight) {
  Parameter& parameter = parameters_.emplace_back();
  parameter.name = config_.name_prefix + name;
  parameter.shape = std::move(shape);
  parameter.of_model = weight;
}

void ParameterList::begin_layer(int layer, std::string name) {
  layer_ = layer;
  layer_name_ = std::move(name);
}

void ParameterList::add(const std::string& name, std::vector<std::int64_t> shape, FloatArray LayerWeights::*weight,
                        std::int64_t first, ParameterLayout layout) {
  assert(layer_ >= 0);
  Parameter& parameter = parameters_.emplace_back();
  parameter.name = config_.name_prefix + layer_name_ + name;
  parameter.shape = std::move(shape);
  parameter.layer = layer_;
  parameter.of_layer = weight;
  parameter.first = first;
  parameter.layout = layout;
}

void ParameterList::add_head() {
  if (config_.tie_word_embeddings) return;
  add("", {config_.vocabulary_size, config_.hidden_size}, &ModelWeights::language_model_head);
  parameters_.back().name = config_.family->head_name;
}

std::vector<Parameter> parameters(const ModelConfig& config) {
  ParameterList list(config);
  config.family->list(config, list);
  return list.take();
}

void place_parameter(const ModelConfig& config, const Parameter& parameter, FloatArray values, FloatArray& weight) {
  if (parameter.beyond_one) {
    for (float& value : values) value += 1;
  }
  FloatArray rows = as_rows(config, parameter, std::move(values));
  if (parameter.first == 0 && weight.empty()) {
    weight = std::move(rows);
    return;
  }
  weight.resize(std::max(weight.size(), index(parameter.first) + rows.size()));
  std::ranges::copy(rows, weight.begin() + parameter.first);
}

FloatArray take_parameter(const ModelConfig& config, const Parameter& parameter, const FloatArray& weight) {
  const std::int64_t count = parameter.elements();
  FloatArray values(index(count));
  const auto begin = weight.begin() + parameter.first;
  if (parameter.layout == ParameterLayout::rows || parameter.layout == ParameterLayout::every_head) {
    std::copy(begin, begin + count, values.begin());
  } else if (parameter.layout == ParameterLayout::transposed) {
    const std::int64_t in = parameter.shape[0];
    const std::int64_t out = parameter.shape[1];
    for (std::int64_t row = 0; row < out; ++row) {
      for (std::int64_t column = 0; column < in; ++column) values[index(column * out + row)] = begin[row * in + column];
    }
  } else {
    const std::int64_t size = count / (3 * config.heads);
    for (std::int64_t head = 0; head < config.heads; ++head) {
      for (std::int64_t part = 0; part < 3; ++part) {
        const auto from = begin + (part * config.heads + head) * size;
        std::copy(from, from + size, values.begin() + (head * 3 + part) * size);
      }
    }
  }
  return values;
}

FloatArray take_gradient(const ModelConfig& config, const Parameter& parameter, const FloatArray& gradient) {
  FloatArray values = take_parameter(config, parameter, gradient);
  if (parameter.layout != ParameterLayout::every_head) return values;
  for (std::size_t n = 0; n < values.size(); ++n) {
    double sum = 0;
    for (std::size_t at = index(parameter.first) + n; at < gradient.size(); at += values.size()) {
      sum += static_cast<double>(gradient[at]);
    }
    values[n] = static_cast<float>(sum);
  }
  return values;
}

}  // namespace foxscope
