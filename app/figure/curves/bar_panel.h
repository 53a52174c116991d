#pragma once

#include <limits>
#include <string>
#include <vector>

#include "app/figure/colour_map.h"
#include "app/figure/page/axis_ticks.h"
#include "app/figure/page/panel.h"

namespace foxscope::figure {

/// A bar from 0 with its error.
struct Bar {
  std::string name;   ///< below it
  std::string range;  ///< what it is of, in a table of numbers: "256:512"
  double value = 0;
  double error = std::numeric_limits<double>::quiet_NaN();  ///< NaN: not known
  Rgb colour = {};
  bool filled = true;  ///< else an outline
};

/// Bars beside each other over one axis of values.
class BarPanel final : public Panel {
 public:
  struct Content {
    std::vector<Bar> bars;
    std::string title;
    std::string across;  ///< names of the axes
    std::string up;
    std::string series;  ///< in a table of numbers
    double heightOfWidth = 0.36;
  };
  BarPanel(const FigureFormat& format, Content content);

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
  [[nodiscard]] double position(double value) const { return (value - m_lower) / (m_upper - m_lower); }
  [[nodiscard]] double placeOf(double bar) const { return (bar + 0.5) / static_cast<double>(m_content.bars.size()); }

  Content m_content;
  TextStyle m_style;
  double m_lower = 0;
  double m_upper = 0;
};

}  // namespace foxscope::figure
