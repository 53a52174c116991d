#include "app/figure/heads/head_labels_panel.h"

#include <algorithm>

#include <fmt/format.h>

#include "app/figure/heads/head_label_colour.h"
#include "app/figure/page/axis_drawing.h"

namespace foxscope::figure {
namespace {

constexpr double kCellGap = 1;      ///< white between neighbouring cells, points
constexpr double kLetter = 0.7;     ///< of a cell's side
constexpr double kLeastLetter = 4;  ///< points
constexpr double kSwatch = 1.15;    ///< side of a legend's cell, in font sizes
constexpr double kLabelGap = 0.35;
const QColor kUnlabelled(236, 236, 236);

}  // namespace

void drawLabelCell(Canvas& canvas, const QRectF& cell, HeadLabel label, const TextStyle& style) {
  const Rgb ground = labelColour(label);
  canvas.fill(cell, QColor(ground.red, ground.green, ground.blue));
  TextStyle letter = style;
  letter.size = std::min(style.size, kLetter * cell.height());
  if (letter.size < kLeastLetter) return;
  letter.colour = letterOn(ground) == Letter::white ? Qt::white : Qt::black;
  canvas.text(QString(QLatin1Char(text_of(label).letter)),
              {{cell.center().x(), cell.center().y() + kHalfDigit * letter.size}, Align::centre}, letter);
}

HeadLabelsPanel::HeadLabelsPanel(const FigureFormat& format, Content content)
    : m_content(std::move(content)), m_style(textStyleOf(format)), m_axes{m_content.layers, m_content.heads, m_style} {}

Margins HeadLabelsPanel::margins(const QSizeF& inner) const {
  Margins margins = m_axes.margins(inner.height());
  if (!m_content.title.empty()) margins.top += em::kLine * m_style.size;
  return margins;
}

void HeadLabelsPanel::draw(Canvas& canvas, const QRectF& whole) const {
  const double side = whole.width() / m_content.heads;
  // A legend beside it may be higher.
  const QRectF inner(whole.topLeft(), QSizeF(whole.width(), side * m_content.layers));
  for (std::size_t index = 0; index < m_content.labels.size(); ++index) {
    const auto heads = static_cast<std::size_t>(m_content.heads);
    const std::size_t layer = index / heads;
    if (static_cast<int>(index % heads) >= m_content.headsOf[layer]) continue;
    const QRectF cell(inner.left() + static_cast<double>(index % heads) * side,
                      inner.top() + static_cast<double>(layer) * side, side - kCellGap, side - kCellGap);
    if (m_content.labels[index]) {
      drawLabelCell(canvas, cell, *m_content.labels[index], m_style);
    } else {
      canvas.fill(cell, kUnlabelled);
    }
  }
  m_axes.draw(canvas, inner);
  if (m_content.title.empty()) return;
  const QString title = QString::fromStdString(lettered(m_content.title));
  canvas.text(title, {{inner.center().x(), inner.top() - 0.45 * m_style.size}, Align::centre},
              fitted(m_style, title, inner.width() + m_axes.margins(inner.height()).left));
}

void HeadLabelsPanel::addNumbers(NumberTable& numbers) const {
  numbers.setQuantity("strongest label, by its place in the legend");
  for (std::size_t index = 0; index < m_content.labels.size(); ++index) {
    const auto& label = m_content.labels[index];
    if (!label) continue;
    const auto heads = static_cast<std::size_t>(m_content.heads);
    numbers.add({text_of(*label).name, std::to_string(index / heads), std::to_string(index % heads),
                 static_cast<double>(*label) + 1});
  }
}

LabelLegendPanel::LabelLegendPanel(const FigureFormat& format) : m_style(textStyleOf(format).scaled(em::kSmallFont)) {}

std::vector<QString> LabelLegendPanel::linesOf(HeadLabel label, double width) const {
  const HeadLabelText& text = text_of(label);
  return wrapped(fmt::format("{} (from\u00a0{}): {}", text.name, text.threshold, text.definition), m_style,
                 width - (kSwatch + em::kPad + 0.3) * m_style.size);
}

std::optional<double> LabelLegendPanel::heightFor(double width) const {
  double lines = 0;
  for (int n = 0; n < kHeadLabels; ++n) {
    lines += static_cast<double>(linesOf(static_cast<HeadLabel>(n), width).size());
  }
  return (em::kLine * lines + kLabelGap * (kHeadLabels - 1)) * m_style.size;
}

void LabelLegendPanel::draw(Canvas& canvas, const QRectF& inner) const {
  const double size = m_style.size;
  const double room = inner.width() - (kSwatch + em::kPad) * size;
  TextStyle letters = m_style;
  for (int n = 0; n < kHeadLabels; ++n) {
    letters.size =
        std::min(letters.size, fitted(m_style, linesOf(static_cast<HeadLabel>(n), inner.width()), room).size);
  }
  double top = inner.top();
  for (int n = 0; n < kHeadLabels; ++n) {
    const auto label = static_cast<HeadLabel>(n);
    const double side = kSwatch * size;
    drawLabelCell(canvas, {inner.left(), top + (em::kLine * size - side) / 2, side, side}, label, m_style);
    const std::vector<QString> lines = linesOf(label, inner.width());
    for (const QString& line : lines) {
      canvas.text(line, {{inner.right() - room, top + em::kLine * size / 2 + kHalfDigit * size}}, letters);
      top += em::kLine * size;
    }
    top += kLabelGap * size;
  }
}

}  // namespace foxscope::figure
