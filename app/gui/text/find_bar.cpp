#include "app/gui/text/find_bar.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QToolButton>

namespace foxscope::gui {

FindBar::FindBar(QWidget* parent)
    : QWidget(parent), m_words(new QLineEdit(this)), m_case(new QToolButton(this)), m_count(new QLabel(this)) {
  m_words->setPlaceholderText(tr("Find in the text"));
  m_words->setAccessibleName(tr("Find in the text"));
  m_words->setToolTip(tr("Enter: next, Shift+Enter: previous, Esc: close"));
  m_words->setClearButtonEnabled(true);
  m_case->setText(QStringLiteral("Aa"));
  m_case->setCheckable(true);
  m_case->setAutoRaise(true);
  m_case->setToolTip(tr("Distinguish capital and small letters"));
  m_case->setAccessibleName(m_case->toolTip());
  m_count->setObjectName(QStringLiteral("findCount"));

  const auto button = [this](Qt::ArrowType arrow, const QString& tip, void (FindBar::*signal)()) {
    auto* made = new QToolButton(this);
    made->setArrowType(arrow);
    made->setAutoRaise(true);
    made->setToolTip(tip);
    made->setAccessibleName(tip);
    connect(made, &QToolButton::clicked, this, signal);
    return made;
  };
  auto* close = new QToolButton(this);
  close->setText(QStringLiteral("✕"));
  close->setAutoRaise(true);
  close->setToolTip(tr("Close (Esc)"));
  close->setAccessibleName(tr("Close"));

  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(6, 2, 6, 2);
  row->addWidget(m_words, 1);
  row->addWidget(m_case);
  row->addWidget(button(Qt::UpArrow, tr("Previous (Shift+F3)"), &FindBar::previous));
  row->addWidget(button(Qt::DownArrow, tr("Next (F3)"), &FindBar::next));
  row->addWidget(m_count);
  row->addWidget(close);

  connect(m_words, &QLineEdit::textChanged, this, &FindBar::changed);
  connect(m_case, &QToolButton::toggled, this, &FindBar::changed);
  connect(close, &QToolButton::clicked, this, &FindBar::closed);
  setFocusProxy(m_words);
}

QString FindBar::words() const { return m_words->text(); }

Qt::CaseSensitivity FindBar::sensitivity() const {
  return m_case->isChecked() ? Qt::CaseSensitive : Qt::CaseInsensitive;
}

void FindBar::showCount(int current, int count) {
  if (words().isEmpty()) {
    m_count->clear();
  } else if (count == 0) {
    m_count->setText(tr("not found"));
  } else {
    m_count->setText(tr("%1 of %2").arg(current + 1).arg(count));
  }
}

void FindBar::showSearching() { m_count->setText(words().isEmpty() ? QString() : tr("searching …")); }

void FindBar::open() {
  show();
  m_words->setFocus(Qt::ShortcutFocusReason);
  m_words->selectAll();
}

// Here Escape closes the bar; elsewhere it is a command of the window.
bool FindBar::event(QEvent* event) {
  const bool isKey = event->type() == QEvent::ShortcutOverride;
  if (!isKey || static_cast<QKeyEvent*>(event)->key() != Qt::Key_Escape) return QWidget::event(event);
  event->accept();
  return true;
}

void FindBar::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape) {
    emit closed();
  } else if (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) {
    if (event->modifiers().testFlag(Qt::ShiftModifier)) {
      emit previous();
    } else {
      emit next();
    }
  } else {
    QWidget::keyPressEvent(event);
  }
}

}  // namespace foxscope::gui
