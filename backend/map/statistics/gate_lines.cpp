#include "backend/map/statistics/gate_lines.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "backend/base/index.h"
#include "backend/map/statistics/bins.h"
#include "kernels/cpu/pooled_map.h"

namespace foxscope {
namespace {

/// On values of at most 0, as log F is, the entry of largest size is the smallest; on F it is the largest.
Reduction plain_reduction(const MapRequest& request) {
  if (request.reduction != Reduction::absmax) return request.reduction;
  return request.quantity == Quantity::log_forget ? Reduction::min : Reduction::max;
}

}  // namespace

GateLines::GateLines(std::span<const double> c, std::int64_t window, const MapRequest& request)
    : c_(c),
      window_(window),
      rows_(request.rows),
      columns_(request.columns),
      logarithm_(request.quantity == Quantity::log_forget),
      reduction_(plain_reduction(request)),
      row_edges_(bin_edges(request.rows, request.pixel_rows)),
      column_edges_(bin_edges(request.columns, request.pixel_columns)) {
  assert(rows_.begin >= 0 && rows_.end <= static_cast<std::int64_t>(c_.size()));
  assert(columns_.begin >= 0 && columns_.end <= static_cast<std::int64_t>(c_.size()));
  if (reduction_ == Reduction::mean) prepare_means();
  key_c_.resize(column_edges_.size() - 1);
  key_factor_.resize(reduction_ == Reduction::mean ? key_c_.size() : 0);
  for (std::size_t bin = 0; bin < key_c_.size(); ++bin) {
    const Range keys{column_edges_[bin], column_edges_[bin + 1]};
    const bool first = reduction_ == Reduction::min || (reduction_ == Reduction::mean && logarithm_);
    key_c_[bin] = this->c(first ? keys.begin : keys.end - 1);
    if (reduction_ == Reduction::mean) {
      key_factor_[bin] = of_key(key_head_, keys.end - 1) / static_cast<double>(keys.size());
    }
  }
}

void GateLines::prepare_means() {
  row_tail_.resize(static_cast<std::size_t>(rows_.size()));
  key_head_.resize(static_cast<std::size_t>(columns_.size()));
  std::int64_t largest = 0;
  for (std::size_t bin = 0; bin + 1 < row_edges_.size(); ++bin) {
    const std::int64_t last = row_edges_[bin + 1] - 1;
    double total = 0;
    for (std::int64_t row = last; row >= row_edges_[bin]; --row) {
      if (logarithm_) {
        total += c(row) - c(row_edges_[bin]);
      } else {
        total = row == last ? 1.0 : 1.0 + std::exp(c(row + 1) - c(row)) * total;
      }
      row_tail_[index_of(row - rows_.begin)] = total;
    }
  }
  if (window_ > 0 && !logarithm_) key_tail_.resize(key_head_.size());
  for (std::size_t bin = 0; bin + 1 < column_edges_.size(); ++bin) {
    const Range keys{column_edges_[bin], column_edges_[bin + 1]};
    largest = std::max(largest, keys.size());
    double total = 0;
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      if (logarithm_) {
        total += c(key) - c(keys.begin);
      } else {
        total = key == keys.begin ? 1.0 : 1.0 + std::exp(c(key) - c(key - 1)) * total;
      }
      key_head_[index_of(key - columns_.begin)] = total;
    }
    double tail = 0;
    for (std::int64_t key = keys.end - 1; key >= keys.begin && !key_tail_.empty(); --key) {
      tail += std::exp(c(keys.end - 1) - c(key));
      key_tail_[index_of(key - columns_.begin)] = tail;
    }
  }
  if (!key_tail_.empty() && window_ < largest) prepare_sliding_sums();
}

/// Sums over (i - w, i] without subtracting: blocks of w positions, of each a running sum from its start and one from
/// its end; every window is the end of one block and the start of the next.
void GateLines::prepare_sliding_sums() {
  sliding_.resize(static_cast<std::size_t>(rows_.size()));
  std::vector<double> block_tail(static_cast<std::size_t>(window_));
  double head = 0;
  for (std::int64_t row = 0; row < rows_.end; ++row) {
    const std::int64_t inside = row % window_;
    if (inside == 0 && row > 0) {
      double tail = 0;
      for (std::int64_t back = window_ - 1; back >= 0; --back) {
        tail += std::exp(c(row - 1) - c(row - window_ + back));
        block_tail[index_of(back)] = tail;
      }
    }
    head = inside == 0 ? 1.0 : 1.0 + std::exp(c(row) - c(row - 1)) * head;
    if (row < rows_.begin) continue;
    double total = head;
    const std::int64_t block = row - inside;
    if (block > 0 && inside + 1 < window_) {
      total += std::exp(c(row) - c(block - 1)) * block_tail[index_of(inside + 1)];
    }
    sliding_[index_of(row - rows_.begin)] = total;
  }
}

void GateLines::line(std::int64_t pixel, double* out) const {
  assert(pixel >= 0 && pixel + 1 < static_cast<std::int64_t>(row_edges_.size()));
  const Range rows{row_edges_[index_of(pixel)], row_edges_[index_of(pixel + 1)]};
  const PixelLine present = pixel_line(rows, column_edges_, window_);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::fill(out, out + present.present_begin, kNone);
  std::fill(out + present.present_end, out + key_c_.size(), kNone);
  full_pixels(rows, present.full_begin, present.full_end, out);
  for (std::int64_t n = present.present_begin; n < present.present_end; ++n) {
    if (n == present.full_begin) n = present.full_end;
    if (n == present.present_end) break;
    const auto bin = static_cast<std::size_t>(n);
    out[n] = cut_pixel({rows, {column_edges_[bin], column_edges_[bin + 1]}});
  }
  // c is a sum that goes on: what follows a NaN is NaN, so a bin holds one if its last row does.
  if (!std::isnan(c(rows.end - 1))) return;
  for (std::int64_t n = present.present_begin; n < present.present_end; ++n) {
    const std::int64_t keys_end = column_edges_[index_of(n + 1)];
    const std::int64_t last = window_ == 0 ? rows.end - 1 : std::min(rows.end, keys_end - 1 + window_) - 1;
    if (std::isnan(c(last))) out[n] = kNone;
  }
}

