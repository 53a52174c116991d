#include "kernels/cpu/step_gradients.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/step_gradients.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/tile_math-inl.h"
#include "kernels/log2e.h"

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kWidestVector = 16;

/// Loads and stores whole vectors.
struct Whole {
  HWY_INLINE Float load(const float* from) const { return hn::LoadU(FloatTag(), from); }
  HWY_INLINE void store(Float value, float* to) const { hn::StoreU(value, FloatTag(), to); }
};

/// Loads and stores the numbers that are left at a row's end; the others are `fill`.
struct Rest {
  std::int64_t count;
  float fill;
  HWY_INLINE Float load(const float* from) const {
    HWY_ALIGN float numbers[kWidestVector];
    std::fill_n(numbers, kWidestVector, fill);
    std::copy_n(from, count, numbers);
    return hn::Load(FloatTag(), numbers);
  }
  HWY_INLINE void store(Float value, float* to) const {
    HWY_ALIGN float numbers[kWidestVector];
    hn::Store(value, FloatTag(), numbers);
    std::copy_n(numbers, count, to);
  }
};

/// body(position, access) for every vector of a row.
template <typename Body>
HWY_INLINE void for_vectors(std::int64_t width, Body body, float fill = 0) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(FloatTag()));
  std::int64_t x = 0;
  for (; x + lanes <= width; x += lanes) body(x, Whole());
  if (x < width) body(x, Rest{width - x, fill});
}

HWY_INLINE float sum_of(Float x) { return hn::GetLane(hn::SumOfLanes(FloatTag(), x)); }

/// 1 / (1 + e^-x)
HWY_INLINE Float sigmoid_vector(Float x) {
  const FloatTag tag;
  const Float one = hn::Set(tag, 1.0F);
  return hn::Div(one, hn::Add(one, exp2_vector(hn::Mul(x, hn::Set(tag, -kLog2EFloat)))));
}

/// (mean(x^2) + epsilon)^-1/2
HWY_INLINE float inverse_root_mean_square(const float* input, std::int64_t width, float epsilon) {
  Float squares = hn::Zero(FloatTag());
  for_vectors(width, [&](std::int64_t x, auto access) HWY_ATTR {
    const Float number = access.load(input + x);
    squares = hn::MulAdd(number, number, squares);
  });
  return 1.0F / std::sqrt(sum_of(squares) / static_cast<float>(width) + epsilon);
}

/// One head of a row: dx, which may be dy or the residual, and what it adds to dw where that is not null.
HWY_INLINE void norm_row_backward(const float* input, float inverse, const float* weight, const float* output_gradient,
                                  std::int64_t width, const float* residual, float* input_gradient,
                                  float* weight_gradient) {
  const FloatTag tag;
  Float products = hn::Zero(tag);
  for_vectors(width, [&](std::int64_t x, auto access) HWY_ATTR {
    const Float weighted = hn::Mul(access.load(weight + x), access.load(output_gradient + x));
    products = hn::MulAdd(weighted, access.load(input + x), products);
  });
  const float mean = sum_of(products) / static_cast<float>(width);
  const Float factor = hn::Set(tag, inverse);
  const Float pull = hn::Set(tag, inverse * inverse * inverse * mean);
  for_vectors(width, [&](std::int64_t x, auto access) HWY_ATTR {
    const Float number = access.load(input + x);
    const Float gradient = access.load(output_gradient + x);
    const Float direct = hn::Mul(factor, hn::Mul(access.load(weight + x), gradient));
    Float result = hn::NegMulAdd(number, pull, direct);
    if (residual != nullptr) result = hn::Add(result, access.load(residual + x));
    if (weight_gradient != nullptr) {
      const Float normed = hn::Mul(number, factor);
      access.store(hn::MulAdd(gradient, normed, access.load(weight_gradient + x)), weight_gradient + x);
    }
    access.store(result, input_gradient + x);
  });
}

