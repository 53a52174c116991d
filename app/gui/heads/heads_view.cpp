#include "app/gui/heads/heads_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <QAction>
#include <QActionGroup>
#include <QApplication>
#include <QClipboard>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QMimeData>
#include <QScrollArea>
#include <QSortFilterProxyModel>
#include <QStackedWidget>
#include <QStandardItemModel>
#include <QStyle>
#include <QVBoxLayout>

#include "app/gui/document/runs/saliency_action.h"
#include "app/gui/heads/grid_table.h"
#include "app/gui/views/elided_combo.h"
#include "app/gui/views/number_table.h"
#include "app/gui/views/table_text.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

using ColouringKind = HeadColouring::Kind;

// The data of an entry of the box.
constexpr int kKindRole = Qt::UserRole;
constexpr int kQuantityRole = Qt::UserRole + 1;
constexpr int kWidestGrid = 300;  // pixels: 64 heads of 4 and their layers' numbers
constexpr int kMostListed = 20;   // entries of the box that are seen at once

/// Whether numbers of one run may be subtracted from those of another: not those of the pinned pair, nor labels.
bool isSubtracted(const HeadColouring& colouring) {
  return colouring.kind == ColouringKind::quantity &&
         (colouring.quantity < HeadQuantity::pinnedForget || colouring.quantity == HeadQuantity::massOnSink);
}

/// The chosen head is brought into sight, when the area knows how high the cells are.
void followShown(const HeadCells& cells, QScrollArea& scroll) {
  const auto follow = [&scroll](const QRect& place) {
    scroll.ensureVisible(place.center().x(), place.center().y(), place.width() / 2, place.height());
  };
  QObject::connect(&cells, &HeadCells::shown, &scroll, follow, Qt::QueuedConnection);
}

}  // namespace

/// A dock of any width shows the first of the numbers whole: no column is wider than what the heads' names leave.
class HeadList : public NumberTable {
 public:
  HeadList() { horizontalHeader()->setMinimumSectionSize(nameWidth()); }
  void setModel(QAbstractItemModel* model) override {
    NumberTable::setModel(model);
    horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    for (int column = 0; column < kNameColumns; ++column) {
      horizontalHeader()->setSectionResizeMode(column, QHeaderView::Fixed);
      horizontalHeader()->resizeSection(column, nameWidth());
    }
  }

 protected:
  void resizeEvent(QResizeEvent* event) override {
    NumberTable::resizeEvent(event);
    horizontalHeader()->setMaximumSectionSize(
        std::max(kNameColumns * nameWidth(), viewport()->width() - kNameColumns * nameWidth()));
  }

 private:
  static constexpr int kNameColumns = 2;
  /// Two digits, or the mark of the order beside a letter.
  [[nodiscard]] int nameWidth() const { return fontMetrics().horizontalAdvance(QStringLiteral("0000")); }
};

/// Sorts by numbers, with what is not known at the end, and keeps the heads with one label.
class HeadOrder : public QSortFilterProxyModel {
 public:
  using QSortFilterProxyModel::QSortFilterProxyModel;

  void setLabel(std::optional<HeadLabel> label) {
    m_label = label;
    invalidateFilter();
  }
  /// Shows heads, or none where all runs are hidden.
  void setListed(bool listed) {
    if (listed == m_listed) return;
    m_listed = listed;
    invalidateFilter();
  }

 protected:
  [[nodiscard]] bool lessThan(const QModelIndex& left, const QModelIndex& right) const override {
    const double a = left.data(HeadTable::OrderRole).toDouble();
    const double b = right.data(HeadTable::OrderRole).toDouble();
    if (std::isnan(a) || std::isnan(b)) {
      return std::isnan(a) == std::isnan(b) ? false : (std::isnan(b) == (sortOrder() == Qt::AscendingOrder));
    }
    return a < b;
  }
  [[nodiscard]] bool filterAcceptsRow(int row, const QModelIndex& parent) const override {
    if (!m_listed) return false;
    if (!m_label) return true;
    const int labels = sourceModel()->index(row, 0, parent).data(HeadTable::LabelsRole).toInt();
    return (labels >> static_cast<int>(*m_label) & 1) != 0;
  }

 private:
  std::optional<HeadLabel> m_label;
  bool m_listed = true;
};

