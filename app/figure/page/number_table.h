#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace foxscope::figure {

/// A number that a panel draws.
struct DrawnNumber {
  std::string series;  ///< the curve, head or token that it belongs to; may be empty
  std::string row;     ///< the value of a map's vertical axis; of a curve the name of the point, "7:2", often empty
  std::string x;       ///< the value of the horizontal axis: a number, positions from A up to B as A:B, or a class
  double value = 0;
  double lower = std::numeric_limits<double>::quiet_NaN();  ///< of its error band; NaN: there is none
  double upper = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::pair<std::string, std::string>> more = {};  ///< names of further columns, and what stands there
};

/// A label of a figure in one line, without its marks of italics.
std::string plainLabel(const std::string& label);

/// The numbers of a figure as CSV (RFC 4180), a line each: panel, quantity, series, row, x, value, lower, upper, and
/// the further columns that some number has, in the order in which they came.
class NumberTable {
 public:
  /// Says where the next numbers are drawn.
  void setPanel(const std::string& title);
  void setQuantity(const std::string& label);
  /// Adds a line; what does not exist, NaN, has none.
  void add(const DrawnNumber& number);
  /// Adds all lines of another table.
  void add(const NumberTable& table);
  [[nodiscard]] std::string csv() const;

 private:
  struct Line {
    std::string fields;  ///< of the columns that every number has, as they are written
    std::vector<std::pair<std::string, std::string>> more;
  };
  std::string m_panel;
  std::string m_quantity;
  std::vector<Line> m_lines;
};

}  // namespace foxscope::figure
