#include "app/gui/window/run_list_view.h"

#include <algorithm>

#include <QCoreApplication>
#include <QEvent>
#include <QHeaderView>
#include <QKeyEvent>
#include <QMenu>
#include <QStyledItemDelegate>

#include "app/figure/curves/curve_palette.h"
#include "app/gui/views/host_chip.h"
#include "app/gui/views/theme.h"
#include "app/gui/window/model_card.h"

namespace foxscope::gui {
namespace {

constexpr int kSwatch = 14;  // pixels of a colour that is offered
constexpr int kRowsAtFirst = 5;
constexpr int kNameCharacters = 16;  // of a name, at least, beside which numbers stand

/// Names with the machine beside them, of runs that lie elsewhere.
class NameDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const QString host = index.data(RunListModel::kHostRole).toString();
    QStyleOptionViewItem name(option);
    name.rect.setRight(name.rect.right() - hostChipWidth(host, option.fontMetrics));
    QStyledItemDelegate::paint(painter, name, index);
    painter->setFont(option.font);
    paintHostChip(*painter, option.rect, host, option.palette);
  }
};

}  // namespace

void showRun(RunList& runs, RunId id) {
  const Run* run = runs.run(id);
  if (run == nullptr) return;
  const HeadChoice now = runs.selection().head();
  HeadChoice wanted{id, now.layer, now.head};
  if (!runs.headOf(wanted)) wanted = {id, run->representative.layer, run->representative.head};
  runs.selection().setHead(wanted);
}

RunListView::RunListView(RunList& runs, const RunNumbers& numbers, QWidget* parent)
    : QTreeView(parent), m_runs(runs), m_list(runs, numbers) {
  setModel(&m_list);
  setItemDelegateForColumn(RunListModel::kName, new NameDelegate(this));
  setAccessibleName(tr("Runs"));
  setRootIsDecorated(false);
  setUniformRowHeights(true);
  setAllColumnsShowFocus(true);
  setTextElideMode(Qt::ElideMiddle);
  setFrameShape(QFrame::NoFrame);
  setSelectionBehavior(SelectRows);
  setEditTriggers(DoubleClicked | EditKeyPressed);
  setDragDropMode(InternalMove);
  setDropIndicatorShown(true);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  header()->setStretchLastSection(false);
  header()->setMinimumSectionSize(kSwatch);
  header()->setSectionsClickable(true);
  header()->setSectionsMovable(false);
  connect(header(), &QHeaderView::sectionClicked, this, &RunListView::sortBy);
  connect(&m_list, &RunListModel::dataChanged, this, &RunListView::fitColumns);
  connect(&m_list, &RunListModel::modelReset, this, &RunListView::fitColumns, Qt::QueuedConnection);
  for (int column = 0; column < RunListModel::kColumns; ++column) {
    header()->setSectionResizeMode(
        column, column == RunListModel::kName ? QHeaderView::Stretch : QHeaderView::ResizeToContents);
  }
  // Later, as the row may go.
  connect(
      this, &QTreeView::clicked, this, [this](const QModelIndex& index) { act(index, index.column()); },
      Qt::QueuedConnection);
}

void RunListView::sortBy(int column) {
  if (column < RunListModel::kName || column > RunListModel::kSeconds) return;
  m_order = column == m_sorted && m_order == Qt::AscendingOrder ? Qt::DescendingOrder : Qt::AscendingOrder;
  m_sorted = column;
  m_list.sort(column, m_order);
}

void RunListView::fitColumns() {
  int room = viewport()->width() - fontMetrics().averageCharWidth() * kNameCharacters;
  for (const int column : {RunListModel::kMark, RunListModel::kShown, RunListModel::kAbout, RunListModel::kRemove}) {
    room -= sizeHintForColumn(column);
  }
  for (int column = RunListModel::kLoss; column <= RunListModel::kSeconds; ++column) {
    room -= std::max(sizeHintForColumn(column), header()->sectionSizeHint(column));
    setColumnHidden(column, room < 0);
  }
}

void RunListView::resizeEvent(QResizeEvent* event) {
  QTreeView::resizeEvent(event);
  fitColumns();
}

