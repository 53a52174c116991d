#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace foxscope {

/// Memory for pages of one size, which sequences that go on take one after the other and let go of together. It comes
/// from the system in blocks of many pages. Pages are taken from the oldest block that has one, so that blocks become
/// empty again, and empty blocks go back to the system as soon as they are more than those in use: what is held is at
/// most twice what is needed, but for pages that live on in their blocks, and nothing when no page is in use. From any
/// thread.
class PagePool : public std::enable_shared_from_this<PagePool> {
 public:
  static constexpr std::int64_t kPagesOfBlock = 64;

  /// @param numbers  of a page, a multiple of 16
  static std::shared_ptr<PagePool> of(std::int64_t numbers);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  /// A page whose numbers are any, beginning at a cache line; it goes back when nobody holds it any more.
  /// @throws std::bad_alloc
  [[nodiscard]] std::shared_ptr<float> take();

  [[nodiscard]] std::int64_t numbers() const { return numbers_; }
  /// Of the system, now.
  [[nodiscard]] std::int64_t blocks() const;

 private:
  struct Block {
    std::uint64_t age = 0;
    float* memory = nullptr;
    std::vector<float*> free;
  };
  struct Older {
    bool operator()(const Block* one, const Block* other) const { return one->age < other->age; }
  };

  explicit PagePool(std::int64_t numbers) : numbers_(numbers) {}
  [[nodiscard]] std::size_t block_bytes() const;
  void add_block();
  void give_back(Block& block, float* page);
  void release(Block* block);

  std::int64_t numbers_;
  mutable std::mutex mutex_;
  std::set<Block*, Older> blocks_;
  std::set<Block*, Older> with_room_;
  std::size_t empty_ = 0;  ///< blocks without a page in use
  std::uint64_t next_age_ = 0;
};

}  // namespace foxscope
