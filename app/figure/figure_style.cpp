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
  return {static_cast<int>(place), 0};
}

}  // namespace foxscope::figure
