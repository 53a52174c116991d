#include "app/gui/words/words_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QFileInfo>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLocale>
#include <QMimeData>
#include <QStyledItemDelegate>
#include <QVBoxLayout>

#include "app/gui/views/elided_combo.h"
#include "app/gui/views/flow_layout.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/number_table.h"
#include "app/gui/views/table_text.h"
#include "backend/base/atomic_file.h"

namespace foxscope::gui {
namespace {

constexpr int kGapOfTools = 6;  ///< logical pixels
constexpr int kWordLetters = 16;
constexpr int kFilterLetters = 16;
constexpr int kNumberLetters = 8;
constexpr int kNameLetters = 17;  ///< of a run, above its surprisals
constexpr int kLeastBefore = 12;  ///< with less room what stands before a word is left out

// The names that the command line has for them.
constexpr std::pair<const char*, WordRule> kWordRules[] = {{"space", WordRule::white_space},
                                                           {"unicode", WordRule::unicode}};

/// The name of a text in a table where its file is not known.
constexpr const char* kTextName = "text";

/// Sorted columns of sessions that name them by number.
constexpr int kFormerColumns[] = {WordRows::kWord, WordRows::kSurprisal, WordRows::kEntropy,  WordRows::kRank,
                                  WordRows::kGate, WordRows::kTokens,    WordRows::kSentence, WordRows::kByte};

/// Shows the end of what does not fit.
class EndDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

 protected:
  void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
    QStyledItemDelegate::initStyleOption(option, index);
    option->textElideMode = Qt::ElideLeft;
  }
};

}  // namespace

WordsView::WordsView(RunList& runs, ModelRuns& modelRuns, FileWriter& files, QWidget* parent)
    : QWidget(parent),
      m_runs(runs),
      m_modelRuns(modelRuns),
      m_files(files),
      m_filter(new QLineEdit),
      m_rule(new ElidedCombo),
      m_count(new QLabel),
      m_export(new QToolButton),
      m_list(new NumberTable) {
  makeTable();
  auto* page = new QWidget;
  auto* column = new QVBoxLayout(page);
  column->setContentsMargins(0, 0, 0, 0);
  column->addWidget(makeTools());
  column->addWidget(m_list, 1);
  m_pages = new MessagePages(page, this);
  makeCommands();
  connect(&m_runs, &RunList::runsChanged, this, &WordsView::outdate);
  connect(&m_runs, &RunList::modelsChanged, this, [this] {
    // The model of a run that comes from a file may be there now.
    if (!m_known.expected || !m_known.expected->token.empty()) return;
    m_known = {};
    outdate();
  });
  connect(&m_modelRuns, &ModelRuns::noRunTextChanged, this, &WordsView::outdate);
  connect(&m_runs.selection(), &Selection::headChanged, this, &WordsView::outdate);
  connect(&m_runs.selection(), &Selection::pinChanged, this, &WordsView::followPin);
}

QWidget* WordsView::makeTools() {
  m_filter->setPlaceholderText(tr("Only words with …"));
  m_filter->setToolTip(tr("Letters that the listed words contain"));
  m_filter->setAccessibleName(tr("Only words with"));
  m_filter->setClearButtonEnabled(true);
  m_filter->setFixedWidth(fontMetrics().averageCharWidth() * kFilterLetters * 2);
  m_rule->setToolTip(tr("What a word is, as --word-rule of `foxscope eval surprisal`"));
  m_rule->setAccessibleName(tr("Word rule"));
  m_rule->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  m_rule->addItem(tr("Words: white space"));
  m_rule->setItemData(0, tr("A word is what stands between white space, punctuation included"), Qt::ToolTipRole);
  m_rule->addItem(tr("Words: Unicode"));
  m_rule->setItemData(1, tr("A word stands between Unicode's word boundaries; punctuation is a word of its own"),
                      Qt::ToolTipRole);
  m_export->setAutoRaise(true);
  m_count->setTextInteractionFlags(Qt::TextSelectableByMouse);
  auto* tools = new QWidget;
  auto* row = new FlowLayout(kGapOfTools, 2);
  tools->setLayout(row);
  for (QWidget* widget : {static_cast<QWidget*>(m_filter), static_cast<QWidget*>(m_rule),
                          static_cast<QWidget*>(m_export), static_cast<QWidget*>(m_count)}) {
    row->addWidget(widget);
  }
  connect(m_filter, &QLineEdit::textChanged, this, [this](const QString& letters) {
    m_words.setFilter(letters);
    showCount();
    followPin();
  });
  connect(m_rule, &QComboBox::currentIndexChanged, this, &WordsView::outdate);
  return tools;
}