HeadsView::HeadsView(RunList& runs, ModelRuns& modelRuns, HeadTable& table, QWidget* parent)
    : QWidget(parent), m_runs(runs), m_modelRuns(modelRuns), m_table(table), m_pictures(runs, this) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 6, 6, 6);
  m_label = new ElidedCombo;
  m_label->setToolTip(tr("Which heads are listed; the others are faded in the grid"));
  m_label->setAccessibleName(tr("Heads with the label"));
  m_label->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  m_label->setMinimumContentsLength(12);
  m_label->addItem(QString());
  for (int number = 0; number < kHeadLabels; ++number) {
    m_label->addItem(QString());
    m_label->setItemData(number + 1, meaningOf(static_cast<HeadLabel>(number)), Qt::ToolTipRole);
  }
  layout->addWidget(m_label);

  m_tabs = new QTabBar;
  m_tabs->setDrawBase(false);
  m_tabs->setExpanding(false);
  m_tabs->setUsesScrollButtons(false);  // three names are never cut
  layout->addWidget(m_tabs);
  // The inputs of a tab stand below the tabs, which stay where they are.
  m_run = new ElidedCombo;
  m_run->setToolTip(tr("The run whose heads are listed"));
  m_run->setAccessibleName(tr("Run"));
  m_run->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  m_run->setMinimumContentsLength(12);
  layout->addWidget(m_run);
  m_choice = new ElidedCombo;
  m_choice->setToolTip(tr("What the colour of a head stands for"));
  m_choice->setAccessibleName(tr("Colour heads by"));
  m_choice->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  m_choice->setMinimumContentsLength(12);
  m_choice->setMaxVisibleItems(kMostListed);
  layout->addWidget(m_choice);
  m_minus = new ElidedCombo;
  m_minus->setToolTip(
      tr("Subtract a run: the number of a head, less the number of the head of that run whose attention reaches as "
         "far"));
  m_minus->setAccessibleName(tr("Subtracted run"));
  m_minus->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  m_minus->setMinimumContentsLength(12);
  layout->addWidget(m_minus);
  m_pages = new QStackedWidget;
  const auto addTab = [this](QWidget* page, const QString& name, const QString& tip) {
    m_tabs->setTabToolTip(m_tabs->addTab(name), tip);
    m_pages->addWidget(page);
  };
  m_grid = new HeadGrid(runs, table, m_pictures);
  describeGrid(*m_grid, runs, table, [this] { return colouring(); });
  m_gridArea = new QScrollArea;
  QScrollArea* scroll = m_gridArea;
  scroll->setWidget(m_grid);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAsNeeded);
  scroll->setFocusPolicy(Qt::NoFocus);
  followShown(*m_grid, *scroll);
  addTab(scroll, tr("Grid"), tr("Layers downwards, heads to the right"));

  auto* page = new QWidget;
  auto* pageLayout = new QVBoxLayout(page);
  pageLayout->setContentsMargins(0, 4, 0, 0);
  m_sorted = new HeadOrder(this);
  m_sorted->setSourceModel(&m_table);
  m_list = new HeadList;
  m_list->setModel(m_sorted);
  m_list->setSortingEnabled(true);
  m_list->sortByColumn(0, Qt::AscendingOrder);
  pageLayout->addWidget(m_list);
  addTab(page, tr("Table"), tr("All numbers of all heads, sorted by any column"));
  addTab(makeGallery(), tr("Pictures"), tr("F or A of every head, by layer or in the order of a number"));
  layout->addWidget(m_pages, 1);
  m_remedy = new QToolButton;
  m_remedy->setObjectName(QStringLiteral("headsRemedy"));
  m_remedy->setDefaultAction(makeSaliencyAction(runs, modelRuns, this));
  m_remedy->hide();
  layout->addWidget(m_remedy, 0, Qt::AlignHCenter);
  m_legend = new HeadLegend;
  layout->addWidget(m_legend);

  addCommands();
  fillMetrics();
  for (QComboBox* box : {m_choice, m_minus}) {
    connect(box, &QComboBox::currentIndexChanged, this, &HeadsView::followChoice);
    connect(box, &QComboBox::activated, this, [this] { m_chosen = true; });
  }
  connect(m_label, &QComboBox::currentIndexChanged, this, &HeadsView::followLabel);
  connect(&m_table, &HeadTable::valuesChanged, this, &HeadsView::countLabels);
  connect(m_run, &QComboBox::currentIndexChanged, this, [this] { m_table.setRun(m_run->currentData().toInt()); });
  connect(m_list->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this](const QModelIndex& index) {
    if (index.isValid()) m_runs.selection().setHead(index.data(HeadTable::HeadRole).value<HeadChoice>());
  });
  connect(m_tabs, &QTabBar::currentChanged, this, &HeadsView::followTab);
  connect(m_grid, &HeadGrid::coloursChanged, this, &HeadsView::showLegend);
  connect(&runs.selection(), &Selection::headChanged, this, &HeadsView::showLegend);
  connect(&m_runs, &RunList::runsChanged, this, &HeadsView::fillChoices);
  connect(&m_runs.selection(), &Selection::headChanged, this, &HeadsView::followHead);
  addCopying();
  countLabels();
  fillChoices();
  followTab();
}

