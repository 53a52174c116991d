#include "backend/map/mixing_entries.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/band_tiles.h"
#include "backend/map/device/device_map.h"
#include "kernels/cpu/mixing.h"
#include "kernels/cpu/path_attention.h"
#include "kernels/cpu/pooled_map.h"
#include "kernels/log2e.h"

namespace foxscope {
namespace {

namespace cpu = kernels::cpu;
using cpu::kMapTile;

/// Room for float32's rounding in a bound on entries.
constexpr double kNormSlack = 1.0 + 1e-4;
/// Depths of products are padded to whole parts of a sum (mixing_product).
constexpr std::int64_t kDepthStep = 16;
/// Keys near the diagonal are taken so many at a time, those between one another pair by pair.
constexpr std::int64_t kNearKeys = 16;
/// A rest of a query below this changes no float32 entry.
constexpr float kNothing = 1e-37F;

/// Inverse of I + A, A strictly lower triangular, [64][64] by rows; only the first `size` rows count.
void invert_triangle(const double* a, std::int64_t size, float* inverse) {
  std::vector<double> t(static_cast<std::size_t>(size * size), 0.0);
  for (std::int64_t row = 0; row < size; ++row) {
    double* const of_row = t.data() + row * size;
    of_row[row] = 1.0;
    for (std::int64_t between = 0; between < row; ++between) {
      const double factor = a[row * kMapTile + between];
      const double* const before = t.data() + between * size;
      for (std::int64_t column = 0; column <= between; ++column) of_row[column] -= factor * before[column];
    }
  }
  std::fill_n(inverse, size * kMapTile, 0.0F);
  for (std::int64_t row = 0; row < size; ++row) {
    for (std::int64_t column = 0; column <= row; ++column) {
      inverse[row * kMapTile + column] = static_cast<float>(t[index_of(row * size + column)]);
    }
  }
}

Range block_of(std::int64_t position, std::int64_t length) {
  const std::int64_t begin = position / kMapTile * kMapTile;
  return {begin, std::min(begin + kMapTile, length)};
}

}  // namespace

MixingEntries::MixingEntries(const HeadOf& of, Quantity which) : head_(of), quantity_(which) {
  const Trace& trace = *of.trace;
  const TraceInfo& info = trace.info();
  trace.check_head(of.layer, of.head);
  mixer_ = info.mixer(of.layer);
  assert(!mixer_.has_softmax() || (mixer_.path && which == Quantity::logits));
  erases_ = mixer_.erases() && quantity_ != Quantity::forget;
  query_head_ = shared_head(mixer_.heads, mixer_.query_heads, of.head);
  key_head_ = shared_head(mixer_.heads, mixer_.key_heads, of.head);
  length_ = info.length;
  channels_ = mixer_.head_dim;
  depth_ = (channels_ + kDepthStep - 1) / kDepthStep * kDepthStep;
  if (mixer_.decays_by_head() && !mixer_.path) gate_ = trace.cumulative_log_gate(of.layer, of.head);
  if (mixer_.decays_by_channel()) {
    sums_ = trace.cumulative_log_decay(of.layer, of.head);
    decay_ = sums_.values;
  }
  if (quantity_ == Quantity::forget) {
    assert(mixer_.decays_by_channel());
    return;
  }
  store_ = &trace.require_query_key();
  if (mixer_.kind().writes_beta) beta_ = trace.beta(of.layer, of.head);
  if (mixer_.path) {
    erase_read_ = trace.erase_read(of.layer, of.head);
    erase_write_ = trace.erase_write(of.layer, of.head);
    return;
  }
  if (erases_ && (mixer_.decays_by_channel() || !mixer_.erases_own_key())) recurrence_.emplace(of);
  if (mixer_.decays_by_channel()) return;
  if (gate_.empty()) {
    zeros_.resize(index_of(length_));
    gate_ = zeros_;
  }
  if (beta_.empty()) {
    ones_.assign(index_of(length_), 1.0F);
    beta_ = ones_;
  }
}

void MixingEntries::padded_rows(TraceArray part, const Range& rows, std::vector<float>& scratch,
                                std::vector<float>& out) const {
  out.assign(static_cast<std::size_t>(rows.size() * depth_), 0.0F);
  if (store_ == nullptr) {
    // The mean over channels is the mixing of queries 1/d and keys 1.
    const float number = part == TraceArray::query ? 1.0F / static_cast<float>(channels_) : 1.0F;
    for (std::int64_t row = 0; row < rows.size(); ++row) std::fill_n(out.begin() + row * depth_, channels_, number);
    return;
  }
  const int head = part == TraceArray::query ? query_head_ : key_head_;
  const std::span<const float> stored = store_->rows(part, head_.layer, head, rows.begin, rows.end, scratch);
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    std::copy_n(stored.begin() + row * channels_, channels_, out.begin() + row * depth_);
  }
  if (part != TraceArray::key || decay_.empty() || beta_.empty() || erases_) return;
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    cpu::scale(beta(rows.begin + row), channels_, out.data() + row * depth_);
  }
}

