#pragma once

#include "backend/model/layer/cpu/cpu_pass.h"

namespace foxscope {

/// The MLP of a layer on the CPU: x += down(silu(g) * u) of norm(x), or down(gelu(u)).
class MlpCpu {
 public:
  explicit MlpCpu(CpuPass& pass);
  /// @returns false if the job was stopped
  bool feed_forward(int layer);

 private:
  void feed_forward_rows(int layer, const CpuPass::Rows& rows);

  CpuPass& pass_;
};

}  // namespace foxscope
