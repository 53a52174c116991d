#include "app/gui/words/words_view.h"

#include <algorithm>
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
#include <QStackedLayout>
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

// The names that the command line has for them.
constexpr std::pair<const char*, WordRule> kWordRules[] = {{"space", WordRule::white_space},
                                                           {"unicode", WordRule::unicode}};

/// The name of a text in a table where its file is not known.
constexpr const char* kTextName = "text";

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
      m_list(new NumberTable),
      m_message(new QLabel) {
  makeTable();
  m_message->setAlignment(Qt::AlignCenter);
  m_message->setWordWrap(true);
  m_message->setTextInteractionFlags(Qt::TextSelectableByMouse);
  auto* page = new QWidget;
  auto* column = new QVBoxLayout(page);
  column->setContentsMargins(0, 0, 0, 0);
  column->addWidget(makeTools());
  column->addWidget(m_list, 1);
  m_pages = new QStackedLayout(this);
  m_pages->setContentsMargins(6, 4, 6, 4);
  m_pages->addWidget(m_message);
  m_pages->addWidget(page);
  makeCommands();
  connect(&m_runs, &RunList::runsChanged, this, &WordsView::outdate);
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
  m_list->installEventFilter(this);
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

QString WordsView::message() const { return m_pages->currentIndex() == 0 ? m_message->text() : QString(); }

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
  if (!head) {
    m_runs.quickJobs().cancel(this, kRows);
    m_words.setContent(nullptr);
    return showMessage(m_modelRuns.noRunText() + '.');
  }
  if (m_known.trace.lock() != head->trace) {
    m_known = {head->trace, nullptr};
    requestDistributions(head->trace);
  }
  JobRunner::Request<std::shared_ptr<const WordRows>> request;
  request.work = [head = *head, rule = wordRule(),
                  known = m_known.distributions](const Job&) -> std::optional<std::shared_ptr<const WordRows>> {
    return std::make_shared<const WordRows>(
        surprisals_of(head, kTextName, rule, known ? *known : TokenDistributions{}));
  };
  request.done = [this, run = choice.run](std::shared_ptr<const WordRows> rows) {
    m_run = run;
    takeRows(std::move(rows));
  };
  request.failed = [this](const QString& message) {
    m_words.setContent(nullptr);
    showMessage(message);
  };
  m_runs.quickJobs().submit(this, kRows, std::move(request));
}

// Every logit is read for them, once for a run.
void WordsView::requestDistributions(const std::shared_ptr<const Trace>& trace) {
  m_runs.jobs().cancel(this, kDistributions);
  if (!trace->has(TraceArray::logits)) return;
  using Found = std::shared_ptr<const TokenDistributions>;
  JobRunner::Request<Found> request;
  request.priority = Priority::refining;
  request.work = [trace](const Job& job) -> std::optional<Found> {
    auto found = distributions_of(*trace, job);
    if (!found) return std::nullopt;
    return std::make_shared<const TokenDistributions>(std::move(*found));
  };
  request.done = [this](Found found) {
    m_known.distributions = std::move(found);
    outdate();
  };
  request.failed = [this](const QString& message) { showMessage(message); };
  m_runs.jobs().submit(this, kDistributions, std::move(request));
}

void WordsView::takeRows(std::shared_ptr<const WordRows> rows) {
  m_fresh = true;
  for (const auto column : {WordRows::kEntropy, WordRows::kRank, WordRows::kGate}) {
    m_list->setColumnHidden(column, !rows->has(column));
  }
  m_words.setContent(std::move(rows));
  m_pages->setCurrentIndex(1);
  showCount();
  followPin();
}

void WordsView::showMessage(const QString& message) {
  m_fresh = true;
  m_message->setText(message);
  m_pages->setCurrentIndex(0);
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
          {"sorted_by", header.sortIndicatorSection()},
          {"descending", header.sortIndicatorOrder() == Qt::DescendingOrder}};
}

void WordsView::restoreState(const QJsonObject& state) {
  for (std::size_t rule = 0; rule < std::size(kWordRules); ++rule) {
    if (state["word_rule"].toString() == kWordRules[rule].first) m_rule->setCurrentIndex(static_cast<int>(rule));
  }
  m_filter->setText(state["only"].toString());
  const int column = state["sorted_by"].toInt(-1);
  if (column < 0 || column >= WordRows::kColumns) return;
  m_list->sortByColumn(column, state["descending"].toBool() ? Qt::DescendingOrder : Qt::AscendingOrder);
}

}  // namespace foxscope::gui
