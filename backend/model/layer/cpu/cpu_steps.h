#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/// The position-wise steps of a layer that are no matrix products, on float32 rows; each leaves its row in cache.
namespace foxscope::cpu_steps {

/// out = x / sqrt(mean(x^2) + epsilon) * weight, over one row of `size` numbers; out may be x.
void rms_norm(const float* x, const float* weight, std::int64_t size, float epsilon, float* out);

/// out = (x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias, over one row of `size` numbers; out may be x.
void layer_norm(const float* x, const float* weight, const float* bias, std::int64_t size, float epsilon, float* out);

/// RMSNorm for `heads` groups of `head_dim` numbers each; weight has heads * head_dim numbers.
void rms_norm_heads(const float* x, const float* weight, std::int64_t heads, std::int64_t head_dim, float epsilon,
                    float* out);

/// out = a * previous + (1 - a) * current (data-dependent shift; Lin et al. 2025, section 3.2).
void shift(const float* previous, const float* current, float a, std::int64_t size, float* out);

/// Rotary embedding of the first `size` numbers of a head in place, first half with second half.
/// @param cosine, sine  [size / 2] of this position
void rotate(const float* cosine, const float* sine, std::int64_t size, float* x);

/// out = silu(gate) * up; out may be gate.
void swiglu(const float* gate, const float* up, std::int64_t size, float* out);

/// x = x (1 + erf(x / sqrt(2))) / 2, to about 2e-7 |x|.
void gelu(std::int64_t size, float* x);
/// x = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
void gelu_tanh(std::int64_t size, float* x);

/// x = gelu_tanh(x) up.
void geglu(const float* up, std::int64_t size, float* x);
/// x = (u + 1) g sigmoid(1.702 g) with g = min(x, limit), and u = up within -limit and limit (gpt-oss).
void clamped_swiglu(const float* up, float limit, std::int64_t size, float* x);
/// x = max(x, 0)^2.
void relu_squared(std::int64_t size, float* x);
/// x within -limit and limit.
void clip(float limit, std::int64_t size, float* x);
/// x = cap tanh(x / cap).
void cap(float cap, std::int64_t size, float* x);

/// x = silu(x), and x = sigmoid(x).
void silu(std::int64_t size, float* x);
void sigmoids(std::int64_t size, float* x);

/// x = log(1 + exp(x + bias)), to about 3 units in the last place also where it is near 0.
void softplus(const float* bias, std::int64_t size, float* x);

/// x *= factor / sqrt(sum(x^2) + epsilon).
void l2_norm(std::int64_t size, float epsilon, float factor, float* x);

/// out_c = bias_c + sum_s taps_sc rows_sc of columns [first, first + size); without taps the last row's columns.
/// @param rows  from the oldest on
/// @param taps  [rows, size]
/// @param bias  [size], or null
void convolve(std::span<const float* const> rows, std::int64_t first, std::span<const float> taps, const float* bias,
              std::int64_t size, float* out);

/// x *= sigmoid(gate), and x *= silu(gate).
void multiply_sigmoid(const float* gate, std::int64_t size, float* x);
void multiply_silu(const float* gate, std::int64_t size, float* x);

void add(const float* term, std::int64_t size, float* x);

/// Largest of x, and sum of exp(x - shift). NaN in x makes the sum NaN.
float largest(const float* x, std::int64_t size);
float sum_of_exponentials(const float* x, std::int64_t size, float shift);

/// Logits of a page of keys: logits[n] = scale * sum_k query[k] keys[k, n].
/// @param keys  [head_dim, page]
void page_logits(const float* query, const float* keys, std::int64_t head_dim, float scale, std::span<float> logits);

/// x = exp(x - shift); returns its sum.
float exponentials(std::int64_t size, float shift, float* x);

/// out += sum_n weight[n] rows[n].
/// @param rows  [count, size]
void add_weighted_rows(const float* weight, const float* rows, std::int64_t count, std::int64_t size, float* out);

float sigmoid(float x);

}  // namespace foxscope::cpu_steps
