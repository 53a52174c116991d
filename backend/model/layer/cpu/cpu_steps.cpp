#include "backend/model/layer/cpu/cpu_steps.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "backend/base/index.h"
#include "kernels/log2e.h"

// The loops below are plain, so that the compiler makes vectors of them: once for each instruction set, chosen when
// the program is loaded. Sanitizers do not go along with that choice.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define FOXSCOPE_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOXSCOPE_VECTOR_CLONES
#endif
#define FOXSCOPE_INLINE __attribute__((always_inline)) inline

namespace foxscope::cpu_steps {
namespace {

constexpr std::int64_t kLanes = 16;

/// exp(x) to about 1 unit in the last place, without a branch or a call, so that loops over it become vectors. Below
/// -87 it is 0 to float32's smallest normal number; above 88 it stays finite, as no step here needs more.
FOXSCOPE_INLINE float exponential(float x) {
  constexpr float kLn2High = 0.693145751953125F;
  constexpr float kLn2Low = 1.42860682030941723212e-6F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest whole number in the low bits
  float bounded = x < -87.0F ? -87.0F : x;
  bounded = bounded > 88.0F ? 88.0F : bounded;
  const float shifted = bounded * kernels::kLog2EFloat + kRound;
  const float whole = shifted - kRound;
  const float rest = (bounded - whole * kLn2High) - whole * kLn2Low;
  float p = 1.9875691500e-4F;  // of expf in S. L. Moshier's Cephes Mathematical Library 2.2 (1992)
  p = p * rest + 1.3981999507e-3F;
  p = p * rest + 8.3334519073e-3F;
  p = p * rest + 4.1665795894e-2F;
  p = p * rest + 1.6666665459e-1F;
  p = p * rest + 5.0000001201e-1F;
  p = p * rest * rest + rest + 1.0F;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  const float power = std::bit_cast<float>((exponent + 127) << 23);
  return p * power;
}

/// Sums all lanes, halves onto halves: lane after lane each addition would wait for the one before it.
FOXSCOPE_INLINE float sum_of_lanes(std::array<float, kLanes> sums) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

/// Sum of squares with one partial sum a lane, so that it needs no reassociation.
FOXSCOPE_INLINE float sum_of_squares(const float* x, std::int64_t size) {
  std::array<float, kLanes> sums{};
  std::int64_t n = 0;
  for (; n + kLanes <= size; n += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      sums[index_of(lane)] += x[n + lane] * x[n + lane];
    }
  }
  float total = 0;
  for (; n < size; ++n) total += x[n] * x[n];
  return total + sum_of_lanes(sums);
}

FOXSCOPE_INLINE float sum_of(const float* x, std::int64_t size) {
  std::array<float, kLanes> sums{};
  std::int64_t n = 0;
  for (; n + kLanes <= size; n += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) sums[index_of(lane)] += x[n + lane];
  }
  float total = 0;
  for (; n < size; ++n) total += x[n];
  return total + sum_of_lanes(sums);
}

FOXSCOPE_INLINE void rms_norm_row(const float* x, const float* weight, std::int64_t size, float epsilon, float* out) {
  const float factor = 1.0F / std::sqrt(sum_of_squares(x, size) / static_cast<float>(size) + epsilon);
  for (std::int64_t n = 0; n < size; ++n) out[n] = x[n] * factor * weight[n];
}

}  // namespace

FOXSCOPE_VECTOR_CLONES
void rms_norm(const float* x, const float* weight, std::int64_t size, float epsilon, float* out) {
  rms_norm_row(x, weight, size, epsilon, out);
}

FOXSCOPE_VECTOR_CLONES
void layer_norm(const float* x, const float* weight, const float* bias, std::int64_t size, float epsilon, float* out) {
  const float mean = sum_of(x, size) / static_cast<float>(size);
  // The sum of squared differences, as sum(x^2) - n mean^2 would lose what is small beside the mean.
  for (std::int64_t n = 0; n < size; ++n) out[n] = x[n] - mean;
  const float factor = 1.0F / std::sqrt(sum_of_squares(out, size) / static_cast<float>(size) + epsilon);
  for (std::int64_t n = 0; n < size; ++n) out[n] = out[n] * factor * weight[n] + bias[n];
}

FOXSCOPE_VECTOR_CLONES
void rms_norm_heads(const float* x, const float* weight, std::int64_t heads, std::int64_t head_dim, float epsilon,
                    float* out) {
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t at = head * head_dim;
    rms_norm_row(x + at, weight + at, head_dim, epsilon, out + at);
  }
}

FOXSCOPE_VECTOR_CLONES
void shift(const float* previous, const float* current, float a, std::int64_t size, float* out) {
  for (std::int64_t n = 0; n < size; ++n) out[n] = a * previous[n] + (1.0F - a) * current[n];
}

