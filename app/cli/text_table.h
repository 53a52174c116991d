#pragma once

#include <string>
#include <vector>

namespace foxscope::cli {

/// Rows of cells set in columns: the first column to the left, all others, being numbers, to the right unless said.
class TextTable {
 public:
  enum class Align { left, right };

  /// @param header  one cell a column
  TextTable(std::vector<std::string> header, std::vector<Align> align);
  /// @param cells  as many as the header has; they are made `visible`
  void addRow(std::vector<std::string> cells);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Align> m_align;
  std::vector<std::vector<std::string>> m_rows;
};

/// A list of "name   value" lines; values are made `visible`.
std::string nameValueLines(const std::vector<std::pair<std::string, std::string>>& lines);

}  // namespace foxscope::cli
