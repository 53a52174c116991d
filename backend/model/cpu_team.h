#pragma once

#include <cstdint>
#include <functional>

#include "kernels/executor.h"

namespace foxscope {

/// LibTorch's team of threads, lent to kernels and to the layers' steps, so that no two teams fight for the cores.
class LibTorchTeam final : public kernels::Executor {
 public:
  [[nodiscard]] int threads() const override;
  void run(std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& body) override;
};

/// Gives LibTorch's team as many threads as the system still starts, where these are fewer than it would take: OpenMP
/// ends the process when it gets one too few. To be called before the team is used.
void fit_team_to_system();

/// out = in W^T, or out += in W^T, in float32 by LibTorch's BLAS: inside a task on the task's thread alone, else on
/// LibTorch's team.
/// @param in      [rows, depth], rows in_stride apart
/// @param weight  [columns, depth]
/// @param out     [rows, columns], rows out_stride apart
struct LinearArguments {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  const float* in = nullptr;
  std::int64_t in_stride = 0;
  const float* weight = nullptr;
  float* out = nullptr;
  std::int64_t out_stride = 0;
  enum class Into { overwrite, add } into = Into::overwrite;
};
void linear(const LinearArguments& arguments);

}  // namespace foxscope