QSize RunListView::sizeHint() const {
  const int row = std::max(sizeHintForRow(0), fontMetrics().height() + 6);
  return {fontMetrics().averageCharWidth() * 40, row * kRowsAtFirst + header()->sizeHint().height() + 2};
}

QSize RunListView::minimumSizeHint() const {
  return {fontMetrics().averageCharWidth() * 20, fontMetrics().height() * 3};
}

void RunListView::act(const QModelIndex& index, int column) {
  if (!index.isValid()) return;
  const ListRow row = m_list.row(index);
  switch (column) {
    case RunListModel::kMark:
      return offerColours(index);
    case RunListModel::kName:
      return showRun(m_runs, row.run);
    case RunListModel::kShown: {
      if (row.run == kNoRun) return;
      RunLook look = m_runs.lookOf(row);
      look.hidden = !look.hidden;
      return m_runs.setLook(row, look);
    }
    case RunListModel::kAbout:
      return tellOf(row);
    case RunListModel::kRemove: {
      const int place = index.row();
      m_runs.removeRow(row);
      return setCurrentIndex(m_list.index(std::min(place, m_list.rowCount() - 1), RunListModel::kName));
    }
    default:
      break;
  }
}

void RunListView::offerColours(const QModelIndex& index) {
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  const ListRow row = m_list.row(index);
  const auto ground = isDark(palette()) ? figure::Ground::dark : figure::Ground::light;
  for (int colour = 0; colour < figure::kCurveColours; ++colour) {
    QAction* action = menu->addAction(runMark(colour, 0, kSwatch, palette()),
                                      QCoreApplication::translate("palette", figure::curveColourName(colour, ground)));
    action->setCheckable(true);
    action->setChecked(m_runs.lookOf(row).colour == colour);
    connect(action, &QAction::triggered, this, [this, row, colour] {
      if (m_list.placeOf(row) < 0) return;
      RunLook look = m_runs.lookOf(row);
      look.colour = colour;
      m_runs.setLook(row, look);
    });
  }
  menu->popup(viewport()->mapToGlobal(visualRect(index.siblingAtColumn(RunListModel::kMark)).bottomLeft()));
}

void RunListView::tellOf(const ListRow& row) { (new ModelCard(m_runs, row, window()))->show(); }

void RunListView::move(int by) {
  if (!currentIndex().isValid()) return;
  const ListRow row = m_list.row(currentIndex());
  const QString name = m_runs.nameOf(row);
  m_runs.moveRow(currentIndex().row(), currentIndex().row() + by);
  for (int place = 0; place < m_list.rowCount(); ++place) {
    const QModelIndex index = m_list.index(place, RunListModel::kName);
    if (m_runs.nameOf(m_list.row(index)) == name) setCurrentIndex(index);
  }
}

// Letters are the window's commands elsewhere; here C is the colour's.
bool RunListView::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->modifiers() == Qt::NoModifier && (key->key() == Qt::Key_C || key->key() == Qt::Key_I)) {
      event->accept();
      return true;
    }
  }
  return QTreeView::event(event);
}

void RunListView::keyPressEvent(QKeyEvent* event) {
  // Return, which ends the editing of a name, comes here too.
  if (state() == EditingState) return;
  const bool alt = event->modifiers().testFlag(Qt::AltModifier);
  if (alt && event->key() == Qt::Key_Up) return move(-1);
  if (alt && event->key() == Qt::Key_Down) return move(1);
  const QModelIndex index = currentIndex();
  switch (event->key()) {
    case Qt::Key_Space:
      return act(index, RunListModel::kShown);
    case Qt::Key_Delete:
      return act(index, RunListModel::kRemove);
    case Qt::Key_Return:
    case Qt::Key_Enter:
      return act(index, RunListModel::kName);
    case Qt::Key_I:
      return act(index, RunListModel::kAbout);
    case Qt::Key_C:
      if (event->modifiers() == Qt::NoModifier) return act(index, RunListModel::kMark);
      break;
    case Qt::Key_F2:
      if (index.isValid()) edit(index.siblingAtColumn(RunListModel::kName));
      return;
    default:
      break;
  }
  QTreeView::keyPressEvent(event);
}

void RunListView::changeEvent(QEvent* event) {
  QTreeView::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) viewport()->update();
}

}  // namespace foxscope::gui
