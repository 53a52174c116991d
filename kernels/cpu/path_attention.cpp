#include "kernels/cpu/path_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/mixing.h"
#include "kernels/cpu/pooled_map.h"
#include "kernels/log2e.h"

namespace foxscope::kernels::cpu {
namespace {

constexpr std::int64_t kDepthStep = 16;  ///< of mixing_product
/// Positions of all heads together whose tables are there at once, if one head has no more.
constexpr std::int64_t kTablePositions = 16'384;
constexpr double kSlack = 1 + 1e-4;  ///< for float32's rounding in a bound on logits
constexpr double kNatsOfTwo = 0.6931471805599453;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

std::size_t at(std::int64_t n) { return static_cast<std::size_t>(n); }

/// rows[l] += sum over j < l of A_lj rows[j], from the first row on: (I - A)^-1 times rows.
/// @param a     [64][64], A_lj at [j][l]
/// @param rows  [size, width]
void solve_triangle(const float* a, std::int64_t size, std::int64_t width, float* rows) {
  for (std::int64_t l = 1; l < size; ++l) {
    float* const row = rows + l * width;
    for (std::int64_t j = 0; j < l; ++j) {
      const float factor = a[j * kMapTile + l];
      const float* const before = rows + j * width;
      for (std::int64_t n = 0; n < width; ++n) row[n] += factor * before[n];
    }
  }
}

/// Tables of the blocks of some heads of keys; a head's rows are whole blocks of kMapTile.
class PathTables {
 public:
  PathTables(std::int64_t heads, std::int64_t length, std::int64_t head_dim, bool values)
      : length_(length),
        head_dim_(head_dim),
        depth_((head_dim + kDepthStep - 1) / kDepthStep * kDepthStep),
        blocks_((length + kMapTile - 1) / kMapTile) {
    const std::size_t rows = at(heads * blocks_ * kMapTile);
    for (std::vector<float>* of : {&key_, &write_, &read_, &at_end_, &left_}) of->resize(rows * at(depth_));
    near_.resize(rows * at(kMapTile));
    longest_.resize(at(heads * blocks_));
    if (values) value_.resize(rows * at(depth_));
  }

  [[nodiscard]] std::int64_t depth() const { return depth_; }
  [[nodiscard]] std::int64_t blocks() const { return blocks_; }
  [[nodiscard]] std::int64_t size(std::int64_t block) const { return std::min(kMapTile, length_ - block * kMapTile); }

  /// @param key, read, write, value  [L, d] of the head; value may be null
  void prepare(std::int64_t head, std::int64_t block, const float* key, const float* read, const float* write,
               const float* value) {
    const std::int64_t row = head * blocks_ * kMapTile + block * kMapTile;
    const auto copy = [&](const float* from, std::vector<float>& to) {
      for (std::int64_t n = 0; from != nullptr && n < size(block); ++n) {
        std::copy_n(from + (block * kMapTile + n) * head_dim_, head_dim_, to.data() + (row + n) * depth_);
        std::fill_n(to.data() + (row + n) * depth_ + head_dim_, depth_ - head_dim_, 0.0F);
      }
    };
    copy(key, key_);
    copy(read, read_);
    copy(write, write_);
    copy(value, value_);
    prepare_path_block(of(head, block), read_.data() + row * depth_, at_end_.data() + row * depth_,
                       left_.data() + row * depth_, near_.data() + row * kMapTile);
    longest_[at(head * blocks_ + block)] = largest_norm(key_.data() + row * depth_, size(block), depth_);
  }
  /// When all blocks of a head are prepared.
  void finish(std::int64_t head) {
    double* const longest = longest_.data() + head * blocks_;
    for (std::int64_t block = 1; block < blocks_; ++block) {
      // NaN goes on: then nothing is skipped.
      if (!(longest[block] >= longest[block - 1])) longest[block] = longest[block - 1] + 0 * longest[block];
    }
  }
  /// Largest |k| up to a block's end.
  [[nodiscard]] double longest(std::int64_t head, std::int64_t block) const {
    return longest_[at(head * blocks_ + block)];
  }