void WordsView::makeTable() {
  m_list->setModel(&m_words);
  m_list->setTextElideMode(Qt::ElideLeft);  // what stands before a word ends at it
  m_list->installEventFilter(this);
  m_list->viewport()->installEventFilter(this);
  m_filter->installEventFilter(this);
  m_list->setAccessibleName(tr("Words"));
  m_list->setSortingEnabled(true);
  m_list->sortByColumn(WordRows::kByte, Qt::AscendingOrder);
  QHeaderView& header = *m_list->horizontalHeader();
  // A width that follows 65,536 words would be measured again with every order: titles are wider than numbers.
  const int letter = fontMetrics().averageCharWidth();
  for (int column = 0; column < WordRows::kColumns; ++column) {
    header.resizeSection(column, std::max(header.sectionSizeHint(column), letter * kNumberLetters));
  }
  header.resizeSection(WordRows::kWord, letter * kWordLetters);
  header.resizeSection(WordRows::kExpected, letter * kWordLetters);
  header.setSectionResizeMode(WordRows::kBefore, QHeaderView::Stretch);
  m_list->setItemDelegateForColumn(WordRows::kBefore, new EndDelegate(m_list));
  connect(m_list->selectionModel(), &QItemSelectionModel::currentRowChanged, this, &WordsView::chooseRow);
  connect(&header, &QHeaderView::sortIndicatorChanged, this, &WordsView::followPin);
  const auto add = [this](const QString& words, const std::function<void()>& act) {
    auto* action = new QAction(words, m_list);
    connect(action, &QAction::triggered, m_list, act);
    m_list->addAction(action);
  };
  m_list->setContextMenuPolicy(Qt::ActionsContextMenu);
  add(tr("Copy Cell"), [this] { QApplication::clipboard()->setText(m_list->currentIndex().data().toString()); });
  add(tr("Copy Rows"), [this] { QApplication::clipboard()->setMimeData(copied()); });
}

// Typing into the list narrows it, and goes on in the field above; from there Down and Return lead to the first word
// that is left, Escape to all of them.
bool WordsView::eventFilter(QObject* watched, QEvent* event) {
  // The table gets its size after the view has got its own.
  if (watched == m_list->viewport()) {
    if (event->type() == QEvent::Resize && m_words.content()) layColumns();
    return false;
  }
  if (event->type() != QEvent::ShortcutOverride && event->type() != QEvent::KeyPress) return false;
  const auto& key = static_cast<const QKeyEvent&>(*event);
  const bool typed = !key.text().isEmpty() && key.text()[0].isPrint() && !key.text()[0].isSpace() &&
                     !(key.modifiers() & (Qt::ControlModifier | Qt::AltModifier | Qt::MetaModifier));
  const bool ends = key.key() == Qt::Key_Escape;
  const bool leaves = ends || key.key() == Qt::Key_Down || key.key() == Qt::Key_Return || key.key() == Qt::Key_Enter;
  if (watched == m_list ? !typed : !leaves) return false;
  event->accept();
  if (event->type() == QEvent::ShortcutOverride) return true;
  if (watched == m_list) {
    m_filter->setText(key.text());
    m_filter->setFocus();
    return true;
  }
  if (ends) m_filter->clear();
  m_list->setFocus();
  if (!ends) m_list->selectRow(0);
  return true;
}

void WordsView::makeCommands() {
  auto* exporting = new QAction(themedIcon(QStringLiteral("export")), tr("Export Words…"), this);
  exporting->setToolTip(tr("Save all words as CSV, with the columns of `foxscope eval surprisal --words`"));
  connect(exporting, &QAction::triggered, this, &WordsView::exportShown);
  m_export->setDefaultAction(exporting);
  m_commands += exporting;
  for (int rule = 0; rule < m_rule->count(); ++rule) {
    auto* action = new QAction(m_rule->itemText(rule), this);
    action->setToolTip(m_rule->itemData(rule, Qt::ToolTipRole).toString());
    connect(action, &QAction::triggered, m_rule, [this, rule] { m_rule->setCurrentIndex(rule); });
    m_commands += action;
  }
}

WordRule WordsView::wordRule() const { return kWordRules[std::max(0, m_rule->currentIndex())].second; }

void WordsView::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (!m_fresh) refresh();
}

void WordsView::outdate() {
  m_fresh = false;
  if (isVisible()) refresh();
}

