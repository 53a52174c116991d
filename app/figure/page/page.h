#pragma once

#include <functional>
#include <string>

#include <QSizeF>

#include "app/figure/figure_format.h"
#include "app/figure/figure_origin.h"
#include "app/figure/page/canvas.h"

namespace foxscope::figure {

/// Makes Qt able to draw without a display, for as long as this lives; an application that runs already is used as it
/// is. Text can be measured and pages painted only while there is an application.
class OffscreenApplication {
 public:
  OffscreenApplication();
  ~OffscreenApplication();
  OffscreenApplication(const OffscreenApplication&) = delete;
  OffscreenApplication& operator=(const OffscreenApplication&) = delete;

 private:
  struct Own;
  std::unique_ptr<Own> m_own;
};

/// Paints one page of this size in points on a white ground, by calling `draw` once. A page with a mark is higher by
/// the mark's lines.
/// @returns the bytes of the file, equal for equal drawings
/// @throws UsageError for a page of more than kMostDots dots on a side; Error where Qt cannot write the file
std::string paintPage(const FigureFormat& format, const QSizeF& size, const FigureOrigin& origin,
                      const std::function<void(Canvas&)>& draw);

}  // namespace foxscope::figure