void norm_rows(const cpu::RmsNormGradient& a, std::int64_t first, std::int64_t last, float* weight_gradient) {
  for (std::int64_t row = first; row < last; ++row) {
    for (std::int64_t head = 0; head < a.heads; ++head) {
      const std::int64_t at = head * a.width;
      const std::int64_t weight = a.weight_heads == 1 ? 0 : at;
      const float* input = a.input + row * a.input_stride + at;
      norm_row_backward(
          input, inverse_root_mean_square(input, a.width, a.epsilon), a.weight + weight,
          a.output_gradient + row * a.output_gradient_stride + at, a.width,
          a.residual_gradient == nullptr ? nullptr : a.residual_gradient + row * a.residual_gradient_stride + at,
          a.input_gradient + row * a.input_gradient_stride + at,
          weight_gradient == nullptr ? nullptr : weight_gradient + weight);
    }
  }
}

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

void shift_rows(const cpu::ShiftGradient& a, std::int64_t first, std::int64_t last) {
  const FloatTag tag;
  const std::vector<float> zeros(static_cast<std::size_t>(a.head_dim));
  for (std::int64_t row = first; row < last; ++row) {
    const bool starts = row % a.length == 0;
    const bool ends = (row + 1) % a.length == 0;
    for (std::int64_t head = 0; head < a.heads; ++head) {
      const std::int64_t at = head * a.head_dim;
      const float* input = a.input + row * a.input_stride + at;
      const float* before = starts ? zeros.data() : input - a.input_stride;
      const float* gradient = a.output_gradient + row * a.output_gradient_stride + at;
      const float* gradient_after = ends ? zeros.data() : gradient + a.output_gradient_stride;
      float* to = a.input_gradient + row * a.input_gradient_stride + at;
      const float* logit = a.logits + row * a.logits_stride + head;
      const float own = sigmoid(*logit);
      const Float stays = hn::Set(tag, sigmoid(-*logit));
      const Float passes = hn::Set(tag, ends ? 0.0F : sigmoid(logit[a.logits_stride]));
      Float sums = hn::Zero(tag);
      for_vectors(a.head_dim, [&](std::int64_t x, auto access) HWY_ATTR {
        const Float here = access.load(gradient + x);
        sums = hn::MulAdd(here, hn::Sub(access.load(before + x), access.load(input + x)), sums);
        access.store(hn::MulAdd(passes, access.load(gradient_after + x), hn::Mul(stays, here)), to + x);
      });
      a.logits_gradient[row * a.logits_gradient_stride + head] = own * sigmoid(-*logit) * sum_of(sums);
    }
  }
}

/// One head of a row: dz, and dy act(z) where dx will be.
template <bool kSilu>
HWY_INLINE void gate_row_backward(const float* attended, const float* normed_weight, float inverse, const float* gate,
                                  const float* output_gradient, std::int64_t width, float* attended_gradient,
                                  float* gate_gradient) {
  const FloatTag tag;
  const Float one = hn::Set(tag, 1.0F);
  const Float factor = hn::Set(tag, inverse);
  for_vectors(width, [&](std::int64_t x, auto access) HWY_ATTR {
    const Float logit = access.load(gate + x);
    const Float gradient = access.load(output_gradient + x);
    Float multiplied = access.load(attended + x);
    if (normed_weight != nullptr) multiplied = hn::Mul(hn::Mul(multiplied, factor), access.load(normed_weight + x));
    const Float open = sigmoid_vector(logit);
    const Float shut = sigmoid_vector(hn::Neg(logit));  // 1 - open would lose digits
    Float activation = open;
    Float slope = hn::Mul(open, shut);
    if constexpr (kSilu) {
      activation = hn::Mul(logit, open);
      slope = hn::Mul(open, hn::MulAdd(logit, shut, one));
    }
    access.store(hn::Mul(gradient, activation), attended_gradient + x);
    access.store(hn::Mul(gradient, hn::Mul(multiplied, slope)), gate_gradient + x);
  });
}

