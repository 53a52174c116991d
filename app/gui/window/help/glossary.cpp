#include "app/gui/window/help/glossary.h"

#include <QApplication>
#include <QDockWidget>
#include <QFile>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QListWidget>
#include <QRegularExpression>
#include <QTextBrowser>

namespace foxscope::gui {
namespace {

constexpr int kTextCharacters = 78;
constexpr int kLines = 36;

}  // namespace

Glossary::Glossary(QWidget* parent) : QDialog(parent), m_list(new QListWidget), m_text(new QTextBrowser) {
  setWindowTitle(tr("Glossary"));
  QFile file(QStringLiteral(":/help/glossary.html"));
  const QString content = file.open(QIODevice::ReadOnly) ? QString::fromUtf8(file.readAll()) : QString();
  static const QRegularExpression heading(QStringLiteral("<h3><a name=\"([a-z-]+)\"></a>([^<]+)</h3>"));
  for (auto match = heading.globalMatch(content); match.hasNext();) {
    const auto found = match.next();
    auto* item = new QListWidgetItem(found.captured(2), m_list);
    item->setData(Qt::UserRole, found.captured(1));
  }
  m_text->setHtml(content);
  m_text->setFrameShape(QFrame::NoFrame);
  m_text->document()->setDocumentMargin(2.0 * fontMetrics().averageCharWidth());
  m_list->setFrameShape(QFrame::NoFrame);
  m_list->setAccessibleName(tr("Terms"));
  // The list is wide enough for every term.
  m_list->setFixedWidth(m_list->sizeHintForColumn(0) + 2 * fontMetrics().averageCharWidth());
  m_list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  connect(m_list, &QListWidget::currentItemChanged, this, [this](const QListWidgetItem* item) {
    if (item != nullptr) m_text->scrollToAnchor(item->data(Qt::UserRole).toString());
  });
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(m_list);
  layout->addWidget(m_text, 1);
  resize(m_list->width() + fontMetrics().averageCharWidth() * kTextCharacters, fontMetrics().height() * kLines);
}

void Glossary::show(const QString& term) {
  QDialog::show();
  raise();
  activateWindow();
  for (int row = 0; row < m_list->count(); ++row) {
    if (m_list->item(row)->data(Qt::UserRole).toString() != term) continue;
    m_list->setCurrentRow(row);
    m_text->scrollToAnchor(term);  // also where it was the current one before
  }
}

QStringList Glossary::terms() const {
  QStringList terms;
  for (int row = 0; row < m_list->count(); ++row) terms += m_list->item(row)->data(Qt::UserRole).toString();
  return terms;
}

QString Glossary::term() const {
  const QListWidgetItem* item = m_list->currentItem();
  return item == nullptr ? QString() : item->data(Qt::UserRole).toString();
}

QString termOf(const QWidget* widget) {
  for (; widget != nullptr; widget = widget->parentWidget()) {
    // A dock's title stands for what it holds: of several tabs that is the one in front.
    const auto* dock = qobject_cast<const QDockWidget*>(widget);
    const QWidget* described = dock != nullptr && widget->whatsThis().isEmpty() ? dock->widget() : widget;
    if (described != nullptr && !described->whatsThis().isEmpty()) return described->whatsThis();
  }
  return {};
}

QString termAt(const QPoint& globalPosition) {
  const QWidget* at = QApplication::widgetAt(globalPosition);
  for (const QWidget* widget = at; widget != nullptr && widget->whatsThis().isEmpty();
       widget = widget->parentWidget()) {
    const auto* header = qobject_cast<const QHeaderView*>(widget);
    if (header == nullptr || header->model() == nullptr) continue;
    const QPoint place = header->viewport()->mapFromGlobal(globalPosition);
    const int section = header->logicalIndexAt(place);
    QString term = header->model()->headerData(section, header->orientation(), Qt::WhatsThisRole).toString();
    if (!term.isEmpty()) return term;
  }
  return termOf(at);
}

}  // namespace foxscope::gui