FOXSCOPE_VECTOR_CLONES
void rotate(const float* cosine, const float* sine, std::int64_t size, float* x) {
  const std::int64_t half = size / 2;
  for (std::int64_t n = 0; n < half; ++n) {
    const float first = x[n];
    const float second = x[n + half];
    x[n] = first * cosine[n] - second * sine[n];
    x[n + half] = second * cosine[n] + first * sine[n];
  }
}

FOXSCOPE_VECTOR_CLONES
void swiglu(const float* gate, const float* up, std::int64_t size, float* out) {
  for (std::int64_t n = 0; n < size; ++n) out[n] = gate[n] / (1.0F + exponential(-gate[n])) * up[n];
}

FOXSCOPE_VECTOR_CLONES
void gelu(std::int64_t size, float* x) {
  // 1 - erf(z) = exp(-z^2) p(1 / (1 + 0.3275911 z)) for z >= 0, to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
  constexpr float kInverseRootTwo = 0.70710678118654752F;
  for (std::int64_t n = 0; n < size; ++n) {
    const float z = std::fabs(x[n]) * kInverseRootTwo;
    const float t = 1.0F / (1.0F + 0.3275911F * z);
    float p = 1.061405429F;
    p = p * t - 1.453152027F;
    p = p * t + 1.421413741F;
    p = p * t - 0.284496736F;
    p = p * t + 0.254829592F;
    const float beyond = 0.5F * p * t * exponential(-z * z);  // the share of a normal variable beyond |x|
    x[n] *= x[n] < 0 ? beyond : 1.0F - beyond;
  }
}

FOXSCOPE_VECTOR_CLONES
void gelu_tanh(std::int64_t size, float* x) {
  constexpr float kTwiceRoot = 1.5957691216057308F;  // 2 sqrt(2 / pi)
  for (std::int64_t n = 0; n < size; ++n) {
    // (1 + tanh(y)) / 2 = 1 / (1 + exp(-2y)).
    x[n] /= 1.0F + exponential(-kTwiceRoot * (x[n] + 0.044715F * x[n] * x[n] * x[n]));
  }
}

FOXSCOPE_VECTOR_CLONES
void geglu(const float* up, std::int64_t size, float* x) {
  constexpr float kTwiceRoot = 1.5957691216057308F;  // 2 sqrt(2 / pi)
  for (std::int64_t n = 0; n < size; ++n) {
    x[n] *= up[n] / (1.0F + exponential(-kTwiceRoot * (x[n] + 0.044715F * x[n] * x[n] * x[n])));
  }
}

FOXSCOPE_VECTOR_CLONES
void clamped_swiglu(const float* up, float limit, std::int64_t size, float* x) {
  constexpr float kSlope = 1.702F;
  for (std::int64_t n = 0; n < size; ++n) {
    const float gate = x[n] > limit ? limit : x[n];
    float unit = up[n] > limit ? limit : up[n];
    unit = unit < -limit ? -limit : unit;
    x[n] = (unit + 1.0F) * gate / (1.0F + exponential(-kSlope * gate));
  }
}

FOXSCOPE_VECTOR_CLONES
void relu_squared(std::int64_t size, float* x) {
  for (std::int64_t n = 0; n < size; ++n) {
    const float positive = x[n] < 0.0F ? 0.0F : x[n];
    x[n] = positive * positive;
  }
}

FOXSCOPE_VECTOR_CLONES
void clip(float limit, std::int64_t size, float* x) {
  for (std::int64_t n = 0; n < size; ++n) {
    const float below = x[n] > limit ? limit : x[n];
    x[n] = below < -limit ? -limit : below;
  }
}

FOXSCOPE_VECTOR_CLONES
void cap(float cap, std::int64_t size, float* x) {
  const float twice = 2.0F / cap;
  // tanh(y) = 1 - 2 / (1 + exp(2 y)).
  for (std::int64_t n = 0; n < size; ++n) x[n] = cap * (1.0F - 2.0F / (1.0F + exponential(twice * x[n])));
}

FOXSCOPE_VECTOR_CLONES
void multiply_sigmoid(const float* gate, std::int64_t size, float* x) {
  for (std::int64_t n = 0; n < size; ++n) x[n] /= 1.0F + exponential(-gate[n]);
}

FOXSCOPE_VECTOR_CLONES
void multiply_silu(const float* gate, std::int64_t size, float* x) {
  for (std::int64_t n = 0; n < size; ++n) x[n] *= gate[n] / (1.0F + exponential(-gate[n]));
}

FOXSCOPE_VECTOR_CLONES
void silu(std::int64_t size, float* x) {
  for (std::int64_t n = 0; n < size; ++n) x[n] /= 1.0F + exponential(-x[n]);
}

