#include "app/gui/window/message_bar.h"

#include <functional>

#include <QFrame>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QToolButton>
#include <QVBoxLayout>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr int kMostMessages = 5;
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

MessageBar::MessageBar(QWidget* parent) : QWidget(parent) {
  m_lines = new QVBoxLayout(this);
  m_lines->setContentsMargins(0, 0, 0, 0);
  m_lines->setSpacing(1);
  setAccessibleName(tr("Messages"));
}

void MessageBar::show(const Message& message) { show(message, {}, {}); }

void MessageBar::show(const Message& message, const QString& button, const std::function<void()>& act) {
  if (texts().contains(message.text)) return;
  while (m_lines->count() >= kMostMessages) delete m_lines->itemAt(0)->widget();
  auto* line = new QFrame;
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
}

void MessageBar::clearNotes() {
  for (int index = m_lines->count() - 1; index >= 0; --index) {
    QWidget* line = m_lines->itemAt(index)->widget();
    if (line->property(kKind).toInt() == static_cast<int>(Message::Kind::note)) delete line;
  }
}

QStringList MessageBar::texts() const {
  QStringList shown;
  for (int index = 0; index < m_lines->count(); ++index)
    shown += m_lines->itemAt(index)->widget()->property(kText).toString();
  return shown;
}

}  // namespace foxscope::gui
