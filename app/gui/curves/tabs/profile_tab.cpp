#include "app/gui/curves/tabs/profile_tab.h"

#include <algorithm>

#include <QAction>
#include <QComboBox>
#include <QToolBar>

#include "app/gui/curves/curve_export.h"
#include "app/gui/curves/curve_runs.h"
#include "app/gui/curves/line_profile.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/document/number_text.h"
#include "app/gui/document/runs/gateless_name.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui::curves {
namespace {

using Along = MapLine::Along;

enum { kProfile, kMissing };
constexpr int kStrongest = 8;     // tokens that are named
constexpr int kForgetColour = 4;  // of runColour, counted from the run's own
constexpr int kLogForgetColour = 3;
const char* const kKindNames[] = {"attention", "attentionWithoutGate", "forget", "logForget"};
const char* const kAlongNames[] = {"row", "column", "diagonal"};  // in the order of Along

/// Whether a line of this kind goes through these tokens.
bool goesThrough(Along along, const Cursor& pair) {
  switch (along) {
    case Along::row:
      return pair.query.has_value();
    case Along::column:
      return pair.key.has_value();
    case Along::diagonal:
      break;
  }
  return pair.query && pair.key && *pair.key <= *pair.query;
}

}  // namespace

ProfileTab::ProfileTab(RunList& runs, const ModelRuns& modelRuns, QWidget* parent)
    : PositionTab(runs, modelRuns, tr("Profile: choices"), parent), m_along(new QComboBox(controls())) {
  m_along->addItems({tr("Row"), tr("Column"), tr("Diagonal")});
  m_along->setAccessibleName(tr("Line of the map"));
  m_along->setToolTip(
      tr("Row: how much the pinned query looks at every key. Column: how much every query looks at the pinned key. "
         "Diagonal: all pairs as far apart as the pinned pair, along the text."));
  controls()->addWidget(m_along);
  controls()->addSeparator();
  m_shown[attention] = addChoice(kKindNames[attention], tr("A"), tr("Attention of the query on the key"), true);
  m_shown[withoutGate] = addChoice(kKindNames[withoutGate], tr("A ungated"),
                                   tr("Attention without the gate: softmax of the same logits alone"), true);
  m_shown[forget] =
      addChoice(kKindNames[forget], tr("F"), tr("What the gates between key and query let through"), true);
  m_shown[logForget] =
      addChoice(kKindNames[logForget], tr("log F"), tr("Logarithm of F, in nats, in a strip of its own"), false);
  controls()->addSeparator();
  m_distance = addChoice(QStringLiteral("distance"), tr("Distance"),
                         tr("Against the distance between query and key, instead of the position"), false);
  m_logX = addChoice(QStringLiteral("logX"), tr("Log x"), tr("Logarithmic horizontal axis, counted from 1"), false);
  m_logY = addChoice(QStringLiteral("logY"), tr("Log y"), tr("Logarithmic axes of A and F, over eight decades at most"),
                     false);
  setWhatsThis(QStringLiteral("profile"));
  plot()->setAccessibleName(tr("Profile of the chosen head along a line of its map"));
  setPlot(plot());
  const auto whenChosen = [this] {
    restyle();
    showReading();
  };
  for (QAction* action : m_shown) connect(action, &QAction::toggled, this, whenChosen);
  for (QAction* action : {m_distance, m_logX, m_logY}) connect(action, &QAction::toggled, this, whenChosen);
  connect(m_along, &QComboBox::currentIndexChanged, this, [this] {
    // On a diagonal the distance is the same everywhere.
    m_distance->setEnabled(along() != Along::diagonal);
    outdate();
  });
  Selection& selection = runs.selection();
  connect(&selection, &Selection::headChanged, this, &ProfileTab::follow);
  connect(&selection, &Selection::pinChanged, this, &ProfileTab::follow);
  connect(&selection, &Selection::hoverChanged, this, &ProfileTab::follow);
}

