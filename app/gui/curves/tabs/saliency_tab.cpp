#include "app/gui/curves/tabs/saliency_tab.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <QAction>
#include <QSplitter>

#include "app/gui/curves/curve_export.h"
#include "app/gui/curves/curve_runs.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/document/number_text.h"
#include "app/gui/document/runs/saliency_action.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"
#include "backend/map/statistics/head_saliency.h"

namespace foxscope::gui::curves {
namespace {

enum { kOwed };
constexpr std::size_t kEventsListed = 40;
constexpr std::size_t kEventsOfAHead = 8;
constexpr int kCandidates = 400;  // of a head: neighbours are nearly as large, and are one event
constexpr std::int64_t kTokensApart = 16;
constexpr double kListed = 1e6;  // in millionths of a nat

struct HeadEvent {
  HeadChoice head;
  SaliencyEvent event;
};

/// The gradients of a head by its log f, or by the logits of its keys.
std::vector<float> gradientOf(const HeadOf& head, bool keys) {
  const std::span<const float> saliency = head.trace->log_forget_gradient(head.layer, head.head);
  return keys ? key_logit_gradient(saliency) : std::vector<float>(saliency.begin(), saliency.end());
}

/// The largest, and of gates that stand together the largest alone.
std::vector<SaliencyEvent> eventsOf(const std::vector<float>& gradient, bool keys) {
  std::vector<SaliencyEvent> kept;
  if (std::any_of(gradient.begin(), gradient.end(), [](float value) { return std::isnan(value); })) return kept;
  for (const SaliencyEvent& event : largest_events(gradient, kCandidates)) {
    const auto near = [&](const SaliencyEvent& other) {
      return !keys && std::abs(event.position - other.position) < kTokensApart;
    };
    if (kept.size() < kEventsOfAHead && std::none_of(kept.begin(), kept.end(), near)) kept.push_back(event);
  }
  return kept;
}

/// The events of all heads, the largest first.
std::vector<HeadEvent> eventsOfHeads(const std::shared_ptr<const Trace>& trace, RunId run, bool keys, const Job& job) {
  std::vector<HeadEvent> events;
  for (int layer = 0; layer < trace->info().layers && !job.stopped(); ++layer) {
    for (int head = 0; head < trace->info().mixer(layer).heads; ++head) {
      for (const SaliencyEvent& event : eventsOf(gradientOf({trace, layer, head}, keys), keys)) {
        events.push_back({{run, layer, head}, event});
      }
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const HeadEvent& a, const HeadEvent& b) {
    return std::abs(a.event.saliency) > std::abs(b.event.saliency);
  });
  events.resize(std::min(events.size(), kEventsListed));
  return events;
}

QString changeText(double nats) { return (nats > 0 ? QStringLiteral("+") : QString()) + numberText(nats); }

}  // namespace

SaliencyTab::SaliencyTab(RunList& runs, ModelRuns& modelRuns, QWidget* parent)
    : PositionTab(runs, modelRuns, tr("Saliency: choices"), parent),
      m_list(new TokenList(runs,
                           {tr("of head"), tr("10⁻⁶ nats"),
                            [this](const ListedToken& event) {
                              return tr("position %1, %2: %3 changes the loss by %4 nats. Click to go there")
                                  .arg(event.position)
                                  .arg(event.token, cause(), changeText(event.value / kListed));
                            },
                            std::nullopt},
                           this)),
      m_keys(addChoice(QStringLiteral("keys"), tr("Keys"),
                       tr("Differentiate by each key's logits instead of each gate: shows which words were read"),
                       false)),
      m_compute(makeSaliencyAction(runs, modelRuns, this)) {
  plot()->setAccessibleName(tr("Saliency along the text"));
  m_list->setAccessibleName(tr("Gates that matter most, of all heads"));
  setPlot(m_list->beside(plot(), this));
  connect(m_list, &QTableView::clicked, this, &SaliencyTab::chooseHead);
  connect(m_list, &QTableView::activated, this, &SaliencyTab::chooseHead);
  connect(m_keys, &QAction::toggled, this, &SaliencyTab::outdate);
  connect(&runs.selection(), &Selection::headChanged, this, &SaliencyTab::outdate);
}

void SaliencyTab::refresh() {
  const HeadChoice choice = list().selection().head();
  const auto head = list().headOf(choice);
  const QString name = head ? list().run(choice.run)->name : QString();
  if (!head || !head->trace->has(TraceArray::log_forget_gradient)) {
    list().quickJobs().cancel(this, kOwed);
    m_owed = {};
    if (!head) return showMessage(noRunText());
    const QString obstacle = modelRuns().saliencyObstacle(choice.run);
    if (!obstacle.isEmpty()) return showMessage(obstacle + '.');
    return showMessage(tr("%1 has no saliency yet: computing it takes one more run.").arg(name), m_compute);
  }
  Owed owed;
  owed.head = choice;
  owed.run = name;
  owed.target = QString::fromStdString(saliency_target_words(head->trace->info()));
  owed.keys = m_keys->isChecked();
  owed.trace = head->trace;
  owed.colour = list().run(choice.run)->look.colour;
  JobRunner::Request<Owed> request;
  request.work = [owed, head = *head, reference = list().reference()->trace->tokens()](const Job& job) {
    Owed made = read(owed, head, *reference, job);
    return job.stopped() ? std::nullopt : std::optional(std::move(made));
  };
  request.done = [this](Owed made) { take(std::move(made)); };
  request.failed = [this](const QString& message) { showMessage(message); };
  list().quickJobs().submit(this, kOwed, std::move(request));
}

SaliencyTab::Owed SaliencyTab::read(Owed owed, const HeadOf& head, const TokenTable& reference, const Job& job) {
  const TraceInfo& info = head.trace->info();
  owed.changes = std::make_shared<const Series>(changeSeries(head, gradientOf(head, owed.keys), reference));
  if (forgets(info, head.layer) && head.trace->has(TraceArray::cumulative_log_gate, head.layer)) {
    owed.gate = std::make_shared<const Series>(gateSeries(head, reference));
  }
  for (const HeadEvent& each : eventsOfHeads(head.trace, owed.head.run, owed.keys, job)) {
    const double place = owed.changes->positionAt(static_cast<std::size_t>(each.event.position));
    if (place >= static_cast<double>(reference.id.size())) continue;
    const QString token = readText(*head.trace->tokens(), each.event.position, Whitespace::visible);
    owed.events.push_back({static_cast<std::int64_t>(place),
                           tr("%1:%2 %3").arg(each.head.layer).arg(each.head.head).arg(token),
                           kListed * change_by_one_percent(each.event.saliency)});
    owed.heads.push_back(each.head);
  }
  return owed;
}

void SaliencyTab::take(Owed owed) {
  m_owed = std::move(owed);
  m_list->setTokens(m_owed.events);
  const bool gateless = !m_owed.gate && !m_owed.keys;
  showPlot(tr("%1 changes %2 of %3 by this, to first order.%4")
               .arg(cause(), m_owed.target, m_owed.run,
                    gateless ? tr(" It has no gates: this is what one would change.") : QString()));
}

QString SaliencyTab::cause() const {
  return m_owed.keys ? tr("0.01 more in all logits of a key") : tr("Raising a gate by 1 %");
}

void SaliencyTab::chooseHead(const QModelIndex& event) {
  const auto row = static_cast<std::size_t>(event.row());
  if (!event.isValid() || row >= m_owed.heads.size()) return;
  const HeadChoice head = m_owed.heads[row];
  list().selection().setHead(head);
}

PlotContent SaliencyTab::content(const QPalette& palette) const {
  PlotContent content;
  content.xLabel = xLabel();
  content.markColour = runColour(m_owed.colour, palette);
  content.strips.push_back({tr("Δ, nats"), {}, figure::AxisScale::linear, m_owed.gate ? 2 : 1});
  Line line{m_owed.changes, 0, Side::left, content.markColour, headName(m_owed.run, m_owed.head)};
  line.width = 1.2;
  content.lines.push_back(line);
  if (m_owed.gate) {
    content.strips.push_back({tr("f"), {}, figure::AxisScale::linear, 1});
    line.series = m_owed.gate;
    line.strip = 1;
    content.lines.push_back(line);
  }
  for (std::size_t n = 0; n < m_owed.events.size(); ++n) {
    if (m_owed.heads[n] != m_owed.head) continue;
    const ListedToken& event = m_owed.events[n];
    content.marks.push_back(
        {{static_cast<double>(event.position), event.value / kListed}, Side::left, event.token.section(' ', 1)});
  }
  return withoutHidden(std::move(content));
}

void SaliencyTab::showReading() {
  if (!m_owed.changes || list().reference() == nullptr) return;
  const auto position = cursorPosition(list().selection());
  const auto index = position ? m_owed.changes->indexAt(static_cast<double>(*position)) : std::nullopt;
  QString value;
  if (index) {
    value = tr("%1 nats").arg(changeText(m_owed.changes->value[*index]));
    if (m_owed.gate) value = tr("f = %1, ").arg(numberText(m_owed.gate->value[*index])) + value;
  }
  readOut().setEntries(
      {{headName(m_owed.run, m_owed.head), runColour(m_owed.colour, palette()), Qt::SolidLine, value}});
  if (!index || *position >= list().length()) {
    return readOut().setPlace(tr("%1 changes the loss; circles: where most").arg(cause()));
  }
  readOut().setPlace(readingText(*list().reference()->trace->tokens(), *position));
}

QString SaliencyTab::data() const {
  if (!message().isEmpty() || !m_owed.changes) return {};
  CurveTable table = tableOfPositions(*m_owed.trace->tokens(), TokenColumns::read);
  const QString name = tr("change of %1 (%2, %3 layer %4 head %5), nats")
                           .arg(m_owed.target, cause(), m_owed.run)
                           .arg(m_owed.head.layer)
                           .arg(m_owed.head.head);
  table.columns.push_back({name, std::make_shared<const Series>(Series{m_owed.changes->value, {}})});
  return csvOf(table);
}

}  // namespace foxscope::gui::curves
