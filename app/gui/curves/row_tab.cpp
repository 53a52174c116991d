#include "app/gui/curves/row_tab.h"

#include <cmath>

#include <QAction>
#include <QToolBar>

#include "app/gui/curves/curve_export.h"
#include "app/gui/curves/curve_runs.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/curves/row_profile.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui::curves {
namespace {

enum { kRow };
constexpr int kStrongest = 8;     // keys that are named
constexpr int kForgetColour = 4;  // of runColour, counted from the run's own
constexpr int kLogForgetColour = 3;
const char* const kKindNames[] = {"attention", "attentionWithoutGate", "forget", "logForget"};

}  // namespace

RowTab::RowTab(Document& document, QWidget* parent)
    : CurveTab(document, tr("Row: choices"), parent),
      m_plot(new PositionPlot(document, PositionPlot::Part::columns, this)),
      m_shown{addChoice(tr("A"), tr("Attention of the query on each key"), true),
              addChoice(tr("A ungated"), tr("Attention without the gate: softmax of the same logits alone"), true),
              addChoice(tr("F"), tr("What the gates between key and query let through"), true),
              addChoice(tr("log F"), tr("Logarithm of F, in nats, in a strip of its own"), false)} {
  controls()->addSeparator();
  m_distance =
      addChoice(tr("Distance"), tr("Against the distance back from the query, instead of the key's position"), false);
  m_logX = addChoice(tr("Log x"), tr("Logarithmic horizontal axis, counted from 1"), false);
  m_logY = addChoice(tr("Log y"), tr("Logarithmic axes of A and F, over eight decades at most"), false);
  m_plot->setAccessibleName(tr("Row of the chosen head"));
  setPlot(m_plot);
  const auto whenChosen = [this] {
    restyle();
    showReading();
  };
  for (QAction* action : m_shown) connect(action, &QAction::toggled, this, whenChosen);
  for (QAction* action : {m_distance, m_logX, m_logY}) connect(action, &QAction::toggled, this, whenChosen);
  Selection& selection = document.selection();
  connect(&selection, &Selection::headChanged, this, &RowTab::follow);
  connect(&selection, &Selection::pinChanged, this, &RowTab::follow);
  connect(&selection, &Selection::hoverChanged, this, &RowTab::follow);
}

void RowTab::follow() {
  const Selection& selection = document().selection();
  std::optional<std::int64_t> query = m_query;
  if (selection.pin().query) {
    query = selection.pin().query;
  } else if (selection.hover().query) {
    query = selection.hover().query;
  }
  if (query == m_query && selection.head() == m_head) return;
  m_query = query;
  m_head = selection.head();
  outdate();
}

void RowTab::refresh() {
  const Selection& selection = document().selection();
  m_head = selection.head();
  if (m_query && *m_query >= document().length()) m_query.reset();
  const auto head = document().headOf(m_head);
  if (!head || !m_query) {
    document().quickJobs().cancel(this, kRow);
    m_row = {};
    return showMessage(document().reference() == nullptr
                           ? noRunText()
                           : tr("Pin a query to see its row: click a token in the text, or a row of a map."));
  }
  const auto query = document().positionIn(m_head.run, *m_query);
  if (!query) {
    document().quickJobs().cancel(this, kRow);
    m_row = {};
    return showMessage(
        tr("%1 was run over %2 tokens and has not read as far as query %3: pin another, or run it again.")
            .arg(document().run(m_head.run)->name)
            .arg(head->trace->info().length)
            .arg(*m_query));
  }
  Row row;
  row.head = m_head;
  row.query = *m_query;
  row.trace = head->trace;
  row.run = document().run(m_head.run)->name;
  row.colour = document().run(m_head.run)->look.colour;
  JobRunner::Request<Row> request;
  request.work = [row, head = *head, query = *query, reference = document().reference()->trace->tokens()](
                     const Job& job) { return read(row, head, query, *reference, job); };
  request.done = [this](Row made) { take(std::move(made)); };
  request.failed = [this](const QString& message) { showMessage(message); };
  document().quickJobs().submit(this, kRow, std::move(request));
}