void ProfileTab::setAlong(Along along) { m_along->setCurrentIndex(static_cast<int>(along)); }

Along ProfileTab::along() const { return static_cast<Along>(m_along->currentIndex()); }

std::optional<Cursor> ProfileTab::wantedPair() const {
  const Selection& selection = list().selection();
  for (const Cursor& pair : {selection.pin(), selection.hover()}) {
    if (goesThrough(along(), pair)) return pair;
  }
  return m_pair && goesThrough(along(), *m_pair) ? m_pair : std::nullopt;
}

MapLine ProfileTab::lineThrough(const Cursor& pair) const {
  return MapLine::through(along(), pair.query.value_or(0), pair.key.value_or(0));
}

std::optional<MapLine> ProfileTab::ownLineThrough(const Cursor& pair) const {
  const auto own = [&](const std::optional<std::int64_t>& position) {
    return position ? list().positionIn(m_head.run, *position) : std::nullopt;
  };
  const Cursor ownPair{own(pair.query), own(pair.key)};
  return goesThrough(along(), ownPair) ? std::optional(lineThrough(ownPair)) : std::nullopt;
}

// Where tokens differ, pairs that are equally far apart in the reference may not be so in the run. The mouse on the
// curve of a diagonal that is not pinned keeps that one.
void ProfileTab::follow() {
  const Selection& selection = list().selection();
  const auto pair = wantedPair();
  const bool sameHead = selection.head() == m_head;
  if (sameHead && pair.has_value() == m_pair.has_value() &&
      (!pair || (lineThrough(*pair) == lineThrough(*m_pair) &&
                 (pair != selection.pin() || ownLineThrough(*pair) == ownLineThrough(*m_pair))))) {
    return;
  }
  list().jobs().cancel(this, kMissing);
  m_pair = pair;
  m_head = selection.head();
  outdate();
}

void ProfileTab::forgetProfile() {
  list().quickJobs().cancel(this, kProfile);
  list().jobs().cancel(this, kMissing);
  m_profile = {};
}

QString ProfileTab::howToPin() const {
  switch (along()) {
    case Along::row:
      return tr("Pin a query to see its row: click a token in the text, or a row of a map.");
    case Along::column:
      return tr("Pin a key to see its column: Shift+click a token in the text, or click a column of a map.");
    case Along::diagonal:
      break;
  }
  return tr(
      "Pin a pair to see its diagonal: click an entry of a map, or in the text a token and with Shift one before "
      "it.");
}

void ProfileTab::refresh() {
  m_head = list().selection().head();
  m_pair = wantedPair();
  if (m_pair && std::max(m_pair->query.value_or(0), m_pair->key.value_or(0)) >= list().length()) m_pair.reset();
  const auto head = list().headOf(m_head);
  if (!head || !m_pair) {
    forgetProfile();
    return showMessage(list().reference() == nullptr ? noRunText() : howToPin());
  }
  const auto own = ownLineThrough(*m_pair);
  if (!own) {
    forgetProfile();
    return showMessage(
        tr("%1 was run over %2 tokens and has not read as far as %3: pin another, or run it again.")
            .arg(list().run(m_head.run)->name)
            .arg(head->trace->info().length)
            .arg(along() == Along::column ? tr("key %1").arg(*m_pair->key) : tr("query %1").arg(*m_pair->query)));
  }
  list().jobs().cancel(this, kMissing);
  Profile profile;
  profile.head = m_head;
  profile.of = *head;
  profile.reference = list().reference()->trace->tokens();
  profile.line = lineThrough(*m_pair);
  profile.own = *own;
  profile.run = list().run(m_head.run)->name;
  profile.colour = list().run(m_head.run)->look.colour;
  JobRunner::Request<Profile> request;
  request.work = [profile](const Job& job) { return read(profile, job); };
  request.done = [this](Profile made) { take(std::move(made)); };
  request.failed = [this](const QString& message) { showMessage(message); };
  list().quickJobs().submit(this, kProfile, std::move(request));
}