bool MixingEntries::prepare(const Range& rows, const Range& columns, Team& team) {
  first_ = columns.begin / kMapTile * kMapTile;
  // The delta rule starts at the diagonal, whichever columns are asked for.
  end_ = erases_ ? rows.end : std::min(columns.end, rows.end);
  end_ = std::min(length_, (end_ + kMapTile - 1) / kMapTile * kMapTile);
  if (end_ <= first_ || goes_key_by_key()) return true;
  const std::int64_t blocks = (end_ - first_ + kMapTile - 1) / kMapTile;
  at_end_.resize(static_cast<std::size_t>((end_ - first_) * depth_));
  block_norm_.resize(static_cast<std::size_t>(blocks));
  if (erases_) {
    left_.resize(at_end_.size());
    inverse_.resize(static_cast<std::size_t>((end_ - first_) * kMapTile));
  }
  constexpr std::int64_t kBlocksOfTask = 8;
  const std::int64_t tasks = (blocks + kBlocksOfTask - 1) / kBlocksOfTask;
  return team.run({"preparing the keys", "tokens", end_ - first_}, tasks, [&](std::int64_t task, int thread) {
    std::vector<float> scratch;
    const std::int64_t last = std::min(blocks, (task + 1) * kBlocksOfTask);
    for (std::int64_t block = task * kBlocksOfTask; block < last; ++block) {
      if (team.stopped()) return;
      prepare_block(block, scratch);
      team.advance(block_of(first_ + block * kMapTile, end_).size(), thread);
    }
  });
}

void MixingEntries::prepare_block(std::int64_t block, std::vector<float>& scratch) {
  const Range keys = block_of(first_ + block * kMapTile, length_);
  std::vector<float> padded;
  padded_rows(TraceArray::key, keys, scratch, padded);
  float* const out = at_end_.data() + (keys.begin - first_) * depth_;
  if (mixer_.path) {
    prepare_path(block, keys, padded.data());
  } else if (erases_) {
    prepare_delta(block, keys, padded.data());
  } else {
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      const float* const in = padded.data() + (key - keys.begin) * depth_;
      float* const to = out + (key - keys.begin) * depth_;
      if (!decay_.empty()) {
        cpu::decay(in, sums(keys.end - 1), sums(key), channels_, to);
        std::fill(to + channels_, to + depth_, 0.0F);
        continue;
      }
      const auto factor = static_cast<float>(std::exp(c(keys.end - 1) - c(key))) * beta(key);
      for (std::int64_t n = 0; n < depth_; ++n) to[n] = in[n] * factor;
    }
  }
  block_norm_[index_of(block)] = cpu::largest_norm(out, keys.size(), depth_);
}