void WordsView::refresh() {
  const HeadChoice choice = m_runs.selection().head();
  const std::optional<HeadOf> head = m_runs.headOf(choice);
  const Run* run = m_runs.run(choice.run);
  if (!head || run == nullptr) {
    m_runs.quickJobs().cancel(this, kRows);
    m_words.setContent(nullptr);
    return showMessage(m_modelRuns.noRunText() + '.');
  }
  if (m_known.trace.lock() != head->trace) {
    m_known = {head->trace, nullptr};
    requestExpected(*run);
  }
  std::vector<OtherRun> others;
  std::vector<int> shown;  // in the order of the list; -1: the chosen head's
  for (const Run* each : m_runs.runsOnText()) {
    if (each == run) {
      shown.push_back(-1);
    } else if (!each->trace->per_token_loss().empty()) {
      shown.push_back(static_cast<int>(others.size()));
      others.push_back({each->name, each->trace});
    }
  }
  std::optional<std::pair<int, int>> difference;
  if (shown.size() > 1) difference = {shown[0], shown[1]};
  JobRunner::Request<std::shared_ptr<const WordRows>> request;
  request.work = [head = *head, name = run->name, rule = wordRule(), expected = m_known.expected, others,
                  difference](const Job&) -> std::optional<std::shared_ptr<const WordRows>> {
    return makeRows(head, name, rule, expected.get(), others, difference);
  };
  request.done = [this, id = choice.run](std::shared_ptr<const WordRows> rows) {
    m_run = id;
    takeRows(std::move(rows));
  };
  request.failed = [this](const QString& message) {
    m_words.setContent(nullptr);
    showMessage(message);
  };
  m_runs.quickJobs().submit(this, kRows, std::move(request));
}

std::shared_ptr<const WordRows> WordsView::makeRows(const HeadOf& head, const QString& run, WordRule rule,
                                                    const Expected* expected, const std::vector<OtherRun>& others,
                                                    std::optional<std::pair<int, int>> difference) {
  WordContent content{run,
                      surprisals_of(head, kTextName, rule, expected ? expected->distributions : TokenDistributions{})};
  if (expected != nullptr) {
    content.expected = expected->token;
    content.share = expected->share;
  }
  content.expertLayer = expert_layer(*head.trace, head.layer);
  if (content.expertLayer) content.experts = heaviest_experts(*head.trace, *content.expertLayer);
  for (const OtherRun& other : others) {
    content.others.push_back({other.name, surprisals_of({other.trace, 0, 0}, kTextName, rule, {})});
  }
  content.difference = difference;
  return std::make_shared<const WordRows>(std::move(content));
}

// Every logit is made for them, once for a run.
void WordsView::requestExpected(const Run& run) {
  m_runs.jobs().cancel(this, kExpectedTokens);
  if (!keeps_predictions(*run.trace)) return;
  using Found = std::shared_ptr<const Expected>;
  JobRunner::Request<Found> request;
  request.priority = Priority::refining;
  request.work = [trace = run.trace, findHead = m_modelRuns.headOf(run)](const Job& job) -> std::optional<Found> {
    const std::shared_ptr<const OutputHead> head = findHead(job);
    auto distributions = distributions_of(*trace, head.get(), job);
    if (!distributions) return std::nullopt;
    auto found = std::make_shared<Expected>();
    for (const ScoredToken& token : distributions->likeliest) {
      found->token.push_back(token_string(*trace, head.get(), token.id));
      found->share.push_back(std::exp(static_cast<double>(token.log_probability)));
    }
    found->distributions = std::move(*distributions);
    return found;
  };
  request.done = [this](Found found) {
    m_known.expected = std::move(found);
    outdate();
  };
  request.failed = [this](const QString& message) { showMessage(message); };
  m_runs.jobs().submit(this, kExpectedTokens, std::move(request));
}

void WordsView::takeRows(std::shared_ptr<const WordRows> rows) {
  m_fresh = true;
  m_words.setContent(std::move(rows));
  // Other columns than before make the header forget which are hidden.
  for (const auto column : {WordRows::kDifference, WordRows::kExpected, WordRows::kShare, WordRows::kRank,
                            WordRows::kEntropy, WordRows::kGate, WordRows::kExpert}) {
    m_list->setColumnHidden(column, !m_words.content()->has(column));
  }
  layColumns();
  m_pages->showContent();
  showCount();
  followPin();
}

// The surprisals of other runs stand beside the chosen head's; what stands before a word takes the room that is left.
void WordsView::layColumns() {
  QHeaderView& header = *m_list->horizontalHeader();
  const int letter = fontMetrics().averageCharWidth();
  for (int column = WordRows::kColumns; column < header.count(); ++column) {
    header.moveSection(header.visualIndex(column),
                       header.visualIndex(WordRows::kSurprisal) + 1 + column - WordRows::kColumns);
    header.resizeSection(column, letter * kNameLetters);
    header.resizeSection(WordRows::kSurprisal, letter * kNameLetters);
  }
  int taken = 0;
  for (int column = 0; column < header.count(); ++column) {
    if (column != WordRows::kBefore && !header.isSectionHidden(column)) taken += header.sectionSize(column);
  }
  m_list->setColumnHidden(WordRows::kBefore, m_list->viewport()->width() - taken < kLeastBefore * letter);
}