std::optional<ProfileTab::Profile> ProfileTab::read(Profile profile, const Job& job) {
  auto values = lineProfile(profile.of, profile.own, job);
  if (!values) return std::nullopt;
  profile.missing = std::move(values->missing);
  add(profile, attention, std::move(values->attention));
  add(profile, withoutGate, std::move(values->attentionWithoutGate));
  add(profile, forget, std::move(values->forget));
  add(profile, logForget, std::move(values->logForget));
  return profile;
}

void ProfileTab::add(Profile& profile, Kind kind, std::vector<double> values) {
  if (values.empty()) return;
  const TokenTable& tokens = *profile.of.trace->tokens();
  std::vector<double> places = placesRead(tokens, *profile.reference);
  if (!places.empty()) {
    places.resize(values.size());
    // A token that begins before the pinned key stands at it, so that no distance is below 0.
    if (profile.line.along == Along::column) {
      for (double& place : places) place = std::max(place, static_cast<double>(profile.line.at));
    }
  }
  if (kind == attention) {
    for (const std::int64_t position : strongest(values, kStrongest)) {
      const auto index = static_cast<std::size_t>(position);
      const double place = places.empty() ? static_cast<double>(position) : places[index];
      profile.strongest.push_back(
          {{place, values[index]}, Side::left, readText(tokens, position, Whitespace::visible)});
    }
  }
  profile.series[kind] = std::make_shared<const Series>(Series{std::move(values), std::move(places)});
}

void ProfileTab::take(Profile profile) {
  m_profile = std::move(profile);
  showPlot(notes());
  addMissing();
}

void ProfileTab::addMissing() {
  if (m_profile.missing.empty()) return;
  const Quantity quantity = m_profile.missing.front();
  JobRunner::Request<Profile> request;
  request.work = [profile = m_profile, quantity](const Job& job) -> std::optional<Profile> {
    auto values = lineValues(profile.of, profile.own, quantity, job);
    if (!values) return std::nullopt;
    Profile more = profile;
    more.missing.erase(more.missing.begin());
    add(more, quantity == Quantity::attention ? attention : withoutGate, std::move(*values));
    return more;
  };
  request.done = [this](Profile made) {
    if (isFresh()) take(std::move(made));
  };
  request.failed = [this](const QString& message) {
    if (isFresh()) showMessage(message);
  };
  request.priority = Priority::refining;
  list().jobs().submit(this, kMissing, std::move(request));
}

QString ProfileTab::notes() const {
  const TraceInfo& info = m_profile.of.trace->info();
  QStringList notes;
  const auto isMissing = [&](Quantity quantity) {
    return std::find(m_profile.missing.begin(), m_profile.missing.end(), quantity) != m_profile.missing.end();
  };
  if (isMissing(Quantity::attention)) {
    notes += tr("A takes a pass over all rows of the head and is being computed.");
  } else if (!m_profile.series[attention]) {
    notes +=
        tr("No attention: queries, keys or row normalisers of %1 were not kept (--keep rows,qk).").arg(m_profile.run);
  }
  if (isMissing(Quantity::attention_without_gate)) {
    notes += tr("A without gate takes a pass over all rows of the head and is being computed.");
  }
  if (!forgets(info, m_profile.head.layer)) {
    notes +=
        tr("%1 has no forget gate: F is 1 %2.")
            .arg(gatelessName(m_profile.run, info, m_profile.head.layer), everywhereSeen(info, m_profile.head.layer));
  }
  const std::int64_t window = window_of(info, m_profile.head.layer);
  if (m_profile.own.along == Along::diagonal && window > 0 && m_profile.own.at >= window) {
    notes += tr("Distance %1 lies outside the window of %2 tokens.").arg(m_profile.own.at).arg(window);
  }
  if (!m_profile.series[forget]->position.empty()) {
    const QString reference = list().reference()->name;
    switch (m_profile.line.along) {
      case Along::row:
        notes +=
            tr("Tokens differ: keys of %1 are drawn at the positions of %2 that begin at the same place in the text.")
                .arg(m_profile.run, reference);
        break;
      case Along::column:
        notes += tr("Tokens differ: queries of %1 are drawn at the positions of %2 that begin at the same place in the "
                    "text.")
                     .arg(m_profile.run, reference);
        break;
      case Along::diagonal:
        notes += tr("Tokens differ: the pair is %3 tokens of %1 apart. Queries of %1 are drawn at the positions of %2 "
                    "that begin at the same place in the text.")
                     .arg(m_profile.run, reference)
                     .arg(m_profile.own.at);
        break;
    }
  }
  return notes.join(' ');
}

