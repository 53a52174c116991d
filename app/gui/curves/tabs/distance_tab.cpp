#include "app/gui/curves/tabs/distance_tab.h"

#include <algorithm>
#include <cmath>

#include <QAction>
#include <QActionGroup>
#include <QToolBar>

#include "app/gui/curves/distance_profiles.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"
#include "backend/trace/shown_heads.h"

namespace foxscope::gui::curves {
namespace {

const char* const kScopeNames[] = {"head", "layer", "model"};

const HeadProfile* profileOf(const HeadMeasures& measures, const std::string& name) {
  const auto& profiles = measures.profiles;
  const auto found =
      std::find_if(profiles.begin(), profiles.end(), [&](const HeadProfile& one) { return one.name == name; });
  return found == profiles.end() ? nullptr : &*found;
}

QString binText(const DistanceBin& bin) {
  return bin.to - bin.from == 1 ? QString::number(bin.from) : QStringLiteral("%1–%2").arg(bin.from).arg(bin.to - 1);
}

}  // namespace

DistanceTab::DistanceTab(RunList& runs, const ModelRuns& modelRuns, DistanceProfiles& profiles, Shows shows,
                         QWidget* parent)
    : CurveTab(runs, modelRuns, shows == Shows::attention ? tr("Distance: choices") : tr("Content: choices"), parent),
      m_profiles(profiles),
      m_shows(shows),
      m_plot(new DistancePlot(this)),
      m_scope(new QActionGroup(this)) {
  const QString texts[] = {tr("Head"), tr("Layer"), tr("Model")};
  const QString tips[] = {tr("The chosen head"), tr("Mean over the heads of its layer"),
                          tr("Mean over all heads of its model")};
  for (int one = 0; one < scopes; ++one) m_scope->addAction(addChoice({}, texts[one], tips[one], one == head));
  controls()->addSeparator();
  m_others =
      addChoice(QStringLiteral("others"), tr("All runs"),
                tr("Show the other runs too: the head whose attention reaches as far, or the run's mean"), false);
  if (shows == Shows::attention) {
    m_withFirst = addChoice(QStringLiteral("withFirst"), tr("Key 0"),
                            tr("Count the attention on key 0, where many heads park what they do not need"), false);
    connect(m_withFirst, &QAction::toggled, this, &DistanceTab::regroup);
  }
  m_plot->setAccessibleName(shows == Shows::attention ? tr("Attention against distance")
                                                      : tr("Content and decay against distance"));
  setPlot(m_plot);
  connect(m_scope, &QActionGroup::triggered, this, &DistanceTab::outdate);
  connect(m_others, &QAction::toggled, this, &DistanceTab::outdate);
  connect(m_plot, &DistancePlot::hoveredChanged, this, &DistanceTab::showReading);
  connect(&runs.selection(), &Selection::headChanged, this, &DistanceTab::outdate);
  connect(&m_profiles, &DistanceProfiles::changed, this, [this] {
    if (isVisible()) regroup();
  });
}

DistanceTab::Scope DistanceTab::scope() const {
  return static_cast<Scope>(m_scope->actions().indexOf(m_scope->checkedAction()));
}

std::vector<DistanceTab::Kind> DistanceTab::kinds() const {
  if (m_shows == Shows::logits) {
    return {{"logit_content", tr("content"), Qt::DashLine, false}, {"logit_decay", tr("decay"), Qt::DotLine, true}};
  }
  return {{"mass", tr("A"), Qt::SolidLine, false},
          {"mass_without_gate", tr("A without gate"), Qt::DashLine, true},
          {"mass_without_content", tr("decay alone"), Qt::DotLine, true}};
}

QString DistanceTab::yLabel() const {
  return m_shows == Shows::attention ? tr("attention per octave") : tr("mean logit, nats");
}

// All heads of a run, or those of one layer; of layers of Mamba those that are shown.
std::vector<HeadChoice> DistanceTab::headsOf(const CurveRun& run, std::optional<int> only) const {
  const TraceInfo& info = run.trace->info();
  std::vector<HeadChoice> heads;
  for (int each = only.value_or(0); each < (only ? *only + 1 : info.layers); ++each) {
    const LayerMixer mixer = info.mixer(each);
    for (int one = 0; one < mixer.heads; one += shown_step(mixer)) heads.push_back({run.id, each, one});
  }
  return heads;
}

// Layers of models that differ in their number do not correspond: such a run has no group.
std::optional<DistanceTab::Group> DistanceTab::groupOf(const CurveRun& run) const {
  const HeadChoice chosen = list().selection().head();
  if (scope() == model) return Group{run, headsOf(run, std::nullopt), tr("%1, mean of all heads").arg(run.name)};
  const bool own = run.id == chosen.run;
  if (scope() == layer) {
    const Run* of = list().run(chosen.run);
    if (!own && (of == nullptr || of->trace->info().layers != run.trace->info().layers)) return std::nullopt;
    return Group{run, headsOf(run, chosen.layer), tr("%1, layer %2").arg(run.name).arg(chosen.layer)};
  }
  const auto one = own ? std::optional(chosen) : m_profiles.nearest(chosen, run.id);
  if (!one) return std::nullopt;
  return Group{run, {*one}, tr("%1, layer %2, head %3").arg(run.name).arg(one->layer).arg(one->head)};
}

// The nearest head of another run is found among all of its heads.
void DistanceTab::want(const CurveRun& run) {
  const HeadChoice chosen = list().selection().head();
  const bool own = run.id == chosen.run;
  if (scope() == head && own) return m_profiles.want(chosen, Priority::interactive);
  const bool layerOnly = scope() == layer && chosen.layer < run.trace->info().layers;
  for (const HeadChoice& one : headsOf(run, layerOnly ? std::optional(chosen.layer) : std::nullopt)) {
    m_profiles.want(one, Priority::background);
  }
}

void DistanceTab::refresh() {
  m_runs = curveRuns(list());
  const HeadChoice chosen = list().selection().head();
  std::erase_if(m_runs, [&](const CurveRun& run) { return run.id != chosen.run && !m_others->isChecked(); });
  std::stable_partition(m_runs.begin(), m_runs.end(), [&](const CurveRun& run) { return run.id == chosen.run; });
  if (m_runs.empty() || !list().headOf(chosen)) {
    m_groups.clear();
    m_missing = 0;
    m_plot->setLines({}, yLabel());
    return showMessage(noRunText());
  }
  for (const CurveRun& run : m_runs) want(run);
  regroup();
}

void DistanceTab::regroup() {
  if (m_runs.empty()) return;
  m_groups.clear();
  m_missing = 0;
  QStringList without;
  QStringList linear;
  QString failure;
  for (const CurveRun& run : m_runs) {
    const bool all = scope() != head || run.id != list().selection().head().run;
    const auto group = groupOf(run);
    const bool layerOnly = scope() == layer && group;
    const std::vector<HeadChoice> wanted =
        all ? headsOf(run, layerOnly ? std::optional(group->heads.front().layer) : std::nullopt) : group->heads;
    bool known = false;
    for (const HeadChoice& one : wanted) {
      const HeadMeasures* measures = m_profiles.of(one);
      if (!m_profiles.failure(one).isEmpty()) failure = m_profiles.failure(one);
      if (measures == nullptr && m_profiles.failure(one).isEmpty() && group) ++m_missing;
      const bool shown = measures != nullptr && profileOf(*measures, kinds().front().profile) != nullptr;
      known = known || shown;
      if (measures == nullptr || shown) continue;
      const TraceInfo& info = run.trace->info();
      const bool softmax = info.mixer(one.layer).has_softmax();
      // Other layers of a hybrid have one.
      const bool hybrid = !softmax && info.has_softmax();
      const QString name = hybrid ? tr("layer %1 of %2").arg(one.layer).arg(run.name) : run.name;
      QStringList& missing = softmax ? without : linear;
      if (!missing.contains(name)) missing += name;
    }
    if (group && known) m_groups.push_back(*group);
  }
  if (m_groups.empty() && m_missing > 0) return showMessage(tr("Measuring attention …"));
  if (m_groups.empty() && !failure.isEmpty()) return showMessage(failure);
  if (m_groups.empty() && !linear.isEmpty()) {
    return showMessage(
        m_shows == Shows::logits
            ? tr("Content and decay are added in the logits of softmax attention, and %1 has no softmax. Distance and "
                 "Decay show how far it remembers.")
                  .arg(linear.join(tr(", ")))
            : tr("No attention: what %1 mixes was not kept (--keep rows,qk).").arg(linear.join(tr(", "))));
  }
  if (m_groups.empty()) {
    return showMessage(tr("No attention: queries, keys or row normalisers of %1 were not kept (--keep rows,qk).")
                           .arg(without.join(tr(", "))));
  }
  showPlot(m_missing > 0 ? tr("%n head(s) are still being measured.", nullptr, m_missing) : QString());
}

std::vector<double> DistanceTab::meanOf(const Group& group, const char* profile) const {
  const bool leftOut = m_withFirst != nullptr && !m_withFirst->isChecked();
  const std::string name = std::string(profile) + (leftOut ? "_without_first" : "");
  std::vector<double> mean;
  double heads = 0;
  for (const HeadChoice& one : group.heads) {
    const HeadMeasures* measures = m_profiles.of(one);
    const HeadProfile* values = measures == nullptr ? nullptr : profileOf(*measures, name);
    if (values == nullptr) continue;
    mean.resize(values->bins.size());
    for (std::size_t bin = 0; bin < mean.size(); ++bin) mean[bin] += values->bins[bin];
    ++heads;
  }
  const std::vector<DistanceBin> bins = distance_bins(group.run.trace->info().length);
  mean.resize(std::min(mean.size(), drawn_bins(bins)));
  for (std::size_t bin = 0; bin < mean.size(); ++bin) {
    mean[bin] /= m_shows == Shows::attention ? heads * octaves(bins[bin]) : heads;
  }
  return mean;
}

std::vector<DistanceLine> DistanceTab::linesOf(const QPalette& palette) const {
  std::vector<DistanceLine> lines;
  const HeadChoice chosen = list().selection().head();
  for (const Group& group : m_groups) {
    const TraceInfo& info = group.run.trace->info();
    const bool gated =
        std::ranges::any_of(group.heads, [&](const HeadChoice& one) { return forgets(info, one.layer); });
    for (const Kind& kind : kinds()) {
      const bool own = group.run.id == chosen.run;
      if (kind.ofGate && (!gated || (!own && m_shows == Shows::attention))) continue;
      std::vector<double> values = meanOf(group, kind.profile);
      if (values.empty()) continue;
      std::vector<DistanceBin> bins = distance_bins(info.length);
      bins.resize(drawn_bins(bins));
      lines.push_back({m_groups.size() > 1 ? group.name + QStringLiteral(": ") + kind.name : kind.name,
                       runColour(group.run.look.colour, palette), kind.style, std::move(bins), std::move(values)});
    }
  }
  return lines;
}

void DistanceTab::restyle() {
  m_lines = linesOf(palette());
  std::vector<DistanceLine> shown = m_lines;
  std::erase_if(shown, [this](const DistanceLine& line) { return readOut().isHidden(line.name); });
  m_plot->setLines(std::move(shown), yLabel());
}

// How much of the chosen heads' nearness is content's doing and how much the gate's: means over them.
QString DistanceTab::told() const {
  const Group& group = m_groups.front();
  double total = 0;
  double content = 0;
  double decay = 0;
  double divergence = 0;
  double heads = 0;
  bool gated = false;
  for (const HeadChoice& one : group.heads) {
    const HeadMeasures* measures = m_profiles.of(one);
    if (measures == nullptr || !measures->split) continue;
    gated = gated || forgets(group.run.trace->info(), one.layer);
    total += measures->split->locality_without_first.total();
    content += measures->split->locality_without_first.by_content();
    decay += measures->split->locality_without_first.by_decay();
    divergence += measures->split->divergence;
    ++heads;
  }
  if (heads == 0) return group.name;
  if (!gated) return tr("%1: nearer by %2 octaves, without a gate").arg(group.name).arg(total / heads, 0, 'f', 2);
  return tr("%1: nearer by %2 octaves, %3 by content and %4 by decay; the gate changes A by %5 nats")
      .arg(group.name)
      .arg(total / heads, 0, 'f', 2)
      .arg(content / heads, 0, 'f', 2)
      .arg(decay / heads, 0, 'f', 2)
      .arg(divergence / heads, 0, 'f', 2);
}

void DistanceTab::showReading() {
  if (m_groups.empty() || !message().isEmpty()) return;
  const auto bin = m_plot->hovered();
  std::vector<ReadOut::Entry> entries;
  QString place = told();
  for (const DistanceLine& line : m_lines) {
    QString value;
    if (bin && *bin < line.value.size()) value = numberText(line.value[*bin]);
    if (!value.isEmpty() && m_shows == Shows::logits) value = tr("%1 nats").arg(value);
    entries.push_back({line.name, line.colour, line.style, value});
    if (bin && *bin < line.bins.size()) {
      place = tr("%1: distance %2 tokens").arg(m_groups.front().name, binText(line.bins[*bin]));
    }
  }
  readOut().setEntries(entries);
  readOut().setPlace(place);
}

QJsonObject DistanceTab::saveState() const {
  QJsonObject state = CurveTab::saveState();
  state["scope"] = kScopeNames[scope()];
  return state;
}

void DistanceTab::restoreState(const QJsonObject& state) {
  for (int one = 0; one < scopes; ++one) {
    if (state["scope"].toString() == kScopeNames[one]) m_scope->actions()[one]->setChecked(true);
  }
  CurveTab::restoreState(state);
  outdate();
}

QString DistanceTab::data() const {
  if (!message().isEmpty() || m_groups.empty()) return {};
  const std::vector<DistanceLine>& lines = m_lines;
  std::size_t longest = 0;
  QString csv = tr("distance from (tokens),distance to");
  const QString unit = m_shows == Shows::logits ? tr(" (nats)") : tr(" (per octave)");
  for (std::size_t n = 0; n < lines.size(); ++n) {
    if (lines[n].bins.size() > lines[longest].bins.size()) longest = n;
    const QString name =
        m_groups.size() > 1 ? lines[n].name : m_groups.front().name + QStringLiteral(": ") + lines[n].name;
    csv += ',' + csvField(name + unit);
  }
  csv += '\n';
  for (std::size_t bin = 0; !lines.empty() && bin < lines[longest].bins.size(); ++bin) {
    csv += QStringLiteral("%1,%2").arg(lines[longest].bins[bin].from).arg(lines[longest].bins[bin].to - 1);
    for (const DistanceLine& line : lines) {
      const bool known = bin < line.value.size() && !std::isnan(line.value[bin]);
      csv += ',' + (known ? QString::number(line.value[bin], 'g', 9) : QString());
    }
    csv += '\n';
  }
  return csv;
}

std::optional<figure::CurveFigure> DistanceTab::figure() const {
  if (!message().isEmpty() || m_groups.empty()) return std::nullopt;
  figure::CurveFigure shown;
  shown.title = m_groups.size() > 1 ? std::string() : m_groups.front().name.toStdString();
  shown.xLabel = tr("1 + distance (tokens)").toStdString();
  shown.yLabel = (m_shows == Shows::attention ? tr("attention per octave") : tr("mean logit (nats)")).toStdString();
  shown.xScale = figure::AxisScale::logarithmic;
  if (m_shows == Shows::logits) shown.level = 0;
  for (const DistanceLine& line : linesOf(lightPalette())) {
    figure::Curve curve;
    curve.name = line.name.toStdString();
    for (const DistanceBin& bin : line.bins) curve.x.push_back(middleOf(bin));
    curve.y = line.value;
    curve.y.resize(curve.x.size(), std::nan(""));
    curve.ownColour =
        figure::Rgb{static_cast<std::uint8_t>(line.colour.red()), static_cast<std::uint8_t>(line.colour.green()),
                    static_cast<std::uint8_t>(line.colour.blue())};
    if (line.style == Qt::DashLine) curve.line = figure::LineStyle::dashed;
    if (line.style == Qt::DotLine) curve.line = figure::LineStyle::dotted;
    shown.curves.push_back(std::move(curve));
  }
  for (const Group& group : m_groups) shown.runs.push_back(group.run.trace);
  return shown;
}

}  // namespace foxscope::gui::curves
