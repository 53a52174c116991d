#include "app/cli/text_table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "app/cli/console.h"

namespace foxscope::cli {
namespace {

constexpr std::size_t kGap = 2;

// Characters, not bytes: UTF-8 continuation bytes take no room.
std::size_t width(const std::string& cell) {
  return static_cast<std::size_t>(std::count_if(
      cell.begin(), cell.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

}  // namespace

TextTable::TextTable(std::vector<std::string> header, std::vector<Align> align)
    : m_align(std::move(align)), m_rows{std::move(header)} {}

void TextTable::addRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = visible(cell);
  m_rows.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths(m_rows.front().size(), 0);
  for (const auto& row : m_rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], width(row[column]));
    }
  }
  std::string result;
  for (const auto& row : m_rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string room(widths[column] - width(row[column]), ' ');
      if (column > 0) line.append(kGap, ' ');
      line += m_align[column] == Align::left ? row[column] + room : room + row[column];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + '\n';
  }
  return result;
}

std::string nameValueLines(const std::vector<std::pair<std::string, std::string>>& lines) {
  std::size_t widest = 0;
  for (const auto& line : lines) widest = std::max(widest, width(line.first));
  std::string result;
  for (const auto& [name, value] : lines) {
    result += name;
    result.append(widest - width(name) + kGap, ' ');
    result += visible(value);
    result += '\n';
  }
  return result;
}

}  // namespace foxscope::cli