bool ProfileTab::isAgainstDistance() const {
  return m_distance->isChecked() && m_profile.line.along != Along::diagonal;
}

PositionAxis ProfileTab::axis() const {
  PositionAxis axis;
  axis.kind = isAgainstDistance() ? PositionAxis::Kind::distance : PositionAxis::Kind::position;
  axis.scale = m_logX->isChecked() ? figure::AxisScale::logarithmic : figure::AxisScale::linear;
  axis.first = m_logX->isChecked() ? 1 : 0;
  axis.line = m_profile.line;
  axis.length = list().length();
  return axis;
}

QString ProfileTab::xLabel() const {
  const bool isRow = m_profile.line.along == Along::row;
  QString what = isRow ? tr("key position, tokens") : tr("query position, tokens");
  if (isAgainstDistance()) what = isRow ? tr("distance from the query, tokens") : tr("distance from the key, tokens");
  return m_logX->isChecked() ? tr("1 + %1").arg(what) : what;
}

QString ProfileTab::nameOf(Kind kind) const {
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

QColor ProfileTab::colourOf(Kind kind, const QPalette& palette) const {
  switch (kind) {
    case attention:
      return runColour(m_profile.colour, palette);
    case withoutGate:
      return mutedTextColour(palette);
    case forget:
      return runColour(m_profile.colour + kForgetColour, palette);
    default:
      return runColour(m_profile.colour + kLogForgetColour, palette);
  }
}

bool ProfileTab::shows(Kind kind) const { return m_shown[kind]->isChecked() && m_profile.series[kind]; }

// F has an axis of its own beside attention, which is mostly far smaller.
Side ProfileTab::sideOf(Kind kind) const {
  return kind == forget && (shows(attention) || shows(withoutGate)) ? Side::right : Side::left;
}

PlotContent ProfileTab::content(const QPalette& palette) const {
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
    Line line{m_profile.series[kind], kind == logForget ? logStrip : 0, sideOf(kind), colourOf(kind, palette),
              nameOf(kind)};
    if (kind == withoutGate) line.style = Qt::DashLine;
    content.lines.push_back(std::move(line));
  }
  if (shows(attention)) content.marks = m_profile.strongest;
  content.markColour = colourOf(attention, palette);
  return withoutHidden(std::move(content));
}

