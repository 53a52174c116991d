#pragma once

#include <cassert>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "backend/base/index.h"
#include "backend/model/layer/cpu/gate_history.h"
#include "backend/model/layer/cpu/page_pool.h"

namespace foxscope {

/// Keys and values of one key head, oldest first, in pages that copies share until one of them writes.
class KeyValuePages {
 public:
  static constexpr std::int64_t kPageKeys = 64;

  /// Numbers of a page of keys and values.
  static std::int64_t numbers_of_page(std::int64_t head_dim) { return 2 * kPageKeys * head_dim; }

  /// @param pool  of pages of numbers_of_page(head_dim)
  KeyValuePages(std::int64_t head_dim, std::shared_ptr<PagePool> pool) : head_dim_(head_dim), pool_(std::move(pool)) {
    assert(pool_->numbers() == numbers_of_page(head_dim));
  }

  /// @param key, value  [d]
  void append(const float* key, const float* value);
  /// Every key k becomes k + b (e.k), as it meets the queries behind a position that erases (PathDirections).
  /// @param erase_read, erase_write  [d] e and b
  void pass(const float* erase_read, const float* erase_write);
  /// Lets go of whole pages before a position.
  void drop_before(std::int64_t position);

  [[nodiscard]] std::int64_t first() const { return first_; }
  [[nodiscard]] std::int64_t end() const { return end_; }
  /// Largest |k| of all keys ever held.
  [[nodiscard]] double largest_key() const { return largest_key_; }
  /// The page that holds a position: keys [d, kPageKeys], so that a logit of every key is a sum of vectors.
  [[nodiscard]] const float* keys(std::int64_t position) const { return page(position); }
  /// Values [kPageKeys, d].
  [[nodiscard]] const float* values(std::int64_t position) const { return page(position) + head_dim_ * kPageKeys; }

 private:
  /// A page to write to, which no copy shares.
  float* own_page(std::size_t index);
  [[nodiscard]] const float* page(std::int64_t position) const {
    return pages_[index_of((position - first_) / kPageKeys)].get();
  }

  std::int64_t head_dim_;
  std::int64_t first_ = 0;  ///< a multiple of kPageKeys
  std::int64_t end_ = 0;
  double largest_key_ = 0;
  std::shared_ptr<PagePool> pool_;
  std::deque<std::shared_ptr<float>> pages_;
};

/// One query over the keys of a cache.
struct CachedAttention {
  const float* query = nullptr;  ///< [d]
  std::int64_t head_dim = 0;
  float scale = 0;                    ///< 1/sqrt(d)
  float logit_cap = 0;                ///< of cap tanh(s / cap); 0: none
  const float* sink = nullptr;        ///< a logit that the softmax is over beside; null: none
  std::int64_t first = 0;             ///< first key that it sees; the last is the newest
  const GateHistory* gate = nullptr;  ///< null: f = 1
  double tolerance = 0;               ///< largest share of the row that may be skipped
};

/// softmax(q K^T scale + c_i - c_j) V for the newest position i, page by page from the newest with an online softmax;
/// stops where all that remains can hold no more than the tolerance.
/// @param output  [d]
void attend_cached(const CachedAttention& arguments, const KeyValuePages& pages, float* output);

}  // namespace foxscope
