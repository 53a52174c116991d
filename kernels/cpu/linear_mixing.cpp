#include "kernels/cpu/linear_mixing.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <new>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_mixing.cpp"
#include <hwy/aligned_allocator.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/tile_math-inl.h"

#ifndef FOXSCOPE_KERNELS_CPU_LINEAR_MIXING_SCRATCH_
#define FOXSCOPE_KERNELS_CPU_LINEAR_MIXING_SCRATCH_
namespace foxscope::kernels::cpu {
namespace {

/// Positions of a chunk: with a decay a head, and with one a channel, whose pairs take d multiplications each.
constexpr std::int64_t kHeadChunk = 64;
constexpr std::int64_t kChannelChunk = 32;
/// Rows of a chunk that are treated together; tiles have multiples of it as columns.
constexpr std::int64_t kRowBlock = 16;
/// Products of decays below this are 0: what they multiply is not seen in float32, and they never become denormal.
constexpr float kVanished = 1e-30F;

std::int64_t padded(std::int64_t size) { return (size + kRowBlock - 1) / kRowBlock * kRowBlock; }

/// The memory of one thread for one head.
struct LinearScratch {
  using Buffer = hwy::AlignedFreeUniquePtr<float[]>;
  explicit LinearScratch(const LinearMixing& a)
      : keys(make(a.key_dim * kHeadChunk)),
        keys_to_end(make(kHeadChunk * a.key_dim)),
        queries(make(kHeadChunk * a.key_dim)),
        mixing(make(kHeadChunk * kHeadChunk)),
        erasing(make(kHeadChunk * kHeadChunk)),
        between(make(kHeadChunk * kHeadChunk)),
        written(make(kHeadChunk * padded(a.value_dim))),
        output(make(kHeadChunk * padded(a.value_dim))),
        since_start(make(kHeadChunk)),
        products(make(a.key_dim)),
        state(make(a.value_dim % kRowBlock == 0 ? 0 : a.key_dim * padded(a.value_dim))) {}

  static Buffer make(std::int64_t count) {
    Buffer buffer = hwy::AllocateAligned<float>(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)));
    if (buffer == nullptr) throw std::bad_alloc();
    return buffer;
  }

  Buffer keys;         ///< [d, T] K^T
  Buffer keys_to_end;  ///< [T, d] keys by what is left of them at the chunk's end
  Buffer queries;      ///< [T, d] by the decay since before the chunk, where channels decay
  Buffer mixing;       ///< [T, T] M of the chunk, without beta
  Buffer erasing;      ///< [T, T] -beta_i (k_i . k_j) Gamma_ij below the diagonal
  Buffer between;      ///< [T, T] Gamma_ij, the product of alpha over (j, i]
  Buffer written;      ///< [T, d_v] beta u
  Buffer output;       ///< [T, d_v]
  Buffer since_start;  ///< [T] the product of alpha up to and including a position
  Buffer products;     ///< [d]
  Buffer state;        ///< [d, d_v] with rows filled up, where they are no whole vectors
};

}  // namespace
}  // namespace foxscope::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

using cpu::kChannelChunk;
using cpu::kHeadChunk;
using cpu::kRowBlock;
using cpu::kVanished;
using cpu::LinearMixing;
using cpu::LinearScratch;

/// x *= factor, 0 where that vanishes.
HWY_INLINE void decay_row(float factor, std::int64_t size, float* HWY_RESTRICT x) {
  for (std::int64_t n = 0; n < size; ++n) {
    const float product = x[n] * factor;
    x[n] = std::abs(product) < kVanished ? 0.0F : product;
  }
}

/// One head on its way through the chunks.
class LinearHead {
 public:
  LinearHead(const LinearMixing& a, int head, LinearScratch& scratch)
      : a_(a),
        s_(scratch),
        dim_(a.key_dim),
        wide_(cpu::padded(a.value_dim)),
        query_(a.query + head / (a.heads / a.query_heads) * a.length * dim_),
        key_(of_key_head(a, head, a.key)),
        value_(a.value + head / (a.heads / a.value_heads) * a.length * a.value_dim),
        decay_(a.decay == nullptr ? nullptr : a.decay + head * a.length),
        channel_decay_(of_key_head(a, head, a.channel_decay)),
        erase_read_(of_key_head(a, head, a.erase_read)),
        erase_write_(of_key_head(a, head, a.erase_write)),
        beta_(a.beta == nullptr ? nullptr : a.beta + head * a.length),
        own_state_(a.state + head * dim_ * a.value_dim),
        state_(wide_ == a.value_dim ? own_state_ : scratch.state.get()),
        output_(a.output + head * a.value_dim) {}