std::optional<RowTab::Row> RowTab::read(Row row, const HeadOf& head, std::int64_t queryOfRun,
                                        const TokenTable& reference, const Job& job) {
  auto profile = rowProfile(head, queryOfRun, job);
  if (!profile) return std::nullopt;
  const TokenTable& tokens = *head.trace->tokens();
  std::vector<double> places = placesRead(tokens, reference);
  if (!places.empty()) places.resize(static_cast<std::size_t>(queryOfRun) + 1);
  for (const std::int64_t key : strongest(profile->attention, kStrongest)) {
    const auto index = static_cast<std::size_t>(key);
    const double position = places.empty() ? static_cast<double>(key) : places[index];
    row.strongest.push_back(
        {{position, profile->attention[index]}, Side::left, readText(tokens, key, Whitespace::visible)});
  }
  const auto take = [&](Kind kind, std::vector<double>& values) {
    if (!values.empty()) row.series[kind] = std::make_shared<const Series>(Series{std::move(values), places});
  };
  take(attention, profile->attention);
  take(withoutGate, profile->attentionWithoutGate);
  take(forget, profile->forget);
  take(logForget, profile->logForget);
  return row;
}

void RowTab::take(Row row) {
  m_row = std::move(row);
  QStringList notes;
  if (!m_row.series[attention]) {
    notes += tr("No attention: queries, keys or row normalisers of %1 were not kept (--keep rows,qk).").arg(m_row.run);
  }
  if (!m_row.trace->info().gated) notes += tr("%1 has no forget gate: F is 1 everywhere.").arg(m_row.run);
  if (!m_row.series[forget]->position.empty()) {
    notes += tr("Tokens differ: keys of %1 stand at the positions of %2 that begin at the same place in the text.")
                 .arg(m_row.run, document().reference()->name);
  }
  showPlot(notes.join(' '));
}

PositionAxis RowTab::axis() const {
  PositionAxis axis;
  axis.kind = m_distance->isChecked() ? PositionAxis::Kind::distance : PositionAxis::Kind::position;
  axis.scale = m_logX->isChecked() ? figure::AxisScale::logarithmic : figure::AxisScale::linear;
  axis.first = m_logX->isChecked() ? 1 : 0;
  axis.query = m_row.query;
  axis.length = document().length();
  return axis;
}

QString RowTab::xLabel() const {
  const QString what = m_distance->isChecked() ? tr("distance from the query, tokens") : tr("key position, tokens");
  return m_logX->isChecked() ? tr("1 + %1").arg(what) : what;
}

QString RowTab::nameOf(Kind kind) const {
  switch (kind) {
    case attention:
      return tr("A");
    case withoutGate:
      return tr("A without gate");
    case forget:
      return tr("F");
    default:
      return tr("log F");
  }
}

QColor RowTab::colourOf(Kind kind, const QPalette& palette) const {
  switch (kind) {
    case attention:
      return runColour(m_row.colour, palette);
    case withoutGate:
      return mutedTextColour(palette);
    case forget:
      return runColour(m_row.colour + kForgetColour, palette);
    default:
      return runColour(m_row.colour + kLogForgetColour, palette);
  }
}

bool RowTab::shows(Kind kind) const { return m_shown[kind]->isChecked() && m_row.series[kind]; }

// F has an axis of its own beside attention, which is mostly far smaller.
Side RowTab::sideOf(Kind kind) const {
  return kind == forget && (shows(attention) || shows(withoutGate)) ? Side::right : Side::left;
}

void RowTab::restyle() { m_plot->setContent(content(palette()), axis()); }

PlotContent RowTab::content(const QPalette& palette) const {
  PlotContent content;
  content.xLabel = xLabel();
  const figure::AxisScale scale = m_logY->isChecked() ? figure::AxisScale::logarithmic : figure::AxisScale::linear;
  const bool attentions = shows(attention) || shows(withoutGate);
  if (attentions || shows(forget)) {
    content.strips.push_back(
        {attentions ? tr("attention") : tr("F"), attentions && shows(forget) ? tr("F") : QString(), scale, 5});
  }
  const int logStrip = static_cast<int>(content.strips.size());
  if (shows(logForget)) content.strips.push_back({tr("log F, nats"), {}, figure::AxisScale::linear, 3});
  if (content.strips.empty()) content.strips.push_back({tr("attention"), {}, scale, 1});
  for (const Kind kind : {forget, withoutGate, attention, logForget}) {
    if (!shows(kind)) continue;
    Line line{m_row.series[kind], kind == logForget ? logStrip : 0, sideOf(kind), colourOf(kind, palette),
              nameOf(kind)};
    if (kind == withoutGate) line.style = Qt::DashLine;
    content.lines.push_back(std::move(line));
  }
  if (shows(attention)) content.marks = m_row.strongest;
  content.markColour = colourOf(attention, palette);
  return withoutHidden(std::move(content));
}

