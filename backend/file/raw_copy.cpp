#include "backend/file/raw_copy.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace foxscope {
namespace {

constexpr auto kReportInterval = std::chrono::milliseconds(100);

std::uint64_t row_bytes(const RawArray& array) {
  return static_cast<std::uint64_t>(array.store->channels(array.part, array.layer)) * size_of(array.store->dtype());
}

}  // namespace

std::uint64_t total_bytes(const std::vector<RawArray>& arrays) {
  std::uint64_t total = 0;
  for (const RawArray& array : arrays) {
    total += elements_of(spec_of(array.part), array.store->shape(), array.layer) * size_of(array.store->dtype());
  }
  return total;
}

RawCopy::RawCopy(const AtomicFile& file, std::vector<RawArray> arrays, const std::stop_token& stop)
    : file_(file), arrays_(std::move(arrays)), stop_(stop), total_(total_bytes(arrays_)) {
  try {
    thread_ = std::jthread([this](const std::stop_token& give_up) { run(give_up); });
  } catch (const std::system_error&) {
    // The system gives no more threads: finish() copies.
  }
}

void RawCopy::run(const std::stop_token& give_up) {
  bool whole = true;
  std::exception_ptr failure;
  try {
    for (const RawArray& array : arrays_) whole = whole && copy(array, give_up);
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  whole_ = whole;
  failure_ = std::move(failure);
  has_ended_ = true;
  ended_.notify_all();
}

bool RawCopy::copy(const RawArray& array, const std::stop_token& give_up) {
  std::vector<std::byte> scratch;
  const std::uint64_t row = row_bytes(array);
  std::uint64_t offset = array.offset;
  for (int head = 0; head < array.store->heads(array.part, array.layer); ++head) {
    for (std::int64_t begin = 0; begin < array.store->shape().length;) {
      if (give_up.stop_requested() || stop_.stop_requested()) return false;
      // Pieces end where the file's pages do.
      const std::uint64_t rows = std::max<std::uint64_t>(1, (kRawPieceBytes - offset % kRawPieceBytes) / row);
      const std::int64_t end = std::min(array.store->shape().length, begin + static_cast<std::int64_t>(rows));
      const auto bytes = array.store->raw_rows(array.part, array.layer, head, begin, end, scratch);
      if (const int error = file_.try_write_at(offset, bytes.data(), bytes.size()); error != 0) {
        file_.throw_write_error(error);
      }
      offset += bytes.size();
      written_ += bytes.size();
      begin = end;
    }
  }
  return true;
}

bool RawCopy::finish(const Job& job) {
  const auto total = static_cast<std::int64_t>(total_);
  if (!thread_.joinable()) run({});
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kReportInterval, [this] { return has_ended_; })) {
    job.tell({static_cast<std::int64_t>(written_), total, "bytes", "writing"});
  }
  if (failure_) std::rethrow_exception(failure_);
  return whole_;
}

}  // namespace foxscope
