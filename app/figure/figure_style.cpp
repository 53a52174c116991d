#include "app/figure/figure_style.h"

namespace foxscope::figure {

std::string FigureStyle::label(const std::string& name) const {
  for (const auto& [of, text] : labels) {
    if (of == name) return text;
  }
  return name;
}

CurveLook FigureStyle::look(const std::string& name, std::size_t place) const {
  for (const auto& [of, look] : looks) {
    if (of == name) return look;
  }
  // Once all colours are taken, they come again with another line.
  return {static_cast<int>(place), static_cast<int>(place) / kCurveColours};
}

}  // namespace foxscope::figure