void gated_rows(const cpu::GatedOutputGradient& a, std::int64_t first, std::int64_t last, float* norm_gradient) {
  for (std::int64_t row = first; row < last; ++row) {
    for (std::int64_t head = 0; head < a.heads; ++head) {
      const std::int64_t at = head * a.head_dim;
      const float* attended = a.attended + row * a.attended_stride + at;
      const float* weight = a.norm == nullptr ? nullptr : a.norm + at;
      const float* gradient = a.output_gradient + row * a.output_gradient_stride + at;
      float* to = a.attended_gradient + row * a.attended_gradient_stride + at;
      const float inverse = weight == nullptr ? 1.0F : inverse_root_mean_square(attended, a.head_dim, a.norm_epsilon);
      if (a.gate != nullptr) {
        const auto backward =
            a.activation == cpu::GateActivation::silu ? gate_row_backward<true> : gate_row_backward<false>;
        backward(attended, weight, inverse, a.gate + row * a.gate_stride + at, gradient, a.head_dim, to,
                 a.gate_gradient + row * a.gate_gradient_stride + at);
        gradient = to;
      }
      if (weight == nullptr) continue;
      norm_row_backward(attended, inverse, weight, gradient, a.head_dim, nullptr, to,
                        norm_gradient == nullptr ? nullptr : norm_gradient + at);
    }
  }
}

void swiglu_rows(const cpu::SwiGluGradient& a, std::int64_t first, std::int64_t last) {
  const Float one = hn::Set(FloatTag(), 1.0F);
  for (std::int64_t row = first; row < last; ++row) {
    const float* gates = a.wide + row * a.wide_stride;
    const float* gradients = a.product_gradient + row * a.product_gradient_stride;
    float* to = a.wide_gradient + row * a.wide_gradient_stride;
    float* product = a.product == nullptr ? nullptr : a.product + row * a.product_stride;
    for_vectors(a.inner, [&](std::int64_t x, auto access) HWY_ATTR {
      const Float gate = access.load(gates + x);
      const Float up = access.load(gates + a.inner + x);
      const Float gradient = access.load(gradients + x);
      const Float open = sigmoid_vector(gate);
      const Float shut = sigmoid_vector(hn::Neg(gate));
      const Float activation = hn::Mul(gate, open);
      const Float slope = hn::Mul(open, hn::MulAdd(gate, shut, one));
      access.store(hn::Mul(gradient, hn::Mul(up, slope)), to + x);
      access.store(hn::Mul(gradient, activation), to + a.inner + x);
      if (product != nullptr) access.store(hn::Mul(activation, up), product + x);
    });
  }
}

/// Replaces a row by exp(x - largest) and returns the sum of that, of parts that float32 adds up well.
double exponentials_of(float* row, std::int64_t width, float largest) {
  constexpr std::int64_t kPart = 2048;
  const FloatTag tag;
  const Float shift = hn::Set(tag, largest);
  double sum = 0;
  for (std::int64_t first = 0; first < width; first += kPart) {
    Float part = hn::Zero(tag);
    float* numbers = row + first;
    for_vectors(
        std::min(kPart, width - first),
        [&](std::int64_t x, auto access) HWY_ATTR {
          const Float power = exp2_vector(hn::Mul(hn::Sub(access.load(numbers + x), shift), hn::Set(tag, kLog2EFloat)));
          part = hn::Add(part, power);
          access.store(power, numbers + x);
        },
        -std::numeric_limits<float>::infinity());
    sum += static_cast<double>(sum_of(part));
  }
  return sum;
}

