#pragma once

#include <array>

#include <QColor>
#include <QPalette>

#include "app/gui/text/text_tint.h"

namespace foxscope::gui {

/// Colours to stand behind text: from the palette's ground to a tint on which the palette's text still reads well
/// (contrast of at least 4.5), for differences from one tint over the ground to another.
class TintRamp {
 public:
  enum class Course { sequential, diverging };
  TintRamp(const QPalette& palette, Course course);

  /// @param position  from 0 to 1 (TintScale::position)
  [[nodiscard]] QColor at(double position) const;

 private:
  static constexpr std::size_t kSteps = 256;
  std::array<QRgb, kSteps> m_colour{};
};

}  // namespace foxscope::gui
