#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
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

  /// Makes a pool; call it by std::make_shared, as pages may outlive its maker.
  /// @param numbers  of a page, a multiple of 16
  explicit PagePool(std::int64_t numbers);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  /// A page whose numbers are any, beginning at a cache line; it goes back when nobody holds it any more.
  /// @throws std::bad_alloc
  [[nodiscard]] std::shared_ptr<float> take();

  [[nodiscard]] std::int64_t numbers() const { return numbers_; }
  /// Blocks that the pool has of the system now.
  [[nodiscard]] std::int64_t blocks() const;

 private:
  /// Pages of the system, not of malloc, whose heap returns only what lies at its end.
  struct Block {
    Block(std::uint64_t age, std::int64_t numbers);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    [[nodiscard]] bool empty() const { return std::ssize(free) == kPagesOfBlock; }

    std::uint64_t age;
    std::size_t bytes;
    float* memory;
    std::vector<float*> free;
  };

  void give_back(Block& block, float* page);

  std::int64_t numbers_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;      ///< by age
  std::map<std::uint64_t, Block*> with_room_;  ///< of these, those with a free page
  std::size_t empty_ = 0;                      ///< blocks without a page in use
  std::uint64_t next_age_ = 0;
};

}  // namespace foxscope