  /// @returns false if it was stopped
  bool run(const std::stop_token& stop) {
    copy_rows(own_state_, a_.value_dim, dim_, state_, wide_);
    const std::int64_t chunk = channel_decay_ != nullptr ? kChannelChunk : kHeadChunk;
    for (std::int64_t first = 0; first < a_.length; first += chunk) {
      if (stop.stop_requested()) return false;
      first_ = first;
      count_ = std::min(chunk, a_.length - first);
      if (erase_read_ != nullptr || (channel_decay_ != nullptr && a_.delta_rule)) {
        take_positions();
      } else {
        take_chunk();
      }
    }
    if (state_ != own_state_) {
      for (std::int64_t r = 0; r < dim_; ++r)
        std::copy_n(state_ + r * wide_, a_.value_dim, own_state_ + r * a_.value_dim);
    }
    return true;
  }

 private:
  /// @param rows  [key_heads, n, d], or null
  static const float* of_key_head(const LinearMixing& a, int head, const float* rows) {
    return rows == nullptr ? nullptr : rows + head / (a.heads / a.key_heads) * a.length * a.key_dim;
  }

  void take_chunk() {
    if (channel_decay_ != nullptr) {
      relate_channels();
    } else {
      relate_positions();
    }
    write();
    read();
    update();
  }

  /// The recurrence itself, position by position.
  void take_positions() {
    float* const held = s_.written.get();
    float* const output = s_.output.get();
    for (std::int64_t row = first_; row < first_ + count_; ++row) {
      const float* const alpha = channel_decay_ == nullptr ? nullptr : channel_decay_ + row * dim_;
      const float of_head = decay_ == nullptr ? 1.0F : decay_[row];
      const float* const k = key_ + row * dim_;
      if (erase_read_ != nullptr) read_state(erase_read_ + row * dim_, held);
      for (std::int64_t n = 0; n < dim_; ++n) {
        decay_row(alpha == nullptr ? of_head : alpha[n], wide_, state_ + n * wide_);
      }
      if (erase_read_ != nullptr) write_state(erase_write_ + row * dim_, held);
      if (a_.delta_rule) {
        read_state(k, held);
      } else {
        std::fill(held, held + wide_, 0.0F);
      }
      const float* HWY_RESTRICT v = value_ + row * a_.value_dim;
      const float factor = beta_ == nullptr ? 1.0F : beta_[row];
      for (std::int64_t n = 0; n < a_.value_dim; ++n) held[n] = factor * (v[n] - held[n]);
      write_state(k, held);
      read_state(query_ + row * dim_, output);
      std::copy_n(output, a_.value_dim, output_ + row * a_.output_stride);
    }
  }

  /// out = S^T x.  @param x  [d]
  void read_state(const float* x, float* HWY_RESTRICT out) const {
    std::fill(out, out + wide_, 0.0F);
    for (std::int64_t n = 0; n < dim_; ++n) {
      const float factor = x[n];
      const float* HWY_RESTRICT from = state_ + n * wide_;
      for (std::int64_t m = 0; m < wide_; ++m) out[m] += factor * from[m];
    }
  }

  /// S += x y^T.  @param x  [d]  @param y  [d_v]
  void write_state(const float* x, const float* HWY_RESTRICT y) {
    for (std::int64_t n = 0; n < dim_; ++n) {
      const float factor = x[n];
      float* HWY_RESTRICT to = state_ + n * wide_;
      for (std::int64_t m = 0; m < wide_; ++m) to[m] += factor * y[m];
    }
  }

