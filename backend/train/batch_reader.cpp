#include "backend/train/batch_reader.h"

#include <cassert>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {

BatchReader::BatchReader(std::shared_ptr<const TokenRows> rows, const RowSchedule& schedule,
                         const BatchOptions& options)
    : rows_(std::move(rows)),
      schedule_(schedule),
      options_(options),
      next_to_read_(options.first_step),
      next_to_give_(options.first_step) {
  assert(options.first_step >= 1 && options.rank >= 0 && options.rank < options.processes);
  assert(options.ahead >= 1 && options.threads >= 1);
  if (schedule.rows_per_step() % options.processes != 0) {
    throw UsageError(
        fmt::format("a step of {} rows does not divide among {} processes: use a --batch-tokens of {}, or another "
                    "number of processes",
                    schedule.rows_per_step(), options.processes,
                    (schedule.rows_per_step() / options.processes + 1) * options.processes * rows_->length()));
  }
  for (int thread = 0; thread < options.threads; ++thread) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

BatchReader::~BatchReader() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

std::optional<TrainingBatch> BatchReader::next(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const bool there = changed_.wait(lock, stop, [this] { return ready_.contains(next_to_give_); });
  if (!there || stop.stop_requested()) return std::nullopt;
  const auto found = ready_.find(next_to_give_);
  if (found->second.error) std::rethrow_exception(found->second.error);
  TrainingBatch batch = std::move(found->second.batch);
  ready_.erase(found);
  ++next_to_give_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void BatchReader::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return next_to_read_ < next_to_give_ + options_.ahead; }) &&
         !stop.stop_requested()) {
    const std::int64_t step = next_to_read_++;
    lock.unlock();
    Slot slot = read(step, stop);
    lock.lock();
    ready_.emplace(step, std::move(slot));
    changed_.notify_all();
  }
}

BatchReader::Slot BatchReader::read(std::int64_t step, const std::stop_token& stop) const {
  Slot slot;
  try {
    const std::int64_t rows = schedule_.rows_per_step() / options_.processes;
    const auto length = static_cast<std::size_t>(rows_->length());
    slot.batch = {step, rows, rows_->length(), std::vector<std::int32_t>(static_cast<std::size_t>(rows) * length)};
    std::span<std::int32_t> left = slot.batch.labels;
    for (std::int64_t row = 0; row < rows && !stop.stop_requested(); ++row) {
      rows_->read(schedule_.row(step, options_.rank * rows + row), left.first(length));
      left = left.subspan(length);
    }
  } catch (...) {
    slot.error = std::current_exception();
  }
  return slot;
}

}  // namespace foxscope
