#pragma once

#include <memory>
#include <vector>

#include <QColor>

#include "app/figure/curves/curve_plot.h"
#include "app/figure/page/axis_ticks.h"
#include "app/figure/page/panel.h"

namespace foxscope::figure {

/// Curves in axes, with their legend, as a part of a page.
class CurvePanel final : public Panel {
 public:
  /// @throws ShapeError for a curve whose x and y differ in size, UsageError for limits that are none
  CurvePanel(const FigureFormat& format, CurvePlot plot);
  ~CurvePanel() override;

  [[nodiscard]] Margins margins(const QSizeF& inner) const override;
  [[nodiscard]] std::optional<double> heightFor(double width) const override { return width * m_plot.heightOfWidth; }
  void draw(Canvas& canvas, const QRectF& inner) const override;
  void addNumbers(NumberTable& numbers) const override;
  [[nodiscard]] std::string title() const override { return m_plot.title; }
  [[nodiscard]] std::string acrossName() const override;
  [[nodiscard]] std::string upName() const override { return m_plot.yLabel; }
  /// One without a title belongs to the one above it.
  [[nodiscard]] bool hasLetter() const override { return !m_plot.title.empty(); }

 private:
  struct Strokes;
  struct Arrangement;
  [[nodiscard]] const Arrangement& arranged(const QRectF& inner) const;
  [[nodiscard]] Arrangement arrange(const QRectF& inner) const;
  [[nodiscard]] Ticks xTicks(const PlotArea& area) const;
  /// The category at x, or the number.
  [[nodiscard]] std::string xText(double x) const;
  void chooseTicks(Arrangement& arrangement) const;
  void trace(Arrangement& arrangement) const;
  void placeLegend(Arrangement& arrangement) const;
  [[nodiscard]] std::vector<QString> titleLines(double width) const;
  [[nodiscard]] std::size_t coveredBy(const QRectF& legend, const Arrangement& arrangement) const;
  /// Whether a marker's line, or its label, would lie under the legend.
  [[nodiscard]] bool crossedByMarker(const QRectF& legend, const PlotArea& area) const;
  [[nodiscard]] bool meetsLabel(const QRectF& legend, const PlotArea& area) const;
  [[nodiscard]] QRectF labelBox(const CurveMarker& marker, const PlotArea& area) const;
  [[nodiscard]] TextStyle small() const { return m_style.scaled(em::kSmallFont); }
  [[nodiscard]] double lineWidth() const;

  void drawBand(Canvas& canvas, const Curve& curve, const PlotArea& area) const;
  void drawBars(Canvas& canvas, const Curve& curve, const PlotArea& area) const;
  void drawMarkers(Canvas& canvas, const PlotArea& area) const;
  void drawNames(Canvas& canvas, const Arrangement& arrangement) const;
  void drawAxes(Canvas& canvas, const QRectF& inner, const Arrangement& arrangement) const;
  void drawLegend(Canvas& canvas, const Arrangement& arrangement) const;
  void drawTitle(Canvas& canvas, const QRectF& inner, const Arrangement& arrangement) const;

  FigureFormat m_format;
  CurvePlot m_plot;
  TextStyle m_style;
  mutable std::unique_ptr<Arrangement> m_arrangement;  ///< of the rectangle that was asked for last
};

}  // namespace foxscope::figure