  /// Rows filled up with zeros.
  static void copy_rows(const float* from, std::int64_t size, std::int64_t rows, float* to, std::int64_t stride) {
    if (from == to) return;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(from + r * size, size, to + r * stride);
      std::fill(to + r * stride + size, to + (r + 1) * stride, 0.0F);
    }
  }

  const float* query(std::int64_t row) const { return query_ + (first_ + row) * dim_; }
  const float* key(std::int64_t row) const { return key_ + (first_ + row) * dim_; }
  float beta(std::int64_t row) const { return beta_ == nullptr ? 1.0F : beta_[first_ + row]; }
  float decay(std::int64_t row) const { return decay_ == nullptr ? 1.0F : decay_[first_ + row]; }

  /// M = Q K^T o Gamma of the chunk, and with the delta rule what a position erases of those before it.
  void relate_positions() {
    transpose_keys();
    put_decays();
    for (std::int64_t row = 0; row < count_; row += kRowBlock) {
      const std::int64_t rows = std::min(kRowBlock, count_ - row);
      const std::int64_t columns = row + kRowBlock;
      const auto product = [&](const float* left, float* into) HWY_ATTR {
        tile_product<Start::zero>(rows, columns, dim_, left, dim_, s_.keys.get(), kHeadChunk, nullptr,
                                  into + row * kHeadChunk, kHeadChunk);
      };
      product(query(row), s_.mixing.get());
      if (a_.delta_rule) product(key(row), s_.erasing.get());
      for (std::int64_t i = row; i < row + rows; ++i) {
        const float* HWY_RESTRICT gamma = s_.between.get() + i * kHeadChunk;
        float* HWY_RESTRICT mixing = s_.mixing.get() + i * kHeadChunk;
        for (std::int64_t j = 0; j < columns; ++j) mixing[j] *= gamma[j];
        if (!a_.delta_rule) continue;
        float* HWY_RESTRICT erasing = s_.erasing.get() + i * kHeadChunk;
        const float factor = -beta(i);
        for (std::int64_t j = 0; j < columns; ++j) erasing[j] *= factor * gamma[j];
      }
    }
    // The decay from each position to the chunk's end.
    float left = 1;
    for (std::int64_t j = count_ - 1; j >= 0; --j) {
      const float* HWY_RESTRICT from = key(j);
      float* HWY_RESTRICT to = s_.keys_to_end.get() + j * dim_;
      for (std::int64_t n = 0; n < dim_; ++n) to[n] = from[n] * left;
      left *= decay(j);
      if (left < kVanished) left = 0;
    }
  }

  void transpose_keys() {
    const std::int64_t columns = cpu::padded(count_);
    for (std::int64_t n = 0; n < dim_; ++n) {
      float* HWY_RESTRICT to = s_.keys.get() + n * kHeadChunk;
      const float* HWY_RESTRICT from = key(0) + n;
      for (std::int64_t j = 0; j < count_; ++j) to[j] = from[j * dim_];
      std::fill(to + count_, to + columns, 0.0F);
    }
  }

  /// Gamma_ij = alpha_i Gamma_(i-1)j, 1 on the diagonal and 0 above.
  void put_decays() {
    const std::int64_t columns = cpu::padded(count_);
    float since_start = 1;
    for (std::int64_t i = 0; i < count_; ++i) {
      float* HWY_RESTRICT row = s_.between.get() + i * kHeadChunk;
      std::fill(row, row + columns, 0.0F);
      if (i > 0) {
        std::copy_n(row - kHeadChunk, i, row);
        decay_row(decay(i), i, row);
      }
      row[i] = 1;
      since_start *= decay(i);
      if (since_start < kVanished) since_start = 0;
      s_.since_start[static_cast<std::size_t>(i)] = since_start;
    }
  }

  /// M_ij = sum over channels of q_i k_j and the product of alpha over (j, i], from the diagonal backwards.
  void relate_channels() {
    const FloatTag tag;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
    const Float vanished = hn::Set(tag, kVanished);
    const std::int64_t whole = dim_ / lanes * lanes;
    float* HWY_RESTRICT products = s_.products.get();
    const auto decays = [&](std::int64_t row) HWY_ATTR { return channel_decay_ + (first_ + row) * dim_; };
    for (std::int64_t i = 0; i < count_; ++i) {
      float* HWY_RESTRICT mixing = s_.mixing.get() + i * kHeadChunk;
      std::fill(mixing, mixing + cpu::padded(count_), 0.0F);
      const float* HWY_RESTRICT q = query(i);
      std::fill(products, products + dim_, 1.0F);
      for (std::int64_t j = i; j >= 0; --j) {
        const float* HWY_RESTRICT k = key(j);
        const float* HWY_RESTRICT alpha = decays(j);
        Float sums = hn::Zero(tag);
        std::int64_t n = 0;
        for (; n < whole; n += lanes) {
          const Float product = hn::LoadU(tag, products + n);
          sums = hn::MulAdd(hn::Mul(hn::LoadU(tag, q + n), product), hn::LoadU(tag, k + n), sums);
          const Float next = hn::Mul(product, hn::LoadU(tag, alpha + n));
          hn::StoreU(hn::IfThenZeroElse(hn::Lt(next, vanished), next), tag, products + n);
        }
        float sum = hn::GetLane(hn::SumOfLanes(tag, sums));
        for (; n < dim_; ++n) {
          sum += q[n] * products[n] * k[n];
          products[n] *= alpha[n];
          if (products[n] < kVanished) products[n] = 0;
        }
        mixing[j] = sum;
      }
      float* HWY_RESTRICT decayed = s_.queries.get() + i * dim_;
      for (std::int64_t n = 0; n < dim_; ++n) decayed[n] = q[n] * products[n];
    }
    std::fill(products, products + dim_, 1.0F);
    for (std::int64_t j = count_ - 1; j >= 0; --j) {
      const float* HWY_RESTRICT k = key(j);
      const float* HWY_RESTRICT alpha = decays(j);
      float* HWY_RESTRICT to = s_.keys_to_end.get() + j * dim_;
      for (std::int64_t n = 0; n < dim_; ++n) {
        to[n] = k[n] * products[n];
        const float next = products[n] * alpha[n];
        products[n] = next < kVanished ? 0.0F : next;
      }
    }
  }

  /// beta u of each position.
  void write() {
    float* const written = s_.written.get();
    copy_rows(value_ + first_ * a_.value_dim, a_.value_dim, count_, written, wide_);
    std::fill(written + count_ * wide_, written + cpu::padded(count_) * wide_, 0.0F);
    if (a_.delta_rule) {
      // The state's value for each key is erased; `output` is free until it is read.
      float* const held = s_.output.get();
      tile_product<Start::zero>(count_, wide_, dim_, key(0), dim_, state_, wide_, nullptr, held, wide_);
      for (std::int64_t i = 0; i < count_; ++i) {
        const float factor = s_.since_start[static_cast<std::size_t>(i)];
        for (std::int64_t n = 0; n < wide_; ++n) written[i * wide_ + n] -= factor * held[i * wide_ + n];
      }
    }
    if (beta_ != nullptr) {
      for (std::int64_t i = 0; i < count_; ++i) {
        for (std::int64_t n = 0; n < wide_; ++n) written[i * wide_ + n] *= beta(i);
      }
    }
    if (a_.delta_rule) solve();
  }

  /// (I + tril(diag(beta) (K K^T o Gamma), -1)) U = what is written, forwards.
  void solve() {
    float* const written = s_.written.get();
    for (std::int64_t row = 0; row < count_; row += kRowBlock) {
      const std::int64_t rows = std::min(kRowBlock, count_ - row);
      if (row > 0) {
        tile_product<Start::add>(rows, wide_, row, s_.erasing.get() + row * kHeadChunk, kHeadChunk, written, wide_,
                                 nullptr, written + row * wide_, wide_);
      }
      for (std::int64_t i = row + 1; i < row + rows; ++i) {
        float* HWY_RESTRICT to = written + i * wide_;
        for (std::int64_t j = row; j < i; ++j) {
          const float factor = s_.erasing[static_cast<std::size_t>(i * kHeadChunk + j)];
          const float* HWY_RESTRICT from = written + j * wide_;
          for (std::int64_t n = 0; n < wide_; ++n) to[n] += factor * from[n];
        }
      }
    }
  }

  /// y = M U + the state by what is left of it.
  void read() {
    float* const output = s_.output.get();
    const bool by_channel = channel_decay_ != nullptr;
    const float* const queries = by_channel ? s_.queries.get() : query(0);
    tile_product<Start::zero>(count_, wide_, dim_, queries, dim_, state_, wide_, nullptr, output, wide_);
    if (by_channel) std::fill_n(s_.since_start.get(), count_, 1.0F);
    for (std::int64_t row = 0; row < count_; row += kRowBlock) {
      const std::int64_t rows = std::min(kRowBlock, count_ - row);
      tile_product_rescaled(rows, wide_, row + rows, s_.mixing.get() + row * kHeadChunk, kHeadChunk, s_.written.get(),
                            wide_, s_.since_start.get() + row, output + row * wide_, wide_);
    }
    for (std::int64_t i = 0; i < count_; ++i) {
      std::copy_n(output + i * wide_, a_.value_dim, output_ + (first_ + i) * a_.output_stride);
    }
  }

  /// S behind the chunk.
  void update() {
    if (channel_decay_ != nullptr) {
      for (std::int64_t n = 0; n < dim_; ++n)
        decay_row(s_.products[static_cast<std::size_t>(n)], wide_, state_ + n * wide_);
    } else if (decay_ != nullptr) {
      decay_row(s_.since_start[static_cast<std::size_t>(count_ - 1)], dim_ * wide_, state_);
    }
    tile_product_transposed(dim_, wide_, count_, s_.keys_to_end.get(), dim_, s_.written.get(), wide_, state_, wide_);
  }

  const LinearMixing& a_;
  LinearScratch& s_;
  std::int64_t dim_;
  std::int64_t wide_;  ///< d_v in whole vectors
  const float* query_;
  const float* key_;
  const float* value_;
  const float* decay_;
  const float* channel_decay_;
  const float* erase_read_;
  const float* erase_write_;
  const float* beta_;
  float* own_state_;
  float* state_;
  float* output_;
  std::int64_t first_ = 0;
  std::int64_t count_ = 0;
};

