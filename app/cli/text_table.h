#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
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

/// A column of a table that has a row for each of some things.
template <typename Thing>
struct TableColumn {
  std::vector<std::string> heading;  ///< title, and what stands below it, as the unit
  std::function<std::string(const Thing&)> cell;
  TextTable::Align align = TextTable::Align::right;
};

template <typename Thing, typename Things>
std::string tableText(const std::vector<TableColumn<Thing>>& columns, const Things& things) {
  using Column = TableColumn<Thing>;
  const auto row = [&](const auto& cell) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(cell(column));
    return cells;
  };
  std::vector<TextTable::Align> align;
  std::size_t lines = 0;
  for (const Column& column : columns) {
    align.push_back(column.align);
    lines = std::max(lines, column.heading.size());
  }
  TextTable table(row([](const Column& column) { return column.heading.front(); }), std::move(align));
  for (std::size_t line = 1; line < lines; ++line) {
    table.addRow(row([&](const Column& column) { return line < column.heading.size() ? column.heading[line] : ""; }));
  }
  for (const auto& thing : things) table.addRow(row([&](const Column& column) { return column.cell(thing); }));
  return table.text();
}

/// A list of "name   value" lines; values are made `visible`.
std::string nameValueLines(const std::vector<std::pair<std::string, std::string>>& lines);

}  // namespace foxscope::cli