void cross_entropy_rows(const cpu::CrossEntropyGradient& a, std::int64_t first, std::int64_t last) {
  const FloatTag tag;
  for (std::int64_t t = first; t < last; ++t) {
    float* row = a.logits + t * a.logits_stride;
    const float weight = a.weights[t];
    if (weight == 0) {
      std::fill_n(row, a.vocabulary, 0.0F);
      if (a.losses != nullptr) a.losses[t] = 0;
      continue;
    }
    const float of_label = row[a.labels[t]];
    Float highest = hn::Set(tag, row[0]);
    for_vectors(
        a.vocabulary, [&](std::int64_t x, auto access) HWY_ATTR { highest = hn::Max(highest, access.load(row + x)); },
        row[0]);
    const float largest = hn::GetLane(hn::MaxOfLanes(tag, highest));
    const double sum = exponentials_of(row, a.vocabulary, largest);
    const Float factor = hn::Set(tag, static_cast<float>(static_cast<double>(weight) / sum));
    for_vectors(a.vocabulary, [&](std::int64_t x, auto access)
                                  HWY_ATTR { access.store(hn::Mul(factor, access.load(row + x)), row + x); });
    row[a.labels[t]] -= weight;
    if (a.losses == nullptr) continue;
    a.losses[t] = static_cast<float>(std::log(sum) + static_cast<double>(largest) - static_cast<double>(of_label));
  }
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(norm_rows);
HWY_EXPORT(shift_rows);
HWY_EXPORT(gated_rows);
HWY_EXPORT(swiglu_rows);
HWY_EXPORT(cross_entropy_rows);

namespace cpu {
namespace {

/// Whether rows of `width` numbers have room; a stride of 0 becomes the width.
bool settle_stride(std::int64_t& stride, std::int64_t rows, std::int64_t width) {
  if (stride == 0) stride = width;
  return rows == 1 || std::abs(stride) >= width;
}

// Each thread takes so many rows at a time.
constexpr std::int64_t kRowsOfATask = 16;

void for_rows(std::int64_t rows, Executor& executor, const std::function<void(std::int64_t, std::int64_t)>& body) {
  executor.run((rows + kRowsOfATask - 1) / kRowsOfATask,
               [&](std::int64_t task, int) { body(task * kRowsOfATask, std::min(rows, (task + 1) * kRowsOfATask)); });
}

/// body(first, last, sums) over ranges of rows that do not depend on the number of threads, each with `width` sums of
/// its own, which are added in the order of the rows to `result`; without a result, sums is null.
void for_rows_with_sums(std::int64_t rows, std::int64_t width, float* result, Executor& executor,
                        const std::function<void(std::int64_t, std::int64_t, float*)>& body) {
  if (result == nullptr) {
    for_rows(rows, executor, [&](std::int64_t first, std::int64_t last) { body(first, last, nullptr); });
    return;
  }
  constexpr std::int64_t kMostRanges = 128;
  const std::int64_t range = std::max(kRowsOfATask, (rows + kMostRanges - 1) / kMostRanges);
  const std::int64_t ranges = (rows + range - 1) / range;
  std::vector<float> sums(static_cast<std::size_t>(ranges * width));
  executor.run(ranges, [&](std::int64_t task, int) {
    body(task * range, std::min(rows, (task + 1) * range), sums.data() + task * width);
  });
  for (std::int64_t x = 0; x < width; ++x) {
    auto sum = static_cast<double>(result[x]);
    for (std::int64_t task = 0; task < ranges; ++task) {
      sum += static_cast<double>(sums[static_cast<std::size_t>(task * width + x)]);
    }
    result[x] = static_cast<float>(sum);
  }
}

}  // namespace

Status rms_norm_gradient(const RmsNormGradient& arguments, Executor& executor) {
  RmsNormGradient a = arguments;
  if (a.rows < 1 || a.heads < 1 || a.width < 1 || (a.weight_heads != 1 && a.weight_heads != a.heads)) {
    return Status::invalid_argument;
  }
  if (a.input == nullptr || a.weight == nullptr || a.output_gradient == nullptr || a.input_gradient == nullptr) {
    return Status::invalid_argument;
  }
  for (std::int64_t* stride :
       {&a.input_stride, &a.output_gradient_stride, &a.residual_gradient_stride, &a.input_gradient_stride}) {
    if (!settle_stride(*stride, a.rows, a.heads * a.width)) return Status::invalid_argument;
  }
  for_rows_with_sums(a.rows, a.weight_heads * a.width, a.weight_gradient, executor,
                     [&](std::int64_t first, std::int64_t last, float* sums) {
                       HWY_DYNAMIC_DISPATCH(norm_rows)(a, first, last, sums);
                     });
  return Status::ok;
}

Status shift_gradient(const ShiftGradient& arguments, Executor& executor) {
  ShiftGradient a = arguments;
  if (a.rows < 1 || a.length < 0 || a.heads < 1 || a.head_dim < 1) return Status::invalid_argument;
  if (a.length == 0) a.length = a.rows;
  if (a.rows % a.length != 0) return Status::invalid_argument;
  if (a.input == nullptr || a.logits == nullptr || a.output_gradient == nullptr || a.input_gradient == nullptr ||
      a.logits_gradient == nullptr) {
    return Status::invalid_argument;
  }
  for (std::int64_t* stride : {&a.input_stride, &a.output_gradient_stride, &a.input_gradient_stride}) {
    if (!settle_stride(*stride, a.rows, a.heads * a.head_dim)) return Status::invalid_argument;
  }
  for (std::int64_t* stride : {&a.logits_stride, &a.logits_gradient_stride}) {
    if (!settle_stride(*stride, a.rows, a.heads)) return Status::invalid_argument;
  }
  for_rows(a.rows, executor, [&](std::int64_t first, std::int64_t last) {
    HWY_DYNAMIC_DISPATCH(shift_rows)(a, first, last);
  });
  return Status::ok;
}

Status gated_output_gradient(const GatedOutputGradient& arguments, Executor& executor) {
  GatedOutputGradient a = arguments;
  if (a.rows < 1 || a.heads < 1 || a.head_dim < 1) return Status::invalid_argument;
  if (a.attended == nullptr || a.output_gradient == nullptr || a.attended_gradient == nullptr) {
    return Status::invalid_argument;
  }
  if (a.norm == nullptr && (a.gate == nullptr || a.norm_gradient != nullptr)) return Status::invalid_argument;
  if ((a.gate == nullptr) != (a.gate_gradient == nullptr)) return Status::invalid_argument;
  for (std::int64_t* stride : {&a.attended_stride, &a.gate_stride, &a.output_gradient_stride,
                               &a.attended_gradient_stride, &a.gate_gradient_stride}) {
    if (!settle_stride(*stride, a.rows, a.heads * a.head_dim)) return Status::invalid_argument;
  }
  for_rows_with_sums(a.rows, a.heads * a.head_dim, a.norm_gradient, executor,
                     [&](std::int64_t first, std::int64_t last, float* sums) {
                       HWY_DYNAMIC_DISPATCH(gated_rows)(a, first, last, sums);
                     });
  return Status::ok;
}

Status swiglu_gradient(const SwiGluGradient& arguments, Executor& executor) {
  SwiGluGradient a = arguments;
  if (a.rows < 1 || a.inner < 1) return Status::invalid_argument;
  if (a.wide == nullptr || a.product_gradient == nullptr || a.wide_gradient == nullptr) {
    return Status::invalid_argument;
  }
  for (std::int64_t* stride : {&a.wide_stride, &a.wide_gradient_stride}) {
    if (!settle_stride(*stride, a.rows, 2 * a.inner)) return Status::invalid_argument;
  }
  for (std::int64_t* stride : {&a.product_gradient_stride, &a.product_stride}) {
    if (!settle_stride(*stride, a.rows, a.inner)) return Status::invalid_argument;
  }
  for_rows(a.rows, executor, [&](std::int64_t first, std::int64_t last) {
    HWY_DYNAMIC_DISPATCH(swiglu_rows)(a, first, last);
  });
  return Status::ok;
}

Status cross_entropy_gradient(const CrossEntropyGradient& arguments, Executor& executor) {
  CrossEntropyGradient a = arguments;
  if (a.rows < 1 || a.vocabulary < 1) return Status::invalid_argument;
  if (a.logits == nullptr || a.labels == nullptr || a.weights == nullptr) return Status::invalid_argument;
  if (!settle_stride(a.logits_stride, a.rows, a.vocabulary)) return Status::invalid_argument;
  for (std::int64_t t = 0; t < a.rows; ++t) {
    if (a.weights[t] != 0 && (a.labels[t] < 0 || a.labels[t] >= a.vocabulary)) return Status::invalid_argument;
  }
  for_rows(a.rows, executor, [&](std::int64_t first, std::int64_t last) {
    HWY_DYNAMIC_DISPATCH(cross_entropy_rows)(a, first, last);
  });
  return Status::ok;
}

}  // namespace cpu
}  // namespace foxscope::kernels
#endif