bool mix_head(const LinearMixing& arguments, int head, LinearScratch& scratch, const std::stop_token& stop) {
  return LinearHead(arguments, head, scratch).run(stop);
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(mix_head);

namespace cpu {
namespace {

bool valid_mixing(const LinearMixing& a) {
  if (a.heads < 1 || a.query_heads < 1 || a.key_heads < 1 || a.value_heads < 1) return false;
  if (a.heads % a.query_heads != 0 || a.heads % a.key_heads != 0 || a.heads % a.value_heads != 0) return false;
  if (a.length < 1 || a.key_dim < 1 || a.value_dim < 1) return false;
  if (a.query == nullptr || a.key == nullptr || a.value == nullptr) return false;
  if (a.state == nullptr || a.output == nullptr || a.output_stride < a.heads * a.value_dim) return false;
  if ((a.erase_read == nullptr) != (a.erase_write == nullptr)) return false;
  if (a.erase_read != nullptr && a.delta_rule) return false;
  return a.channel_decay == nullptr || a.decay == nullptr;
}

}  // namespace

Status linear_mixing(const LinearMixing& arguments, Executor& executor, const std::stop_token& stop) {
  if (!valid_mixing(arguments)) return Status::invalid_argument;
  const int threads = arguments.length > 1 ? executor.threads() : 1;
  std::vector<LinearScratch> scratch;
  const int working = std::min(threads, arguments.heads);
  scratch.reserve(static_cast<std::size_t>(working));
  for (int thread = 0; thread < working; ++thread) scratch.emplace_back(arguments);
  std::atomic<bool> whole = true;
  std::atomic<int> next = 0;
  const auto take_heads = [&](std::int64_t task, int /*thread*/) {
    for (int head = next++; head < arguments.heads; head = next++) {
      if (!HWY_DYNAMIC_DISPATCH(mix_head)(arguments, head, scratch[static_cast<std::size_t>(task)], stop))
        whole = false;
    }
  };
  // A next position is too little to wake other threads for.
  if (threads == 1) {
    take_heads(0, 0);
  } else {
    executor.run(std::ssize(scratch), take_heads);
  }
  return whole ? Status::ok : Status::cancelled;
}

}  // namespace cpu
}  // namespace foxscope::kernels
#endif