QWidget* HeadsView::makeGallery() {
  auto* page = new QWidget;
  auto* layout = new QVBoxLayout(page);
  layout->setContentsMargins(0, 4, 0, 0);
  auto* top = new QHBoxLayout;
  const auto addSwitch = [&](const QString& text, const QString& tip, Quantity quantity) {
    auto* button = new QToolButton;
    button->setText(text);
    button->setToolTip(tip);
    button->setCheckable(true);
    button->setAutoExclusive(true);
    button->setChecked(quantity == Quantity::forget);
    connect(button, &QToolButton::clicked, this, [this, quantity] { setGalleryQuantity(quantity); });
    top->addWidget(button);
    return button;
  };
  m_ofForget = addSwitch(tr("F"), tr("Forget matrices"), Quantity::forget);
  m_ofAttention = addSwitch(tr("A"), tr("Attention maps"), Quantity::attention);
  m_order = new ElidedCombo;
  m_order->setToolTip(tr("The order of the pictures: by layer, or the largest number first"));
  m_order->setAccessibleName(tr("Order of the pictures"));
  m_order->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  m_order->setMinimumContentsLength(8);
  m_order->addItem(tr("by layer"));
  for (int number = 0; number < kHeadQuantities; ++number) {
    m_order->addItem(tr("by %1").arg(textOf(static_cast<HeadQuantity>(number)).name));
    m_order->setItemData(number + 1, textOf(static_cast<HeadQuantity>(number)).meaning, Qt::ToolTipRole);
  }
  top->addWidget(m_order, 1);
  layout->addLayout(top);
  auto* byDistance = new QLabel(tr("↑ distance, on a logarithmic axis   → query"));
  byDistance->setToolTip(tr("Some head here forgets so fast that its map on keys would be a thin diagonal"));
  byDistance->hide();
  layout->addWidget(byDistance);
  connect(&m_pictures, &HeadPictures::changed, byDistance,
          [this, byDistance] { byDistance->setVisible(m_pictures.axes() == MapAxes::distance); });
  m_gallery = new HeadGallery(m_runs, m_table, m_pictures);
  auto* scroll = new QScrollArea;
  scroll->setWidget(m_gallery);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setFocusPolicy(Qt::NoFocus);
  layout->addWidget(scroll, 1);
  followShown(*m_gallery, *scroll);
  connect(m_order, &QComboBox::currentIndexChanged, this, [this](int index) {
    m_gallery->setOrder(index <= 0 ? std::nullopt : std::optional(static_cast<HeadQuantity>(index - 1)));
  });
  return page;
}

void HeadsView::setGalleryQuantity(Quantity quantity) {
  (quantity == Quantity::forget ? m_ofForget : m_ofAttention)->setChecked(true);
  m_gallery->setQuantity(quantity);
  followTab();
}

// Pictures are made where they are seen.
void HeadsView::followTab() {
  m_pages->setCurrentIndex(m_tabs->currentIndex());
  const bool gallery = m_pages->currentWidget()->isAncestorOf(m_gallery);
  m_run->setVisible(!m_pages->currentWidget()->isAncestorOf(m_grid) && m_run->count() > 1);
  m_choice->setVisible(!gallery);
  const HeadColouring shown{static_cast<ColouringKind>(m_choice->currentData(kKindRole).toInt()),
                            static_cast<HeadQuantity>(m_choice->currentData(kQuantityRole).toInt())};
  constexpr int kTwoRuns = 3;  // and nothing
  m_minus->setVisible(m_pages->currentWidget()->isAncestorOf(m_grid) && m_minus->count() >= kTwoRuns &&
                      isSubtracted(shown));
  m_pictures.want(gallery ? std::optional(m_gallery->quantity()) : colouring().picture());
  showLegend();
}