/// Query r at a block's last position e meets the block's keys from the last to the first, r <- alpha_j (r - m_j k_j)
/// with m_j = beta_j (r.k_j). Written out, m_j = b_j - sum over l > j of m_l A_lj with b_j = beta_j exp(c_e - c_j)
/// (r.k_j) and A_lj = beta_j exp(c_l - c_j) (k_l.k_j): m = b (I + A)^-1, and what is left before the block's first
/// position b is exp(c_e - c_(b-1)) r - sum over l of m_l exp(c_l - c_(b-1)) k_l.
void MixingEntries::prepare_delta(std::int64_t block, const Range& keys, const float* padded) {
  const std::int64_t size = keys.size();
  std::vector<float> packed(static_cast<std::size_t>(depth_ * kMapTile));
  std::vector<float> products(kMapTile * kMapTile);
  cpu::pack_queries(padded, size, depth_, 1.0, packed.data());
  cpu::mixing_product(packed.data(), padded, size, depth_, products.data());
  std::vector<double> a(kMapTile * kMapTile, 0.0);
  for (std::int64_t l = 0; l < size; ++l) {
    for (std::int64_t j = 0; j < l; ++j) {
      a[index_of(l * kMapTile + j)] = static_cast<double>(beta(keys.begin + j)) *
                                      std::exp(c(keys.begin + l) - c(keys.begin + j)) *
                                      static_cast<double>(products[index_of(j * kMapTile + l)]);
    }
  }
  float* const inverse = inverse_.data() + block * kMapTile * kMapTile;
  invert_triangle(a.data(), size, inverse);
  // Nothing stands before the text's first block.
  const double before = keys.begin == 0 ? c(0) : c(keys.begin - 1);
  std::vector<float> driven(static_cast<std::size_t>(size * depth_));
  float* const left = left_.data() + (keys.begin - first_) * depth_;
  for (std::int64_t l = 0; l < size; ++l) {
    const std::int64_t key = keys.begin + l;
    const auto to_end = static_cast<float>(std::exp(c(keys.end - 1) - c(key))) * beta(key);
    const auto from_start = -static_cast<float>(std::exp(c(key) - before));
    for (std::int64_t n = 0; n < depth_; ++n) {
      driven[index_of(l * depth_ + n)] = padded[l * depth_ + n] * to_end;
      left[l * depth_ + n] = padded[l * depth_ + n] * from_start;
    }
  }
  float* const out = at_end_.data() + (keys.begin - first_) * depth_;
  std::fill_n(out, size * depth_, 0.0F);
  std::vector<float> whole(static_cast<std::size_t>(kMapTile * depth_), 0.0F);
  cpu::add_transposed_product(kMapTile, depth_, size, inverse, driven.data(), whole.data());
  std::copy_n(whole.begin(), size * depth_, out);
}

void MixingEntries::padded_erasing(std::span<const float> rows, const Range& keys, std::vector<float>& out) const {
  out.assign(index_of(keys.size() * depth_), 0.0F);
  for (std::int64_t row = 0; row < keys.size(); ++row) {
    std::copy_n(rows.begin() + (keys.begin + row) * channels_, channels_, out.begin() + row * depth_);
  }
}

void MixingEntries::prepare_path(std::int64_t block, const Range& keys, const float* padded) {
  std::vector<float> read;
  std::vector<float> write;
  padded_erasing(erase_read_, keys, read);
  padded_erasing(erase_write_, keys, write);
  const std::int64_t at = (keys.begin - first_) * depth_;
  cpu::prepare_path_block({.size = keys.size(), .depth = depth_, .key = padded, .write = write.data()}, read.data(),
                          at_end_.data() + at, left_.data() + at, inverse_.data() + block * kMapTile * kMapTile);
}

/// Tiles of a linear mixer. Those of the delta rule come from the diagonal to the left: one to the right of the last
/// one begins anew.
class MixingReader final : public TileReader {
 public:
  MixingReader(const MixingEntries& of, double log2_limit)
      : of_(of), skip_below_(log2_limit), strips_(kBandRows / kMapTile), whole_(kMapTile * kMapTile) {}

