#include "app/figure/figure_style.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/base/error.h"
#include "backend/base/nearest_name.h"

namespace foxscope::figure {

std::string FigureStyle::label(const std::string& name) const {
  for (const auto& [of, text] : labels) {
    if (of == name) return text;
  }
  return name;
}

void FigureStyle::requireLabels(std::span<const std::string> names) const {
  for (const auto& [name, text] : labels) requireName("--label", name, names);
}

CurveLook FigureStyle::look(const std::string& name, std::size_t place) const {
  for (const auto& [of, look] : looks) {
    if (of == name) return look;
  }
  // Once all colours are taken, they come again with another line.
  return {static_cast<int>(place), static_cast<int>(place) / kCurveColours};
}

void requireName(const char* option, const std::string& name, std::span<const std::string> known) {
  if (std::ranges::find(known, name) != known.end()) return;
  throw UsageError(
      fmt::format("{} {}: the figure has {}{}", option, name, fmt::join(known, ", "), nearest_question(name, known)));
}

}  // namespace foxscope::figure