void HeadsView::addCommands() {
  m_colourActions = new QActionGroup(this);
  m_labelActions = new QActionGroup(this);
  const auto separate = [this] {
    auto* separator = new QAction(this);
    separator->setSeparator(true);
    m_commands += separator;
  };
  const auto add = [this](QAction* action, QActionGroup* group) {
    action->setCheckable(true);
    group->addAction(action);
    m_commands += action;
  };
  for (int number = 0; number < kHeadQuantities; ++number) {
    const auto quantity = static_cast<HeadQuantity>(number);
    auto* action = new QAction(tr("Colour heads by %1").arg(textOf(quantity).name), this);
    action->setToolTip(textOf(quantity).meaning);
    connect(action, &QAction::triggered, this, [this, quantity] {
      m_chosen = true;
      setColouring({HeadColouring::Kind::quantity, quantity, kNoRun});
      showChecks();
    });
    action->setData(number);
    add(action, m_colourActions);
  }
  separate();
  for (const auto& [text, kind] : {std::pair{tr("Show heads as small pictures of F"), ColouringKind::forgetPicture},
                                   {tr("Show heads as small pictures of A"), ColouringKind::attentionPicture},
                                   {tr("Colour heads by their strongest label"), ColouringKind::label}}) {
    auto* action = new QAction(text, this);
    connect(action, &QAction::triggered, this, [this, kind = kind] {
      m_chosen = true;
      setColouring({kind, HeadQuantity::rateDecayTime, kNoRun});
      showChecks();
    });
    action->setData(-1 - static_cast<int>(kind));
    add(action, m_colourActions);
  }
  separate();
  for (int number = -1; number < kHeadLabels; ++number) {
    const auto label = number < 0 ? std::nullopt : std::optional(static_cast<HeadLabel>(number));
    auto* action =
        new QAction(label ? tr("Only heads with the label: %1").arg(nameOf(*label)) : tr("Heads of any label"), this);
    if (label) action->setToolTip(meaningOf(*label));
    connect(action, &QAction::triggered, this, [this, label] { setLabel(label); });
    action->setData(number);
    add(action, m_labelActions);
  }
}

// Check marks of commands say what is shown; a difference of runs is none of them.
void HeadsView::showChecks() {
  const HeadColouring shown = colouring();
  const bool ofQuantity = shown.kind == ColouringKind::quantity;
  const int colour = ofQuantity ? static_cast<int>(shown.quantity) : -1 - static_cast<int>(shown.kind);
  m_colourActions->setExclusive(false);
  for (QAction* action : m_colourActions->actions()) action->setChecked(action->data().toInt() == colour);
  m_colourActions->setExclusive(true);
  const int wanted = label() ? static_cast<int>(*label()) : -1;
  for (QAction* action : m_labelActions->actions()) action->setChecked(action->data().toInt() == wanted);
}

std::optional<HeadLabel> HeadsView::label() const {
  const int index = m_label->currentIndex();
  return index <= 0 ? std::nullopt : std::optional(static_cast<HeadLabel>(index - 1));
}

void HeadsView::setLabel(std::optional<HeadLabel> label) {
  m_label->setCurrentIndex(label ? static_cast<int>(*label) + 1 : 0);
}

void HeadsView::followLabel() {
  m_grid->setLabel(label());
  m_gallery->setLabel(label());
  m_sorted->setLabel(label());
  followHead();
  showChecks();
}

// How many heads of the listed run have each label.
void HeadsView::countLabels() {
  std::array<int, kHeadLabels> counts{};
  for (int row = 0; row < m_table.rowCount(); ++row) {
    const int labels = m_table.index(row, 0).data(HeadTable::LabelsRole).toInt();
    for (int number = 0; number < kHeadLabels; ++number) {
      counts[index_of(number)] += labels >> number & 1;
    }
  }
  m_label->setItemText(0, tr("all heads"));
  for (int number = 0; number < kHeadLabels; ++number) {
    m_label->setItemText(number + 1,
                         tr("only %1 (%2)").arg(nameOf(static_cast<HeadLabel>(number))).arg(counts[index_of(number)]));
  }
}

