#pragma once

#include <string>
#include <vector>

#include "app/figure/colour_map.h"
#include "app/figure/curves/curve_geometry.h"
#include "app/figure/page/axis_ticks.h"
#include "app/figure/page/panel.h"

namespace foxscope::figure {

/// How often the values of something lie in each bin, as a shape that is as wide as they are many.
struct Violin {
  std::string name;                 ///< in a table of numbers
  double place = 0;                 ///< of its middle on the horizontal axis
  std::vector<double> counts = {};  ///< of each bin
  double lower = 0;                 ///< quartiles of the values themselves
  double median = 0;
  double upper = 0;
};

/// Violins beside each other over the layers of a model: bins upwards, the widest bin of each as wide as it may be.
class ViolinPanel final : public Panel {
 public:
  struct Content {
    std::vector<Violin> violins;
    std::vector<double> edges;  ///< of the bins, ascending
    AxisScale scale = AxisScale::linear;
    std::string name;      ///< of the vertical axis
    int layers = 0;        ///< on the horizontal axis
    double halfWidth = 0;  ///< the largest of a violin, layers
    double heightOfWidth = 0.5;
  };
  ViolinPanel(const FigureFormat& format, Content content);

  [[nodiscard]] Margins margins(const QSizeF& inner) const override;
  [[nodiscard]] std::optional<double> heightFor(double width) const override { return width * m_content.heightOfWidth; }
  [[nodiscard]] std::string acrossName() const override { return "layer"; }
  [[nodiscard]] std::string upName() const override { return m_content.name; }
  [[nodiscard]] bool hasLetter() const override { return false; }
  void draw(Canvas& canvas, const QRectF& inner) const override;
  void addNumbers(NumberTable& numbers) const override;

 private:
  [[nodiscard]] Ticks ticksUp(double height) const;
  [[nodiscard]] Ticks ticksAcross(double width) const;
  [[nodiscard]] AxisLimits limitsAcross() const { return {-0.6, m_content.layers - 0.4}; }
  [[nodiscard]] AxisLimits limitsUp() const { return {m_content.edges.front(), m_content.edges.back()}; }
  void drawViolin(Canvas& canvas, const Violin& violin, const PlotArea& area) const;

  Content m_content;
  TextStyle m_style;
};

}  // namespace foxscope::figure
