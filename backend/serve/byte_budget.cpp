#include "backend/serve/byte_budget.h"

#include <algorithm>
#include <chrono>

namespace foxscope {
namespace {

/// How often a waiting thread asks whether its work is still wanted.
constexpr std::chrono::milliseconds kAsking{50};

}  // namespace

std::shared_ptr<const void> ByteBudget::take(std::size_t bytes, const std::function<bool()>& gone) {
  if (bytes <= little_) return {this, [](const void*) {}};
  const std::size_t wanted = std::min(bytes, bytes_);
  std::unique_lock lock(mutex_);
  const auto place = waiting_.insert(waiting_.end(), next_number_++);
  const auto has_turn = [&] { return waiting_.begin() == place && wanted <= bytes_ - taken_; };
  bool wanted_no_more = false;
  while (!wanted_no_more && !changed_.wait_for(lock, kAsking, has_turn)) {
    lock.unlock();
    wanted_no_more = gone();
    lock.lock();
  }
  waiting_.erase(place);
  changed_.notify_all();  // it may be the next one's turn
  if (wanted_no_more) return nullptr;
  taken_ += wanted;
  lock.unlock();
  return {this, [this, wanted](const void*) { give_back(wanted); }};
}

void ByteBudget::give_back(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  taken_ -= bytes;
  changed_.notify_all();
}

}  // namespace foxscope