void RowTab::showReading() {
  if (m_row.trace == nullptr || document().reference() == nullptr) return;
  const Selection& selection = document().selection();
  const auto key = selection.hover().key ? selection.hover().key : selection.pin().key;
  const bool inside = key && *key <= m_row.query && *key < document().length();
  std::vector<ReadOut::Entry> entries;
  for (const Kind kind : {attention, withoutGate, forget, logForget}) {
    if (!shows(kind)) continue;
    QString value;
    const auto index = inside ? m_row.series[kind]->indexAt(static_cast<double>(*key)) : std::nullopt;
    if (index) value = numberText(m_row.series[kind]->value[*index]);
    if (index && kind == logForget) value = tr("%1 nats").arg(value);
    entries.push_back(
        {nameOf(kind), colourOf(kind, palette()), kind == withoutGate ? Qt::DashLine : Qt::SolidLine, value});
  }
  readOut().setEntries(entries);
  const TokenTable& tokens = *document().reference()->trace->tokens();
  if (m_row.query >= document().length()) return;
  const QString head = tr("%1, layer %2, head %3: query %4")
                           .arg(m_row.run)
                           .arg(m_row.head.layer)
                           .arg(m_row.head.head)
                           .arg(readingText(tokens, m_row.query));
  readOut().setPlace(inside ? tr("%1, key %2, distance %3").arg(head, readingText(tokens, *key)).arg(m_row.query - *key)
                            : head);
}

bool RowTab::plotIsSettled() const { return m_plot->isSettled(); }

QJsonObject RowTab::saveState() const {
  QJsonObject state{
      {"distance", m_distance->isChecked()}, {"logX", m_logX->isChecked()}, {"logY", m_logY->isChecked()}};
  for (int kind = 0; kind < kinds; ++kind) state[kKindNames[kind]] = m_shown[kind]->isChecked();
  return state;
}

void RowTab::restoreState(const QJsonObject& state) {
  const auto restore = [&](QAction* action, const char* name) {
    action->setChecked(state[QLatin1String(name)].toBool(action->isChecked()));
  };
  restore(m_distance, "distance");
  restore(m_logX, "logX");
  restore(m_logY, "logY");
  for (int kind = 0; kind < kinds; ++kind) restore(m_shown[kind], kKindNames[kind]);
}

QString RowTab::data() const {
  if (!message().isEmpty() || m_row.trace == nullptr) return {};
  // The run's own keys, whatever positions they are drawn at.
  CurveTable table = tableOfPositions(*m_row.trace->tokens(), TokenColumns::read);
  table.positionName = tr("key");
  table.positions = static_cast<std::int64_t>(m_row.series[forget]->size());
  const char* const units[] = {"", "", "", " (nats)"};
  for (const Kind kind : {attention, withoutGate, forget, logForget}) {
    if (!m_row.series[kind]) continue;
    table.columns.push_back(
        {nameOf(kind) + units[kind], std::make_shared<const Series>(Series{m_row.series[kind]->value, {}})});
  }
  return csvOf(table);
}

std::optional<figure::CurveFigure> RowTab::figure() const {
  if (!message().isEmpty() || m_row.trace == nullptr) return std::nullopt;
  auto shown = figureOf(*m_plot, content(lightPalette()));
  if (!shown) return std::nullopt;
  shown->title = tr("%1, layer %2, head %3, query %4")
                     .arg(m_row.run)
                     .arg(m_row.head.layer)
                     .arg(m_row.head.head)
                     .arg(m_row.query)
                     .toStdString();
  shown->runs.push_back(m_row.trace);
  return shown;
}

}  // namespace foxscope::gui::curves
