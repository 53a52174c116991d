#include "backend/model/spec/parameters.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>

#include "backend/base/index.h"
#include "backend/model/spec/model_family.h"

namespace foxscope {
namespace {

/// A tensor whose rows lie head by head, each head's part by part, and where they go in the weight.
struct HeadRows {
  struct Part {
    std::int64_t rows = 0;   ///< of one head
    std::int64_t first = 0;  ///< row of the weight where those of head 0 go; below 0: they belong to another weight
  };
  std::int64_t heads = 0;  ///< 0: the rows lie otherwise
  std::vector<Part> parts;
  std::int64_t copies = 1;  ///< how often the weight has each head's rows, one behind the other

  /// Rows of the weight.
  [[nodiscard]] std::int64_t rows() const {
    std::int64_t count = 0;
    for (const Part& part : parts) count += part.first < 0 ? 0 : heads * copies * part.rows;
    return count;
  }
  /// Calls body(first row in the file, first row of the weight, number of rows) for each head, part and copy.
  template <typename Body>
  void each(const Body& body) const {
    std::int64_t in_file = 0;
    for (std::int64_t head = 0; head < heads; ++head) {
      for (const Part& part : parts) {
        for (std::int64_t copy = head * copies; part.first >= 0 && copy < (head + 1) * copies; ++copy) {
          body(in_file, part.first + copy * part.rows, part.rows);
        }
        in_file += part.rows;
      }
    }
  }
};

HeadRows key_head_rows(const LinearMixer& mixer, ParameterLayout layout) {
  if (layout == ParameterLayout::ba_per_key_head) {
    const std::int64_t each = mixer.heads / mixer.key_heads;
    return {mixer.key_heads, {{each, 0}, {each, mixer.heads}}};
  }
  const LinearColumns columns(mixer);
  const std::int64_t values = mixer.value_size() / mixer.key_heads;
  return {mixer.key_heads,
          {{mixer.key_dim, columns.query}, {mixer.key_dim, columns.key}, {values, columns.value}, {values, 0}}};
}

/// Rows of queries or keys of which pairs (n, n + 1) turn, as pairs (n, n + dim / 2).
HeadRows pair_rows(const ModelConfig& config, const Parameter& parameter) {
  const std::int64_t size = config.head_dim;
  const Rotary* const rotary = config.rotary_at(parameter.layer);
  const std::int64_t turning = rotary == nullptr ? 0 : rotary->dim;
  HeadRows rows{1, {}};
  for (std::int64_t row = 0; row < parameter.shape[0]; ++row) {
    const std::int64_t n = row % size;
    rows.parts.push_back({1, row - n + (n < turning ? n % 2 * (turning / 2) + n / 2 : n)});
  }
  return rows;
}

HeadRows head_rows(const ModelConfig& config, const Parameter& parameter) {
  const std::int64_t heads = config.heads;
  switch (parameter.layout) {
    case ParameterLayout::per_head: {
      const std::int64_t dim = parameter.shape[0] / (3 * heads);
      return {heads, {{dim, 0}, {dim, heads * dim}, {dim, 2 * heads * dim}}};
    }
    case ParameterLayout::query_of_pairs:
      return {heads, {{parameter.shape[0] / (2 * heads), 0}, {parameter.shape[0] / (2 * heads), -1}}};
    case ParameterLayout::gate_of_pairs:
      return {heads, {{parameter.shape[0] / (2 * heads), -1}, {parameter.shape[0] / (2 * heads), 0}}};
    case ParameterLayout::qkvz_per_key_head:
    case ParameterLayout::ba_per_key_head:
      return key_head_rows(*config.linear_at(parameter.layer), parameter.layout);
    case ParameterLayout::turning_pairs:
      return pair_rows(config, parameter);
    case ParameterLayout::steps_first: {
      const LinearMixer& mixer = *config.linear_at(parameter.layer);
      const std::int64_t dim = parameter.shape[0] / mixer.heads;
      HeadRows rows{mixer.steps, {}};
      for (std::int64_t head = 0; head < mixer.states(); ++head) rows.parts.push_back({dim, head * mixer.steps * dim});
      return rows;
    }
    case ParameterLayout::heads_repeated: {
      const LinearMixer& mixer = *config.linear_at(parameter.layer);
      return {mixer.query_heads, {{mixer.key_dim, 0}}, mixer.key_heads / mixer.query_heads};
    }
    case ParameterLayout::gate_last: {
      const std::int64_t half = parameter.shape[0] / 2;
      return {1, {{half, half}, {half, 0}}};
    }
    case ParameterLayout::rows:
    case ParameterLayout::transposed:
    case ParameterLayout::every_head:
    case ParameterLayout::expert_pairs:
    case ParameterLayout::experts_transposed:
    case ParameterLayout::expert_pairs_transposed:
      break;
  }
  return {};
}

/// Calls body(number in the file, number of the weight) for all numbers of the matrices of experts, or of their biases,
/// that lie otherwise than in the weight.
template <typename Body>
void each_of_experts(const Parameter& parameter, const Body& body) {
  const bool pairs = parameter.layout != ParameterLayout::experts_transposed;
  const bool transposed = parameter.layout != ParameterLayout::expert_pairs;
  const std::int64_t in = transposed ? parameter.shape[1] : 1;
  const std::int64_t out = parameter.shape.back();
  std::int64_t in_file = 0;
  for (std::int64_t expert = 0; expert < parameter.shape[0]; ++expert) {
    for (std::int64_t column = 0; column < in; ++column) {
      for (std::int64_t n = 0; n < out; ++n) {
        const std::int64_t row = pairs ? n % 2 * (out / 2) + n / 2 : n;
        body(in_file++, (expert * out + row) * in + column);
      }
    }
  }
}

bool is_of_experts(ParameterLayout layout) {
  return layout == ParameterLayout::expert_pairs || layout == ParameterLayout::experts_transposed ||
         layout == ParameterLayout::expert_pairs_transposed;
}

/// The values as rows [out, in] of the weight.
FloatArray as_rows(const ModelConfig& config, const Parameter& parameter, FloatArray values) {
  if (parameter.layout == ParameterLayout::transposed) {
    const std::int64_t in = parameter.shape[0];
    const std::int64_t out = parameter.shape[1];
    FloatArray rows(values.size());
    for (std::int64_t row = 0; row < out; ++row) {
      for (std::int64_t column = 0; column < in; ++column)
        rows[index_of(row * in + column)] = values[index_of(column * out + row)];
    }
    return rows;
  }
  if (is_of_experts(parameter.layout)) {
    FloatArray rows(values.size());
    each_of_experts(parameter, [&](std::int64_t in_file, std::int64_t in_weight) {
      rows[index_of(in_weight)] = values[index_of(in_file)];
    });
    return rows;
  }
  if (const HeadRows order = head_rows(config, parameter); order.heads > 0) {
    const std::int64_t size = std::ssize(values) / parameter.shape[0];  // of a row
    FloatArray rows(index_of(order.rows() * size));
    order.each([&](std::int64_t in_file, std::int64_t in_weight, std::int64_t count) {
      std::copy_n(values.begin() + in_file * size, count * size, rows.begin() + in_weight * size);
    });
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

namespace {

/// Multiplies or divides the numbers of a tensor, as in the file, by the factors of its rows.
void apply_factors(const Parameter& parameter, bool divides, FloatArray& values) {
  if (parameter.factors.empty()) return;
  const std::size_t size = values.size() / parameter.factors.size();
  for (std::size_t n = 0; n < values.size(); ++n) {
    const float factor = parameter.factors[n / size];
    values[n] = divides ? values[n] / factor : values[n] * factor;
  }
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
  path = forget + (config.forget_gate == ForgetGate::full ? config.heads : 0);
  count = path_beta = path;
  if (!config.path) return;
  path_beta += config.path->rank > 0 ? config.path->rank : config.key_size();
  count = path_beta + config.key_heads;
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
  parameters_.back().name = config_.head_name;
}

std::vector<Parameter> parameters(const ModelConfig& config) {
  ParameterList list(config);
  config.family->list(config, list);
  return list.take();
}

void* allocate_large(std::size_t bytes) {
  void* const memory = ::operator new(bytes, kLargeAlignment);
  madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: a system without such pages has the memory all the same
  return memory;
}

void place_parameter(const ModelConfig& config, const Parameter& parameter, FloatArray values, FloatArray& weight) {
  if (parameter.zero_centered) {
    for (float& value : values) value += 1;
  }
  apply_factors(parameter, /*divides=*/false, values);
  FloatArray rows = as_rows(config, parameter, std::move(values));
  if (parameter.first == 0 && weight.capacity() == 0) {
    weight = std::move(rows);
    return;
  }
  weight.resize(std::max(weight.size(), index_of(parameter.first) + rows.size()));
  std::ranges::copy(rows, weight.begin() + parameter.first);
}

FloatArray take_parameter(const ModelConfig& config, const Parameter& parameter, const FloatArray& weight) {
  const std::int64_t count = parameter.elements();
  FloatArray values(index_of(count));
  const auto begin = weight.begin() + parameter.first;
  if (parameter.layout == ParameterLayout::rows || parameter.layout == ParameterLayout::every_head) {
    std::copy(begin, begin + count, values.begin());
  } else if (parameter.layout == ParameterLayout::transposed) {
    const std::int64_t in = parameter.shape[0];
    const std::int64_t out = parameter.shape[1];
    for (std::int64_t row = 0; row < out; ++row) {
      for (std::int64_t column = 0; column < in; ++column)
        values[index_of(column * out + row)] = begin[row * in + column];
    }
  } else if (is_of_experts(parameter.layout)) {
    each_of_experts(
        parameter, [&](std::int64_t in_file, std::int64_t in_weight) { values[index_of(in_file)] = begin[in_weight]; });
  } else {
    const std::int64_t size = count / parameter.shape[0];
    head_rows(config, parameter).each([&](std::int64_t in_file, std::int64_t in_weight, std::int64_t rows) {
      std::copy_n(begin + in_weight * size, rows * size, values.begin() + in_file * size);
    });
  }
  apply_factors(parameter, /*divides=*/true, values);
  return values;
}

FloatArray take_gradient(const ModelConfig& config, const Parameter& parameter, const FloatArray& gradient) {
  assert(parameter.layout != ParameterLayout::heads_repeated);  // of mixers that are not trained
  FloatArray values = take_parameter(config, parameter, gradient);
  // By the tensor it is the factor times that by the weight.
  apply_factors(parameter, /*divides=*/false, values);
  apply_factors(parameter, /*divides=*/false, values);
  if (parameter.layout != ParameterLayout::every_head) return values;
  for (std::size_t n = 0; n < values.size(); ++n) {
    double sum = 0;
    for (std::size_t at = index_of(parameter.first) + n; at < gradient.size(); at += values.size()) {
      sum += static_cast<double>(gradient[at]);
    }
    values[n] = static_cast<float>(sum);
  }
  return values;
}

}  // namespace foxscope
