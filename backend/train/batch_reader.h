#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "backend/train/row_order.h"
#include "backend/train/token_rows.h"

namespace foxscope {

/// The rows that one process trains on in one step.
struct TrainingBatch {
  std::int64_t step = 0;
  std::int64_t rows = 0;             ///< R / W
  std::int64_t length = 0;           ///< L
  std::vector<std::int32_t> labels;  ///< [R / W, L]
};

struct BatchOptions {
  std::int64_t first_step = 1;
  int rank = 0;            ///< w: of a step's R rows it takes w R / W .. (w + 1) R / W - 1
  int processes = 1;       ///< W
  std::int64_t ahead = 4;  ///< steps that are read before they are asked for
  int threads = 2;         ///< that read
};

/// Reads the rows of the next steps on threads of its own while the caller trains.
class BatchReader {
 public:
  /// @throws UsageError where R rows do not divide among W processes
  BatchReader(std::shared_ptr<const TokenRows> rows, const RowSchedule& schedule, const BatchOptions& options);
  ~BatchReader();
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  /// The first step's batch, then that of the next step with each call; waits until it is read. One thread calls.
  /// @returns nothing if `stop` was requested; the same step comes with the next call
  /// @throws whatever TokenRows::read threw for this step, at every call from then on
  std::optional<TrainingBatch> next(const std::stop_token& stop = {});

 private:
  struct Slot {
    TrainingBatch batch;
    std::exception_ptr error;
  };
  void work(const std::stop_token& stop);
  [[nodiscard]] Slot read(std::int64_t step, const std::stop_token& stop) const;

  std::shared_ptr<const TokenRows> rows_;
  RowSchedule schedule_;
  BatchOptions options_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::int64_t, Slot> ready_;  ///< by step
  std::int64_t next_to_read_;
  std::int64_t next_to_give_;
  std::vector<std::jthread> threads_;  ///< the last member: they end before the others go
};

}  // namespace foxscope