  void set_band(const Range& rows) override;
  void set_chunk(const Range& /*keys*/) override {}
  [[nodiscard]] bool negligible(std::int64_t strip, const Range& keys, double log2_limit) const override;
  [[nodiscard]] bool negligible(std::int64_t strip, const Range& keys) const override {
    return negligible(strip, keys, skip_below_);
  }
  void tile(std::int64_t strip, const Range& keys, float* out) override;
  void log_attention_tile(std::int64_t strip, const Range& keys, float* out) override {
    mixing_tile(strip, keys, out);
    cpu::size_tile(strips_[index_of(strip)].share, keys.size(), out);
    cpu::log_tile(keys.size(), out);
  }

 private:
  struct Strip {
    Range rows;
    std::vector<float> query;    ///< [rows, depth]
    std::vector<float> packed;   ///< [depth][64] queries, decayed from the first row on
    double gate[kMapTile] = {};  ///< c_i
    float share[kMapTile] = {};  ///< 1 / sum over j of |M_ij|
    double query_norm = 0;       ///< largest
    double largest_share = 1;
    std::vector<float> left;  ///< delta rule, [depth][64]: what is left of the queries
    std::vector<double> row;  ///< the same where it goes key by key, [rows, d]
    std::int64_t next = 0;    ///< delta rule: first key of the block that they meet next
    bool nothing_left = false;
  };

  void mixing_tile(std::int64_t strip, const Range& keys, float* out);
  void far_tile(const Strip& strip, const Range& keys, float* out);
  void near_scalar_tile(const Strip& strip, const Range& keys, float* out);
  void near_channel_tile(const Strip& strip, const Range& keys, float* out);
  void delta_tile(Strip& strip, const Range& keys, float* out);
  void meet_block(Strip& strip, const Range& block, float* out);
  void pass_block(Strip& strip, const Range& block, float* out);
  void pass_keys(Strip& strip, const Range& block, float* out);
  void start_rows(Strip& strip, const Range& block, float* out);
  [[nodiscard]] Strip& strip_of(std::int64_t index) { return strips_[index_of(index)]; }

  const MixingEntries& of_;
  double skip_below_;
  std::vector<Strip> strips_;
  std::vector<float> scratch_;
  std::vector<float> keys_;
  std::vector<float> queries_;
  std::vector<float> packed_;
  std::vector<float> factor_;
  std::vector<float> whole_;
  std::vector<float> started_;
};

std::unique_ptr<TileReader> MixingEntries::reader(double log2_limit) const {
  return std::make_unique<MixingReader>(*this, log2_limit);
}

void MixingReader::set_band(const Range& rows) {
  assert(rows.begin >= 0 && rows.size() <= kBandRows && rows.end <= of_.length_);
  const std::int64_t depth = of_.depth_;
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += kMapTile) {
    Strip& strip = strip_of((begin - rows.begin) / kMapTile);
    strip.rows = {begin, std::min(begin + kMapTile, rows.end)};
    of_.padded_rows(TraceArray::query, strip.rows, scratch_, strip.query);
    strip.query_norm = cpu::largest_norm(strip.query.data(), strip.rows.size(), depth);
    strip.largest_share = of_.row_sizes_.empty() ? 1.0 : 0.0;
    queries_.assign(strip.query.begin(), strip.query.end());
    for (std::int64_t row = strip.rows.begin; row < strip.rows.end; ++row) {
      const std::int64_t lane = row - begin;
      strip.gate[lane] = of_.c(row);
      float* const query = queries_.data() + lane * depth;
      if (!of_.decay_.empty()) {
        cpu::decay(strip.query.data() + lane * depth, of_.sums(row), of_.sums(begin), of_.channels_, query);
      } else if (!of_.erases_) {
        const auto factor = static_cast<float>(std::exp(of_.c(row) - of_.c(begin)));
        for (std::int64_t n = 0; n < depth; ++n) query[n] *= factor;
      }
      if (of_.row_sizes_.empty()) continue;
      const float size = of_.row_sizes_[index_of(row)];
      strip.share[lane] = size == 0 ? 0.0F : 1.0F / size;  // a row of zeros has shares of 0
      strip.largest_share = std::max(strip.largest_share, static_cast<double>(strip.share[lane]));
      if (std::isnan(size)) strip.largest_share = std::numeric_limits<double>::quiet_NaN();
    }
    strip.packed.resize(static_cast<std::size_t>(depth * kMapTile));
    cpu::pack_queries(queries_.data(), strip.rows.size(), depth, 1.0, strip.packed.data());
    strip.next = -1;
  }
}