void HeadsView::addCopying() {
  const auto add = [](QWidget& to, const QString& words, const std::function<void()>& act) {
    auto* action = new QAction(words, &to);
    connect(action, &QAction::triggered, &to, act);
    to.addAction(action);
  };
  const auto copyRows = [this](Rows rows) {
    auto* copy = new QMimeData;
    setTableText(*copy, tsvOf(*m_list, rows));
    QApplication::clipboard()->setMimeData(copy);
  };
  m_list->setContextMenuPolicy(Qt::ActionsContextMenu);
  add(*m_list, tr("Copy Cell"),
      [this] { QApplication::clipboard()->setText(m_list->currentIndex().data().toString()); });
  add(*m_list, tr("Copy Rows"), [copyRows] { copyRows(Rows::selected); });
  add(*m_list, tr("Copy Table"), [copyRows] { copyRows(Rows::all); });
  m_grid->setContextMenuPolicy(Qt::ActionsContextMenu);
  add(*m_grid, tr("Copy Picture"), [this] { QApplication::clipboard()->setPixmap(m_grid->grab()); });
  add(*m_grid, tr("Copy Table"), [copyRows] { copyRows(Rows::all); });
}

QMimeData* HeadsView::copied() {
  auto* copy = new QMimeData;
  const bool grid = m_grid->isVisible();
  if (grid) copy->setImageData(m_grid->grab().toImage());
  setTableText(*copy, tsvOf(*m_list, grid ? Rows::all : Rows::selected));
  return copy;
}

HeadColouring HeadsView::colouring() const {
  HeadColouring shown{static_cast<HeadColouring::Kind>(m_choice->currentData(kKindRole).toInt()),
                      static_cast<HeadQuantity>(m_choice->currentData(kQuantityRole).toInt())};
  const RunId other = m_minus->currentIndex() < 0 ? kNoRun : m_minus->currentData().toInt();
  if (!isSubtracted(shown) || other == kNoRun) return shown;
  for (const Run& run : m_runs) {
    if (run.look.hidden || run.id == other) continue;
    shown.kind = ColouringKind::difference;
    shown.other = other;
    shown.of = run.id;
    break;
  }
  return shown;
}

void HeadsView::setColouring(const HeadColouring& colouring) {
  const bool difference = colouring.kind == ColouringKind::difference;
  const auto kind = difference ? ColouringKind::quantity : colouring.kind;
  const int minus = difference ? m_minus->findData(colouring.other) : 0;
  for (int index = 0; index < m_choice->count() && minus >= 0; ++index) {
    const QVariant entry = m_choice->itemData(index, kKindRole);
    if (!entry.isValid() || entry.toInt() != static_cast<int>(kind)) continue;
    if (m_choice->itemData(index, kQuantityRole).toInt() != static_cast<int>(colouring.quantity)) continue;
    {
      const QSignalBlocker metric(m_choice);
      const QSignalBlocker subtracted(m_minus);
      m_choice->setCurrentIndex(index);
      m_minus->setCurrentIndex(minus);
    }
    return followChoice();
  }
}

// Gates that no run has tell nothing of its heads.
HeadQuantity HeadsView::firstQuantity() const {
  const RunList& runs = m_runs;
  const bool gated = std::any_of(runs.begin(), runs.end(), [](const Run& run) { return forgets(run.trace->info()); });
  return gated || runs.empty() ? HeadQuantity::rateDecayTime : HeadQuantity::entropy;
}

