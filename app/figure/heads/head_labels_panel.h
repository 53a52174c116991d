#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/figure/heads/head_axes.h"
#include "app/figure/page/panel.h"
#include "backend/map/statistics/head_labels.h"

namespace foxscope::figure {

/// The strongest label of every head as a cell with its colour and letter: layers downwards, heads across.
class HeadLabelsPanel final : public Panel {
 public:
  struct Content {
    int layers = 0;
    int heads = 0;
    std::vector<std::optional<HeadLabel>> labels;  ///< [layers, heads]; nothing where a head has none
    std::vector<int> headsOf;                      ///< [layers] how many heads there are
    std::string title;                             ///< above; may be empty
    double cell = 0;                               ///< from one cell to the next, points
  };
  HeadLabelsPanel(const FigureFormat& format, Content content);

  [[nodiscard]] Margins margins(const QSizeF& inner) const override;
  [[nodiscard]] std::optional<double> fixedWidth() const override { return m_content.cell * m_content.heads; }
  [[nodiscard]] std::optional<double> heightFor(double width) const override {
    return width / m_content.heads * m_content.layers;
  }
  [[nodiscard]] Proportions proportions() const override { return Proportions::kept; }
  [[nodiscard]] bool hasLetter() const override { return !m_content.title.empty(); }
  void addNumbers(NumberTable& numbers) const override;
  [[nodiscard]] std::string title() const override { return m_content.title; }
  void draw(Canvas& canvas, const QRectF& inner) const override;

 private:
  Content m_content;
  TextStyle m_style;
  HeadAxes m_axes;
};

/// The definition and threshold of each label, in lines as wide as there is room.
class LabelLegendPanel final : public Panel {
 public:
  explicit LabelLegendPanel(const FigureFormat& format);

  [[nodiscard]] Margins margins(const QSizeF& /*inner*/) const override { return {}; }
  [[nodiscard]] std::optional<double> heightFor(double width) const override;
  [[nodiscard]] Proportions proportions() const override { return Proportions::kept; }
  [[nodiscard]] bool hasLetter() const override { return false; }
  void draw(Canvas& canvas, const QRectF& inner) const override;

 private:
  [[nodiscard]] std::vector<QString> linesOf(HeadLabel label, double width) const;

  TextStyle m_style;
};

/// A cell in a label's colour with its letter; the letter is left out where it would be unreadably small.
void drawLabelCell(Canvas& canvas, const QRectF& cell, HeadLabel label, const TextStyle& style);

}  // namespace foxscope::figure
