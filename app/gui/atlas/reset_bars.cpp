#include "app/gui/atlas/reset_bars.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QEvent>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>

#include "app/gui/atlas/atlas_model.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/cell_table.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui::atlas {
namespace {

constexpr int kClassGap = 6;

QString percent(double share) { return numberOf(100 * share, 3); }

}  // namespace

ResetBars::ResetBars(QWidget* parent) : QWidget(parent) {
  setMouseTracking(true);
  setAccessibleName(tr("Resets by class of token"));
  describeCells(*this, {[this] { return QSize(1, count()); }, [this](int row, int) { return description(row); },
                        [this](int row, int) { return place(row); }, [this](int row, int) { return row == m_row; },
                        [](int, int) {}, [this](int row) { return classTitle(m_resets.token_class[index_of(row)]); },
                        [](int) { return tr("share of resets"); }});
}

void ResetBars::setResets(AtlasHeadResets resets, double falseDiscoveryRate) {
  m_resets = std::move(resets);
  m_rate = falseDiscoveryRate;
  m_row = -1;
  setToolTip(tr("Share of the head's resets; mark: by chance; •: beyond chance at a false discovery rate of %1 %")
                 .arg(percent(m_rate)));
  announceCells(*this);
  updateGeometry();
  update();
}

QString ResetBars::caption() { return tr("share of resets; mark: by chance; •: beyond it"); }

QSize ResetBars::minimumSizeHint() const { return {160, rowHeight() * (count() + 1)}; }

QRect ResetBars::place(int row) const { return {0, (row + 1) * rowHeight(), width(), rowHeight()}; }

QString ResetBars::description(int row) const {
  const auto n = index_of(row);
  QString words = tr("%1: %2 % of the resets, %3 ± %4 % by chance, p %5; %6 positions read one")
                      .arg(classTitle(m_resets.token_class[n]), percent(m_resets.share[n]), percent(m_resets.chance[n]),
                           numberOf(100 * m_resets.chance_spread[n], 2), numberOf(m_resets.p_value[n], 2),
                           QLocale().toString(static_cast<qlonglong>(m_resets.tokens[n])));
  return words + (m_resets.discovered[n] != 0 ? tr("; beyond chance") : tr("; not beyond chance"));
}

void ResetBars::paintRow(QPainter& painter, int row) const {
  const auto n = index_of(row);
  const QRect at = place(row);
  if (row == m_row) painter.fillRect(at, palette().color(QPalette::AlternateBase));
  const int name =
      std::min(fontMetrics().horizontalAdvance(QStringLiteral("sentence start ")) + kClassGap, at.width() / 3);
  const int numbers =
      std::min(fontMetrics().horizontalAdvance(QStringLiteral("• 00.0 %  p 0.0000")) + kClassGap, at.width() / 3);
  painter.setPen(palette().color(QPalette::Text));
  painter.drawText(QRect(kClassGap, at.top(), name - kClassGap, at.height()), Qt::AlignRight | Qt::AlignVCenter,
                   fontMetrics().elidedText(classTitle(m_resets.token_class[n]), Qt::ElideRight, name));
  const QRectF room(name + kClassGap, at.top() + 4, std::max(10, at.width() - name - numbers - 2 * kClassGap),
                    at.height() - 8);
  double most = 0.01;
  for (std::size_t other = 0; other < m_resets.share.size(); ++other) {
    for (const double share : {m_resets.share[other], m_resets.chance[other] + m_resets.chance_spread[other]}) {
      if (std::isfinite(share)) most = std::max(most, share);
    }
  }
  const auto across = [&](double share) { return room.left() + std::clamp(share / most, 0.0, 1.0) * room.width(); };
  const double share = m_resets.share[n];
  if (!std::isfinite(share)) {
    painter.setPen(mutedTextColour(palette()));
    painter.drawText(room, Qt::AlignLeft | Qt::AlignVCenter, tr("none"));
    return;
  }
  const bool found = m_resets.discovered[n] != 0;
  painter.fillRect(QRectF(room.topLeft(), QPointF(std::max(room.left() + 1, across(share)), room.bottom())),
                   found ? runColour(0, palette()) : lineColour(palette()));
  painter.setPen(QPen(palette().color(QPalette::Text), 1.5));
  const double middle = room.center().y();
  const double chance = across(m_resets.chance[n]);
  painter.drawLine(QPointF(chance, room.top() - 2), QPointF(chance, room.bottom() + 2));
  painter.drawLine(QPointF(across(m_resets.chance[n] - m_resets.chance_spread[n]), middle),
                   QPointF(across(m_resets.chance[n] + m_resets.chance_spread[n]), middle));
  painter.drawText(
      QRect(at.right() - numbers, at.top(), numbers - kClassGap, at.height()), Qt::AlignLeft | Qt::AlignVCenter,
      tr("%1%2 %  p %3")
          .arg(found ? QStringLiteral("• ") : QStringLiteral("   "), percent(share), numberOf(m_resets.p_value[n], 2)));
}

void ResetBars::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.fillRect(rect(), palette().color(QPalette::Base));
  if (count() == 0) return;
  painter.setPen(mutedTextColour(palette()));
  painter.drawText(QRect(kClassGap, 0, width() - 2 * kClassGap, rowHeight()), Qt::AlignLeft | Qt::AlignVCenter,
                   fontMetrics().elidedText(caption(), Qt::ElideRight, width() - 2 * kClassGap));
  for (int row = 0; row < count(); ++row) paintRow(painter, row);
}

void ResetBars::mouseMoveEvent(QMouseEvent* event) {
  const int row = static_cast<int>(event->position().y()) / rowHeight() - 1;
  const int pointed = row >= 0 && row < count() ? row : -1;
  if (pointed == m_row) return;
  m_row = pointed;
  update();
  emit hovered(m_row < 0 ? QString() : description(m_row));
}

void ResetBars::leaveEvent(QEvent* /*event*/) {
  m_row = -1;
  update();
  emit hovered({});
}

void ResetBars::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) update();
}

}  // namespace foxscope::gui::atlas
