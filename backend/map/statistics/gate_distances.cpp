#include "backend/map/statistics/gate_distances.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "backend/base/index.h"
#include "backend/map/statistics/bins.h"
#include "kernels/cpu/pooled_map.h"

namespace foxscope {
namespace {

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

/// out[n] = exp(x[n]).
void exponentials(const std::vector<double>& x, double* out) {
  std::vector<double> opposite(x.size());
  std::transform(x.begin(), x.end(), opposite.begin(), std::negate());
  kernels::cpu::exp_differences(0.0, opposite.data(), 1.0, nullptr, std::ssize(x), out);
}

}  // namespace

GateDistances::GateDistances(std::span<const double> c, std::int64_t window, const MapRequest& request)
    : c_(c),
      window_(window),
      rows_(request.rows),
      distances_(request.distances),
      logarithm_(request.quantity == Quantity::log_forget),
      reduction_(request.reduction),
      row_edges_(bin_edges(request.rows, request.pixel_rows)),
      first_nan_(std::find_if(c.begin(), c.end(), [](double value) { return std::isnan(value); }) - c.begin()) {
  assert(request.by_distance() && rows_.begin >= 0 && rows_.end <= static_cast<std::int64_t>(c_.size()));
  // On values of at most 0, as log F is, the entry of largest size is the smallest; on F it is the largest.
  if (reduction_ == Reduction::absmax) reduction_ = logarithm_ ? Reduction::min : Reduction::max;
  if (reduction_ != Reduction::mean || logarithm_) return;
  std::vector<double> log_gate(static_cast<std::size_t>(rows_.end));
  for (std::int64_t row = 1; row < rows_.end; ++row) log_gate[index_of(row)] = this->c(row) - this->c(row - 1);
  gate_.resize(log_gate.size());
  exponentials(log_gate, gate_.data());
}

double GateDistances::c(std::int64_t position) const { return c_[index_of(position)]; }

Range GateDistances::differences(std::int64_t index) const {
  const std::int64_t begin = distances_[index_of(index)] - 1;
  const std::int64_t end = distances_[index_of(index + 1)] - 1;
  return {begin, window_ == 0 ? end : std::min(end, window_)};
}

void GateDistances::bin(std::int64_t index, double* out) const {
  const Range range = differences(index);
  const std::size_t pixels = row_edges_.size() - 1;
  if (range.begin >= std::min(range.end, rows_.end)) {
    std::fill(out, out + pixels, kAbsent);
    return;
  }
  if (reduction_ == Reduction::mean) {
    means(range, out);
  } else {
    extremes(range, out);
  }
  // Exponentials drop what is not a number: a pixel without entries, and one with a row whose c is NaN.
  for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
    const std::int64_t end = row_edges_[pixel + 1];
    if (end <= range.begin || end > std::max(first_nan_, range.begin)) out[pixel] = kAbsent;
  }
}

void GateDistances::extremes(const Range& differences, double* out) const {
  const bool largest = reduction_ == Reduction::max;
  std::vector<double> logs(row_edges_.size() - 1);
  for (std::size_t pixel = 0; pixel < logs.size(); ++pixel) {
    const std::int64_t begin = std::max(row_edges_[pixel], differences.begin);
    const std::int64_t end = row_edges_[pixel + 1];
    if (begin >= end) continue;  // no entries
    double value = largest ? -std::numeric_limits<double>::infinity() : 0.0;
    if (largest) {
      for (std::int64_t row = begin; row < end; ++row) value = std::max(value, c(row) - c(row - differences.begin));
    } else {
      for (std::int64_t row = begin; row < end; ++row) {
        value = std::min(value, c(row) - c(std::max<std::int64_t>(0, row - differences.end + 1)));
      }
    }
    logs[pixel] = value;
  }
  if (logarithm_) {
    std::copy(logs.begin(), logs.end(), out);
  } else {
    exponentials(logs, out);
  }
}

