#include "app/gui/window/message_bar.h"

#include <algorithm>
#include <functional>

#include <QEvent>
#include <QFrame>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr int kMostMessages = 5;
constexpr int kNoteMs = 10'000;
constexpr int kMargin = 8;
constexpr int kMostCharacters = 110;
constexpr char kKind[] = "foxscopeKind";
constexpr char kText[] = "foxscopeText";

QColor groundOf(Message::Kind kind, const QPalette& palette) {
  const bool dark = isDark(palette);
  switch (kind) {
    case Message::Kind::note:
      return dark ? QColor(0x24364a) : QColor(0xdfeaf6);
    case Message::Kind::warning:
      return dark ? QColor(0x4a3d1d) : QColor(0xfbf0d2);
    case Message::Kind::error:
      return dark ? QColor(0x52262a) : QColor(0xf9dcdc);
  }
  return {};
}

}  // namespace

MessageBar::MessageBar(QWidget& parent) : QWidget(&parent) {
  m_lines = new QVBoxLayout(this);
  m_lines->setContentsMargins(0, 0, 0, 0);
  m_lines->setSpacing(kMargin / 2);
  setAccessibleName(tr("Messages"));
  parent.installEventFilter(this);
  hide();
}

void MessageBar::place() {
  setVisible(m_lines->count() > 0);
  if (m_lines->count() == 0) return;
  const QRect room = parentWidget()->rect().adjusted(kMargin, kMargin, -kMargin, -kMargin);
  const int width = std::min(room.width(), fontMetrics().averageCharWidth() * kMostCharacters);
  const int height = m_lines->hasHeightForWidth() ? m_lines->heightForWidth(width) : sizeHint().height();
  setGeometry(room.center().x() - width / 2, room.bottom() - height, width, height);
  raise();
}

bool MessageBar::eventFilter(QObject* watched, QEvent* event) {
  // A layout request: a part of the window that came into sight would lie over it.
  if (watched == parentWidget() && (event->type() == QEvent::Resize || event->type() == QEvent::LayoutRequest)) place();
  return QWidget::eventFilter(watched, event);
}

bool MessageBar::event(QEvent* event) {
  const bool done = QWidget::event(event);
  if (event->type() == QEvent::LayoutRequest) place();
  return done;
}

void MessageBar::show(const Message& message) { show(message, {}, {}); }

void MessageBar::show(const Message& message, const QString& button, const std::function<void()>& act) {
  if (texts().contains(message.text)) return;
  while (m_lines->count() >= kMostMessages) delete m_lines->itemAt(0)->widget();
  auto* line = new QFrame;
  line->setFrameShape(QFrame::StyledPanel);
  line->setAutoFillBackground(true);
  line->setProperty(kKind, static_cast<int>(message.kind));
  line->setProperty(kText, message.text);
  QPalette colours = palette();
  colours.setColor(QPalette::Window, groundOf(message.kind, palette()));
  line->setPalette(colours);
  auto* layout = new QHBoxLayout(line);
  layout->setContentsMargins(10, 4, 4, 4);
  auto* label = new QLabel(message.text);
  label->setTextFormat(Qt::PlainText);
  label->setWordWrap(true);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  layout->addWidget(label, 1);
  if (act) {
    auto* push = new QPushButton(button);
    connect(push, &QPushButton::clicked, line, [line, act] {
      line->deleteLater();
      act();
    });
    layout->addWidget(push);
  }
  auto* close = new QToolButton;
  close->setText(QStringLiteral("×"));
  close->setAutoRaise(true);
  close->setToolTip(tr("Close this message"));
  close->setAccessibleName(tr("Close message"));
  connect(close, &QToolButton::clicked, line, &QObject::deleteLater);
  layout->addWidget(close);
  m_lines->addWidget(line);
  if (message.kind == Message::Kind::note && !act) {
    auto* timer = new QTimer(line);
    connect(timer, &QTimer::timeout, line, [line] {
      if (!line->underMouse()) line->deleteLater();
    });
    timer->start(kNoteMs);
  }
  place();
}

void MessageBar::clearNotes() {
  for (int index = m_lines->count() - 1; index >= 0; --index) {
    QWidget* line = m_lines->itemAt(index)->widget();
    if (line->property(kKind).toInt() == static_cast<int>(Message::Kind::note)) delete line;
  }
}

void MessageBar::remove(const QString& text) {
  const auto place = texts().indexOf(text);
  if (place >= 0) delete m_lines->itemAt(static_cast<int>(place))->widget();
}

QStringList MessageBar::texts() const {
  QStringList shown;
  for (int index = 0; index < m_lines->count(); ++index)
    shown += m_lines->itemAt(index)->widget()->property(kText).toString();
  return shown;
}

}  // namespace foxscope::gui
