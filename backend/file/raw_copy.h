#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "backend/base/atomic_file.h"
#include "backend/base/job.h"
#include "backend/trace/query_key_store.h"

namespace foxscope {

/// Queries, keys or values of one layer and the place in the file that is kept for them.
struct RawArray {
  const QueryKeyStore* store = nullptr;
  QueryKeyStore::Part part = QueryKeyStore::Part::query;
  int layer = 0;
  std::uint64_t offset = 0;
};

/// Bytes of all arrays together.
std::uint64_t total_bytes(const std::vector<RawArray>& arrays);

/// Bytes that are written past libhdf5 at a time; between two the job may be stopped. For larger pieces the system
/// takes larger pages, and those it may first have to fetch from a virtual machine's host: up to ten times as slow.
inline constexpr std::uint64_t kRawPieceBytes = 64U << 10U;

/// Copies queries, keys and values into a file from where they lie, past libhdf5, on a thread of its own while the
/// caller writes the rest. A second such thread would only wait for the first: a file has one writer at a time. An
/// object that goes away before finish() gives up. Where the system gives no more threads finish() copies itself.
class RawCopy {
 public:
  /// @param file  must outlive the copy, as must the stores
  RawCopy(const AtomicFile& file, std::vector<RawArray> arrays, const std::stop_token& stop);

  /// Waits for the copy.
  /// @returns false if the job was stopped
  /// @throws what the copy ended with: Error when the disk is full or a store cannot be read
  bool finish(const Job& job);

 private:
  void run(const std::stop_token& give_up);
  /// @returns false if it was told to stop
  bool copy(const RawArray& array, const std::stop_token& give_up);

  const AtomicFile& file_;
  const std::vector<RawArray> arrays_;
  const std::stop_token stop_;
  const std::uint64_t total_;
  std::atomic<std::uint64_t> written_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  bool whole_ = false;
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it uses all the others
};

}  // namespace foxscope
