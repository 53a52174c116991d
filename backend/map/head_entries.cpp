#include "backend/map/head_entries.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "backend/base/index.h"
#include "kernels/cpu/mixing.h"
#include "kernels/log2e.h"

namespace foxscope {
namespace {

using kernels::cpu::kMapTile;

/// Room for float32's rounding in a bound on logits.
constexpr double kBoundSlack = 1.0 + 1e-5;

/// Entries of a tile that may be computed one by one; more cost as much as the tile.
constexpr std::int64_t kMostEntries = 256;
/// Tiles that are computed whole after one in which too many entries might have been the largest.
constexpr int kPassedTiles = 7;

/// The larger of two; NaN where one of them is, so that a bound that it is part of holds nothing.
double larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }

bool needs_queries(Quantity quantity) { return quantity != Quantity::forget && quantity != Quantity::log_forget; }

}  // namespace

HeadEntries::HeadEntries(const HeadOf& of, Quantity which, std::span<const float> ungated_rows,
                         std::optional<int> channel)
    : head(of), quantity(which), without_gate(ungated_rows), skip_below(kSmallestExponent) {
  const TraceInfo& info = of.trace->info();
  of.trace->check_head(of.layer, of.head);
  const LayerMixer mixer = info.mixer(of.layer);
  const bool softmax = mixer.has_softmax();
  if (softmax && quantity == Quantity::mixing) quantity = Quantity::attention;
  length = info.length;
  head_dim = mixer.head_dim;
  window = window_of(info, of.layer);
  scale = static_cast<double>(info.softmax_scale);
  cap = info.logit_cap;
  gated = forgets(info, of.layer) && (softmax || mixer.decays_by_head());
  if (of.trace->tokens()) token = of.trace->tokens()->input_id;
  const bool attention = softmax && (quantity == Quantity::attention || quantity == Quantity::gate_effect);
  if (gated && (!softmax || attention || !needs_queries(quantity))) {
    gate = of.trace->cumulative_log_gate(of.layer, of.head);
  } else if (!needs_queries(quantity)) {
    if (channel) {
      zero_gate = of.trace->cumulative_log_decay(of.layer, of.head, *channel);
      gate = zero_gate;
    } else if (softmax) {
      zero_gate.assign(static_cast<std::size_t>(length), 0.0);
      gate = zero_gate;
    } else {
      gate = of.trace->cumulative_log_gate(of.layer, of.head);
    }
  }
  const bool of_all_channels = quantity == Quantity::forget && mixer.decays_by_channel() && !channel;
  if (!softmax && (needs_queries(quantity) || of_all_channels)) {
    mixing = std::make_shared<MixingEntries>(of, quantity);
    return;
  }
  if (attention) normalizer = of.trace->log_normalizer(of.layer, of.head);
  if (needs_queries(quantity)) {
    if (quantity != Quantity::logits) sink = of.trace->sink_logit(of.layer, of.head);
    store = &of.trace->require_query_key();
    key_head = shared_head(mixer.heads, mixer.key_heads, of.head);
    if (mixer.path) path = std::make_shared<MixingEntries>(of, Quantity::logits);
  }
}

bool HeadEntries::prepare_mixing(const Range& rows, const Range& columns, FirstKey first_key, const Job& job,
                                 Team& team, std::vector<float>& own) {
  if (mixing == nullptr) return true;
  // All sums are made once and kept; a few rows of a long text do not wait for them.
  if (quantity == Quantity::attention) {
    const bool few = are_few(rows, length) && !head.trace->knows_row_sizes(head.layer, head.head);
    if (few || first_key == FirstKey::left_out) {
      own = compute_row_sizes(head, rows, first_key, job);
      mixing->normalize_by(own);
      if (own.empty()) return false;
    } else {
      const std::span<const float> sizes = row_sizes(head, job);
      mixing->normalize_by(sizes);
      if (sizes.empty()) return false;
    }
  }
  return mixing->prepare(rows, columns, team);
}

bool HeadEntries::prepare_path(const Range& rows, const Range& columns, Team& team) {
  return path == nullptr || path->prepare(rows, columns, team);
}

bool HeadEntries::is_softmax() const {
  return mixing == nullptr && (quantity == Quantity::attention || quantity == Quantity::attention_without_gate);
}

std::unique_ptr<TileReader> HeadEntries::reader() const {
  if (mixing != nullptr) return mixing->reader(skip_below);
  return std::make_unique<EntryReader>(*this);
}

