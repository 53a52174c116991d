#include "app/gui/curves/tabs/context_tab.h"

#include <algorithm>

#include <QAction>

#include "app/gui/curves/curve_export.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui::curves {
namespace {

enum { kContextCurves };
// The first tokens, of which nothing is known yet, would dwarf all others: the paper's figures begin here.
constexpr std::int64_t kQuietStart = 128;

}  // namespace

ContextTab::ContextTab(RunList& runs, const ModelRuns& modelRuns, QWidget* parent)
    : PositionTab(runs, modelRuns, tr("P(l): choices"), parent),
      m_asLoss(addChoice(QStringLiteral("asLoss"), tr("As loss"),
                         tr("Show the mean loss over the first l tokens, instead of its exponential"), false)) {
  addLogarithmic(tr("Logarithmic axis of context lengths"));
  plot()->setAccessibleName(tr("Perplexity against context length"));
  plot()->setToolTip(tr("Where more than 1024 tokens are shown, the vertical axis leaves out the first 128."));
  setPlot(plot());
  connect(m_asLoss, &QAction::toggled, this, [this] {
    restyle();
    showReading();
  });
}

void ContextTab::refresh() {
  const std::vector<CurveRun> runs = curveRuns(list());
  m_runs = runs;
  if (runs.empty()) {
    list().quickJobs().cancel(this, kContextCurves);
    m_curves.clear();
    return showMessage(noRunText());
  }
  JobRunner::Request<std::vector<RunContext>> request;
  request.work = [runs](const Job&) { return std::optional(contextCurves(runs)); };
  request.done = [this](std::vector<RunContext> curves) { take(std::move(curves)); };
  request.failed = [this](const QString& message) { showMessage(message); };
  list().quickJobs().submit(this, kContextCurves, std::move(request));
}

void ContextTab::take(std::vector<RunContext> curves) {
  m_curves = std::move(curves);
  std::vector<CurveRun> without;
  bool differ = false;
  for (const RunContext& context : m_curves) {
    if (!context.mean) without.push_back(context.run);
    differ = differ || (context.mean && list().isOnText(context.run.id) && !context.mean->position.empty());
  }
  const QString missing = missingLossesNote(without);
  if (without.size() == m_curves.size()) return showMessage(missing);
  const QString note = differ
                           ? tr("Tokens differ: l counts the tokens of %1, and each run's mean is over its own tokens.")
                                 .arg(m_curves.front().run.name)
                           : QString();
  showPlot(QStringList{note, otherTextsNote(m_runs), missing}.join(' ').simplified());
}

// Position l - 1 is the last of the first l tokens.
PositionAxis ContextTab::axis() const {
  PositionAxis axis = PositionTab::axis();
  axis.first = 1;
  return axis;
}

std::vector<std::shared_ptr<const Trace>> ContextTab::traces() const {
  std::vector<std::shared_ptr<const Trace>> traces;
  for (const RunContext& context : m_curves) {
    if (context.mean) traces.push_back(context.run.trace);
  }
  return traces;
}

QString ContextTab::yLabel() const { return m_asLoss->isChecked() ? tr("mean loss, nats") : tr("perplexity P(l)"); }

PlotContent ContextTab::content(const QPalette& palette) const {
  PlotContent content;
  content.xLabel = tr("context length l, tokens");
  const std::vector<int> texts = textsOf(m_runs);
  for (std::size_t text = 0; text < texts.size(); ++text) {
    content.strips.push_back({yLabel(), {}, figure::AxisScale::linear, 1});
  }
  content.quietStart = kQuietStart;
  for (const RunContext& context : m_curves) {
    const auto& series = m_asLoss->isChecked() ? context.mean : context.perplexity;
    if (!series) continue;
    const auto strip = std::find(texts.begin(), texts.end(), context.run.text) - texts.begin();
    Line line{series, static_cast<int>(strip), Side::left, runColour(context.run.look.colour, palette),
              context.run.name};
    line.style = runLine(context.run.look.change);
    line.dots = Dots::never;
    content.lines.push_back(std::move(line));
  }
  return withoutHidden(std::move(content));
}

void ContextTab::showReading() {
  const auto position = cursorPosition(list().selection());
  const bool inside = position && *position < list().length();
  std::vector<ReadOut::Entry> entries;
  for (const RunContext& context : m_curves) {
    if (!context.mean) continue;
    QString value;
    const bool own = inside && list().isOnText(context.run.id);
    const auto index = own ? context.mean->indexAt(static_cast<double>(*position)) : std::nullopt;
    if (index) {
      value = m_asLoss->isChecked() ? tr("%1 nats").arg(numberText(context.mean->value[*index]))
                                    : numberText(context.perplexity->value[*index]);
    }
    entries.push_back(
        {context.run.name, runColour(context.run.look.colour, palette()), runLine(context.run.look.change), value});
  }
  readOut().setEntries(entries);
  if (!inside) {
    return readOut().setPlace(
        tr("P(l): exponential of the mean loss over the first l tokens. Hover to read, click to pin the query"));
  }
  const TokenTable& tokens = *list().reference()->trace->tokens();
  readOut().setPlace(
      tr("first %1 tokens, to “%2”").arg(*position + 1).arg(predictedText(tokens, *position, Whitespace::visible)));
}

QString ContextTab::data() const {
  if (!message().isEmpty() || list().reference() == nullptr) return {};
  CurveTable table;
  table.positionName = tr("context length (tokens)");
  table.positions = list().length();
  table.firstNumber = 1;
  for (const RunContext& context : m_curves) {
    if (!context.mean || !list().isOnText(context.run.id)) continue;
    table.columns.push_back({tr("perplexity of %1").arg(context.run.name), context.perplexity});
    table.columns.push_back({tr("mean loss of %1 (nats)").arg(context.run.name), context.mean});
  }
  return csvOf(table);
}

}  // namespace foxscope::gui::curves
