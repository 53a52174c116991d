#include "app/gui/text/tint_legend.h"

#include <algorithm>

#include <QEvent>
#include <QPainter>

#include "app/gui/views/expert_colours.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui {

TintLegend::TintLegend(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("Experts of the tint"));
  QSizePolicy policy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  policy.setHeightForWidth(true);
  setSizePolicy(policy);
}

void TintLegend::setExperts(const TintedExperts& experts) {
  m_fields.clear();
  QStringList shares;
  for (std::size_t hue = 0; hue < experts.number.size(); ++hue) {
    m_fields.push_back({static_cast<int>(hue), QString::number(experts.number[hue])});
    shares += tr("expert %1: %2 % of the tokens")
                  .arg(experts.number[hue])
                  .arg(QString::number(100 * experts.share[hue], 'f', 1));
  }
  if (experts.others > 0) {
    m_fields.push_back({ExpertColours::kHues, tr("others")});
    shares += tr("all other experts: %1 %").arg(QString::number(100 * experts.others, 'f', 1));
  }
  setToolTip(tr("Where each is the heaviest: %1").arg(shares.join(QStringLiteral(", "))));
  setAccessibleDescription(toolTip());
  updateGeometry();
  update();
}

QStringList TintLegend::texts() const {
  QStringList texts;
  for (const Field& field : m_fields) texts += field.text;
  return texts;
}

int TintLegend::widthOf(const Field& field) const {
  const int letter = fontMetrics().averageCharWidth();
  return fontMetrics().height() + letter / 2 + fontMetrics().horizontalAdvance(field.text) + 2 * letter;
}

std::vector<QPoint> TintLegend::layOut(int width) const {
  std::vector<QPoint> places;
  QPoint at(0, 0);
  for (const Field& field : m_fields) {
    if (at.x() > 0 && at.x() + widthOf(field) > width) at = {0, at.y() + rowHeight()};
    places.push_back(at);
    at.rx() += widthOf(field);
  }
  return places;
}

int TintLegend::heightForWidth(int width) const {
  return (m_fields.empty() ? 0 : layOut(width).back().y()) + rowHeight();
}

QSize TintLegend::sizeHint() const {
  int width = 0;
  for (const Field& field : m_fields) width += widthOf(field);
  return {width, rowHeight()};
}

QSize TintLegend::minimumSizeHint() const {
  int width = 0;
  for (const Field& field : m_fields) width = std::max(width, widthOf(field));
  return {width, rowHeight()};
}

void TintLegend::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  const ExpertColours colours(palette());
  const std::vector<QPoint> places = layOut(width());
  const int side = fontMetrics().height();
  for (std::size_t n = 0; n < m_fields.size(); ++n) {
    const QRect field(places[n] + QPoint(0, 1), QSize(side, side - 1));
    painter.fillRect(field, colours.at(m_fields[n].hue, 1));
    painter.setPen(lineColour(palette()));
    painter.drawRect(field.adjusted(0, 0, -1, -1));
    painter.setPen(palette().color(QPalette::WindowText));
    painter.drawText(QRect(places[n] + QPoint(side + fontMetrics().averageCharWidth() / 2, 0),
                           QSize(widthOf(m_fields[n]), rowHeight())),
                     Qt::AlignLeft | Qt::AlignVCenter, m_fields[n].text);
  }
}

void TintLegend::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::FontChange) updateGeometry();
}

}  // namespace foxscope::gui