bool MixingReader::negligible(std::int64_t index, const Range& keys, double log2_limit) const {
  const Strip& strip = strips_[index_of(index)];
  if (of_.erases_) return false;
  const Range block = block_of(keys.begin, of_.length_);
  if (block.end > strip.rows.begin) return false;
  const double norm = of_.block_norm_[index_of((block.begin - of_.first_) / kMapTile)];
  double decay = of_.c(strip.rows.begin) - of_.c(block.end - 1);
  if (!of_.decay_.empty()) {
    const double* const row = of_.sums(strip.rows.begin);
    const double* const key = of_.sums(block.end - 1);
    decay = row[0] - key[0];
    for (std::int64_t n = 1; n < of_.channels_; ++n) {
      // NaN stays, so that nothing is said of it.
      if (!(row[n] - key[n] <= decay)) decay = row[n] - key[n];
    }
  }
  return std::log2(strip.query_norm * norm * strip.largest_share * kNormSlack) + decay * kernels::kLog2E <
         log2_limit - 1e-3;
}

void MixingReader::tile(std::int64_t index, const Range& keys, float* out) {
  mixing_tile(index, keys, out);
  if (of_.quantity_ == Quantity::attention) cpu::size_tile(strip_of(index).share, keys.size(), out);
}

void MixingReader::mixing_tile(std::int64_t index, const Range& keys, float* out) {
  Strip& strip = strip_of(index);
  if (of_.erases_) return delta_tile(strip, keys, out);
  if (block_of(keys.begin, of_.length_).end <= strip.rows.begin) return far_tile(strip, keys, out);
  of_.padded_rows(TraceArray::key, keys, scratch_, keys_);
  if (of_.decay_.empty()) return near_scalar_tile(strip, keys, out);
  near_channel_tile(strip, keys, out);
}

/// All of the block lies before the strip: queries are decayed from its first row, keys up to their block's end, and
/// what is between them is one factor a channel.
void MixingReader::far_tile(const Strip& strip, const Range& keys, float* out) {
  const std::int64_t end = block_of(keys.begin, of_.length_).end - 1;
  const float* at_end = of_.at_end(keys.begin);
  if (!of_.decay_.empty()) {
    factor_.assign(static_cast<std::size_t>(of_.depth_), 0.0F);
    cpu::decay(nullptr, of_.sums(strip.rows.begin), of_.sums(end), of_.channels_, factor_.data());
    keys_.resize(static_cast<std::size_t>(keys.size() * of_.depth_));
    cpu::scale_channels(at_end, factor_.data(), keys.size(), of_.depth_, keys_.data());
    at_end = keys_.data();
  }
  cpu::mixing_product(strip.packed.data(), at_end, keys.size(), of_.depth_, out);
  if (of_.decay_.empty()) {
    cpu::scale(static_cast<float>(std::exp(of_.c(strip.rows.begin) - of_.c(end))), keys.size() * kMapTile, out);
  }
}