double HeadEntries::log_sink_share(std::int64_t row) const {
  if (!sink) return -std::numeric_limits<double>::infinity();
  const std::span<const float> rows = quantity == Quantity::attention ? normalizer : without_gate;
  return *sink - (rows.empty() ? 0.0 : static_cast<double>(rows[index_of(row)]));
}

void HeadEntries::leave_out_gate(std::span<const float> rows) {
  gated = false;
  gate = {};
  normalizer = rows;
}

void HeadEntries::leave_out_content(std::span<const float> rows) {
  store = nullptr;
  path = nullptr;
  sink.reset();
  normalizer = rows;
}

bool HeadEntries::measure_keys(const KeyMeasures& wanted, const Range& keys, Team& team) {
  // Rounded logits bound those before the cap.
  const bool rounds = wanted.rounded && cap == 0;
  const auto blocks = static_cast<std::size_t>((length + kMapTile - 1) / kMapTile);
  if (wanted.norms) {
    block_norm.assign(blocks, 0.0);
    // c is a sum that goes on: what follows a NaN is NaN.
    for (auto block = static_cast<std::int64_t>(blocks) - 1; block >= 0 && !gate.empty(); --block) {
      const auto last = static_cast<std::size_t>(std::min(length, (block + 1) * kMapTile) - 1);
      if (!std::isnan(gate[last])) break;
      block_norm[index_of(block)] = gate[last];
    }
  }
  // Without queries the bound is the gate's part alone.
  if (store == nullptr) return true;
  if (rounds) {
    rounded_keys.resize(static_cast<std::size_t>(length * head_dim));
    rounded_offset.resize(static_cast<std::size_t>(length));
    rounded_blocks.resize(blocks);
  }
  // Whole chunks, so that no block is measured in part.
  const std::int64_t first = keys.begin / kKeyChunk;
  const std::int64_t chunks = (keys.end + kKeyChunk - 1) / kKeyChunk - first;
  return team.run({"measuring the keys", "tokens", keys.size()}, chunks, [&](std::int64_t task, int thread) {
    std::vector<float> scratch;
    const std::int64_t begin = (first + task) * kKeyChunk;
    const Range chunk{begin, std::min(length, begin + kKeyChunk)};
    const auto rows = store->rows(QueryKeyStore::Part::key, head.layer, key_head, chunk.begin, chunk.end, scratch);
    for (std::int64_t block = chunk.begin; block < chunk.end; block += kMapTile) {
      const std::int64_t count = std::min(kMapTile, chunk.end - block);
      const float* const values = rows.data() + (block - chunk.begin) * head_dim;
      const auto index = static_cast<std::size_t>(block / kMapTile);
      if (wanted.norms) block_norm[index] += kernels::cpu::largest_norm(values, count, head_dim);
      if (rounds) {
        rounded_blocks[index] = kernels::cpu::round_keys(
            values, count, head_dim, rounded_keys.data() + block * head_dim, rounded_offset.data() + block);
      }
    }
    team.advance(std::min(chunk.end, keys.end) - std::max(chunk.begin, keys.begin), thread);
  });
}

EntryReader::EntryReader(const HeadEntries& entries) : entries_(entries) {
  strips_.resize(kLongBandRows / kMapTile);
  if (entries.store != nullptr) packed_.resize(static_cast<std::size_t>(kLongBandRows * entries.head_dim));
  if (entries.quantity == Quantity::gate_effect) second_.resize(kMapTile * kMapTile);
  if (entries.path != nullptr) path_ = entries.path->reader(kSmallestExponent);
  if (!entries.rounded_keys.empty()) rounded_.resize(static_cast<std::size_t>(kLongBandRows * entries.head_dim));
}

void EntryReader::set_terms(Strip& strip, std::int64_t lane, std::int64_t row) const {
  const auto at = static_cast<std::size_t>(row);
  const double c = entries_.gate.empty() ? 0.0 : entries_.gate[at];
  strip.gate[lane] = c;
  strip.with_gate[lane] = entries_.normalizer.empty() ? c : c - static_cast<double>(entries_.normalizer[at]);
  strip.without_gate[lane] = entries_.without_gate.empty() ? 0.0 : -static_cast<double>(entries_.without_gate[at]);
  strip.largest_term = larger(strip.largest_term, strip.with_gate[lane]);
}

