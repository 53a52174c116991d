#include "app/figure/page/number_table.h"

#include <cmath>
#include <iterator>
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
  fmt::format_to(std::back_inserter(m_csv), "{},{},{},{},{},{},{},{}\n", m_panel, m_quantity, field(number.series),
                 field(number.row), field(number.x), numberText(number.value), numberText(number.lower),
                 numberText(number.upper));
}

}  // namespace foxscope::figure
