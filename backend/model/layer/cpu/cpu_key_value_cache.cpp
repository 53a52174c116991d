#include "backend/model/layer/cpu/cpu_key_value_cache.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "backend/model/layer/cpu/cpu_steps.h"

namespace foxscope {
namespace {

constexpr std::int64_t kPageKeys = KeyValuePages::kPageKeys;
using PageWeights = std::array<float, static_cast<std::size_t>(kPageKeys)>;

double norm(const float* x, std::int64_t size) {
  double sum = 0;
  for (std::int64_t n = 0; n < size; ++n) sum += static_cast<double>(x[n]) * static_cast<double>(x[n]);
  return std::sqrt(sum);
}

/// log of the most that the keys before `end` can weigh, c_i - c_{end-1} being the largest difference among them.
double remaining_bound(const CachedAttention& arguments, std::int64_t end, double largest_logit) {
  const double gate = arguments.gate->last() - arguments.gate->at(end - 1);
  return std::log(static_cast<double>(end - arguments.first)) + largest_logit + gate;
}

}  // namespace

void KeyValuePages::append(const float* key, const float* value) {
  const std::int64_t slot = end_ % kPageKeys;
  if (slot == 0) pages_.push_back(pool_->take());
  float* page = own_page(pages_.size() - 1);
  for (std::int64_t n = 0; n < head_dim_; ++n) page[n * kPageKeys + slot] = key[n];
  std::copy(value, value + head_dim_, page + (kPageKeys + slot) * head_dim_);
  largest_key_ = std::max(largest_key_, norm(key, head_dim_));
  ++end_;
}

float* KeyValuePages::own_page(std::size_t index) {
  std::shared_ptr<float>& page = pages_[index];
  if (page.use_count() > 1) {
    const std::shared_ptr<float> shared = std::exchange(page, pool_->take());
    std::copy_n(shared.get(), numbers_of_page(head_dim_), page.get());
  }
  return page.get();
}

void KeyValuePages::pass(const float* erase_read, const float* erase_write) {
  PageWeights products;
  for (std::size_t index = 0; index < pages_.size(); ++index) {
    float* const keys = own_page(index);
    cpu_steps::page_logits(erase_read, keys, head_dim_, 1.0F, products);
    for (std::int64_t n = 0; n < head_dim_; ++n) {
      float* const row = keys + n * kPageKeys;
      for (std::size_t key = 0; key < products.size(); ++key) row[key] += erase_write[n] * products[key];
    }
  }
}

void KeyValuePages::drop_before(std::int64_t position) {
  while (first_ + kPageKeys <= position && pages_.size() > 1) {
    pages_.pop_front();
    first_ += kPageKeys;
  }
}

void attend_cached(const CachedAttention& arguments, const KeyValuePages& pages, float* output) {
  const std::int64_t dim = arguments.head_dim;
  const double largest_logit = norm(arguments.query, dim) * pages.largest_key() * static_cast<double>(arguments.scale);
  const double allowed = arguments.tolerance > 0 ? std::log(arguments.tolerance) : 0;
  const std::int64_t newest = pages.end() - 1;
  assert(arguments.first >= pages.first() && arguments.first <= newest);
  assert(arguments.gate == nullptr || arguments.gate->end() == pages.end());
  float shift = -std::numeric_limits<float>::infinity();
  double mass = 0;
  if (arguments.sink != nullptr) {
    shift = *arguments.sink;
    mass = 1;
  }
  std::fill(output, output + dim, 0.0F);
  for (std::int64_t end = pages.end(); end > arguments.first;) {
    const std::int64_t page = (end - 1) / kPageKeys * kPageKeys;
    const std::int64_t begin = std::max(page, arguments.first);
    if (arguments.gate != nullptr && arguments.tolerance > 0 && end <= newest &&
        remaining_bound(arguments, end, largest_logit) - (std::log(mass) + static_cast<double>(shift)) <= allowed) {
      break;
    }
    PageWeights logits;
    cpu_steps::page_logits(arguments.query, pages.keys(page), dim, arguments.scale, logits);
    const auto count = end - begin;
    float* own = logits.data() + (begin - page);
    if (arguments.logit_cap > 0) cpu_steps::cap(arguments.logit_cap, count, own);
    if (arguments.gate != nullptr) {
      const double last = arguments.gate->last();
      const double* c = arguments.gate->from(begin);
      for (std::int64_t n = 0; n < count; ++n) own[n] += static_cast<float>(last - c[n]);
    }
    const float highest = std::max(shift, cpu_steps::largest(own, count));
    const float shrink = std::exp(shift - highest);
    mass = mass * static_cast<double>(shrink) + static_cast<double>(cpu_steps::exponentials(count, highest, own));
    if (shrink != 1.0F) {
      for (std::int64_t n = 0; n < dim; ++n) output[n] *= shrink;
    }
    cpu_steps::add_weighted_rows(own, pages.values(page) + (begin - page) * dim, count, dim, output);
    shift = highest;
    end = begin;
  }
  const auto factor = static_cast<float>(1.0 / mass);
  for (std::int64_t n = 0; n < dim; ++n) output[n] *= factor;
}

}  // namespace foxscope