  [[nodiscard]] PathBlock of(std::int64_t head, std::int64_t block) const {
    const std::int64_t row = head * blocks_ * kMapTile + block * kMapTile;
    return {size(block),
            depth_,
            key_.data() + row * depth_,
            write_.data() + row * depth_,
            at_end_.data() + row * depth_,
            left_.data() + row * depth_,
            near_.data() + row * kMapTile};
  }
  [[nodiscard]] const float* values(std::int64_t head, std::int64_t block) const {
    return value_.data() + (head * blocks_ + block) * kMapTile * depth_;
  }

 private:
  std::int64_t length_, head_dim_, depth_, blocks_;
  std::vector<float> key_, write_, read_, at_end_, left_, value_, near_;
  std::vector<double> longest_;  ///< [heads, blocks]
};

/// The rows of one tile of queries with their online softmax, in units of log2.
class PathRows {
 public:
  explicit PathRows(std::int64_t depth)
      : depth_(depth),
        queries_(at(depth * kMapTile)),
        rows_(queries_.size()),
        output_(queries_.size()),
        scratch_(at(kMapTile * kMapTile)),
        tile_(scratch_.size()) {}

  /// @param head  its first query, [L, d]; c its sums of log gates [L], or null
  struct Head {
    const float* query = nullptr;
    const double* c = nullptr;
    float* output = nullptr;
    std::int64_t output_stride = 0;
    float* log_normalizer = nullptr;
    float* without_gate = nullptr;
  };

  /// @returns false if it was stopped
  bool run(const ForgettingAttention& of, const Head& head, const PathTables& tables, std::int64_t key_head,
           std::int64_t tile, const std::stop_token& stop) {
    constexpr std::int64_t kBlocksOfLook = 32;
    begin_ = tile * kMapTile;
    const std::int64_t count = tables.size(tile);
    pack_queries(head.query + begin_ * of.head_dim, count, of.head_dim, static_cast<double>(of.scale) * kLog2E,
                 queries_.data());
    std::fill(queries_.begin() + of.head_dim * kMapTile, queries_.end(), 0.0F);
    std::ranges::fill(rows_, 0.0F);
    std::ranges::fill(output_, 0.0F);
    std::fill_n(maximum_, kMapTile, kNothing);
    std::fill_n(sum_, kMapTile, 0.0);
    std::fill_n(plain_maximum_, kMapTile, kNothing);
    std::fill_n(plain_sum_, kMapTile, 0.0);
    const double query =
        largest_norm(head.query + begin_ * of.head_dim, count, of.head_dim) * static_cast<double>(of.scale) * kLog2E;
    blocks.total += tile + 1;
    for (std::int64_t block = tile; block >= 0; --block) {
      const double logit = query * tables.longest(key_head, block);
      if (block < tile && head.c != nullptr && head.without_gate == nullptr &&
          is_negligible(head.c, (block + 1) * kMapTile, logit, of.pruning_tolerance, count)) {
        blocks.skipped += block + 1;
        break;
      }
      if (block % kBlocksOfLook == 0 && stop.stop_requested()) return false;
      const PathBlock keys = tables.of(key_head, block);
      meet_path_block(keys, (tile - block) * kMapTile, queries_.data(), rows_.data(), scratch_.data(), tile_.data());
      if (block == tile) mask_tile(0, 0, keys.size, kNothing, tile_.data());
      if (head.without_gate != nullptr) log_sum_exp_tile(tile_.data(), keys.size, plain_maximum_, plain_sum_);
      if (head.c != nullptr) add_gate(head.c, block * kMapTile, keys.size, count);
      add_values(keys.size, tables.values(key_head, block));
    }
    for (std::int64_t lane = 0; lane < count; ++lane) {
      const std::int64_t row = begin_ + lane;
      const auto factor = static_cast<float>(1.0 / sum_[lane]);
      float* const to = head.output + row * head.output_stride;
      for (std::int64_t n = 0; n < of.head_dim; ++n) to[n] = output_[at(lane * depth_ + n)] * factor;
      const auto nats = [](float maximum, double sum) {
        return static_cast<float>((static_cast<double>(maximum) + std::log2(sum)) * kNatsOfTwo);
      };
      if (head.log_normalizer != nullptr) head.log_normalizer[row] = nats(maximum_[lane], sum_[lane]);
      if (head.without_gate != nullptr) head.without_gate[row] = nats(plain_maximum_[lane], plain_sum_[lane]);
    }
    return true;
  }