void EntryReader::pack(std::int64_t index, const float* query, std::int64_t count) {
  Strip& strip = strips_[index_of(index)];
  if (!entries_.block_norm.empty()) strip.query_norm = kernels::cpu::largest_norm(query, count, entries_.head_dim);
  float* const packed = packed_.data() + index * kMapTile * entries_.head_dim;
  const double factor = entries_.quantity == Quantity::logits ? entries_.scale : entries_.scale * kernels::kLog2E;
  kernels::cpu::pack_queries(query, count, entries_.head_dim, factor, packed);
  if (!rounded_.empty()) {
    kernels::cpu::round_queries(packed, entries_.head_dim, rounded_.data() + index * kMapTile * entries_.head_dim,
                                strip.rounded);
  }
}

void EntryReader::set_band(const Range& rows) {
  assert(rows.begin >= 0 && rows.size() <= kLongBandRows && rows.end <= entries_.length);
  std::span<const float> queries;
  if (path_ != nullptr) path_->set_band(rows);
  if (entries_.store != nullptr) {
    queries = entries_.store->rows(QueryKeyStore::Part::query, entries_.head.layer, entries_.head.head, rows.begin,
                                   rows.end, query_scratch_);
  }
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += kMapTile) {
    const std::int64_t index = (begin - rows.begin) / kMapTile;
    const std::int64_t count = std::min(kMapTile, rows.end - begin);
    Strip& strip = strips_[index_of(index)];
    strip = {};
    strip.largest_term = -std::numeric_limits<double>::infinity();
    for (std::int64_t lane = 0; lane < count; ++lane) set_terms(strip, lane, begin + lane);
    if (!queries.empty()) pack(index, queries.data() + (begin - rows.begin) * entries_.head_dim, count);
  }
}

void EntryReader::set_rows(std::span<const std::int64_t> rows) {
  assert(std::ssize(rows) <= kLongBandRows && path_ == nullptr);
  std::vector<float> queries(static_cast<std::size_t>(kMapTile * entries_.head_dim));
  for (std::int64_t first = 0; first < std::ssize(rows); first += kMapTile) {
    const std::int64_t index = first / kMapTile;
    const std::int64_t count = std::min(kMapTile, std::ssize(rows) - first);
    Strip& strip = strips_[index_of(index)];
    strip = {};
    strip.largest_term = -std::numeric_limits<double>::infinity();
    for (std::int64_t lane = 0; lane < count; ++lane) {
      const std::int64_t row = rows[index_of(first + lane)];
      set_terms(strip, lane, row);
      if (entries_.store == nullptr) continue;
      const auto query = entries_.store->rows(QueryKeyStore::Part::query, entries_.head.layer, entries_.head.head, row,
                                              row + 1, query_scratch_);
      std::ranges::copy(query, queries.begin() + lane * entries_.head_dim);
    }
    if (entries_.store != nullptr) pack(index, queries.data(), count);
  }
}

void EntryReader::set_chunk(const Range& keys) {
  assert(keys.begin >= 0 && keys.size() <= kKeyChunk && keys.end <= entries_.length);
  chunk_ = keys;
  keys_ = {};
}

bool EntryReader::negligible(std::int64_t strip_index, const Range& keys, double log2_limit) const {
  if (entries_.block_norm.empty()) return false;
  const Strip& strip = strips_[index_of(strip_index)];
  const double last = entries_.gate.empty() ? 0.0 : entries_.gate[index_of(keys.end - 1)];
  const double logit =
      strip.query_norm * entries_.block_norm[index_of(keys.begin / kMapTile)] * entries_.scale * kBoundSlack;
  return (strip.largest_term - last + logit) * kernels::kLog2E < log2_limit - 1e-3;
}

void EntryReader::read_keys() {
  if (!keys_.empty()) return;
  keys_ = entries_.store->rows(QueryKeyStore::Part::key, entries_.head.layer, entries_.key_head, chunk_.begin,
                               chunk_.end, key_scratch_);
}

void EntryReader::logits(std::int64_t strip, const Range& keys, float* out) {
  if (path_ != nullptr) {
    const double unit = entries_.quantity == Quantity::logits ? 1.0 : kernels::kLog2E;
    path_->tile(strip, keys, out);
    kernels::cpu::scale(static_cast<float>(entries_.scale * unit), keys.size() * kMapTile, out);
    return;
  }
  read_keys();
  kernels::cpu::logit_tile(packed_.data() + strip * kMapTile * entries_.head_dim,
                           keys_.data() + (keys.begin - chunk_.begin) * entries_.head_dim, keys.size(),
                           entries_.head_dim, out);
  if (entries_.cap == 0) return;
  const float unit = entries_.quantity == Quantity::logits ? 1.0F : kernels::kLog2EFloat;
  kernels::cpu::cap_logits(static_cast<float>(entries_.cap), unit, keys.size() * kMapTile, out);
}

