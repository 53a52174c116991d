#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

namespace foxscope {

/// Bytes that the work of several threads may take together. A thread that wants more than is left waits; threads go in
/// the order in which they came. One that wants little does not wait.
class ByteBudget {
 public:
  /// @param bytes   in all; a thread that wants more gets the whole budget
  /// @param little  so many and fewer are not counted
  ByteBudget(std::size_t bytes, std::size_t little) : bytes_(bytes), little_(little) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  /// Waits until the bytes are free.
  /// @param gone  asked now and then whether the work is wanted no more
  /// @returns what holds the bytes as long as it is there, not longer than the budget; null if they are wanted no more
  [[nodiscard]] std::shared_ptr<const void> take(std::size_t bytes, const std::function<bool()>& gone);

 private:
  void give_back(std::size_t bytes);

  std::size_t bytes_;
  std::size_t little_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t taken_ = 0;
  std::list<std::uint64_t> waiting_;  ///< numbers of the threads that wait, in the order in which they came
  std::uint64_t next_number_ = 0;
};

}  // namespace foxscope
