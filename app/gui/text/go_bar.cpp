#include "app/gui/text/go_bar.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QLocale>
#include <QToolButton>

#include "app/gui/text/text_search.h"

namespace foxscope::gui {

GoBar::GoBar(QWidget* parent) : QWidget(parent), m_input(new QLineEdit(this)), m_hint(new QLabel(this)) {
  m_input->setPlaceholderText(tr("Position, percentage of the text, or +500"));
  m_input->setAccessibleName(tr("Go to position"));
  m_input->setToolTip(
      tr("Enter pins the position as query and shows it, Esc closes. +500: so many tokens behind the "
         "pinned key, or the pinned query where no key is pinned"));
  m_hint->setObjectName(QStringLiteral("goHint"));
  auto* close = new QToolButton(this);
  close->setText(QStringLiteral("✕"));
  close->setAutoRaise(true);
  close->setToolTip(tr("Close (Esc)"));
  close->setAccessibleName(tr("Close"));
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(6, 2, 6, 2);
  row->addWidget(m_input, 1);
  row->addWidget(m_hint);
  row->addWidget(close);
  connect(close, &QToolButton::clicked, this, &GoBar::closed);
  connect(m_input, &QLineEdit::textEdited, m_hint, &QLabel::clear);
  setFocusProxy(m_input);
}

void GoBar::open(std::int64_t length, std::optional<std::int64_t> from) {
  m_length = length;
  m_from = from;
  m_hint->clear();
  show();
  m_input->setFocus(Qt::ShortcutFocusReason);
  m_input->selectAll();
}

void GoBar::accept() {
  const QString input = m_input->text().trimmed();
  const bool relative = input.startsWith('+');
  if (const auto position = relative ? behindPin(input.mid(1)) : positionFromInput(input, m_length)) {
    emit chosen(*position);
    return;
  }
  const qlonglong last = m_length - 1;
  if (!relative) return m_hint->setText(tr("type 0 to %1, or 0 % to 100 %").arg(last));
  m_hint->setText(m_from ? tr("type +0 to +%1").arg(last - *m_from) : tr("pin a key or a query first"));
}

std::optional<std::int64_t> GoBar::behindPin(const QString& number) const {
  bool whole = false;
  const qlonglong by = number.toLongLong(&whole);
  if (!whole || !m_from || by < 0 || by >= m_length - *m_from) return std::nullopt;
  return *m_from + by;
}

// Here Escape closes the bar; elsewhere it is a command of the window.
bool GoBar::event(QEvent* event) {
  const bool isKey = event->type() == QEvent::ShortcutOverride;
  if (!isKey || static_cast<QKeyEvent*>(event)->key() != Qt::Key_Escape) return QWidget::event(event);
  event->accept();
  return true;
}

void GoBar::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape) {
    emit closed();
  } else if (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) {
    accept();
  } else {
    QWidget::keyPressEvent(event);
  }
}

}  // namespace foxscope::gui
