#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/attention/forgetting_attention.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/stream.h"

namespace foxscope::kernels::testing {

/// How the gates of a problem on the GPU are drawn.
enum class CudaGate {
  none,        ///< no gate array
  one,         ///< f = 1 at each step: plain attention
  mixed,       ///< decay times from 8 to 8192 tokens over the heads, jitter N(0, 1) on the logit
  near_zero,   ///< log f = -5 at each step
  zero,        ///< log f = -1000 at each step: a row sees itself only
  cuts,        ///< log f = -0.001, at 2 % of the steps -1000
  far_offset,  ///< mixed, after a past that brought c to -1e8
  late_cuts,   ///< log f = -0.001 in the first half of every 128 steps, -1000 in the second
  steady,      ///< log f = -1.6 at each step: c near -1e5 after 65,536
  slow,        ///< log f = -0.31 at each step
};

struct CudaProblemOptions {
  std::int64_t batch = 1;
  std::int64_t heads = 2;
  std::int64_t key_heads = 2;
  std::int64_t length = 1;
  std::int64_t head_dim = 64;
  CudaGate gate = CudaGate::mixed;
  std::int64_t window_size = 0;
  double pruning_tolerance = 0;
  /// Rows of q are one vector; keys are it up to 127, its opposite from there on, and it again at 255 and 383.
  bool opposed = false;
  float row_norm = 1;        ///< root mean square of a row of q and of k
  std::int64_t padding = 0;  ///< elements after each row; not a multiple of 8: rows are not aligned
  cuda::ElementType type = cuda::ElementType::bfloat16;
};

std::string describe(const CudaProblemOptions& options);

/// Random [B, L, H, d] inputs, also on the device, and poisoned outputs.
class CudaProblem {
 public:
  CudaProblem(const CudaProblemOptions& options, std::uint64_t seed);

  /// Overwrites outputs with NaN and computes them; the kernel is chosen among those for bfloat16.
  Status run(cuda::AttentionKernel kernel = cuda::AttentionKernel::automatic);
  /// Starts it on the null stream with all as it is.
  Status start(cuda::AttentionKernel kernel) const;
  [[nodiscard]] cuda::AttentionBlocks blocks() const;

  /// Against float64 over all rows of a short problem, some of a long one.
  struct Errors {
    double output = 0;            ///< |out - reference| / |reference|
    double composed = 0;          ///< that of attention by composed operations with bfloat16 between them
    double log_normalizer = 0;    ///< largest difference
    std::int64_t not_finite = 0;  ///< of all outputs
  };
  [[nodiscard]] Errors compare() const;
  /// Against the CPU's kernel on the same inputs: |out - cpu| / |cpu| and the largest difference of log-normalisers.
  [[nodiscard]] Errors compare_with_cpu() const;
  /// A_ii = exp(q_i.k_i scale - log-normaliser) in float64, the largest and the smallest of all rows.
  struct OnSelf {
    double largest = 0;
    double smallest = 0;
  };
  [[nodiscard]] OnSelf on_self() const;
  cuda::ForgettingAttention arguments() const;

 private:
  struct Tensor {
    std::int64_t heads = 0;
    std::vector<float> host;
    cuda::DeviceBuffer device;
  };
  /// Squares of a row's differences and of its numbers, and the difference of its log-normaliser.
  struct RowErrors {
    double error = 0;
    double composed = 0;
    double squares = 0;
    double log_normalizer = 0;
  };
  [[nodiscard]] RowErrors compare_row(std::int64_t flat, std::int64_t i) const;
  [[nodiscard]] Tensor make_tensor(std::int64_t heads, float norm, std::uint64_t seed) const;
  void oppose();
  void upload(Tensor& tensor) const;
  void make_gates(std::uint64_t seed);
  [[nodiscard]] bool download_output();
  [[nodiscard]] cuda::AttentionStrides strides(std::int64_t heads) const;
  [[nodiscard]] const float* row(const Tensor& tensor, std::int64_t b, std::int64_t h, std::int64_t i) const;

  CudaProblemOptions options_;
  Tensor query_, key_, value_, output_;
  std::vector<double> gate_;
  std::vector<float> log_normalizer_;
  cuda::DeviceBuffer gate_device_, log_normalizer_device_, blocks_device_, workspace_;
};

}  // namespace foxscope::kernels::testing