void ProfileTab::showReading() {
  if (m_profile.of.trace == nullptr || list().reference() == nullptr) return;
  const MapLine& line = m_profile.line;
  const bool isRow = line.along == Along::row;
  const Selection& selection = list().selection();
  const auto of = [&](const Cursor& cursor) { return isRow ? cursor.key : cursor.query; };
  const auto position = of(selection.hover()) ? of(selection.hover()) : of(selection.pin());
  const Range there = line.positions(list().length());
  const bool inside = position && *position >= there.begin && *position < there.end;
  std::vector<ReadOut::Entry> entries;
  for (const Kind kind : {attention, withoutGate, forget, logForget}) {
    if (!shows(kind)) continue;
    QString value;
    const auto index = inside ? m_profile.series[kind]->indexAt(static_cast<double>(*position)) : std::nullopt;
    if (index) value = numberText(m_profile.series[kind]->value[*index]);
    if (index && kind == logForget) value = tr("%1 nats").arg(value);
    entries.push_back(
        {nameOf(kind), colourOf(kind, palette()), kind == withoutGate ? Qt::DashLine : Qt::SolidLine, value});
  }
  readOut().setEntries(entries);
  if (line.at >= list().length()) return;
  const TokenTable& tokens = *list().reference()->trace->tokens();
  const auto query = [&](std::int64_t at) { return tr("query %1").arg(readingText(tokens, at)); };
  const auto key = [&](std::int64_t at) { return tr("key %1").arg(readingText(tokens, at)); };
  const auto distance = [&](std::int64_t tokensApart) { return tr("distance %1").arg(tokensApart); };
  QStringList parts;
  switch (line.along) {
    case Along::row:
      parts = {query(line.at)};
      if (inside) parts << key(*position) << distance(line.at - *position);
      break;
    case Along::column:
      parts = {key(line.at)};
      if (inside) parts << query(*position) << distance(*position - line.at);
      break;
    case Along::diagonal:
      parts = {distance(line.at)};
      if (inside) parts << query(*position) << key(line.key(*position));
      break;
  }
  readOut().setPlace(tr("%1: %2").arg(headName(m_profile.run, m_profile.head), parts.join(QStringLiteral(", "))));
}

bool ProfileTab::plotIsSettled() const { return PositionTab::plotIsSettled() && m_profile.missing.empty(); }

QJsonObject ProfileTab::saveState() const {
  QJsonObject state = PositionTab::saveState();
  state["line"] = kAlongNames[static_cast<int>(along())];
  return state;
}

void ProfileTab::restoreState(const QJsonObject& state) {
  PositionTab::restoreState(state);
  for (const Along along : {Along::row, Along::column, Along::diagonal}) {
    if (state["line"].toString() == kAlongNames[static_cast<int>(along)]) setAlong(along);
  }
}

QString ProfileTab::data() const {
  if (!message().isEmpty() || m_profile.of.trace == nullptr) return {};
  // The run's own positions, whatever positions they are drawn at.
  const MapLine& line = m_profile.own;
  const TokenTable& tokens = *m_profile.of.trace->tokens();
  const Range there = line.positions(m_profile.of.trace->info().length);
  const auto readFrom = [&](std::int64_t first) {
    std::vector<QString> read;
    for (std::int64_t n = 0; n < there.size(); ++n) read.push_back(readText(tokens, first + n, Whitespace::visible));
    return read;
  };
  CurveTable table;
  table.positionName = line.along == Along::row ? tr("key") : tr("query");
  table.positions = there.size();
  table.firstNumber = there.begin;
  table.texts.emplace_back(tr("reads"), readFrom(there.begin));
  if (line.along == Along::diagonal) {
    std::vector<QString> keys;
    for (std::int64_t key = 0; key < there.size(); ++key) keys.push_back(QString::number(key));
    table.texts.emplace_back(tr("key"), std::move(keys));
    table.texts.emplace_back(tr("key reads"), readFrom(0));
  }
  const char* const units[] = {"", "", "", " (nats)"};
  for (const Kind kind : {attention, withoutGate, forget, logForget}) {
    if (!m_profile.series[kind]) continue;
    const std::vector<double>& values = m_profile.series[kind]->value;
    Series shown{{values.begin() + there.begin, values.end()}, {}};
    table.columns.push_back({nameOf(kind) + units[kind], std::make_shared<const Series>(std::move(shown))});
  }
  return csvOf(table);
}

std::optional<figure::CurveFigure> ProfileTab::figure() const {
  auto shown = PositionTab::figure();
  if (!shown) return std::nullopt;
  const QString lines[] = {tr("query %1"), tr("key %1"), tr("distance %1")};
  const MapLine& line = m_profile.line;
  const QString what = lines[static_cast<int>(line.along)].arg(line.at);
  shown->title = tr("%1, %2").arg(headName(m_profile.run, m_profile.head), what).toStdString();
  return shown;
}

}  // namespace foxscope::gui::curves
