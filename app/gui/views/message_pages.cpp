#include "app/gui/views/message_pages.h"

#include <QEvent>
#include <QVBoxLayout>

#include "app/gui/views/theme.h"

namespace foxscope::gui {

MessagePages::MessagePages(QWidget* content, QWidget* view)
    : QStackedWidget(view), m_message(new QLabel), m_remedy(new QToolButton) {
  m_message->setAlignment(Qt::AlignCenter);
  m_message->setWordWrap(true);
  m_message->setTextInteractionFlags(Qt::TextSelectableByMouse);
  m_remedy->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  m_remedy->hide();
  auto* page = new QWidget;
  auto* column = new QVBoxLayout(page);
  column->addStretch();
  column->addWidget(m_message);
  column->addWidget(m_remedy, 0, Qt::AlignHCenter);
  column->addStretch();
  addWidget(page);
  addWidget(content);
  auto* whole = new QVBoxLayout(view);
  whole->setContentsMargins(0, 0, 0, 0);
  whole->addWidget(this);
  muteText(*m_message, palette());
}

void MessagePages::showContent() { setCurrentIndex(1); }

void MessagePages::showMessage(const QString& message, QAction* remedy) {
  m_message->setText(message);
  if (remedy != nullptr) m_remedy->setDefaultAction(remedy);
  m_remedy->setVisible(remedy != nullptr);
  setCurrentIndex(0);
}

QString MessagePages::message() const { return currentIndex() == 0 ? m_message->text() : QString(); }

void MessagePages::changeEvent(QEvent* event) {
  QStackedWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) muteText(*m_message, palette());
}

}  // namespace foxscope::gui
