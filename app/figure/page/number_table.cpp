#include "app/figure/page/number_table.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include <fmt/format.h>

#include "backend/base/csv_field.h"

namespace foxscope::figure {
namespace {

std::string field(std::string_view text) { return text.empty() ? std::string() : csv_field(text); }

// Nine digits are all that a float32 has.
std::string numberText(double value) { return std::isnan(value) ? "" : fmt::format("{:.9g}", value); }

}  // namespace

std::string plainLabel(const std::string& label) {
  static const std::regex kItalic(R"(\*([^*\s]+)\*)");
  static const std::regex kSpace("\n|\u00a0");
  return std::regex_replace(std::regex_replace(label, kItalic, "$1"), kSpace, " ");
}

void NumberTable::setPanel(const std::string& title) { m_panel = field(plainLabel(title)); }

void NumberTable::setQuantity(const std::string& label) { m_quantity = field(plainLabel(label)); }

void NumberTable::add(const DrawnNumber& number) {
  if (std::isnan(number.value)) return;
  m_lines.push_back(
      {fmt::format("{},{},{},{},{},{},{},{}", m_panel, m_quantity, field(number.series), field(number.row),
                   field(number.x), numberText(number.value), numberText(number.lower), numberText(number.upper)),
       number.more});
}

void NumberTable::add(const NumberTable& table) {
  m_lines.insert(m_lines.end(), table.m_lines.begin(), table.m_lines.end());
}

std::string NumberTable::csv() const {
  std::vector<std::string> columns;
  for (const Line& line : m_lines) {
    for (const auto& [name, text] : line.more) {
      if (std::ranges::find(columns, name) == columns.end()) columns.push_back(name);
    }
  }
  std::string csv = "panel,quantity,series,row,x,value,lower,upper";
  for (const std::string& name : columns) csv += ',' + field(name);
  csv += '\n';
  for (const Line& line : m_lines) {
    csv += line.fields;
    for (const std::string& name : columns) {
      csv += ',';
      for (const auto& [own, text] : line.more) {
        if (own == name) csv += field(text);
      }
    }
    csv += '\n';
  }
  return csv;
}

}  // namespace foxscope::figure