// The numbers by what they are about, under headings that cannot be chosen.
void HeadsView::fillMetrics() {
  auto& entries = *qobject_cast<QStandardItemModel*>(m_choice->model());
  const auto begin = [&](const QString& heading) {
    auto* item = new QStandardItem(heading);
    item->setFlags(Qt::NoItemFlags);
    QFont bold = m_choice->font();
    bold.setBold(true);
    item->setFont(bold);
    entries.appendRow(item);
  };
  const auto add = [&](const QString& text, const QString& meaning, ColouringKind kind, HeadQuantity quantity) {
    auto* item = new QStandardItem(text);
    item->setToolTip(meaning);
    item->setData(static_cast<int>(kind), kKindRole);
    item->setData(static_cast<int>(quantity), kQuantityRole);
    entries.appendRow(item);
  };
  const auto addNumbers = [&](HeadQuantity first, HeadQuantity last) {
    for (int number = static_cast<int>(first); number <= static_cast<int>(last); ++number) {
      const auto quantity = static_cast<HeadQuantity>(number);
      add(textOf(quantity).name, textOf(quantity).meaning, ColouringKind::quantity, quantity);
    }
  };
  const auto none = HeadQuantity::rateDecayTime;
  begin(tr("Memory"));
  addNumbers(HeadQuantity::rateDecayTime, HeadQuantity::halfLife);
  add(tr("pictures of F"), tr("a small forget matrix for every head"), ColouringKind::forgetPicture, none);
  begin(tr("Attention"));
  addNumbers(HeadQuantity::distance50, HeadQuantity::massOnFirst);
  addNumbers(HeadQuantity::massOnSink, HeadQuantity::massOnSink);
  add(tr("pictures of A"), tr("a small attention map for every head"), ColouringKind::attentionPicture, none);
  begin(tr("At the pin"));
  addNumbers(HeadQuantity::pinnedForget, HeadQuantity::pinnedSurvival);
  begin(tr("Labels"));
  add(tr("strongest label"), tr("what each head does, by scores of its attention"), ColouringKind::label, none);
  addNumbers(HeadQuantity::firstScore, static_cast<HeadQuantity>(static_cast<int>(HeadQuantity::saliencyAbsolute) - 1));
  begin(tr("Loss"));
  addNumbers(HeadQuantity::saliencyAbsolute, HeadQuantity::saliencyPerNat);
}

// Any run that is shown can be subtracted from the others.
void HeadsView::fillMinus() {
  const QSignalBlocker blocker(m_minus);
  const QVariant before = m_minus->currentData();
  m_minus->clear();
  m_minus->addItem(tr("minus: nothing"), kNoRun);
  for (const Run& run : m_runs) {
    if (!run.look.hidden) m_minus->addItem(tr("minus: %1").arg(run.name), run.id);
  }
  m_minus->setCurrentIndex(std::max(0, m_minus->findData(before)));
}

void HeadsView::fillChoices() {
  fillMinus();
  if (!m_chosen) setColouring({ColouringKind::quantity, firstQuantity()});
  {
    const QSignalBlocker blocker(m_run);
    m_run->clear();
    for (const Run& run : m_runs) {
      if (!run.look.hidden) m_run->addItem(run.name, run.id);
    }
    m_run->setCurrentIndex(std::max(0, m_run->findData(m_table.run())));
  }
  // The dock is as wide as the smallest cells need.
  m_gridArea->setMinimumWidth(std::min(m_grid->minimumSizeHint().width(), kWidestGrid) +
                              style()->pixelMetric(QStyle::PM_ScrollBarExtent));
  // The listed run was hidden: another one is listed, or none.
  if (m_run->count() > 0) m_table.setRun(m_run->currentData().toInt());
  m_sorted->setListed(m_run->count() > 0);
  followChoice();
  followHead();
  followTab();
}

// The chosen quantity's column stands first after the head's name, where a narrow view shows it.
void HeadsView::followChoice() {
  showChecks();
  m_grid->setColouring(colouring());
  followTab();
  constexpr int kNameColumns = 2;
  QHeaderView& header = *m_list->horizontalHeader();
  for (int column = kNameColumns; column < header.count(); ++column)
    header.moveSection(header.visualIndex(column), column);
  const int chosen = kNameColumns + static_cast<int>(colouring().quantity);
  if (HeadTable::kLabelsColumn >= header.count()) return;
  header.moveSection(header.visualIndex(HeadTable::kLabelsColumn), kNameColumns);
  if (colouring().kind != ColouringKind::label) header.moveSection(header.visualIndex(chosen), kNameColumns);
}

void HeadsView::followHead() {
  const HeadChoice head = m_runs.selection().head();
  const int row = m_run->findData(head.run);
  if (row >= 0) m_run->setCurrentIndex(row);
  for (int index = 0; index < m_sorted->rowCount(); ++index) {
    const QModelIndex entry = m_sorted->index(index, 0);
    if (entry.data(HeadTable::HeadRole).value<HeadChoice>() != head) continue;
    const QSignalBlocker blocker(m_list->selectionModel());
    m_list->setCurrentIndex(entry);
    m_list->viewport()->update();
    break;
  }
}

