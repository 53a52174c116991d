#include "backend/model/cpu_team.h"

#include <atomic>

#include <ATen/Parallel.h>

// The Fortran interface of the BLAS inside libtorch_cpu: LibTorch's own products without the cost of its tensors.
extern "C" void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n, const int* k,
                       const float* alpha, const float* a, const int* a_stride, const float* b, const int* b_stride,
                       const float* beta, float* c, const int* c_stride);

namespace foxscope {

namespace {

// Begins and ends of teams. LibTorch's OpenMP orders what is written before a team with what the team reads; the thread
// sanitizer, which does not know OpenMP, sees it by this number.
std::atomic<std::int64_t> order = 0;

}  // namespace

int LibTorchTeam::threads() const { return at::get_num_threads(); }

void LibTorchTeam::run(std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& body) {
  std::atomic<std::int64_t> next = 0;
  ++order;
  // One range a thread; each then takes the next task when it is free, so long tasks may come first.
  at::parallel_for(0, threads(), 1, [&](std::int64_t begin, std::int64_t end) {
    (void)order.load();
    for (std::int64_t thread = begin; thread < end; ++thread) {
      for (std::int64_t task = next++; task < tasks; task = next++) body(task, static_cast<int>(thread));
    }
    ++order;
  });
  (void)order.load();
}

void fit_team_to_system() {
  const int wanted = at::get_num_threads();
  const int started = kernels::ThreadPool(wanted).threads();
  if (started < wanted) at::set_num_threads(started);
}

void linear(const LinearArguments& arguments) {
  // Row-major out = in W^T is column-major out^T = W in^T.
  const auto columns = static_cast<int>(arguments.columns);
  const auto rows = static_cast<int>(arguments.rows);
  const auto depth = static_cast<int>(arguments.depth);
  const auto in_stride = static_cast<int>(arguments.in_stride);
  const auto out_stride = static_cast<int>(arguments.out_stride);
  const float alpha = 1;
  const float beta = arguments.into == LinearArguments::Into::add ? 1.0F : 0.0F;
  sgemm_("T", "N", &columns, &rows, &depth, &alpha, arguments.weight, &depth, arguments.in, &in_stride, &beta,
         arguments.out, &out_stride);
}

}  // namespace foxscope