kernels::cpu::LogTerms EntryReader::gated_terms(const Strip& strip, const Range& keys) const {
  kernels::cpu::LogTerms terms;
  terms.row = strip.with_gate;
  if (entries_.gated) {
    // The block is the same for every request, so that an entry does not depend on the rectangle that it is part of.
    const std::int64_t first = keys.begin / kMapTile * kMapTile;
    const std::int64_t last = std::min(first + kMapTile, entries_.length) - 1;
    terms.key = entries_.gate.data() + keys.begin;
    terms.reference = entries_.gate[index_of(first)];
    terms.spread = terms.reference - entries_.gate[index_of(last)];
  }
  return terms;
}

void EntryReader::add_gated_terms(const Strip& strip, const Range& keys, float* out) const {
  kernels::cpu::add_log_terms(gated_terms(strip, keys), keys.size(), out);
}

bool EntryReader::largest_of_parts(std::int64_t strip_index, const Range& keys, const kernels::cpu::TilePixels& pixels,
                                   const float* current, float* result) {
  if (rounded_.empty() || tiles_to_pass_ > 0) {
    tiles_to_pass_ = std::max(0, tiles_to_pass_ - 1);
    return false;
  }
  read_keys();
  const Strip& strip = strips_[index_of(strip_index)];
  kernels::cpu::RoundedTile tile;
  tile.packed = packed_.data() + strip_index * kMapTile * entries_.head_dim;
  tile.keys = keys_.data() + (keys.begin - chunk_.begin) * entries_.head_dim;
  tile.rounded_queries = rounded_.data() + strip_index * kMapTile * entries_.head_dim;
  tile.queries = &strip.rounded;
  tile.rounded_keys = entries_.rounded_keys.data() + keys.begin * entries_.head_dim;
  tile.offset = entries_.rounded_offset.data() + keys.begin;
  tile.block = entries_.rounded_blocks[index_of(keys.begin / kMapTile)];
  tile.key_count = keys.size();
  tile.head_dim = entries_.head_dim;
  if (entries_.quantity == Quantity::attention) {
    tile.terms = gated_terms(strip, keys);
  } else {
    tile.terms.row = strip.without_gate;
  }
  const bool found = kernels::cpu::largest_of_parts(tile, pixels, current, kMostEntries, result) <= kMostEntries;
  if (!found) tiles_to_pass_ = kPassedTiles;
  return found;
}

void EntryReader::add_ungated_terms(const Strip& strip, const Range& keys, float* out) {
  kernels::cpu::LogTerms terms;
  terms.row = strip.without_gate;
  kernels::cpu::add_log_terms(terms, keys.size(), out);
}

void EntryReader::log_attention_tile(std::int64_t strip, const Range& keys, float* out) {
  if (entries_.store != nullptr) {
    logits(strip, keys, out);
  } else {
    std::fill(out, out + keys.size() * kMapTile, 0.0F);
  }
  add_gated_terms(strips_[index_of(strip)], keys, out);
}

void EntryReader::tile(std::int64_t strip_index, const Range& keys, float* out) {
  const Strip& strip = strips_[index_of(strip_index)];
  const std::int64_t count = keys.size() * kMapTile;
  switch (entries_.quantity) {
    case Quantity::forget:
      kernels::cpu::forget_tile(strip.gate, entries_.gate.data() + keys.begin, keys.size(), out);
      return;
    case Quantity::log_forget:
      kernels::cpu::log_forget_tile(strip.gate, entries_.gate.data() + keys.begin, keys.size(), out);
      return;
    case Quantity::logits:
      logits(strip_index, keys, out);
      return;
    case Quantity::attention:
    case Quantity::mixing:
      log_attention_tile(strip_index, keys, out);
      break;
    case Quantity::attention_without_gate:
      logits(strip_index, keys, out);
      add_ungated_terms(strip, keys, out);
      break;
    case Quantity::gate_effect:
      logits(strip_index, keys, out);
      std::copy(out, out + count, second_.begin());
      add_gated_terms(strip, keys, out);
      add_ungated_terms(strip, keys, second_.data());
      kernels::cpu::exponentiate(count, out);
      kernels::cpu::exponentiate(count, second_.data());
      kernels::cpu::subtract(count, out, second_.data());
      return;
  }
  if (!entries_.logarithm) kernels::cpu::exponentiate(count, out);
}

}  // namespace foxscope