void HeadsView::showLegend() {
  HeadColouring shown = colouring();
  m_remedy->hide();
  if (m_pages->currentWidget()->isAncestorOf(m_gallery)) {
    shown.kind =
        m_gallery->quantity() == Quantity::forget ? ColouringKind::forgetPicture : ColouringKind::attentionPicture;
  }
  const HeadQuantityText text = textOf(shown.quantity);
  switch (shown.kind) {
    case ColouringKind::forgetPicture:
      return m_legend->hideScale(tr("F from 0 (dark) to 1 (bright), mean of each pixel"));
    case ColouringKind::attentionPicture:
      return m_legend->hideScale(
          tr("A from %1 or less (dark) to 1 (bright), log, largest of each pixel").arg(kLeastAttention));
    case ColouringKind::label:
      return m_legend->showLabels();
    default:
      break;
  }
  QString title = text.unit.isEmpty() ? text.name : text.name + QStringLiteral(" (%1)").arg(text.unit);
  const Run* of = m_runs.run(shown.of);
  const Run* other = m_runs.run(shown.other);
  if (shown.kind == HeadColouring::Kind::difference && of != nullptr && other != nullptr) {
    // And nothing.
    const bool several = m_minus->count() > 3;
    title += tr(", %1 − nearest of %2").arg(several ? tr("each run") : of->name, other->name);
  }
  if (m_grid->colours().logarithmic()) title += tr(", log");
  title += m_grid->limitsNote();
  const Cursor pin = m_runs.selection().pin();
  if (text.ofPin && !pin.key && shown.quantity == HeadQuantity::pinnedSurvival) {
    return m_legend->hideScale(tr("%1: pin a key (Shift+click)").arg(text.name));
  }
  if (text.ofPin && !(pin.query && pin.key) && shown.quantity != HeadQuantity::pinnedSurvival) {
    return m_legend->hideScale(tr("%1: pin a query (click) and a key (Shift+click)").arg(text.name));
  }
  const Run* chosen = m_runs.run(m_runs.selection().head().run);
  if (isSaliency(shown.quantity) && chosen != nullptr && !chosen->trace->has(TraceArray::log_forget_gradient)) {
    const QString obstacle = m_modelRuns.saliencyObstacle(chosen->id);
    m_remedy->setVisible(obstacle.isEmpty());
    const bool any = std::ranges::any_of(
        m_runs, [](const Run& run) { return !run.look.hidden && run.trace->has(TraceArray::log_forget_gradient); });
    if (!any) {
      return m_legend->hideScale(obstacle.isEmpty() ? tr("%1 has no saliency yet").arg(chosen->name) : obstacle);
    }
  }
  m_legend->show(m_grid->colours(), title);
}

bool HeadsView::showsStep() const { return !m_grid->isVisible() || m_grid->isWhole(); }

bool HeadsView::isSettled() const { return m_table.known() == m_table.total() || !m_runs.busy(); }

QJsonObject HeadsView::saveState() const {
  const HeadColouring shown = colouring();
  const Run* other = m_runs.run(shown.other);
  return {{"kind", static_cast<int>(shown.kind)},
          {"quantity", static_cast<int>(shown.quantity)},
          {"chosen", m_chosen},
          {"label", label() ? QString::fromUtf8(text_of(*label()).key) : QString()},
          {"other", other != nullptr ? other->name : QString()},
          {"pictures", QString::fromUtf8(to_string(m_gallery->quantity()))},
          {"order", m_order->currentIndex()},
          {"tab", m_tabs->currentIndex()}};
}

void HeadsView::restoreState(const QJsonObject& state) {
  m_chosen = state["chosen"].toBool(true);
  HeadColouring wanted;
  wanted.kind = static_cast<HeadColouring::Kind>(state["kind"].toInt());
  wanted.quantity = static_cast<HeadQuantity>(state["quantity"].toInt());
  wanted.other = kNoRun;
  const Run* other = m_runs.runNamed(state["other"].toString());
  if (wanted.kind == HeadColouring::Kind::difference && other != nullptr) wanted.other = other->id;
  setColouring(wanted);
  m_tabs->setCurrentIndex(state["tab"].toInt());
  m_order->setCurrentIndex(std::clamp(state["order"].toInt(), 0, kHeadQuantities));
  const bool attention = state["pictures"].toString() == QLatin1String(to_string(Quantity::attention));
  setGalleryQuantity(attention ? Quantity::attention : Quantity::forget);
  std::optional<HeadLabel> kept;
  for (int number = 0; number < kHeadLabels; ++number) {
    const auto one = static_cast<HeadLabel>(number);
    if (state["label"].toString() == QString::fromUtf8(text_of(one).key)) kept = one;
  }
  setLabel(kept);
}

}  // namespace foxscope::gui
