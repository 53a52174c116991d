#pragma once

#include <cstdint>
#include <functional>

#include "kernels/executor.h"

namespace foxscope {

/// Threads for steps of a model among which LibTorch computes nothing: as many as LibTorch would take, but of this
/// project's own, as OpenMP's use up a core while they wait for one another and for their next task. Each thread that
/// runs a model has its own, made when they are first needed.
class CpuTeam final : public kernels::Executor {
 public:
  [[nodiscard]] int threads() const override;
  void run(std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& body) override;
};

/// LibTorch's team of threads, lent to kernels between operations of LibTorch, so that no two teams fight for the
/// cores.
class LibTorchTeam final : public kernels::Executor {
 public:
  [[nodiscard]] int threads() const override;
  void run(std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& body) override;
};

/// Gives LibTorch's team as many threads as the system still starts, where these are fewer than it would take: OpenMP
/// ends the process when it gets one too few. To be called before the team is used.
void fit_team_to_system();

}  // namespace foxscope