  AttentionBlocks blocks;

 private:
  /// Whether the keys before `end` hold no more than the tolerance of any row.
  /// @param logit  that none of them exceeds, in units of log2
  [[nodiscard]] bool is_negligible(const double* c, std::int64_t end, double logit, double tolerance,
                                   std::int64_t count) const {
    constexpr double kNothingAtAll = -160;  // whose power of 2 is 0 in float32
    const double limit = tolerance > 0 ? std::max(kNothingAtAll, std::log2(tolerance)) : kNothingAtAll;
    const double most = std::log2(static_cast<double>(end)) + logit * kSlack - c[end - 1] * kLog2E;
    for (std::int64_t lane = 0; lane < count; ++lane) {
      const double row = static_cast<double>(maximum_[lane]) + std::log2(sum_[lane]);
      if (!(most + c[begin_ + lane] * kLog2E - row <= limit)) return false;
    }
    return true;
  }

  void add_gate(const double* c, std::int64_t first, std::int64_t keys, std::int64_t count) {
    double of_rows[kMapTile] = {};
    std::copy_n(c + begin_, count, of_rows);
    add_log_terms({.row = of_rows, .key = c + first, .reference = c[first], .spread = c[first] - c[first + keys - 1]},
                  keys, tile_.data());
  }

  void add_values(std::int64_t keys, const float* values) {
    float now[kMapTile];
    std::copy_n(maximum_, kMapTile, now);
    for (std::int64_t key = 0; key < keys; ++key) {
      const float* const line = tile_.data() + key * kMapTile;
      for (std::int64_t lane = 0; lane < kMapTile; ++lane) now[lane] = line[lane] > now[lane] ? line[lane] : now[lane];
    }
    for (std::int64_t key = 0; key < keys; ++key) {
      float* const line = tile_.data() + key * kMapTile;
      for (std::int64_t lane = 0; lane < kMapTile; ++lane) line[lane] -= now[lane];
    }
    exponentiate(keys * kMapTile, tile_.data());
    float sums[kMapTile] = {};
    for (std::int64_t key = 0; key < keys; ++key) {
      const float* const line = tile_.data() + key * kMapTile;
      for (std::int64_t lane = 0; lane < kMapTile; ++lane) sums[lane] += line[lane];
    }
    for (std::int64_t lane = 0; lane < kMapTile; ++lane) {
      const float shrink = std::exp2(maximum_[lane] - now[lane]);
      sum_[lane] = sum_[lane] * static_cast<double>(shrink) + static_cast<double>(sums[lane]);
      maximum_[lane] = now[lane];
      if (shrink == 1.0F) continue;
      float* const row = output_.data() + lane * depth_;
      for (std::int64_t n = 0; n < depth_; ++n) row[n] *= shrink;
    }
    add_transposed_product(kMapTile, depth_, keys, tile_.data(), values, output_.data());
  }

