#include "app/gui/window/command_palette.h"

#include <algorithm>
#include <vector>

#include <QKeyEvent>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QVBoxLayout>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr int kWidthInCharacters = 70;
constexpr int kShownRows = 14;
constexpr int kKeysRole = Qt::UserRole + 1;

/// A command's name at the left, its keys at the right.
class CommandDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    QStyledItemDelegate::paint(painter, option, index);
    const bool chosen = option.state.testFlag(QStyle::State_Selected);
    painter->setPen(chosen ? option.palette.color(QPalette::HighlightedText) : mutedTextColour(option.palette));
    const int beside = option.fontMetrics.averageCharWidth();
    painter->drawText(option.rect.adjusted(beside, 0, -beside, 0), Qt::AlignRight | Qt::AlignVCenter,
                      index.data(kKeysRole).toString());
  }
};

}  // namespace

QString plainText(const QAction& action) {
  QString text = action.text();
  text.remove('&');
  if (text.endsWith(QStringLiteral("…"))) text.chop(1);
  return text;
}

CommandPalette::CommandPalette(const QList<QAction*>& actions, QWidget* parent)
    : QDialog(parent, Qt::Popup), m_actions(actions) {
  setWindowTitle(tr("Commands"));
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(8, 8, 8, 8);
  m_input = new QLineEdit;
  m_input->setPlaceholderText(tr("Type a part of a command's name"));
  m_input->setAccessibleName(tr("Command"));
  m_input->installEventFilter(this);
  m_list = new QListWidget;
  m_list->setAccessibleName(tr("Commands"));
  m_list->setFocusPolicy(Qt::NoFocus);
  m_list->setItemDelegate(new CommandDelegate(m_list));
  m_list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  layout->addWidget(m_input);
  layout->addWidget(m_list);
  connect(m_input, &QLineEdit::textChanged, this, &CommandPalette::narrow);
  connect(m_input, &QLineEdit::returnPressed, this, &CommandPalette::perform);
  connect(m_list, &QListWidget::itemClicked, this, &CommandPalette::perform);
  narrow({});
  resize(fontMetrics().averageCharWidth() * kWidthInCharacters, fontMetrics().height() * (kShownRows + 3) * 5 / 4);
  m_input->setFocus();
}

QStringList CommandPalette::shownTexts() const {
  QStringList texts;
  for (int row = 0; row < m_list->count(); ++row) texts += m_list->item(row)->text();
  return texts;
}

void CommandPalette::narrow(const QString& typed) {
  const QStringList words = typed.split(' ', Qt::SkipEmptyParts);
  m_list->clear();
  std::vector<qsizetype> found;
  for (qsizetype index = 0; index < m_actions.size(); ++index) {
    const QAction& action = *m_actions[index];
    if (!action.isEnabled()) continue;
    const QString shortcut = action.shortcut().toString(QKeySequence::NativeText);
    const QString text = plainText(action);
    const bool fits = std::all_of(words.begin(), words.end(), [&](const QString& word) {
      return text.contains(word, Qt::CaseInsensitive) || shortcut.contains(word, Qt::CaseInsensitive);
    });
    if (fits) found.push_back(index);
  }
  // Commands that begin with the typed words come first: Return runs the first.
  std::stable_partition(found.begin(), found.end(), [&](qsizetype index) {
    return plainText(*m_actions[index]).startsWith(typed.trimmed(), Qt::CaseInsensitive);
  });
  for (const qsizetype index : found) {
    const QAction& action = *m_actions[index];
    const QString shortcut = action.shortcut().toString(QKeySequence::NativeText);
    const QString text = plainText(action);
    auto* item = new QListWidgetItem(text);
    item->setData(Qt::UserRole, static_cast<int>(index));
    item->setData(kKeysRole, shortcut);
    item->setToolTip(action.toolTip());
    m_list->addItem(item);
  }
  if (m_list->count() > 0) m_list->setCurrentRow(0);
}

void CommandPalette::perform() {
  const QListWidgetItem* item = m_list->currentItem();
  if (item == nullptr) return;
  QAction* action = m_actions[item->data(Qt::UserRole).toInt()];
  accept();
  action->trigger();
}

// A dialog over the window has an edge, also where both are dark.
void CommandPalette::paintEvent(QPaintEvent* event) {
  QDialog::paintEvent(event);
  QPainter painter(this);
  painter.setPen(mutedTextColour(palette()));
  painter.drawRect(rect().adjusted(0, 0, -1, -1));
}

// The list is moved through while the input keeps the keyboard.
bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
  if (watched == m_input && event->type() == QEvent::KeyPress) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    if (key == Qt::Key_Up || key == Qt::Key_Down) {
      const int step = key == Qt::Key_Up ? -1 : 1;
      m_list->setCurrentRow(std::clamp(m_list->currentRow() + step, 0, std::max(0, m_list->count() - 1)));
      return true;
    }
  }
  return QDialog::eventFilter(watched, event);
}

}  // namespace foxscope::gui
