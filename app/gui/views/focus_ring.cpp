#include "app/gui/views/focus_ring.h"

#include <QApplication>
#include <QEvent>
#include <QKeyEvent>
#include <QPainter>

namespace foxscope::gui {
namespace {

class Outline : public QWidget {
 public:
  explicit Outline(QWidget* window) : QWidget(window) {
    setAttribute(Qt::WA_TransparentForMouseEvents);
    setAttribute(Qt::WA_NoSystemBackground);
    setFocusPolicy(Qt::NoFocus);
  }

 protected:
  void paintEvent(QPaintEvent* /*event*/) override {
    QPainter painter(this);
    QPen pen(palette().color(QPalette::Highlight), FocusRing::kWidth);
    pen.setJoinStyle(Qt::MiterJoin);
    painter.setPen(pen);
    constexpr double kHalf = FocusRing::kWidth / 2.0;
    painter.drawRect(QRectF(rect()).adjusted(kHalf, kHalf, -kHalf, -kHalf));
  }
};

bool isModifier(int key) {
  return key == Qt::Key_Shift || key == Qt::Key_Control || key == Qt::Key_Alt || key == Qt::Key_Meta ||
         key == Qt::Key_AltGr;
}

}  // namespace

FocusRing::FocusRing(QObject* parent) : QObject(parent) {
  qApp->installEventFilter(this);
  connect(qApp, &QApplication::focusChanged, this, &FocusRing::follow);
}

FocusRing::~FocusRing() { delete m_outline; }

void FocusRing::follow() {
  QWidget* focus = m_byKeys ? QApplication::focusWidget() : nullptr;
  const bool inWindow = focus != nullptr && !focus->isWindow() && focus->window()->windowType() != Qt::Popup;
  m_focus = inWindow ? focus : nullptr;
  if (m_outline != nullptr && (m_focus == nullptr || m_outline->parentWidget() != m_focus->window())) {
    delete m_outline;
  }
  if (m_focus == nullptr) return;
  if (m_outline == nullptr) m_outline = new Outline(m_focus->window());
  place();
}

// The ring outlines the part of a widget that its scroll area shows.
void FocusRing::place() {
  if (m_outline == nullptr || m_focus == nullptr) return;
  const QRect seen = m_focus->visibleRegion().boundingRect();
  m_outline->setVisible(!seen.isEmpty());
  if (seen.isEmpty()) return;
  const QRect around = seen.translated(m_focus->mapTo(m_focus->window(), QPoint()));
  m_outline->setGeometry(around.adjusted(-kWidth, -kWidth, kWidth, kWidth).intersected(m_focus->window()->rect()));
  m_outline->raise();
}

bool FocusRing::eventFilter(QObject* watched, QEvent* event) {
  switch (event->type()) {
    case QEvent::KeyPress:
    case QEvent::ShortcutOverride:
      if (m_byKeys || isModifier(static_cast<QKeyEvent*>(event)->key())) break;
      m_byKeys = true;
      follow();
      break;
    case QEvent::MouseButtonPress:
      if (!m_byKeys) break;
      m_byKeys = false;
      follow();
      break;
    case QEvent::Move:
    case QEvent::Resize:
    case QEvent::Show:
    case QEvent::Hide:
      if (m_focus != nullptr && watched->isWidgetType() && watched != m_outline) {
        const auto* widget = static_cast<QWidget*>(watched);
        const bool concerns = widget == m_focus || widget->isAncestorOf(m_focus);
        // When what it stands in has been laid out.
        if (concerns) QMetaObject::invokeMethod(this, &FocusRing::place, Qt::QueuedConnection);
      }
      break;
    default:
      break;
  }
  return QObject::eventFilter(watched, event);
}

}  // namespace foxscope::gui
