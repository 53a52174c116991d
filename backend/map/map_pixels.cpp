#include "backend/map/map_pixels.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "backend/base/index.h"
#include "backend/map/statistics/bins.h"

namespace foxscope {
namespace {

namespace cpu = kernels::cpu;
using cpu::kMapTile;
using cpu::PixelReduction;

PixelReduction pixel_reduction(Reduction reduction, bool logarithm) {
  switch (reduction) {
    case Reduction::max:
      return PixelReduction::max;
    case Reduction::min:
      return PixelReduction::min;
    case Reduction::mean:
      return PixelReduction::sum;
    case Reduction::absmax:
      // Attention has no negative entries.
      return logarithm ? PixelReduction::max : PixelReduction::absolute;
  }
  return PixelReduction::max;
}

std::int64_t largest_bin(const std::vector<std::int64_t>& edges) {
  std::int64_t largest = 0;
  for (std::size_t n = 0; n + 1 < edges.size(); ++n) largest = std::max(largest, edges[n + 1] - edges[n]);
  return largest;
}

/// Whether every pixel is written once, by the one tile that has its entry. A line of pixels by distance meets several.
bool is_exact(const MapRequest& request) {
  return !request.by_distance() && request.pixel_rows == request.rows.size() &&
         request.pixel_columns == request.columns.size();
}

}  // namespace

MapPixels::MapPixels(const MapRequest& request, std::int64_t window, bool softmax)
    : rows_(request.rows),
      columns_(request.columns),
      row_edges_(bin_edges(request.rows, request.pixel_rows)),
      column_edges_(request.by_distance() ? diagonal_edges(request.distances, window)
                                          : bin_edges(request.columns, request.pixel_columns)),
      window_(request.by_distance() ? 0 : window),
      by_distance_(request.by_distance()),
      first_left_out_(request.first_key == FirstKey::left_out && request.keys().begin == 0),
      exact_(is_exact(request)),
      partial_(largest_bin(row_edges_) > kMapTile || largest_bin(column_edges_) > kMapTile),
      logarithm_(softmax && !exact_ && request.reduction != Reduction::mean),
      reduction_(pixel_reduction(request.reduction, logarithm_)) {
  image_.rows = request.pixel_rows;
  image_.columns = request.pixel_columns;
  image_.value.resize(static_cast<std::size_t>(image_.rows * image_.columns));
}

bool MapPixels::zeros_change_nothing() const {
  // Exact pictures begin as zeros; where logarithms are compared, -infinity is both the beginning and log2 of 0.
  if (exact_ || reduction_ == PixelReduction::sum || reduction_ == PixelReduction::absolute) return true;
  return logarithm_ && reduction_ == PixelReduction::max;
}

Range MapPixels::rows_of(std::int64_t pixel) const {
  assert(pixel >= 0 && pixel < image_.rows);
  return {row_edges_[index_of(pixel)], row_edges_[index_of(pixel + 1)]};
}

Range MapPixels::keys_of(std::int64_t pixel) const {
  assert(pixel >= 0 && pixel < image_.columns);
  return {column_edges_[index_of(pixel)], column_edges_[index_of(pixel + 1)]};
}

void MapPixels::place_keys(const Range& keys, TilePlace& place) const {
  place.first_column = bin_of(columns_, image_.columns, keys.begin);
  place.pixels.pieces = 0;
  for (std::int64_t pixel = place.first_column, end = keys.begin; end < keys.end; ++pixel) {
    end = std::min(column_edges_[index_of(pixel + 1)], keys.end);
    place.pixels.key_end[place.pixels.pieces++] = static_cast<std::uint8_t>(end - keys.begin);
  }
}

void MapPixels::place_rows(const Range& rows, TilePlace& place) const {
  place.first_row = bin_of(rows_, image_.rows, rows.begin);
  place.pixels.segments = 0;
  for (std::int64_t pixel = place.first_row, end = rows.begin; end < rows.end; ++pixel) {
    end = std::min(row_edges_[index_of(pixel + 1)], rows.end);
    place.pixels.lane_end[place.pixels.segments++] = static_cast<std::uint8_t>(end - rows.begin);
  }
}

Range MapPixels::diagonal_pixels(const Range& rows, const Range& keys) const {
  assert(by_distance_);
  // Without the tile's absent half.
  const std::int64_t first = std::max(rows.begin - keys.end + 1, column_edges_.front());
  const std::int64_t end = std::min(rows.end - keys.begin, column_edges_.back());
  if (first >= end) return {0, 0};
  const auto pixel = [&](std::int64_t difference) {
    return std::upper_bound(column_edges_.begin(), column_edges_.end(), difference) - column_edges_.begin() - 1;
  };
  return {pixel(first), pixel(end - 1) + 1};
}

bool MapPixels::holds(std::int64_t pixel, const Range& rows, const Range& keys) const {
  const Range differences = keys_of(pixel);
  return differences.begin <= rows.begin - keys.end + 1 && differences.end >= rows.end - keys.begin;
}

std::int64_t MapPixels::place_diagonals(const Range& rows, const Range& keys, const Range& pixels,
                                        TileDiagonals& diagonals) const {
  const std::int64_t offset = rows.begin - keys.begin;
  const std::int64_t end = std::min(pixels.end, pixels.begin + kMapTile);
  diagonals.place.first_column = pixels.begin;
  diagonals.place.pixels.pieces = static_cast<int>(end - pixels.begin);
  for (std::int64_t pixel = pixels.begin; pixel <= end; ++pixel) {
    const std::int64_t edge = std::clamp(column_edges_[index_of(pixel)] - offset, -kMapTile, kMapTile);
    diagonals.edge[pixel - pixels.begin] = static_cast<std::int8_t>(edge);
  }
  return end;
}

void MapPixels::begin_lines(std::int64_t begin, std::int64_t end, PartialPixels& partial) {
  const float identity = cpu::identity_of(reduction_);
  if (partial_) {
    partial.first_row = begin;
    partial.values.assign(static_cast<std::size_t>((end - begin) * image_.columns), static_cast<double>(identity));
  } else if (!exact_ && identity != 0.0F) {
    std::fill(line(begin), line(end), identity);
  }
}

void MapPixels::gathered(const TilePlace& place, const PartialPixels& partial, float* values) {
  for (int segment = 0; segment < place.pixels.segments; ++segment) {
    float* const to = values + segment * kMapTile;
    const std::int64_t row = place.first_row + segment;
    if (partial_) {
      const double* const from =
          partial.values.data() + (row - partial.first_row) * image_.columns + place.first_column;
      for (int piece = 0; piece < place.pixels.pieces; ++piece) to[piece] = static_cast<float>(from[piece]);
    } else {
      std::copy_n(line(row) + place.first_column, place.pixels.pieces, to);
    }
  }
}

void MapPixels::merge(const TilePlace& place, const float* result, PartialPixels& partial) {
  for (int segment = 0; segment < place.pixels.segments; ++segment) {
    const float* const values = result + segment * kMapTile;
    const std::int64_t row = place.first_row + segment;
    if (partial_) {
      double* const to = partial.values.data() + (row - partial.first_row) * image_.columns + place.first_column;
      for (int piece = 0; piece < place.pixels.pieces; ++piece) {
        to[piece] = combined(to[piece], static_cast<double>(values[piece]));
      }
    } else if (exact_) {
      std::copy(values, values + place.pixels.pieces, line(row) + place.first_column);
    } else {
      cpu::combine(reduction_, place.pixels.pieces, values, line(row) + place.first_column);
    }
  }
}

void MapPixels::merge(const PartialPixels& other, PartialPixels& partial) const {
  for (std::size_t n = 0; n < partial.values.size(); ++n) {
    partial.values[n] = combined(partial.values[n], other.values[n]);
  }
}

double MapPixels::combined(double a, double b) const {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  const double high = std::max(a, b);
  const double low = std::min(a, b);
  switch (reduction_) {
    case PixelReduction::max:
      return high;
    case PixelReduction::min:
      return low;
    case PixelReduction::sum:
      return a + b;
    case PixelReduction::absolute:
      return high >= -low ? high : low;
  }
  return a;
}

/// The entries of key 0 are absent: they lie in the line's first pixel, by distance in those of the diagonal i - j = i,
/// where they were merged as nothing.
void MapPixels::leave_out_first(const Range& rows, float* values) const {
  if (!first_left_out_) return;
  if (!by_distance_) return leave_out_first(rows, 0, values);
  for (std::int64_t column = 0; column + 1 < static_cast<std::int64_t>(column_edges_.size()); ++column) {
    if (keys_of(column).begin < rows.end && keys_of(column).end > rows.begin) leave_out_first(rows, column, values);
  }
}

void MapPixels::leave_out_first(const Range& rows, std::int64_t column, float* values) const {
  const Range columns = keys_of(column);
  const std::int64_t all = present_entries(rows, columns, window_);
  const std::int64_t of_first = by_distance_ ? std::min(rows.end, columns.end) - std::max(rows.begin, columns.begin)
                                             : present_entries(rows, {0, 1}, window_);
  const std::int64_t left = all - of_first;
  float& value = values[column];
  if (left == 0) value = std::numeric_limits<float>::quiet_NaN();
  if (reduction_ != PixelReduction::sum || left == 0) return;
  value = static_cast<float>(static_cast<double>(value) * static_cast<double>(all) / static_cast<double>(left));
}

void MapPixels::finish_line(std::int64_t pixel, const PartialPixels& partial) {
  const Range rows = rows_of(pixel);
  float* const values = line(pixel);
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  if (column_edges_.size() < 2) return std::fill(values, values + image_.columns, kNone);  // all beyond the window
  const PixelLine present = pixel_line(rows, column_edges_, window_);
  std::fill(values, values + present.present_begin, kNone);
  std::fill(values + present.present_end, values + image_.columns, kNone);
  if (exact_) return leave_out_first(rows, values);
  const bool mean = reduction_ == PixelReduction::sum;
  const double* const gathered =
      partial_ ? partial.values.data() + (pixel - partial.first_row) * image_.columns : nullptr;
  for (std::int64_t column = present.present_begin; column < present.present_end; ++column) {
    const bool full = column >= present.full_begin && column < present.full_end;
    if (full && !mean && gathered == nullptr) {
      column = present.full_end - 1;
      continue;
    }
    const Range keys = keys_of(column);
    const std::int64_t count = full ? rows.size() * keys.size() : present_entries(rows, keys, window_);
    const double value = gathered != nullptr ? gathered[column] : static_cast<double>(values[column]);
    values[column] = static_cast<float>(mean ? value / static_cast<double>(count) : value);
    if (count == 0) values[column] = kNone;
  }
  leave_out_first(rows, values);
  // NaN stays NaN.
  if (logarithm_) cpu::exponentiate(present.present_end - present.present_begin, values + present.present_begin);
}

}  // namespace foxscope
