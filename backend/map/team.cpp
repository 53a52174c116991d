#include "backend/map/team.h"

namespace foxscope {

Team::Team(const Job& job) : job_(job), executor_(job.executor) {
  if (executor_ == nullptr) executor_ = &own_.emplace();
}

void Team::advance(std::int64_t amount, int thread) {
  const std::int64_t done = done_ += amount;
  if (thread == 0) job_.tell({done, stage_.total, stage_.unit, stage_.name});
}

bool Team::run(const Stage& stage, std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& body) {
  stage_ = stage;
  done_ = 0;
  executor_->run(tasks, [&](std::int64_t task, int thread) {
    if (stopped()) return;
    try {
      body(task, thread);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failed_) error_ = std::current_exception();
      failed_ = true;
    }
  });
  if (error_) std::rethrow_exception(error_);
  if (job_.stopped()) return false;
  job_.tell({stage.total, stage.total, stage.unit, stage.name});
  return !job_.stopped();
}

}  // namespace foxscope
