#pragma once

#include <cstdint>
#include <vector>

#include "backend/map/map.h"
#include "kernels/cpu/pooled_map.h"

namespace foxscope {

/// Where a tile lies in the picture: its first pixel, and how its keys and queries are shared out from there on.
struct TilePlace {
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;
  kernels::cpu::TilePixels pixels;
};

/// Up to 64 of the diagonals of a tile that belong to one pixel each.
struct TileDiagonals {
  TilePlace place;
  std::int8_t edge[kernels::cpu::kMapTile + 1] = {};  ///< reduce_diagonals'
};

/// Partial sums of lines of pixels, in float64, where bins are larger than a tile: [rows, columns].
struct PartialPixels {
  std::int64_t first_row = 0;
  std::vector<double> values;
};

/// A picture while tiles are reduced into it. Lines of pixels are independent of each other: each belongs to one thread
/// at a time, and nothing else is written. By distance its columns are i - j, of which an entry has at most i.
class MapPixels {
 public:
  /// @param window   keys that a query sees; 0: all
  /// @param softmax  entries come from one softmax, which has their logarithms first
  MapPixels(const MapRequest& request, std::int64_t window, bool softmax);

  /// True where every pixel is one entry.
  [[nodiscard]] bool exact() const { return exact_; }
  /// True where tiles should hold log2 of entries: the largest A has the largest log A, so one exponential a pixel is
  /// enough instead of one an entry.
  [[nodiscard]] bool logarithm() const { return logarithm_; }
  [[nodiscard]] kernels::cpu::PixelReduction reduction() const { return reduction_; }
  /// True where entries of 0 change no pixel, so that tiles of nothing else need not be reduced.
  [[nodiscard]] bool zeros_change_nothing() const;
  [[nodiscard]] Range rows_of(std::int64_t pixel) const;
  [[nodiscard]] std::int64_t rows() const { return image_.rows; }

  void place_keys(const Range& keys, TilePlace& place) const;
  void place_rows(const Range& rows, TilePlace& place) const;
  /// By distance: the pixels of a tile, from the one that holds its smallest i - j on; none: it has no pixel.
  [[nodiscard]] Range diagonal_pixels(const Range& rows, const Range& keys) const;
  /// Whether the pixel has all i - j of a tile.
  [[nodiscard]] bool holds(std::int64_t pixel, const Range& rows, const Range& keys) const;
  /// Fills all but the rows of `diagonals`, for such pixels from `first` on.
  /// @returns the first pixel that has no room there
  std::int64_t place_diagonals(const Range& rows, const Range& keys, const Range& pixels,
                               TileDiagonals& diagonals) const;

  /// Begins lines [begin, end): in the image itself, or in `partial` where bins are larger than a tile.
  void begin_lines(std::int64_t begin, std::int64_t end, PartialPixels& partial);
  /// Reads the partial values of a tile's pixels, [segments][64].
  void gathered(const TilePlace& place, const PartialPixels& partial, float* values);
  /// Adds a tile's reduced pixels, [segments][64].
  void merge(const TilePlace& place, const float* result, PartialPixels& partial);
  /// Adds what another share of the same line gathered.
  void merge(const PartialPixels& other, PartialPixels& partial) const;
  /// Turns what a line has gathered into its values; NaN where there is no entry.
  void finish_line(std::int64_t pixel, const PartialPixels& partial);

  /// Lines that are finished may be read while others are computed.
  [[nodiscard]] const Image& image() const { return image_; }
  Image take() { return std::move(image_); }

 private:
  void leave_out_first(const Range& rows, float* values) const;
  void leave_out_first(const Range& rows, std::int64_t column, float* values) const;
  [[nodiscard]] double combined(double a, double b) const;
  [[nodiscard]] float* line(std::int64_t pixel) { return image_.value.data() + pixel * image_.columns; }
  [[nodiscard]] Range keys_of(std::int64_t pixel) const;

  Range rows_;
  Range columns_;
  std::vector<std::int64_t> row_edges_;
  std::vector<std::int64_t> column_edges_;  ///< of keys, or of i - j up to the window's edge
  std::int64_t window_ = 0;                 ///< of keys; by distance the edges have it
  bool by_distance_ = false;
  bool first_left_out_ = false;
  bool exact_ = false;
  bool partial_ = false;
  bool logarithm_ = false;
  kernels::cpu::PixelReduction reduction_ = kernels::cpu::PixelReduction::max;
  Image image_;
};

}  // namespace foxscope