void MixingReader::near_scalar_tile(const Strip& strip, const Range& keys, float* out) {
  packed_.resize(strip.packed.size());
  cpu::pack_queries(strip.query.data(), strip.rows.size(), of_.depth_, 1.0, packed_.data());
  cpu::mixing_product(packed_.data(), keys_.data(), keys.size(), of_.depth_, out);
  cpu::decay_tile(strip.gate, of_.gate_.data() + keys.begin, of_.beta_.data() + keys.begin, keys.size(), out);
}

/// Some keys at a time: rows from the last of them on as in far_tile, the few rows between them pair by pair.
void MixingReader::near_channel_tile(const Strip& strip, const Range& keys, float* out) {
  const std::int64_t depth = of_.depth_;
  packed_.resize(strip.packed.size());
  for (std::int64_t first = keys.begin; first < keys.end; first += kNearKeys) {
    const Range part{first, std::min(first + kNearKeys, keys.end)};
    const std::int64_t last = part.end - 1;
    float* const to = out + (first - keys.begin) * kMapTile;
    const std::int64_t from = std::max(strip.rows.begin, last);
    if (from < strip.rows.end) {
      queries_.assign(static_cast<std::size_t>(strip.rows.size() * depth), 0.0F);
      for (std::int64_t row = from; row < strip.rows.end; ++row) {
        const std::int64_t at = (row - strip.rows.begin) * depth;
        cpu::decay(strip.query.data() + at, of_.sums(row), of_.sums(last), of_.channels_, queries_.data() + at);
      }
      cpu::pack_queries(queries_.data(), strip.rows.size(), depth, 1.0, packed_.data());
      started_.assign(static_cast<std::size_t>(part.size() * depth), 0.0F);
      for (std::int64_t key = part.begin; key < part.end; ++key) {
        cpu::decay(keys_.data() + (key - keys.begin) * depth, of_.sums(last), of_.sums(key), of_.channels_,
                   started_.data() + (key - part.begin) * depth);
      }
      cpu::mixing_product(packed_.data(), started_.data(), part.size(), depth, to);
    } else {
      std::fill_n(to, part.size() * kMapTile, 0.0F);
    }
    for (std::int64_t row = std::max(strip.rows.begin, part.begin); row < std::min(strip.rows.end, last); ++row) {
      const std::int64_t lane = row - strip.rows.begin;
      for (std::int64_t key = part.begin; key <= row; ++key) {
        to[(key - part.begin) * kMapTile + lane] =
            cpu::decayed_product(strip.query.data() + lane * depth, keys_.data() + (key - keys.begin) * depth,
                                 of_.sums(row), of_.sums(key), of_.channels_);
      }
    }
  }
}

void MixingReader::delta_tile(Strip& strip, const Range& keys, float* out) {
  const Range wanted = block_of(keys.begin, of_.length_);
  if (strip.next < wanted.begin) {
    strip.next = block_of(strip.rows.end - 1, of_.length_).begin;
    if (of_.goes_key_by_key()) {
      strip.row.assign(static_cast<std::size_t>(strip.rows.size() * of_.channels_), 0.0);
    } else {
      strip.left.assign(static_cast<std::size_t>(of_.depth_ * kMapTile), 0.0F);
    }
    strip.nothing_left = false;
  }
  for (; strip.next >= wanted.begin; strip.next -= kMapTile) {
    const Range block = block_of(strip.next, of_.length_);
    if (strip.nothing_left) {
      std::fill(whole_.begin(), whole_.end(), 0.0F);
      strip.next = wanted.begin;
    } else if (of_.mixer_.path) {
      meet_block(strip, block, whole_.data());
    } else if (of_.goes_key_by_key()) {
      pass_keys(strip, block, whole_.data());
    } else {
      pass_block(strip, block, whole_.data());
    }
  }
  std::copy_n(whole_.begin() + (keys.begin - wanted.begin) * kMapTile, keys.size() * kMapTile, out);
}

