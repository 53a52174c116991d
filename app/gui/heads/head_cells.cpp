#include "app/gui/heads/head_cells.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QToolTip>

namespace foxscope::gui {

HeadCells::HeadCells(RunList& runs, QWidget* parent) : QWidget(parent), m_list(runs) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  QSizePolicy policy(QSizePolicy::Preferred, QSizePolicy::Preferred);
  policy.setHeightForWidth(true);
  setSizePolicy(policy);
  connect(&runs.selection(), &Selection::headChanged, this, [this] {
    update();
    showChosen();
  });
}

void HeadCells::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton && event->button() != Qt::RightButton) return;
  if (const auto head = headAt(event->pos())) m_list.selection().setHead(*head);
}

void HeadCells::mouseMoveEvent(QMouseEvent* event) {
  const auto head = headAt(event->pos());
  if (head == m_hovered) return;
  m_hovered = head;
  update();
}

void HeadCells::showChosen() {
  const QRect chosen = cell(m_list.selection().head());
  if (!chosen.isEmpty()) emit shown(chosen);
}

void HeadCells::resizeEvent(QResizeEvent* /*event*/) { showChosen(); }

void HeadCells::leaveEvent(QEvent* /*event*/) {
  m_hovered.reset();
  update();
}

void HeadCells::keyPressEvent(QKeyEvent* event) {
  const int key = event->key();
  if (key != Qt::Key_Left && key != Qt::Key_Right && key != Qt::Key_Up && key != Qt::Key_Down) {
    return QWidget::keyPressEvent(event);
  }
  const auto next = beside(m_list.selection().head(), static_cast<Qt::Key>(key));
  if (next) m_list.selection().setHead(*next);
}

void HeadCells::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) {
    updateGeometry();
    update();
  }
  QWidget::changeEvent(event);
}

bool HeadCells::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto head = headAt(help->pos());
  const QString told = head ? description(*head) : QString();
  if (told.isEmpty()) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(help->globalPos(), told, this, cell(*head));
  }
  return true;
}

}  // namespace foxscope::gui
