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
  m_input->setPlaceholderText(tr("Position, percentage, or +500 from the pin"));
  m_input->setAccessibleName(tr("Go to position"));
  m_input->setToolTip(tr("Enter pins the position as query and shows it, Esc closes"));
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

void GoBar::open(std::int64_t length, std::int64_t from) {
  m_length = length;
  m_from = from;
  m_hint->clear();
  show();
  m_input->setFocus(Qt::ShortcutFocusReason);
  m_input->selectAll();
}

void GoBar::accept() {
  if (const auto position = positionFromInput(m_input->text(), m_length, m_from)) {
    emit chosen(*position);
    return;
  }
  const QString last = QString::number(static_cast<qlonglong>(m_length - 1));
  m_hint->setText(m_from + 1 >= m_length
                      ? tr("type 0 to %1, or 0 % to 100 %").arg(last)
                      : tr("type 0 to %1, 0 % to 100 %, or +1 to +%2")
                            .arg(last, QString::number(static_cast<qlonglong>(m_length - 1 - m_from))));
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
