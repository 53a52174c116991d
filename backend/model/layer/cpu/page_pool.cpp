#include "backend/model/layer/cpu/page_pool.h"

#include <sys/mman.h>

#include <cassert>
#include <new>

namespace foxscope {

PagePool::Block::Block(std::uint64_t block_age, std::int64_t numbers)
    : age(block_age), bytes(static_cast<std::size_t>(kPagesOfBlock * numbers) * sizeof(float)) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  memory = static_cast<float*>(mapped);
  for (std::int64_t page = kPagesOfBlock - 1; page >= 0; --page) free.push_back(memory + page * numbers);
}

PagePool::Block::~Block() { munmap(memory, bytes); }

PagePool::PagePool(std::int64_t numbers) : numbers_(numbers) { assert(numbers >= 0 && numbers % 16 == 0); }

std::int64_t PagePool::blocks() const {
  const std::scoped_lock lock(mutex_);
  return std::ssize(blocks_);
}

std::shared_ptr<float> PagePool::take() {
  std::unique_lock lock(mutex_);
  if (with_room_.empty()) {
    const std::uint64_t age = next_age_++;
    with_room_[age] = &blocks_.try_emplace(age, age, numbers_).first->second;
    ++empty_;
  }
  Block& block = *with_room_.begin()->second;
  if (block.empty()) --empty_;
  float* const page = block.free.back();
  block.free.pop_back();
  if (block.free.empty()) with_room_.erase(block.age);
  lock.unlock();
  return {page, [pool = shared_from_this(), &block](float* taken) { pool->give_back(block, taken); }};
}

void PagePool::give_back(Block& block, float* page) {
  const std::scoped_lock lock(mutex_);
  block.free.push_back(page);
  with_room_[block.age] = &block;
  if (!block.empty()) return;
  ++empty_;
  // The newest first.
  for (auto next = with_room_.end(); next != with_room_.begin() && 2 * empty_ > blocks_.size();) {
    --next;
    if (!next->second->empty()) continue;
    blocks_.erase(next->first);
    next = with_room_.erase(next);
    --empty_;
  }
}

}  // namespace foxscope
