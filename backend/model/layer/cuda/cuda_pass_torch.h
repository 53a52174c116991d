#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/torch/tensor_memory_torch.h"
#include "backend/model/layer/torch/torch_pass_torch.h"
#include "kernels/cuda/stream.h"

namespace foxscope {

/// Rows of a product whose rows are to be alike: of so many each goes the same way through cuBLAS.
inline constexpr std::int64_t kAlikeRows = 2048;

/// The state that the steps of a pass in bfloat16 on a GPU share, beside TorchPass: norms and matrix products, the
/// table of rotations, and what lies behind shorter texts.
class CudaPass {
 public:
  enum class Sum { no, yes };

  /// @param pass  must outlive it
  explicit CudaPass(TorchPass& pass);

  /// Whole texts, or the next position of one, begin: the table of rotations, and where each text ends.
  void begin();

  [[nodiscard]] TorchPass& torch() const { return torch_; }
  [[nodiscard]] kernels::cuda::Stream stream() const { return stream_; }

  /// Norms x of the rows from `first` on.  @param rest  whether what rounding takes from it is wanted
  void norm(const at::Tensor& weight, std::int64_t first, bool rest);
  /// [B n, D] bf16 of the last norm, rows apart.
  [[nodiscard]] at::Tensor normed() const { return normed_.select(1, 0); }
  /// Memory for the logits of gates or decays [B n, G] float32; undefined where layers have none.
  [[nodiscard]] at::Tensor empty_gates() const;
  /// Makes these logits of the last norm and what rounding took from it.
  /// @param gates  of empty_gates
  void make_gates(int layer, const at::Tensor& gates) const;
  /// out = in W^T, or out += in W^T; where rows are to be alike, so many at a time.
  /// @param in, out  [rows, ...]
  void multiply(const at::Tensor& out, const at::Tensor& in, const at::Tensor& weight, Sum sum,
                std::int64_t alike_rows) const;
  /// x += W_o of what a mixer made, without the heads that a probe cuts.
  /// @param output  [B n, H d] bf16
  void add_output(int layer, at::Tensor& output);

  at::Tensor rotation;  ///< [n, d/2, 2] f32; undefined without rotation
  at::Tensor filling;   ///< [B, 1, n, 1] bool: what lies behind a text; undefined where nothing does
  at::Tensor last;      ///< [B, 1, n] int64: the position, or the text's last where it lies behind; likewise

 private:
  TorchPass& torch_;
  kernels::cuda::Stream stream_;
  at::Tensor normed_;  ///< [B n, 2, D] bf16, and what rounding took from it; [B n, 1, D] where no gate needs that
};

}  // namespace foxscope
