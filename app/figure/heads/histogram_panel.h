#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/figure/curves/curve_geometry.h"
#include "app/figure/page/axis_ticks.h"
#include "app/figure/page/panel.h"

namespace foxscope::figure {

/// The shares of something in bins, as steps from 0 upwards; the median and the quartiles above them.
class HistogramPanel final : public Panel {
 public:
  struct Content {
    std::string title;
    std::string across;  ///< names of the axes
    std::string up;
    std::string series;          ///< in a table of numbers
    std::string row;             ///< likewise: what the numbers are of, as "6:3"
    std::vector<double> edges;   ///< of the bins, ascending; above 0 on a logarithmic axis
    std::vector<double> shares;  ///< of each bin
    AxisScale scale = AxisScale::linear;
    std::optional<double> mark;  ///< a dashed line at this value, where the axis has a place for it
    struct Quartiles {
      double lower = 0;
      double median = 0;
      double upper = 0;
    };
    std::optional<Quartiles> quartiles;  ///< of the values themselves
    double heightOfWidth = 0.5;
  };
  HistogramPanel(const FigureFormat& format, Content content);

  [[nodiscard]] Margins margins(const QSizeF& inner) const override;
  [[nodiscard]] std::optional<double> heightFor(double width) const override { return width * m_content.heightOfWidth; }
  [[nodiscard]] std::string acrossName() const override { return m_content.across; }
  [[nodiscard]] std::string upName() const override { return m_content.up; }
  [[nodiscard]] std::string title() const override { return m_content.title; }
  [[nodiscard]] bool hasLetter() const override { return !m_content.title.empty(); }
  void draw(Canvas& canvas, const QRectF& inner) const override;
  void addNumbers(NumberTable& numbers) const override;

 private:
  [[nodiscard]] Ticks ticksUp(double height) const;
  [[nodiscard]] Ticks ticksAcross(double width) const;
  [[nodiscard]] AxisLimits limitsAcross() const { return {m_content.edges.front(), m_content.edges.back()}; }

  Content m_content;
  TextStyle m_style;
  double m_most = 0;  ///< the upper end of the axis of shares
};

}  // namespace foxscope::figure