void WordsView::showMessage(const QString& message) {
  m_fresh = true;
  m_pages->showMessage(message);
}

void WordsView::showCount() {
  if (!m_words.content()) return m_count->clear();
  const QLocale locale;
  const Run* run = m_runs.run(m_run);
  const QString all = locale.toString(m_words.content()->size());
  const QString words = m_filter->text().isEmpty() ? tr("%1 words").arg(all)
                                                   : tr("%1 of %2 words").arg(locale.toString(m_words.rowCount()), all);
  m_count->setText(run == nullptr ? words : tr("%1 of %2").arg(words, run->name));
}

void WordsView::chooseRow(const QModelIndex& index) {
  if (m_following || !index.isValid() || !m_words.content()) return;
  const Run* run = m_runs.run(m_run);
  if (run == nullptr) return;
  // The last token is read by no position.
  const std::int64_t position =
      std::min(m_words.content()->tokenOf(m_words.wordAt(index.row())) + 1, run->trace->info().length - 1);
  const auto places = m_runs.placesOf(m_run).toReference;
  const std::optional<std::int64_t> query = places ? (*places)(position) : std::optional(position);
  if (!query) return;
  m_ownPin = query;
  m_runs.selection().goTo(*query, m_runs.length());
}

void WordsView::followPin() {
  const std::optional<std::int64_t> query = m_runs.selection().pin().query;
  const std::shared_ptr<const WordRows>& rows = m_words.content();
  if (!rows || m_list->selectionModel() == nullptr) return;
  const bool own = query && query == m_ownPin && m_list->currentIndex().isValid();
  if (!own) m_ownPin.reset();
  if (own) return;
  const auto position = query ? m_runs.positionIn(m_run, *query) : std::nullopt;
  const int row = position && *position > 0 ? m_words.rowOf(rows->wordOf(*position - 1)) : -1;
  m_following = true;
  if (row < 0) {
    m_list->clearSelection();
    m_list->setCurrentIndex({});
  } else {
    m_list->selectRow(row);
    m_list->scrollTo(m_words.index(row, WordRows::kWord), QAbstractItemView::PositionAtCenter);
  }
  m_following = false;
}

QMimeData* WordsView::copied() const {
  auto* copy = new QMimeData;
  setTableText(*copy, tsvOf(*m_list, Rows::selected));
  return copy;
}

void WordsView::exportShown() {
  if (!m_words.content()) {
    emit m_runs.messageRaised({Message::Kind::warning, m_modelRuns.noRunText()});
    return;
  }
  const QString path =
      QFileDialog::getSaveFileName(this, tr("Export words"), QStringLiteral("words.csv"), tr("Tables (*.csv)"));
  if (!path.isEmpty()) exportTo(path);
}

void WordsView::exportTo(const QString& path) {
  if (!m_words.content()) return;
  // The file is named where it is what the run read.
  const auto work = [rows = m_words.content(), trace = m_known.trace.lock(), input = m_modelRuns.text(),
                     path = path.toStdString()](const Job&) -> std::optional<bool> {
    Surprisals table = rows->table;
    if (trace && trace->text() && !input.file.isEmpty() && is_read_of(*trace->text(), input.content)) {
      table.documents = {QFileInfo(input.file).fileName().toStdString()};
    }
    const std::string csv = table.csv_of_words();
    AtomicFile file(path, true);
    file.write(csv.data(), csv.size());
    file.commit();
    return true;
  };
  m_files.writeFile(path, work);
}

QJsonObject WordsView::saveState() const {
  const QHeaderView& header = *m_list->horizontalHeader();
  return {{"word_rule", kWordRules[std::max(0, m_rule->currentIndex())].first},
          {"only", m_filter->text()},
          {"sorted_by", QString::fromLatin1(WordTable::keyOf(header.sortIndicatorSection()))},
          {"descending", header.sortIndicatorOrder() == Qt::DescendingOrder}};
}

void WordsView::restoreState(const QJsonObject& state) {
  for (std::size_t rule = 0; rule < std::size(kWordRules); ++rule) {
    if (state["word_rule"].toString() == kWordRules[rule].first) m_rule->setCurrentIndex(static_cast<int>(rule));
  }
  m_filter->setText(state["only"].toString());
  int column = -1;
  if (state["sorted_by"].isString()) {
    for (int each = 0; each < WordRows::kColumns; ++each) {
      if (state["sorted_by"].toString() == WordTable::keyOf(each)) column = each;
    }
  } else {
    const int former = state["sorted_by"].toInt(-1);
    if (former >= 0 && former < static_cast<int>(std::size(kFormerColumns))) column = kFormerColumns[former];
  }
  if (column < 0) return;
  m_list->sortByColumn(column, state["descending"].toBool() ? Qt::DescendingOrder : Qt::AscendingOrder);
}

}  // namespace foxscope::gui
