#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string_view>

namespace foxscope {

namespace kernels {
class Executor;
}

/// The progress of a piece of long work.
struct Progress {
  std::int64_t done = 0;
  std::int64_t total = 0;
  std::string_view unit;   ///< "tokens", "layers", "bytes"
  std::string_view stage;  ///< what is being done, in the words shown to the user
};

/// The context of long work beside its arguments: when to stop, where to report progress, and on which threads to
/// compute. Work that was asked to stop returns an empty optional; it does not throw.
struct Job {
  std::stop_token stop;
  std::function<void(const Progress&)> report;  ///< may be empty; called on the working thread
  kernels::Executor* executor = nullptr;        ///< null: the callee uses its own

  [[nodiscard]] bool stopped() const { return stop.stop_requested(); }
  void tell(const Progress& progress) const {
    if (report) report(progress);
  }
};

}  // namespace foxscope
