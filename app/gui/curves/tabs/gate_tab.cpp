#include "app/gui/curves/tabs/gate_tab.h"

#include <algorithm>

#include <QSplitter>

#include "app/gui/curves/curve_export.h"
#include "app/gui/curves/curve_runs.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/document/number_text.h"
#include "app/gui/document/runs/gateless_name.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"
#include "backend/map/statistics/head_statistics.h"

namespace foxscope::gui::curves {
namespace {

enum { kGate };
constexpr int kEvents = 20;

}  // namespace

GateTab::GateTab(RunList& runs, const ModelRuns& modelRuns, QWidget* parent)
    : PositionTab(runs, modelRuns, tr("Gate: choices"), parent),
      m_list(new TokenList(
          runs,
          {tr("reads"), tr("f"),
           [](const ListedToken& event) {
             return tr("position %1 reads “%2”: f = %3 of all that came before is kept. Click to go there")
                 .arg(event.position)
                 .arg(event.token, numberText(event.value));
           },
           5},
          this)) {
  addLogarithmic(tr("Logarithmic axis of positions, counted from 1"));
  plot()->setAccessibleName(tr("Forget gate along the text"));
  m_list->setAccessibleName(tr("Strongest forgetting events"));
  setPlot(m_list->beside(plot(), this));
  connect(&runs.selection(), &Selection::headChanged, this, &GateTab::outdate);
}

void GateTab::refresh() {
  const HeadChoice choice = list().selection().head();
  const auto head = list().headOf(choice);
  const QString name = head ? list().run(choice.run)->name : QString();
  if (!head || !forgets(head->trace->info(), choice.layer)) {
    list().quickJobs().cancel(this, kGate);
    m_gate = {};
    if (!head) return showMessage(noRunText());
    const TraceInfo& info = head->trace->info();
    QString why = tr("%1 has no forget gate: f is 1 everywhere and nothing is forgotten.")
                      .arg(gatelessName(name, info, choice.layer));
    if (const std::int64_t window = window_of(info, choice.layer); window > 0) {
      why += ' ' + tr("The window ends what is seen, behind %1 tokens.").arg(window);
    }
    return showMessage(why);
  }
  Gate gate;
  gate.head = choice;
  gate.run = name;
  gate.trace = head->trace;
  gate.colour = list().run(choice.run)->look.colour;
  JobRunner::Request<Gate> request;
  request.work = [gate, head = *head, reference = list().reference()->trace->tokens()](const Job& job) {
    Gate made = read(gate, head, *reference, job);
    return job.stopped() ? std::nullopt : std::optional(std::move(made));
  };
  request.done = [this](Gate made) { take(std::move(made)); };
  request.failed = [this](const QString& message) { showMessage(message); };
  list().quickJobs().submit(this, kGate, std::move(request));
}

GateTab::Gate GateTab::read(Gate gate, const HeadOf& head, const TokenTable& reference, const Job& job) {
  const auto series = std::make_shared<const Series>(gateSeries(head, reference));
  const auto statistics = head_statistics(head, {.with_attention = false, .events = kEvents}, job);
  gate.series = series;
  if (!statistics) return gate;
  for (const ForgettingEvent& event : statistics->strongest_events) {
    const double place = series->positionAt(static_cast<std::size_t>(event.position));
    // The run may go further than the one whose positions the window speaks in.
    if (place >= static_cast<double>(reference.id.size())) continue;
    gate.events.push_back({static_cast<std::int64_t>(place),
                           readText(*head.trace->tokens(), event.position, Whitespace::visible), event.forget_gate});
  }
  return gate;
}

void GateTab::take(Gate gate) {
  m_gate = std::move(gate);
  m_list->setTokens(m_gate.events);
  QStringList notes;
  if (m_gate.trace->info().mixer(m_gate.head.layer).decays_by_channel()) {
    notes += tr("Each channel decays by itself: f is the geometric mean of them.");
  }
  if (!m_gate.series->position.empty()) {
    notes +=
        tr("Tokens differ: tokens of %1 are drawn at the positions of %2 that begin at the same place in the text.")
            .arg(m_gate.run, list().reference()->name);
  }
  showPlot(notes.join(' '));
}

PlotContent GateTab::content(const QPalette& palette) const {
  PlotContent content;
  content.xLabel = xLabel();
  content.strips.push_back({tr("forget gate f"), {}, figure::AxisScale::linear, 1});
  content.markColour = runColour(m_gate.colour, palette);
  Line line{m_gate.series, 0, Side::left, content.markColour, headName(m_gate.run, m_gate.head)};
  line.width = 1.2;
  content.lines.push_back(std::move(line));
  for (const ListedToken& event : m_gate.events) {
    content.marks.push_back({{static_cast<double>(event.position), event.value}, Side::left, event.token});
  }
  return withoutHidden(std::move(content));
}

void GateTab::showReading() {
  if (!m_gate.series || list().reference() == nullptr) return;
  const auto position = cursorPosition(list().selection());
  const auto index = position ? m_gate.series->indexAt(static_cast<double>(*position)) : std::nullopt;
  readOut().setEntries({{headName(m_gate.run, m_gate.head), runColour(m_gate.colour, palette()), Qt::SolidLine,
                         index ? tr("f = %1").arg(numberText(m_gate.series->value[*index])) : QString()}});
  if (!index || *position >= list().length()) {
    return readOut().setPlace(
        tr("f: the share of the memory that is kept when a token is read. Circles: where the head forgets most"));
  }
  readOut().setPlace(readingText(*list().reference()->trace->tokens(), *position));
}

QString GateTab::data() const {
  if (!message().isEmpty() || !m_gate.series) return {};
  CurveTable table = tableOfPositions(*m_gate.trace->tokens(), TokenColumns::read);
  const QString name =
      tr("forget gate of %1 layer %2 head %3").arg(m_gate.run).arg(m_gate.head.layer).arg(m_gate.head.head);
  table.columns.push_back({name, std::make_shared<const Series>(Series{m_gate.series->value, {}})});
  return csvOf(table);
}

}  // namespace foxscope::gui::curves
