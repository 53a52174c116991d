#pragma once

#include <vector>

#include "app/figure/curves/curve_legend.h"
#include "app/figure/page/panel.h"

namespace foxscope::figure {

/// The legend of several panels, in lines across the page.
class LegendPanel final : public Panel {
 public:
  /// @param curves  of which names and looks are taken
  LegendPanel(const FigureFormat& format, std::vector<Curve> curves, std::string note);

  [[nodiscard]] Margins margins(const QSizeF& /*inner*/) const override { return {}; }
  [[nodiscard]] std::optional<double> heightFor(double width) const override;
  [[nodiscard]] Proportions proportions() const override { return Proportions::kept; }
  [[nodiscard]] bool hasLetter() const override { return false; }
  void draw(Canvas& canvas, const QRectF& inner) const override;

 private:
  [[nodiscard]] std::vector<LegendEntry> entries(const QRectF& inner) const;

  TextStyle m_style;
  double m_lineWidth;
  std::vector<Curve> m_curves;
  std::string m_note;
};

}  // namespace foxscope::figure