  std::int64_t depth_;
  std::int64_t begin_ = 0;  ///< of the rows
  std::vector<float> queries_, rows_, output_, scratch_, tile_;
  float maximum_[kMapTile] = {};
  double sum_[kMapTile] = {};
  float plain_maximum_[kMapTile] = {};
  double plain_sum_[kMapTile] = {};
};

bool are_contiguous(const AttentionStrides& strides, std::int64_t heads, std::int64_t length, std::int64_t dim) {
  return strides.row == dim && strides.head == length * dim && strides.batch == heads * length * dim;
}

bool is_sound(const ForgettingAttention& a, const float* read, const float* write) {
  return a.batch > 0 && a.heads > 0 && a.key_heads > 0 && a.heads % a.key_heads == 0 && a.length > 0 &&
         a.head_dim > 0 && a.query != nullptr && a.key != nullptr && a.value != nullptr && a.output != nullptr &&
         read != nullptr && write != nullptr && a.window_size == 0 && a.logit_cap == 0 && a.sink == nullptr &&
         std::isfinite(a.scale) && are_contiguous(a.query_strides, a.heads, a.length, a.head_dim) &&
         are_contiguous(a.key_strides, a.key_heads, a.length, a.head_dim) &&
         are_contiguous(a.value_strides, a.key_heads, a.length, a.head_dim);
}

}  // namespace

void prepare_path_block(const PathBlock& block, const float* read, float* at_end, float* left, float* near) {
  const std::int64_t size = block.size;
  const std::int64_t depth = block.depth;
  std::vector<float> packed(at(depth * kMapTile));
  std::vector<float> a(at(kMapTile * kMapTile));
  std::vector<float> products(a.size());
  pack_queries(read, size, depth, 1.0, packed.data());
  mixing_product(packed.data(), block.write, size, depth, a.data());
  mixing_product(packed.data(), block.key, size, depth, products.data());
  for (std::int64_t l = 0; l < size; ++l) {
    for (std::int64_t j = 0; j < kMapTile; ++j) {
      near[l * kMapTile + j] = j < l ? products[at(j * kMapTile + l)] : 0.0F;
    }
  }
  std::copy_n(read, size * depth, left);
  solve_triangle(a.data(), size, kMapTile, near);
  solve_triangle(a.data(), size, depth, left);
  std::vector<float> whole(at(kMapTile * depth));
  std::copy_n(block.key, size * depth, whole.begin());
  add_transposed_product(kMapTile, depth, size, near, block.write, whole.data());
  std::copy_n(whole.begin(), size * depth, at_end);
}

void meet_path_block(const PathBlock& block, std::int64_t offset, const float* queries, float* rows, float* scratch,
                     float* tile) {
  const std::int64_t depth = block.depth;
  const bool starts = offset < block.size;
  if (starts) {
    const std::int64_t from = std::clamp<std::int64_t>(-offset, 0, kMapTile);
    const std::int64_t to = std::clamp<std::int64_t>(block.size - offset, 0, kMapTile);
    for (std::int64_t n = 0; n < depth; ++n) {
      std::copy_n(queries + n * kMapTile + from, to - from, rows + n * kMapTile + from);
    }
  }
  mixing_product(rows, block.write, block.size, depth, scratch);
  if (!starts) {
    mixing_product(rows, block.at_end, block.size, depth, tile);
  } else {
    // A row meets the keys up to its own.
    for (std::int64_t key = 0; key < block.size; ++key) {
      std::fill_n(scratch + key * kMapTile, std::clamp<std::int64_t>(key - offset, 0, kMapTile), 0.0F);
    }
    std::fill_n(tile, kMapTile * kMapTile, 0.0F);
    mixing_product(rows, block.key, block.size, depth, tile);
    add_transposed_product(kMapTile, kMapTile, block.size, block.near, scratch, tile);
  }
  add_transposed_product(depth, kMapTile, block.size, block.left, scratch, rows);
}

Status path_attention(const ForgettingAttention& arguments, const float* erase_read, const float* erase_write,
                      Executor& executor, const std::stop_token& stop, AttentionBlocks* blocks) {
  const ForgettingAttention& a = arguments;
  if (!is_sound(a, erase_read, erase_write)) return Status::invalid_argument;
  const std::int64_t group = a.heads / a.key_heads;
  const std::int64_t all = a.batch * a.key_heads;
  const std::int64_t at_once = std::clamp<std::int64_t>(kTablePositions / a.length, 1, all);
  PathTables tables(at_once, a.length, a.head_dim, true);
  std::vector<PathRows> workers(at(executor.threads()), PathRows(tables.depth()));
  std::atomic<bool> stopped = false;
  const std::int64_t size = a.length * a.head_dim;
  for (std::int64_t first = 0; first < all; first += at_once) {
    const std::int64_t count = std::min(at_once, all - first);
    executor.run(count * tables.blocks(), [&](std::int64_t task, int /*thread*/) {
      const std::int64_t head = task / tables.blocks();
      const std::int64_t begin = (first + head) * size;
      if (stop.stop_requested()) return;
      tables.prepare(head, task % tables.blocks(), a.key + begin, erase_read + begin, erase_write + begin,
                     a.value + begin);
    });
    if (stop.stop_requested()) return Status::cancelled;
    for (std::int64_t head = 0; head < count; ++head) tables.finish(head);
    // Later rows see more keys: they go first, so that the threads finish together.
    executor.run(count * group * tables.blocks(), [&](std::int64_t task, int thread) {
      const std::int64_t key_head = task % (count * group) / group;
      const std::int64_t tile = tables.blocks() - 1 - task / (count * group);
      const std::int64_t batch = (first + key_head) / a.key_heads;
      const std::int64_t head = (first + key_head) * group + task % group;  // of all sequences
      PathRows::Head of;
      of.query = a.query + head * size;
      if (a.cumulative_log_gate != nullptr) of.c = a.cumulative_log_gate + head * a.length;
      of.output = a.output + batch * a.output_strides.batch + head % a.heads * a.output_strides.head;
      of.output_stride = a.output_strides.row;
      if (a.log_normalizer != nullptr) of.log_normalizer = a.log_normalizer + head * a.length;
      if (a.log_normalizer_without_gate != nullptr) of.without_gate = a.log_normalizer_without_gate + head * a.length;
      if (stopped || !workers[at(thread)].run(a, of, tables, key_head, tile, stop)) stopped = true;
    });
    if (stopped) return Status::cancelled;
  }
  for (const PathRows& worker : workers) {
    if (blocks == nullptr) break;
    blocks->total += worker.blocks.total;
    blocks->skipped += worker.blocks.skipped;
  }
  return Status::ok;
}

Status pass_path_keys(std::int64_t heads, std::int64_t length, std::int64_t head_dim, const float* key,
                      const float* erase_read, const float* erase_write, Executor& executor,
                      const std::stop_token& stop, float* out) {
  PathTables tables(1, length, head_dim, false);
  const std::int64_t depth = tables.depth();
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t begin = head * length * head_dim;
    executor.run(tables.blocks(), [&](std::int64_t block, int /*thread*/) {
      tables.prepare(0, block, key + begin, erase_read + begin, erase_write + begin, nullptr);
    });
    if (stop.stop_requested()) return Status::cancelled;
    // Earlier keys are passed over more blocks.
    executor.run(tables.blocks(), [&](std::int64_t own, int /*thread*/) {
      std::vector<float> rows(at(depth * kMapTile));
      std::vector<float> products(at(kMapTile * kMapTile));
      pack_queries(tables.of(0, own).at_end, tables.size(own), depth, 1.0, rows.data());
      for (std::int64_t block = own + 1; block < tables.blocks() && !stop.stop_requested(); ++block) {
        const PathBlock over = tables.of(0, block);
        mixing_product(rows.data(), over.left, over.size, depth, products.data());
        add_transposed_product(depth, kMapTile, over.size, over.write, products.data(), rows.data());
      }
      for (std::int64_t n = 0; n < tables.size(own); ++n) {
        float* const to = out + begin + (own * kMapTile + n) * head_dim;
        for (std::int64_t k = 0; k < head_dim; ++k) to[k] = rows[at(k * kMapTile + n)];
      }
    });
    if (stop.stop_requested()) return Status::cancelled;
  }
  return Status::ok;
}

}  // namespace foxscope::kernels::cpu