void GateDistances::means(const Range& differences, double* out) const {
  const std::int64_t first = std::max(rows_.begin, differences.begin);
  const std::int64_t width = differences.size();
  // The nearest key of the bin, and with it the whole window of keys, moves on with the row.
  const Range nearest{first - differences.begin, rows_.end - differences.begin};
  const std::int64_t count = nearest.size();
  const auto sums = std::make_unique_for_overwrite<double[]>(index_of(count));
  sliding_sums(nearest, width, sums.get());
  const auto keys_of = [&](std::int64_t row) { return std::min(width, row - differences.begin + 1); };
  const auto fall = [&](std::int64_t n) { return c(nearest.begin + n) - c(nearest.begin + n + differences.begin); };
  std::unique_ptr<double[]> decayed;
  if (logarithm_) {
    for (std::int64_t n = 0; n < count; ++n) sums[index_of(n)] -= fall(n) * static_cast<double>(keys_of(first + n));
  } else if (differences.begin > 0) {
    const auto falls = std::make_unique_for_overwrite<double[]>(index_of(count));
    for (std::int64_t n = 0; n < count; ++n) falls[index_of(n)] = fall(n);
    decayed = std::make_unique_for_overwrite<double[]>(index_of(count));
    kernels::cpu::exp_differences(0.0, falls.get(), 1.0, sums.get(), count, decayed.get());
  }
  const double* const of_rows = decayed ? decayed.get() : sums.get();
  for (std::size_t pixel = 0; pixel + 1 < row_edges_.size(); ++pixel) {
    double total = 0;
    std::int64_t entries = 0;
    for (std::int64_t row = std::max(row_edges_[pixel], first); row < row_edges_[pixel + 1]; ++row) {
      total += of_rows[row - first];
      entries += keys_of(row);
    }
    out[pixel] = entries == 0 ? kAbsent : total / static_cast<double>(entries);
  }
}

// Without subtracting: blocks of `width` positions, of each a running sum from its start and one from its end. Every
// window is the end of one block and the start of the next. All terms have one sign.
void GateDistances::sliding_sums(const Range& last, std::int64_t width, double* out) const {
  std::vector<double> tail(static_cast<std::size_t>(width));  // of the block before: sums relative to its last c
  const std::int64_t start = std::max<std::int64_t>(0, last.begin - width + 1) / width * width;
  double from_before = 0;  // exp(c_j - c of the last of the block before), or the difference
  double head = 0;
  for (std::int64_t j = start; j < last.end; ++j) {
    const std::int64_t inside = j % width;
    if (inside == 0 && j > start) {
      double sum = 0;
      double factor = 1;
      for (std::int64_t back = width - 1; back >= 0; --back) {
        const std::int64_t at = j - width + back;
        sum += logarithm_ ? c(j - 1) - c(at) : factor;
        if (!logarithm_) factor *= gate_[index_of(at)];
        tail[index_of(back)] = sum;
      }
    }
    if (inside == 0) {
      head = logarithm_ ? 0.0 : 1.0;
      from_before = logarithm_ ? (j > 0 ? c(j) - c(j - 1) : 0.0) : gate_[index_of(j)];
    } else if (logarithm_) {
      head += static_cast<double>(inside) * (c(j) - c(j - 1));
      from_before = c(j) - c(j - inside - (j > inside ? 1 : 0));
    } else {
      head = 1.0 + gate_[index_of(j)] * head;
      from_before *= gate_[index_of(j)];
    }
    if (j < last.begin) continue;
    double total = head;
    const std::int64_t before = width - 1 - inside;  // keys of the window in the block before
    if (before > 0 && j > inside) {
      const double beyond = tail[index_of(width - before)];
      total += logarithm_ ? beyond + static_cast<double>(before) * from_before : from_before * beyond;
    }
    out[j - last.begin] = total;
  }
}

}  // namespace foxscope