/// The same of attention that erases.
void MixingReader::meet_block(Strip& strip, const Range& block, float* out) {
  const std::int64_t first = block.begin - of_.first_;
  of_.padded_rows(TraceArray::key, block, scratch_, keys_);
  of_.padded_erasing(of_.erase_write_, block, queries_);
  started_.resize(kMapTile * kMapTile);
  const cpu::PathBlock keys{block.size(),
                            of_.depth_,
                            keys_.data(),
                            queries_.data(),
                            of_.at_end(block.begin),
                            of_.left_.data() + first * of_.depth_,
                            of_.inverse_.data() + first * kMapTile};
  cpu::meet_path_block(keys, strip.rows.begin - block.begin, strip.packed.data(), strip.left.data(), started_.data(),
                       out);
}

/// Entries of a block, and what it leaves of the queries.
void MixingReader::pass_block(Strip& strip, const Range& block, float* out) {
  const std::int64_t depth = of_.depth_;
  cpu::mixing_product(strip.left.data(), of_.at_end(block.begin), block.size(), depth, out);
  if (block.end > strip.rows.begin) start_rows(strip, block, out);
  if (block.begin == 0) return;
  const double before = of_.c(block.begin - 1);
  cpu::scale(static_cast<float>(std::exp(of_.c(block.end - 1) - before)), depth * kMapTile, strip.left.data());
  for (std::int64_t row = std::max(block.begin, strip.rows.begin); row < std::min(block.end, strip.rows.end); ++row) {
    const std::int64_t lane = row - strip.rows.begin;
    const auto decay = static_cast<float>(std::exp(of_.c(row) - before));
    for (std::int64_t n = 0; n < depth; ++n) {
      strip.left[index_of(n * kMapTile + lane)] = strip.query[index_of(lane * depth + n)] * decay;
    }
  }
  const float* const left = of_.left_.data() + (block.begin - of_.first_) * depth;
  cpu::add_transposed_product(depth, kMapTile, block.size(), left, out, strip.left.data());
  const bool all_started = block.begin <= strip.rows.begin;
  strip.nothing_left = all_started && cpu::largest_size(strip.left.data(), depth * kMapTile) < kNothing;
}

/// Key by key in float64 (MixingRecurrence), for what no closed form of a block is written.
void MixingReader::pass_keys(Strip& strip, const Range& block, float* out) {
  const std::int64_t depth = of_.depth_;
  const auto channels = static_cast<std::size_t>(of_.channels_);
  of_.padded_rows(TraceArray::key, block, scratch_, keys_);
  std::fill_n(out, block.size() * kMapTile, 0.0F);
  std::vector<double> alpha(channels);
  for (std::int64_t position = block.end - 1; position >= block.begin; --position) {
    const std::span key = std::span<const float>(keys_).subspan(index_of((position - block.begin) * depth), channels);
    of_.recurrence_->decays(position, alpha);
    for (std::int64_t row = std::max(strip.rows.begin, position); row < strip.rows.end; ++row) {
      const std::int64_t lane = row - strip.rows.begin;
      const std::span<double> r = std::span(strip.row).subspan(index_of(lane) * channels, channels);
      if (row == position) std::copy_n(strip.query.data() + lane * depth, channels, r.data());
      const double entry = of_.recurrence_->entry(position, key, r);
      out[(position - block.begin) * kMapTile + lane] = static_cast<float>(entry);
      of_.recurrence_->pass(position, key, entry, alpha, r);
    }
  }
}

