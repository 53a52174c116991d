#include "backend/model/page_pool.h"

#include <sys/mman.h>

#include <cassert>
#include <new>

namespace foxscope {

std::shared_ptr<PagePool> PagePool::of(std::int64_t numbers) {
  assert(numbers >= 0 && numbers % 16 == 0);
  return std::shared_ptr<PagePool>(new PagePool(numbers));
}

PagePool::~PagePool() {
  while (!blocks_.empty()) release(*blocks_.begin());
}

std::size_t PagePool::block_bytes() const { return static_cast<std::size_t>(kPagesOfBlock * numbers_) * sizeof(float); }

std::int64_t PagePool::blocks() const {
  const std::scoped_lock lock(mutex_);
  return std::ssize(blocks_);
}

// Not by malloc, whose heap returns only what lies at its end.
void PagePool::add_block() {
  auto block = std::make_unique<Block>();
  block->free.reserve(static_cast<std::size_t>(kPagesOfBlock));
  void* const mapped = mmap(nullptr, block_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  block->age = next_age_++;
  block->memory = static_cast<float*>(mapped);
  for (std::int64_t page = kPagesOfBlock - 1; page >= 0; --page) {
    block->free.push_back(block->memory + page * numbers_);
  }
  blocks_.insert(block.get());
  with_room_.insert(block.release());
  ++empty_;
}

std::shared_ptr<float> PagePool::take() {
  std::unique_lock lock(mutex_);
  if (with_room_.empty()) add_block();
  Block& block = **with_room_.begin();
  if (std::ssize(block.free) == kPagesOfBlock) --empty_;
  float* const page = block.free.back();
  block.free.pop_back();
  if (block.free.empty()) with_room_.erase(with_room_.begin());
  lock.unlock();
  return {page, [pool = shared_from_this(), &block](float* taken) { pool->give_back(block, taken); }};
}

void PagePool::give_back(Block& block, float* page) {
  const std::scoped_lock lock(mutex_);
  block.free.push_back(page);
  if (block.free.size() == 1) with_room_.insert(&block);
  if (std::ssize(block.free) < kPagesOfBlock) return;
  ++empty_;
  // The newest first.
  for (auto next = with_room_.end(); next != with_room_.begin() && 2 * empty_ > blocks_.size();) {
    Block* const newest = *--next;
    if (std::ssize(newest->free) < kPagesOfBlock) continue;
    next = with_room_.erase(next);
    release(newest);
    --empty_;
  }
}

void PagePool::release(Block* block) {
  const std::unique_ptr<Block> owned(block);
  blocks_.erase(block);
  munmap(block->memory, block_bytes());
}

}  // namespace foxscope