FOXSCOPE_VECTOR_CLONES
void sigmoids(std::int64_t size, float* x) {
  for (std::int64_t n = 0; n < size; ++n) x[n] = 1.0F / (1.0F + exponential(-x[n]));
}

FOXSCOPE_VECTOR_CLONES
void softplus(const float* bias, std::int64_t size, float* x) {
  for (std::int64_t n = 0; n < size; ++n) {
    const float sum = x[n] + bias[n];
    const float e = exponential(-std::abs(sum));
    // log(1 + e) = 2 artanh(e / (2 + e)); its argument is at most 1/3, so that the series ends at 1e-8.
    const float s = e / (2.0F + e);
    const float square = s * s;
    float p = 1.0F / 15.0F;
    p = p * square + 1.0F / 13.0F;
    p = p * square + 1.0F / 11.0F;
    p = p * square + 1.0F / 9.0F;
    p = p * square + 1.0F / 7.0F;
    p = p * square + 1.0F / 5.0F;
    p = p * square + 1.0F / 3.0F;
    p = p * square + 1.0F;
    x[n] = (sum > 0 ? sum : 0.0F) + 2.0F * s * p;
  }
}

FOXSCOPE_VECTOR_CLONES
void l2_norm(std::int64_t size, float epsilon, float factor, float* x) {
  const float scale = factor / std::sqrt(sum_of_squares(x, size) + epsilon);
  for (std::int64_t n = 0; n < size; ++n) x[n] *= scale;
}

FOXSCOPE_VECTOR_CLONES
void convolve(std::span<const float* const> rows, std::int64_t first, std::span<const float> taps, const float* bias,
              std::int64_t size, float* out) {
  if (taps.empty()) {
    std::copy_n(rows.back() + first, size, out);
    return;
  }
  if (bias == nullptr) {
    std::fill(out, out + size, 0.0F);
  } else {
    std::copy_n(bias, size, out);
  }
  const float* tap = taps.data();
  for (const float* row : rows) {
    const float* const from = row + first;
    for (std::int64_t n = 0; n < size; ++n) out[n] += tap[n] * from[n];
    tap += size;
  }
}

FOXSCOPE_VECTOR_CLONES
void add(const float* term, std::int64_t size, float* x) {
  for (std::int64_t n = 0; n < size; ++n) x[n] += term[n];
}

FOXSCOPE_VECTOR_CLONES
float largest(const float* x, std::int64_t size) {
  std::array<float, kLanes> lanes{};
  lanes.fill(x[0]);
  std::int64_t n = 0;
  for (; n + kLanes <= size; n += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      float& best = lanes[index_of(lane)];
      best = x[n + lane] > best ? x[n + lane] : best;
    }
  }
  float result = lanes[0];
  for (; n < size; ++n) result = std::max(result, x[n]);
  for (const float lane : lanes) result = std::max(result, lane);
  return result;
}

FOXSCOPE_VECTOR_CLONES
float sum_of_exponentials(const float* x, std::int64_t size, float shift) {
  std::array<float, kLanes> sums{};
  std::int64_t n = 0;
  for (; n + kLanes <= size; n += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      sums[index_of(lane)] += exponential(x[n + lane] - shift);
    }
  }
  float total = 0;
  for (; n < size; ++n) total += exponential(x[n] - shift);
  return total + sum_of_lanes(sums);
}

FOXSCOPE_VECTOR_CLONES
void page_logits(const float* query, const float* keys, std::int64_t head_dim, float scale, std::span<float> logits) {
  const auto page = static_cast<std::int64_t>(logits.size());
  float* out = logits.data();
  for (std::int64_t n = 0; n < page; ++n) out[n] = 0;
  for (std::int64_t k = 0; k < head_dim; ++k) {
    const float factor = query[k] * scale;
    const float* row = keys + k * page;
    for (std::int64_t n = 0; n < page; ++n) out[n] += factor * row[n];
  }
}

FOXSCOPE_VECTOR_CLONES
float exponentials(std::int64_t size, float shift, float* x) {
  std::array<float, kLanes> sums{};
  std::int64_t n = 0;
  for (; n + kLanes <= size; n += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      x[n + lane] = exponential(x[n + lane] - shift);
      sums[index_of(lane)] += x[n + lane];
    }
  }
  float total = 0;
  for (; n < size; ++n) {
    x[n] = exponential(x[n] - shift);
    total += x[n];
  }
  return total + sum_of_lanes(sums);
}

FOXSCOPE_VECTOR_CLONES
void add_weighted_rows(const float* weight, const float* rows, std::int64_t count, std::int64_t size, float* out) {
  for (std::int64_t n = 0; n < count; ++n) {
    const float* row = rows + n * size;
    for (std::int64_t k = 0; k < size; ++k) out[k] += weight[n] * row[k];
  }
}

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

}  // namespace foxscope::cpu_steps