/// Adds the entries of the queries that stand in the block themselves, up to their own positions.
void MixingReader::start_rows(Strip& strip, const Range& block, float* out) {
  of_.padded_rows(TraceArray::key, block, scratch_, keys_);
  packed_.resize(strip.packed.size());
  cpu::pack_queries(strip.query.data(), strip.rows.size(), of_.depth_, 1.0, packed_.data());
  started_.resize(kMapTile * kMapTile);
  cpu::mixing_product(packed_.data(), keys_.data(), block.size(), of_.depth_, started_.data());
  cpu::decay_tile(strip.gate, of_.gate_.data() + block.begin, of_.beta_.data() + block.begin, block.size(),
                  started_.data());
  const std::int64_t last = std::min(block.end - strip.rows.begin, kMapTile);
  for (std::int64_t key = 0; key < block.size(); ++key) {
    float* const line = started_.data() + key * kMapTile;
    std::fill_n(line, std::clamp<std::int64_t>(block.begin + key - strip.rows.begin, 0, kMapTile), 0.0F);
    std::fill(line + last, line + kMapTile, 0.0F);
  }
  const float* const inverse = of_.inverse_.data() + (block.begin - of_.first_) * kMapTile;
  // Rows of the inverse beyond a short block are not there: its columns are, as zeros.
  queries_.assign(kMapTile * kMapTile, 0.0F);
  cpu::add_transposed_product(kMapTile, kMapTile, block.size(), inverse, started_.data(), queries_.data());
  for (std::int64_t n = 0; n < block.size() * kMapTile; ++n) out[n] += queries_[index_of(n)];
}

std::vector<float> compute_row_sizes(const HeadOf& head, const Range& rows, FirstKey first_key, const Job& job) {
  const std::int64_t length = head.trace->info().length;
  if (head.gpu && first_key == FirstKey::counted) {
    std::vector<float> sizes;
    const kernels::Status status = device_row_sizes(head, rows, *head.gpu, sizes);
    if (job.stopped()) return {};
    if (status == kernels::Status::ok) return sizes;
  }
  std::vector<float> sizes(static_cast<std::size_t>(length), std::numeric_limits<float>::quiet_NaN());
  Team team(job);
  MixingEntries entries(head, Quantity::mixing);
  const Range keys{0, rows.end};
  if (!entries.prepare(rows, keys, team)) return {};
  std::vector<std::unique_ptr<TileReader>> readers(static_cast<std::size_t>(team.threads()));
  const std::int64_t bands = (rows.size() + kBandRows - 1) / kBandRows;
  const bool done = team.run({"summing rows", "tokens", rows.size()}, bands, [&](std::int64_t task, int thread) {
    auto& reader = readers[index_of(thread)];
    if (!reader) reader = entries.reader(kSmallestExponent);
    // Later rows see more keys: they go first, so that the threads finish together.
    const std::int64_t begin = rows.begin + (bands - 1 - task) * kBandRows;
    const Range band{begin, std::min(begin + kBandRows, rows.end)};
    double sums[kBandRows] = {};
    std::vector<float> tile(kMapTile * kMapTile);
    reader->set_band(band);
    const bool whole = for_each_tile(
        band, keys, 0, team, [](const Range& /*chunk*/) {},
        [&](const BandTile& part) {
          if (reader->negligible(part.strip, part.keys)) return;
          reader->tile(part.strip, part.keys, tile.data());
          if (part.cut) cpu::mask_tile(part.rows.begin - part.keys.begin, 0, part.keys.size(), 0.0F, tile.data());
          const std::int64_t skipped = part.keys.begin == 0 && first_key == FirstKey::left_out ? 1 : 0;
          cpu::add_row_sizes(tile.data() + skipped * kMapTile, part.keys.size() - skipped,
                             sums + part.strip * kMapTile);
        });
    if (!whole) return;
    for (std::int64_t n = 0; n < band.size(); ++n) {
      sizes[index_of(band.begin + n)] = static_cast<float>(sums[n]);
    }
    team.advance(band.size(), thread);
  });
  if (!done) return {};
  return sizes;
}

std::span<const float> row_sizes(const HeadOf& head, const Job& job) {
  return head.trace->row_sizes(head.layer, head.head, [&] {
    return compute_row_sizes(head, {0, head.trace->info().length}, FirstKey::counted, job);
  });
}

}  // namespace foxscope
