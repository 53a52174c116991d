#include "app/gui/curves/saliency_tab.h"

#include <algorithm>
#include <cmath>

#include <QSplitter>

#include "app/gui/curves/curve_export.h"
#include "app/gui/curves/curve_runs.h"
#include "app/gui/curves/plot_style.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/views/theme.h"
#include "backend/map/head_saliency.h"

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

/// The largest, and of those that stand together the largest alone.
std::vector<SaliencyEvent> apart(const HeadSaliency& saliency) {
  std::vector<SaliencyEvent> kept;
  for (const SaliencyEvent& event : saliency.events) {
    const auto near = [&](const SaliencyEvent& other) {
      return std::abs(event.position - other.position) < kTokensApart;
    };
    if (kept.size() < kEventsOfAHead && std::none_of(kept.begin(), kept.end(), near)) kept.push_back(event);
  }
  return kept;
}

/// Of all heads, the largest first.
std::vector<HeadEvent> eventsOf(const std::shared_ptr<const Trace>& trace, RunId run, const Job& job) {
  std::vector<HeadEvent> events;
  for (int layer = 0; layer < trace->info().layers && !job.stopped(); ++layer) {
    for (int head = 0; head < trace->info().heads; ++head) {
      for (const SaliencyEvent& event : apart(*head_saliency({trace, layer, head}, kCandidates))) {
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

SaliencyTab::SaliencyTab(Document& document, QWidget* parent)
    : CurveTab(document, tr("Saliency: choices"), parent),
      m_plot(new PositionPlot(document, PositionPlot::Part::rows, this)),
      m_list(
          new TokenList(document,
                        {tr("gate at"), tr("10⁻⁶ nats"),
                         [](const ListedToken& event) {
                           return tr("position %1, %2: raising this gate by 1 % changes the loss by %3 nats. Click to "
                                     "go there")
                               .arg(event.position)
                               .arg(event.token, changeText(event.value / kListed));
                         },
                         std::nullopt},
                        this)) {
  m_plot->setAccessibleName(tr("Saliency along the text"));
  m_list->setAccessibleName(tr("Gates that matter most, of all heads"));
  setPlot(m_list->beside(m_plot, this));
  connect(m_list, &QTableView::clicked, this, &SaliencyTab::chooseHead);
  connect(m_list, &QTableView::activated, this, &SaliencyTab::chooseHead);
  connect(&document.selection(), &Selection::headChanged, this, &SaliencyTab::outdate);
}

void SaliencyTab::refresh() {
  const HeadChoice choice = document().selection().head();
  const auto head = document().headOf(choice);
  const QString name = head ? document().run(choice.run)->name : QString();
  if (!head || !head->trace->has(TraceArray::log_forget_gradient)) {
    document().quickJobs().cancel(this, kOwed);
    m_owed = {};
    return showMessage(head ? tr("%1 has no saliency yet: choose “Compute saliency” in the menu of the text.").arg(name)
                            : noRunText());
  }
  Owed owed;
  owed.head = choice;
  owed.run = name;
  owed.target = QString::fromStdString(saliency_target_words(head->trace->info()));
  owed.trace = head->trace;
  owed.colour = document().run(choice.run)->look.colour;
  JobRunner::Request<Owed> request;
  request.work = [owed, head = *head, reference = document().reference()->trace->tokens()](const Job& job) {
    Owed made = read(owed, head, *reference, job);
    return job.stopped() ? std::nullopt : std::optional(std::move(made));
  };
  request.done = [this](Owed made) { take(std::move(made)); };
  request.failed = [this](const QString& message) { showMessage(message); };
  document().quickJobs().submit(this, kOwed, std::move(request));
}

SaliencyTab::Owed SaliencyTab::read(Owed owed, const HeadOf& head, const TokenTable& reference, const Job& job) {
  const TraceInfo& info = head.trace->info();
  owed.changes = std::make_shared<const Series>(saliencySeries(head, reference));
  if (info.gated && head.trace->has(TraceArray::cumulative_log_gate, head.layer)) {
    owed.gate = std::make_shared<const Series>(gateSeries(head, reference));
  }
  for (const HeadEvent& each : eventsOf(head.trace, owed.head.run, job)) {
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
  showPlot(
      tr("Raising a gate by 1 % changes %1 of %2 by this, to first order.%3")
          .arg(m_owed.target, m_owed.run, m_owed.gate ? QString() : tr(" It has no gates: what one would change.")));
}

void SaliencyTab::chooseHead(const QModelIndex& event) {
  const auto row = static_cast<std::size_t>(event.row());
  if (!event.isValid() || row >= m_owed.heads.size()) return;
  const HeadChoice head = m_owed.heads[row];
  document().selection().setHead(head);
}

PositionAxis SaliencyTab::axis() const {
  PositionAxis axis;
  axis.length = document().length();
  return axis;
}

void SaliencyTab::restyle() {
  if (m_owed.changes) m_plot->setContent(content(palette()), axis());
}

QString SaliencyTab::headName() const {
  return tr("%1, layer %2, head %3").arg(m_owed.run).arg(m_owed.head.layer).arg(m_owed.head.head);
}

PlotContent SaliencyTab::content(const QPalette& palette) const {
  PlotContent content;
  content.xLabel = tr("position, tokens");
  content.markColour = runColour(m_owed.colour, palette);
  content.strips.push_back({tr("change, nats"), {}, figure::AxisScale::linear, m_owed.gate ? 2 : 1});
  Line line{m_owed.changes, 0, Side::left, content.markColour, headName()};
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
  if (!m_owed.changes || document().reference() == nullptr) return;
  const auto position = cursorPosition(document().selection());
  const auto index = position ? m_owed.changes->indexAt(static_cast<double>(*position)) : std::nullopt;
  QString value;
  if (index) {
    value = tr("%1 nats").arg(changeText(m_owed.changes->value[*index]));
    if (m_owed.gate) value = tr("f = %1, ").arg(numberText(m_owed.gate->value[*index])) + value;
  }
  readOut().setEntries({{headName(), runColour(m_owed.colour, palette()), Qt::SolidLine, value}});
  if (!index || *position >= document().length()) {
    return readOut().setPlace(tr("What raising the gate at a token by 1 % changes; circles: where it changes most"));
  }
  readOut().setPlace(readingText(*document().reference()->trace->tokens(), *position));
}

bool SaliencyTab::plotIsSettled() const { return m_plot->isSettled(); }

QString SaliencyTab::data() const {
  if (!message().isEmpty() || !m_owed.changes) return {};
  CurveTable table = tableOfPositions(*m_owed.trace->tokens(), TokenColumns::read);
  const QString name = tr("change of %1 by 1 % of the gate of %2 layer %3 head %4, nats")
                           .arg(m_owed.target, m_owed.run)
                           .arg(m_owed.head.layer)
                           .arg(m_owed.head.head);
  table.columns.push_back({name, std::make_shared<const Series>(Series{m_owed.changes->value, {}})});
  return csvOf(table);
}

std::optional<figure::CurveFigure> SaliencyTab::figure() const {
  if (!message().isEmpty() || !m_owed.changes) return std::nullopt;
  auto shown = figureOf(*m_plot, content(lightPalette()));
  if (shown) shown->runs.push_back(m_owed.trace);
  return shown;
}

}  // namespace foxscope::gui::curves
