#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/base/index.h"
#include "backend/map/map.h"

namespace foxscope {

/// Lines of pixels of F or log F of one head by the closed form of docs/maps.md. With c never increasing, a bin below
/// the diagonal has its largest entry at its first row and last column, its smallest at its last row and first column,
/// and its mean is a product of one sum over rows and one over columns. Bins that the diagonal or the window's edge
/// cuts are put together from the same sums over parts of their rows. Preparing costs O(rows + columns), a line its
/// pixels.
class GateLines {
 public:
  /// @param c       [L] nats, non-increasing; must outlive the object
  /// @param window  keys that a query sees; 0: all
  GateLines(std::span<const double> c, std::int64_t window, const MapRequest& request);

  /// Values of one line of pixels, [pixel_columns]; NaN where there is no entry.
  void line(std::int64_t pixel, double* out) const;

 private:
  struct Bin {
    Range rows;
    Range keys;
  };
  void prepare_means();
  void prepare_sliding_sums();
  void full_pixels(const Range& rows, std::int64_t begin, std::int64_t end, double* out) const;
  [[nodiscard]] double cut_pixel(const Bin& bin) const;
  [[nodiscard]] double largest_log(const Bin& bin) const;
  [[nodiscard]] double smallest_log(const Bin& bin) const;
  [[nodiscard]] double sum(const Bin& bin) const;
  [[nodiscard]] double row_sum(std::int64_t row, const Range& keys) const;
  [[nodiscard]] double block_sum(const Bin& bin, const Range& rows) const;
  [[nodiscard]] double c(std::int64_t position) const { return c_[index_of(position)]; }
  [[nodiscard]] bool sees(std::int64_t row, std::int64_t key) const {
    return key <= row && (window_ == 0 || row - key < window_);
  }
  [[nodiscard]] double of_row(const std::vector<double>& values, std::int64_t row) const {
    return values[index_of(row - rows_.begin)];
  }
  [[nodiscard]] double of_key(const std::vector<double>& values, std::int64_t key) const {
    return values[index_of(key - columns_.begin)];
  }

  std::span<const double> c_;
  std::int64_t window_;
  Range rows_;
  Range columns_;
  bool logarithm_;  ///< log F instead of F
  Reduction reduction_;
  std::vector<std::int64_t> row_edges_;
  std::vector<std::int64_t> column_edges_;
  std::vector<double> key_c_;       ///< [pixel columns] c of the key that decides a full bin, or its reference
  std::vector<double> key_factor_;  ///< [pixel columns] mean of the bin's columns, for means
  // For means. Sums of F within a bin, relative to one of its members so that every term is at most 1.
  std::vector<double> row_tail_;  ///< sum over i' >= i in the row bin of exp(c_i' - c_i); of log F: of c_i' - c_first
  std::vector<double> key_head_;  ///< sum over j' <= j in the column bin of exp(c_j - c_j'); of log F: c_j' - c_first
  std::vector<double> key_tail_;  ///< sum over j' >= j in the column bin of exp(c_last - c_j'); with a window only
  std::vector<double> sliding_;   ///< sum over the window of row i of exp(c_i - c_j); where it fits into a bin
};

}  // namespace foxscope
