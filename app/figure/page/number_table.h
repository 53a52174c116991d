#pragma once

#include <limits>
#include <string>

namespace foxscope::figure {

/// A number that a panel draws.
struct DrawnNumber {
  std::string series;  ///< the curve, head or token that it belongs to; may be empty
  std::string row;     ///< the value of a map's vertical axis; of a curve the name of the point, "7:2", often empty
  std::string x;       ///< the value of the horizontal axis: a number, positions from A up to B as A:B, or a class
  double value = 0;
  double lower = std::numeric_limits<double>::quiet_NaN();  ///< of its error band; NaN: there is none
  double upper = std::numeric_limits<double>::quiet_NaN();
};

/// A label of a figure in one line, without its marks of italics.
std::string plainLabel(const std::string& label);

/// The numbers of a figure as CSV (RFC 4180), a line each: panel, quantity, series, row, x, value, lower, upper.
class NumberTable {
 public:
  /// Says where the next numbers are drawn.
  void setPanel(const std::string& title);
  void setQuantity(const std::string& label);
  /// Adds a line; what does not exist, NaN, has none.
  void add(const DrawnNumber& number);
  [[nodiscard]] const std::string& csv() const { return m_csv; }

 private:
  std::string m_panel;
  std::string m_quantity;
  std::string m_csv = "panel,quantity,series,row,x,value,lower,upper\n";
};

}  // namespace foxscope::figure