void GateLines::full_pixels(const Range& rows, std::int64_t begin, std::int64_t end, double* out) const {
  const double row_c = c(reduction_ == Reduction::min ? rows.end - 1 : rows.begin);
  const bool mean = reduction_ == Reduction::mean;
  const double row_factor = mean ? of_row(row_tail_, rows.begin) / static_cast<double>(rows.size()) : 1.0;
  if (!logarithm_) {
    kernels::cpu::exp_differences(row_c, key_c_.data() + begin, row_factor, mean ? key_factor_.data() + begin : nullptr,
                                  end - begin, out + begin);
    return;
  }
  for (std::int64_t n = begin; n < end; ++n) {
    const auto bin = static_cast<std::size_t>(n);
    out[n] = row_c - key_c_[bin] + (mean ? row_factor - key_factor_[bin] : 0.0);
  }
}

double GateLines::cut_pixel(const Bin& bin) const {
  const std::int64_t count = present_entries(bin.rows, bin.keys, window_);
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  if (reduction_ == Reduction::mean) return sum(bin) / static_cast<double>(count);
  const double value = reduction_ == Reduction::max ? largest_log(bin) : smallest_log(bin);
  return logarithm_ ? value : std::exp(value);
}

double GateLines::largest_log(const Bin& bin) const {
  // A bin that the diagonal passes through holds an entry of distance 0.
  if (std::max(bin.rows.begin, bin.keys.begin) < std::min(bin.rows.end, bin.keys.end)) return 0.0;
  return c(bin.rows.begin) - c(bin.keys.end - 1);
}

double GateLines::smallest_log(const Bin& bin) const {
  // The oldest key of the bin, with the last row that sees it; beyond that row, each row's own oldest key.
  double smallest = 0;
  std::int64_t row = bin.rows.end - 1;
  if (window_ > 0) row = std::min(row, bin.keys.begin + window_ - 1);
  if (row >= bin.rows.begin && row >= bin.keys.begin) smallest = c(row) - c(bin.keys.begin);
  if (window_ == 0) return smallest;
  const std::int64_t end = std::min(bin.rows.end, bin.keys.end - 1 + window_);
  for (row = std::max(bin.rows.begin, bin.keys.begin + window_); row < end; ++row) {
    smallest = std::min(smallest, c(row) - c(row - window_ + 1));
  }
  return smallest;
}

double GateLines::sum(const Bin& bin) const {
  const auto& [rows, keys] = bin;
  const std::int64_t begin = std::max(rows.begin, keys.begin);
  const std::int64_t end = window_ == 0 ? rows.end : std::min(rows.end, keys.end - 1 + window_);
  // Rows that see every key of the bin form a block; the others are taken one by one.
  Range block{std::max(begin, keys.end - 1), window_ == 0 ? end : std::min(end, keys.begin + window_)};
  if (block.size() <= 0) block = {end, end};
  // Sums over a bin's rows reach to its last: where that is NaN, and beyond the window, they say nothing of the others.
  if (block.end < rows.end && std::isnan(c(rows.end - 1))) block = {end, end};
  double total = block.size() > 0 ? block_sum(bin, block) : 0.0;
  for (std::int64_t row = begin; row < end; ++row) {
    if (row == block.begin) row = block.end;
    if (row < end) total += row_sum(row, keys);
  }
  return total;
}

double GateLines::block_sum(const Bin& bin, const Range& rows) const {
  const Range& keys = bin.keys;
  const double key_part = of_key(key_head_, keys.end - 1);
  const bool rows_follow = rows.end < bin.rows.end;
  double row_part = of_row(row_tail_, rows.begin);
  if (logarithm_) {
    if (rows_follow) row_part -= of_row(row_tail_, rows.end);
    const auto count = static_cast<double>(rows.size());
    return (row_part + count * (c(bin.rows.begin) - c(keys.begin))) * static_cast<double>(keys.size()) -
           count * key_part;
  }
  // The first term is 1 and stays, so the difference loses no more than the sum's own rounding.
  if (rows_follow) row_part -= std::exp(c(rows.end) - c(rows.begin)) * of_row(row_tail_, rows.end);
  return row_part * key_part * std::exp(c(rows.begin) - c(keys.end - 1));
}

double GateLines::row_sum(std::int64_t row, const Range& keys) const {
  const std::int64_t oldest = window_ == 0 ? 0 : row - window_ + 1;
  const std::int64_t first = std::max(keys.begin, oldest);
  const std::int64_t last = std::min(keys.end - 1, row);
  if (logarithm_) {
    const double before = first > keys.begin ? of_key(key_head_, first - 1) : 0.0;
    return static_cast<double>(last - first + 1) * (c(row) - c(keys.begin)) - (of_key(key_head_, last) - before);
  }
  if (first == keys.begin) return of_key(key_head_, last) * std::exp(c(row) - c(last));
  if (last == keys.end - 1) return std::exp(c(row) - c(last)) * of_key(key_tail_, first);
  return of_row(sliding_, row);
}

}  // namespace foxscope
