#include "app/gui/comparison/comparison_view.h"

#include <algorithm>
#include <utility>

#include <QHBoxLayout>
#include <QLocale>
#include <QSignalBlocker>
#include <QVBoxLayout>

#include "app/figure/token_text.h"
#include "app/gui/comparison/difference_table.h"
#include "app/gui/comparison/octave_bars.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/elided_combo.h"
#include "app/gui/views/estimate_text.h"
#include "backend/base/index.h"
#include "backend/trace/token_strings.h"

namespace foxscope::gui {
namespace {

constexpr int kBarsShare = 2;  // of the width, beside the tables
constexpr int kTableShare = 3;

/// A name as a sentence can hold it: a word without blanks would widen the window.
QString shortName(const QString& name) {
  constexpr qsizetype kMost = 40;
  return shortened(name, kMost);
}

QString countWords(std::int64_t count) { return QLocale(QLocale::English).toString(static_cast<qlonglong>(count)); }

/// "FoX − Transformer: −0.0210 ± 0.0031 nats/token, perplexity × 0.9792, over 2,048 tokens"
QString answerText(const QString& name, const LossChange& difference) {
  return ComparisonView::tr("<b>%1:</b> %2 nats/token, perplexity × %3, over %4 tokens")
      .arg(name.toHtmlEscaped(), estimateText(difference.mean), QString::number(difference.perplexity_factor(), 'f', 4),
           countWords(difference.tokens));
}

}  // namespace

ComparisonView::ComparisonView(RunList& runs, QWidget* parent)
    : QWidget(parent),
      m_runs(runs),
      m_model(new ElidedCombo),
      m_minus(new ElidedCombo),
      m_swap(new QToolButton),
      m_sentence(new QLabel),
      m_bars(new OctaveBars),
      m_better(new DifferenceTable(tr("better"))),
      m_worse(new DifferenceTable(tr("worse"))) {
  auto* answer = new QWidget;
  auto* layout = new QVBoxLayout(answer);
  layout->setContentsMargins(8, 6, 8, 6);
  makeTools();
  auto* tools = new QHBoxLayout;
  for (QWidget* tool : std::initializer_list<QWidget*>{m_model, new QLabel(QStringLiteral("−")), m_minus, m_swap}) {
    tools->addWidget(tool);
  }
  tools->addStretch(1);
  layout->addLayout(tools);
  m_sentence->setWordWrap(true);
  m_sentence->setTextFormat(Qt::RichText);
  m_sentence->setTextInteractionFlags(Qt::TextSelectableByMouse);
  layout->addWidget(m_sentence);
  auto* parts = new QHBoxLayout;
  parts->addWidget(m_bars, kBarsShare);
  parts->addWidget(m_better, kTableShare);
  parts->addWidget(m_worse, kTableShare);
  layout->addLayout(parts, 1);
  m_pages = new MessagePages(answer, this);
  for (DifferenceTable* table : {m_better, m_worse}) {
    connect(table, &DifferenceTable::positionChosen, this, [this](qint64 position) {
      if (const Run* model = chosen(*m_model)) m_runs.goTo(model->id, position);
    });
  }
  connect(&m_runs, &RunList::runsChanged, this, &ComparisonView::follow);
  connect(&m_runs.selection(), &Selection::headChanged, this, &ComparisonView::follow);
  connect(&m_runs.selection(), &Selection::viewChanged, this, &ComparisonView::ask);
  follow();
}

void ComparisonView::makeTools() {
  m_model->setAccessibleName(tr("First model"));
  m_minus->setAccessibleName(tr("Second model"));
  m_minus->setToolTip(tr("The model whose losses are subtracted"));
  m_swap->setText(tr("Swap"));
  m_swap->setToolTip(tr("Compare the other way about"));
  for (QComboBox* box : {m_model, m_minus}) {
    box->setSizeAdjustPolicy(QComboBox::AdjustToContents);
    connect(box, &QComboBox::activated, this, &ComparisonView::ask);
  }
  connect(m_swap, &QToolButton::clicked, this, [this] {
    const int first = m_model->currentIndex();
    m_model->setCurrentIndex(m_minus->currentIndex());
    m_minus->setCurrentIndex(first);
    ask();
  });
}

void ComparisonView::showMessage(const QString& message) {
  m_runs.quickJobs().cancel(this, kAnswer);
  m_asked = false;
  m_pages->showMessage(message);
}

const Run* ComparisonView::chosen(const QComboBox& box) const {
  return box.currentIndex() < 0 ? nullptr : m_runs.run(box.currentData().toInt());
}

void ComparisonView::fillChoices(const std::vector<const Run*>& runs) {
  const Pair shown{m_model->currentText(), m_minus->currentText()};
  for (QComboBox* box : {m_model, m_minus}) {
    const QSignalBlocker blocker(box);
    box->clear();
    for (const Run* run : runs) box->addItem(run->name, run->id);
  }
  const auto choose = [this](const Pair& pair) {
    const int model = m_model->findText(pair.model);
    const int minus = m_minus->findText(pair.minus);
    if (model < 0 || minus < 0 || model == minus) return false;
    m_model->setCurrentIndex(model);
    m_minus->setCurrentIndex(minus);
    return true;
  };
  if (m_wanted && choose(*m_wanted)) {
    m_wanted.reset();
  } else if (!choose(shown)) {
    choose({runs[0]->name, runs[1]->name});
  }
}

void ComparisonView::follow() {
  std::vector<const Run*> runs;
  for (const Run* run : m_runs.runsOnText()) {
    if (!run->trace->per_token_loss().empty()) runs.push_back(run);
  }
  const int before = std::exchange(m_onText, static_cast<int>(runs.size()));
  if (runs.size() < 2) {
    return showMessage(
        tr("Run a second model on the same text to see here which of the two predicts it better, by how "
           "much, and where."));
  }
  fillChoices(runs);
  ask();
  if (before < 2) emit answered();
}

std::optional<Range> ComparisonView::rangeShown(const Run& run) const {
  const Range& rows = m_runs.selection().view().rows;
  const std::int64_t length = run.trace->info().length;
  const Range range{std::max<std::int64_t>(0, rows.begin), std::min(rows.end, length)};
  if (range.begin >= range.end || range.size() == length) return std::nullopt;
  return range;
}

void ComparisonView::ask() {
  const Run* model = chosen(*m_model);
  const Run* minus = chosen(*m_minus);
  if (model == nullptr || minus == nullptr) return;
  if (model == minus) return showMessage(tr("A model differs from itself in nothing: choose two."));
  if (const auto differ = tokens_differ(*model->trace, *minus->trace)) {
    const auto named = [](const Run& run) { return NamedTrace{*run.trace, shortName(run.name).toStdString()}; };
    const std::string why =
        differ_text(*differ, named(*model), named(*minus), "perplexity by the byte is in the curves");
    return showMessage(QString::fromStdString(why) + '.');
  }
  JobRunner::Request<Answer> request;
  request.work = [answer = Answer{model->id, minus->id, {}, {}}, own = model->trace, other = minus->trace,
                  range = rangeShown(*model)](const Job&) -> std::optional<Answer> {
    Answer made = answer;
    const auto compare = [&](const Range& positions) {
      return compare_losses(own->per_token_loss(), other->per_token_loss(), positions);
    };
    made.whole = compare({0, own->info().length});
    if (range) made.shown = compare(*range);
    return made;
  };
  request.done = [this](const Answer& answer) { take(answer); };
  request.failed = [this](const QString& message) { showMessage(message); };
  m_asked = true;
  m_runs.quickJobs().submit(this, kAnswer, std::move(request));
}

void ComparisonView::take(const Answer& answer) {
  m_asked = false;
  const Run* model = m_runs.run(answer.model);
  const Run* minus = m_runs.run(answer.minus);
  if (model == nullptr || minus == nullptr) return;
  const QString name = tr("%1 − %2").arg(shortName(model->name), shortName(minus->name));
  const LossChange& difference = answer.whole.difference;
  const QString better = shortName(difference.mean.value < 0 ? model->name : minus->name);
  QString words = answerText(name, difference) + QStringLiteral("; ") + chanceText(difference.mean);
  words += beyond_chance(difference.mean) ? tr(": %1 predicts better").arg(better.toHtmlEscaped())
                                          : tr(": this text does not tell which is better");
  if (answer.shown) {
    const Range& range = answer.shown->positions;
    words += QStringLiteral("<br>") + tr("Positions %1 to %2, which are shown: %3 nats/token; %4")
                                          .arg(countWords(range.begin), countWords(range.end - 1),
                                               estimateText(answer.shown->difference.mean),
                                               chanceText(answer.shown->difference.mean));
  }
  m_sentence->setText(words);
  // Bars are those of the whole text; tokens are those of the range that is read.
  m_bars->setOctaves(answer.whole.octaves);
  const LossChange& tokens = answer.shown ? answer.shown->difference : difference;
  showTokens(*m_better, tokens.helped, *model, *minus);
  showTokens(*m_worse, tokens.hurt, *model, *minus);
  m_pages->showContent();
}

void ComparisonView::showTokens(DifferenceTable& table, const std::vector<TokenChange>& tokens, const Run& model,
                                const Run& minus) {
  const TokenTable& strings = *model.trace->tokens();
  std::vector<DifferenceTable::Row> rows;
  for (const TokenChange& token : tokens) {
    const std::size_t p = index_of(token.position);
    rows.push_back({token.position, QString::fromStdString(words_before(strings, token.position)).simplified(),
                    figure::predictedText(strings, token.position, figure::Whitespace::visible), token.change,
                    static_cast<double>(model.trace->per_token_loss()[p]),
                    static_cast<double>(minus.trace->per_token_loss()[p])});
  }
  table.setRows(rows, model.name, minus.name);
}

QJsonObject ComparisonView::saveState() const {
  return {{"model", m_model->currentText()}, {"minus", m_minus->currentText()}};
}

void ComparisonView::restoreState(const QJsonObject& state) {
  m_wanted = Pair{state["model"].toString(), state["minus"].toString()};
  follow();
}

}  // namespace foxscope::gui
