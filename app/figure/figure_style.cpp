#include "app/figure/figure_style.h"

namespace foxscope::figure {

std::string FigureStyle::label(const std::string& name) const {
  for (const auto& [of, text] : labels) {
    if (of == name) return text;
  }
  return name;
}

}  // namespace foxscope::figure
