#include "app/gui/atlas/atlas_view.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <QComboBox>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QSplitter>
#include <QTabWidget>
#include <QToolButton>
#include <QVBoxLayout>
#include <fmt/format.h>

#include "app/gui/atlas/passage_list.h"
#include "app/gui/document/remote/remote_place.h"
#include "app/gui/views/elided_combo.h"
#include "app/gui/views/flow_layout.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui {

using atlas::AtlasModel;
using atlas::HeadNumbers;
using atlas::ModelPane;
using atlas::ScatterAxis;
using atlas::ScatterContent;

namespace {

/// Times and counts spread over decades.
bool spreads(const AtlasFacts& facts, const std::string& name) {
  const HeadArray* numbers = find_array(facts.numbers, name);
  return name == "resets" || (numbers != nullptr && numbers->unit == "tokens");
}

/// The smallest and the largest of the values that an axis can show; the smallest is the larger one where there is
/// none.
std::pair<double, double> extremesOf(const std::vector<double>& values, bool logarithmic) {
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -lowest;
  for (const double value : values) {
    if (!std::isfinite(value) || (logarithmic && value <= 0)) continue;
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  return {lowest, highest};
}

/// Both ends of what is shown of an axis, a little beyond the values.
figure::AxisLimits limitsOf(const std::vector<double>& values, bool logarithmic) {
  const auto [lowest, highest] = extremesOf(values, logarithmic);
  if (lowest > highest) return {logarithmic ? 0.1 : 0.0, 1};
  constexpr double kBeyond = 0.05;
  if (logarithmic) {
    const double factor = std::max(1.1, std::pow(highest / lowest, kBeyond));
    return {lowest / factor, highest * factor};
  }
  const double beyond = highest > lowest ? kBeyond * (highest - lowest) : 0.5 * std::max(1e-3, std::abs(highest));
  return {lowest - beyond, highest + beyond};
}

figure::ScaledColours coloursOf(const std::vector<double>& values, bool logarithmic, const QPalette& palette) {
  const auto [lowest, highest] = extremesOf(values, logarithmic);
  figure::ScaledColours colours;
  colours.map = &figure::viridis();
  if (lowest > highest) return colours;
  colours.scale = logarithmic ? figure::ColourScale::logarithmic : figure::ColourScale::linear;
  if (lowest < 0 && highest > 0) {
    colours.map = &divergingColours(palette);
    colours.upper = std::max(-lowest, highest);
    colours.lower = -colours.upper;
    return colours;
  }
  colours.lower = lowest;
  colours.upper = highest > lowest ? highest : lowest + 1;
  return colours;
}

}  // namespace

AtlasView::AtlasView(EvaluationList& evaluations, RunList& runs, ModelRuns& modelRuns, QWidget* parent)
    : QWidget(parent),
      m_evaluations(evaluations),
      m_runs(runs),
      m_trace(new atlas::PassageTrace(runs, modelRuns, this)),
      m_bar(new QWidget) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(2);
  makeBar();
  layout->addWidget(m_bar);
  auto* both = m_split = new QSplitter;
  both->setChildrenCollapsible(false);
  // A dock under the maps must not make the window grow.
  both->setMinimumSize(200, 100);
  for (std::size_t number = 0; number < m_panes.size(); ++number) {
    ModelPane* pane = m_panes[number] = new ModelPane(runs);
    both->addWidget(pane);
    both->setStretchFactor(static_cast<int>(number), 1);
    connect(pane, &ModelPane::told, this, &AtlasView::told);
    connect(pane, &ModelPane::headChosen, this,
            [this, number](std::size_t head) { shareHead(static_cast<int>(number), head); });
    connect(pane, &ModelPane::headsChosen, this, &AtlasView::shareChosen);
    connect(pane, &ModelPane::passageWanted, this,
            [this, pane](const atlas::PassageRow& row) { m_trace->open(pane->model(), row); });
    connect(pane, &ModelPane::pageMoved, this, &AtlasView::placeNumbers);
  }
  m_panes[1]->hide();
  layout->addWidget(both, 1);
  connect(m_trace, &atlas::PassageTrace::told, this, &AtlasView::told);
  connect(m_trace, &atlas::PassageTrace::openedChanged, this, &AtlasView::markOpened);
  connect(&m_runs.selection(), &Selection::headChanged, this, &AtlasView::followHead);
  connect(&m_runs, &RunList::runsChanged, this, &AtlasView::shareChosen);
}

void AtlasView::makeBar() {
  auto* row = new FlowLayout(10, 2);
  row->setContentsMargins(0, 0, 0, 0);
  m_bar->setLayout(row);
  const auto group = [row](const QString& title, std::initializer_list<QWidget*> parts) {
    auto* one = new QWidget;
    auto* line = new QHBoxLayout(one);
    line->setContentsMargins(0, 0, 0, 0);
    line->setSpacing(3);
    line->addWidget(new QLabel(title));
    for (QWidget* part : parts) line->addWidget(part);
    row->addWidget(one);
    return one;
  };
  const auto combo = [](const QString& name) {
    auto* made = new ElidedCombo;
    made->setAccessibleName(name);
    made->setSizeAdjustPolicy(QComboBox::AdjustToContents);
    made->setMaxVisibleItems(30);
    return made;
  };
  m_models = {combo(tr("Model")), combo(tr("Model beside it"))};
  group(tr("Model"), {m_models[0]});
  group(tr("beside"), {m_models[1]});
  m_models[1]->setToolTip(tr("A second model, on the same axes"));
  const std::array<QString, kUses> titles = {tr("across"), tr("up"), tr("colour")};
  for (std::size_t use = 0; use < kUses; ++use) {
    m_numbers[use] = combo(titles[use]);
    auto* logarithmic = m_logarithmic[use] = new QToolButton;
    logarithmic->setText(tr("log"));
    logarithmic->setCheckable(true);
    logarithmic->setAutoRaise(true);
    logarithmic->setToolTip(tr("A logarithmic scale; heads without a number above 0 have no place on it"));
    logarithmic->setAccessibleName(tr("Logarithmic: %1").arg(titles[use]));
    m_numberGroups[use] = group(titles[use], {m_numbers[use], logarithmic});
    connect(m_numbers[use], &QComboBox::activated, this,
            [this, use] { setNumber(static_cast<Use>(use), m_numbers[use]->currentData().toString()); });
    connect(logarithmic, &QToolButton::toggled, this, &AtlasView::draw);
  }
  for (QComboBox* model : m_models) connect(model, &QComboBox::activated, this, &AtlasView::showModels);
}

void AtlasView::placeNumbers() {
  QWidget& place = shown() == 1 && m_panes[0]->pageIsTab() ? m_panes[0]->scatterBar() : *m_bar;
  for (QWidget* group : m_numberGroups) {
    if (group->parentWidget() == &place) continue;
    group->parentWidget()->layout()->removeWidget(group);
    place.layout()->addWidget(group);
    group->show();
  }
}

void AtlasView::markOpened() {
  for (const int number : visiblePanes()) {
    pane(number).page().passages().setOpened(m_trace->opened(pane(number).model()));
  }
}

std::vector<AtlasModel> AtlasView::openModels(const std::vector<std::string>& hidden) const {
  std::vector<AtlasModel> models;
  for (const Evaluation& evaluation : std::as_const(m_evaluations)) {
    const auto* reader = std::get_if<std::shared_ptr<const AtlasReader>>(&evaluation.content);
    if (reader == nullptr) continue;
    for (std::size_t index = 0; index < (*reader)->models().size(); ++index) {
      const AtlasModel model{evaluation.path, *reader, index};
      if (std::ranges::find(hidden, model.facts().info.name) == hidden.end()) models.push_back(model);
    }
  }
  return models;
}

void AtlasView::follow(const std::vector<std::string>& hidden) {
  std::vector<AtlasModel> open = openModels(hidden);
  if (open == m_open) return;
  const bool more = open.size() > m_open.size();
  const AtlasModel before = m_panes[0]->model();
  m_open = std::move(open);
  fillModels();
  // The view shows the file that was opened last, and of its models the first that has gates.
  if (more && !m_open.empty()) {
    const QString path = m_evaluations.empty() ? QString() : m_evaluations.back().path;
    const auto wanted = std::ranges::find_if(
        m_open, [&](const AtlasModel& model) { return model.path == path && model.facts().has_tokens; });
    const bool same = std::ranges::find(m_open, before) != m_open.end() && before.path == path;
    if (wanted != m_open.end() && !same) m_models[0]->setCurrentIndex(static_cast<int>(wanted - m_open.begin()));
  }
  showModels();
  if (!m_wanted.isEmpty()) restoreState(QJsonObject(m_wanted));
}

void AtlasView::fillModels() {
  std::map<QString, int> names;
  for (const AtlasModel& model : m_open) ++names[model.name()];
  for (std::size_t number = 0; number < m_models.size(); ++number) {
    QComboBox& combo = *m_models[number];
    const AtlasModel& before = m_panes[number]->model();
    const bool second = number == 1;
    combo.clear();
    if (second) combo.addItem(tr("none"), -1);
    int chosen = 0;
    for (std::size_t index = 0; index < m_open.size(); ++index) {
      const AtlasModel& model = m_open[index];
      const QString host = hostOf(model.path);
      QString file = QFileInfo(pathThere(model.path)).completeBaseName();
      if (!host.isEmpty()) file = tr("%1 on %2").arg(file, host);
      combo.addItem(names[model.name()] > 1 ? tr("%1 · %2").arg(model.name(), file) : model.name(),
                    static_cast<int>(index));
      if (model == before && (!second || !m_panes[1]->isHidden())) chosen = combo.count() - 1;
    }
    combo.setCurrentIndex(m_open.empty() && !second ? -1 : chosen);
    combo.setToolTip(second ? tr("A second model, on the same axes") : tr("The model whose heads are shown"));
  }
  // One model is named above its page.
  for (QComboBox* combo : m_models) combo->parentWidget()->setVisible(m_open.size() > 1);
}

void AtlasView::showModels() {
  if (m_open.empty()) {
    m_panes[1]->hide();
    return;
  }
  const int before = shown();
  for (std::size_t number = 0; number < m_panes.size(); ++number) {
    const int index = m_models[number]->currentData().toInt();
    m_panes[number]->setVisible(index >= 0);
    if (index < 0) continue;
    const AtlasModel& model = m_open[index_of(index)];
    m_panes[number]->setModel(model, firstHead(model));
  }
  if (shown() > before) m_split->setSizes({1000, 1000});
  placeNumbers();
  markOpened();
  fillNumbers();
  followHead();
  shareChosen();
}

std::optional<std::size_t> AtlasView::firstHead(const AtlasModel& model) const {
  // A head of middle memory, as figures draw it: its tokens differ most from one another.
  const auto gates = atlas::numbersOf(model.facts(), "mean_log_gate");
  std::vector<std::size_t> heads;
  for (std::size_t head = 0; gates && head < gates->values.size(); ++head) {
    if (!std::isnan(gates->values[head])) heads.push_back(head);
  }
  if (heads.empty()) return 0;
  const auto middle = heads.begin() + std::ssize(heads) / 2;
  std::ranges::nth_element(heads, middle, {}, [&](std::size_t head) { return gates->values[head]; });
  return *middle;
}

std::vector<int> AtlasView::visiblePanes() const {
  if (m_open.empty()) return {};
  return shown() == 2 ? std::vector<int>{0, 1} : std::vector<int>{0};
}

void AtlasView::fillNumbers() {
  std::vector<std::string> names;
  for (const int number : visiblePanes()) {
    for (const std::string& name : atlas::numberNames(pane(number).model().facts())) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  for (std::size_t use = 0; use < kUses; ++use) {
    QComboBox& combo = *m_numbers[use];
    const QString before = combo.currentData().toString();
    combo.clear();
    for (const std::string& name : names) combo.addItem(atlas::numberTitle(name), QString::fromStdString(name));
    // Models without gates have other numbers.
    int wanted = combo.findData(m_chosen[use]);
    if (wanted < 0) wanted = combo.findData(before);
    if (wanted < 0 && use == kY) wanted = combo.findData(QStringLiteral("gate_median"));
    if (wanted < 0 && use != kColour && combo.count() > 3) wanted = 2 + static_cast<int>(use);
    combo.setCurrentIndex(std::max(0, wanted));
    if (combo.currentData().toString() == before) continue;
    const QSignalBlocker blocker(m_logarithmic[use]);
    bool logarithmic = false;
    for (const int number : visiblePanes()) {
      logarithmic = logarithmic || spreads(pane(number).model().facts(), combo.currentData().toString().toStdString());
    }
    m_logarithmic[use]->setChecked(logarithmic);
  }
  draw();
}

void AtlasView::setNumber(Use use, const QString& name) {
  QComboBox& combo = *m_numbers[use];
  const int index = combo.findData(name);
  if (index < 0 || m_open.empty()) return;
  combo.setCurrentIndex(index);
  bool logarithmic = false;
  for (const int number : visiblePanes()) {
    logarithmic = logarithmic || spreads(pane(number).model().facts(), name.toStdString());
  }
  m_chosen[use] = name;
  setLogarithmic(use, logarithmic);
  draw();
}

void AtlasView::setLogarithmic(Use use, bool logarithmic) { m_logarithmic[use]->setChecked(logarithmic); }

void AtlasView::draw() {
  std::array<std::vector<double>, kUses> all;
  std::array<std::string, kUses> names;
  for (std::size_t use = 0; use < kUses; ++use) {
    names[use] = m_numbers[use]->currentData().toString().toStdString();
    for (const int number : visiblePanes()) {
      const auto numbers = atlas::numbersOf(pane(number).model().facts(), names[use]);
      if (numbers) all[use].insert(all[use].end(), numbers->values.begin(), numbers->values.end());
    }
  }
  const figure::ScaledColours colours = coloursOf(all[kColour], m_logarithmic[kColour]->isChecked(), palette());
  for (const int number : visiblePanes()) {
    const AtlasFacts& facts = pane(number).model().facts();
    std::array<std::optional<HeadNumbers>, kUses> numbers;
    QString missing;
    for (std::size_t use = 0; use < kUses; ++use) {
      numbers[use] = atlas::numbersOf(facts, names[use]);
      const bool none = !numbers[use] || facts.numbers.empty();
      if (none && use != kColour) missing = atlas::numberTitle(names[use]);
    }
    if (!missing.isEmpty()) {
      pane(number).setObstacle(
          facts.has_tokens
              ? tr("The heads of %1 have no %2.").arg(pane(number).model().name(), missing)
              : tr("%1 has no gate that forgets: its heads have no %2.").arg(pane(number).model().name(), missing));
      continue;
    }
    ScatterContent content;
    const auto fill = [&](ScatterAxis& axis, Use use) {
      axis.name = numbers[use]->title;
      axis.title = numbers[use]->unit.isEmpty() ? axis.name : tr("%1 (%2)").arg(axis.name, numbers[use]->unit);
      axis.logarithmic = m_logarithmic[use]->isChecked();
      axis.values = numbers[use]->values;
      axis.errors = numbers[use]->errors;
      axis.limits = limitsOf(all[use], axis.logarithmic);
    };
    fill(content.x, kX);
    fill(content.y, kY);
    content.colours = colours;
    content.colour =
        numbers[kColour] ? numbers[kColour]->values : std::vector<double>(facts.head_count(), std::nan(""));
    content.colourName = atlas::numberTitle(names[kColour]);
    for (std::size_t head = 0; head < facts.head_count(); ++head) content.names.push_back(atlas::headName(facts, head));
    pane(number).setScatter(content);
  }
}

void AtlasView::shareHead(int number, std::size_t head) {
  const AtlasFacts& facts = pane(number).model().facts();
  const auto heads = index_of(facts.info.heads);
  const RunList& runs = m_runs;
  // The run that is shown already, else the first of this model.
  const Run* chosen = runs.run(runs.selection().head().run);
  if (chosen == nullptr || !atlas::isOf(*chosen, facts)) {
    const auto found = std::find_if(runs.begin(), runs.end(), [&](const Run& run) { return atlas::isOf(run, facts); });
    chosen = found == runs.end() ? nullptr : &*found;
  }
  if (chosen == nullptr) return;
  m_runs.selection().setHead({chosen->id, static_cast<int>(head / heads), static_cast<int>(head % heads)});
}

void AtlasView::shareChosen() {
  std::vector<HeadChoice> marked;
  for (const int number : visiblePanes()) {
    const AtlasFacts& facts = pane(number).model().facts();
    const auto heads = index_of(facts.info.heads);
    for (const Run& run : std::as_const(m_runs)) {
      if (!atlas::isOf(run, facts)) continue;
      for (const std::size_t head : pane(number).chosen()) {
        marked.push_back({run.id, static_cast<int>(head / heads), static_cast<int>(head % heads)});
      }
    }
  }
  m_runs.selection().setMarked(marked);
}

void AtlasView::followHead() {
  const HeadChoice head = m_runs.selection().head();
  const Run* run = std::as_const(m_runs).run(head.run);
  if (run == nullptr) return;
  for (const int number : visiblePanes()) {
    const AtlasFacts& facts = pane(number).model().facts();
    if (!atlas::isOf(*run, facts)) continue;
    pane(number).setHead(index_of(head.layer) * index_of(facts.info.heads) + index_of(head.head));
  }
}

bool AtlasView::isSettled() const {
  const auto panes = visiblePanes();
  return m_trace->isSettled() && std::ranges::all_of(panes, [this](int number) { return pane(number).isSettled(); });
}

figure::FigureSpec AtlasView::scatterFigure(const atlas::ModelPane& pane) const {
  figure::FigureSpec spec{"scatter"};
  constexpr std::array<std::array<const char*, 2>, kUses> kOptions = {
      {{"x", "x-scale"}, {"y", "y-scale"}, {"colour-by", "colour-scale"}}};
  for (std::size_t use = 0; use < kUses; ++use) {
    spec.set(kOptions[use][0], m_numbers[use]->currentData().toString().toStdString());
    spec.set(kOptions[use][1], m_logarithmic[use]->isChecked() ? "log" : "linear");
  }
  const auto [x, y] = pane.scatter().shownLimits();
  spec.set("x-limits", fmt::format("{:.6g}:{:.6g}", x.lower, x.upper));
  spec.set("y-limits", fmt::format("{:.6g}:{:.6g}", y.lower, y.upper));
  const figure::ScaledColours& colours = pane.scatter().content().colours;
  if (colours.scale != figure::ColourScale::logarithmic || colours.lower > 0) {
    spec.set("colour-limits", fmt::format("{:.6g}:{:.6g}", colours.lower, colours.upper));
  }
  std::set<std::size_t> marked = pane.chosen();
  if (pane.head()) marked.insert(*pane.head());
  std::vector<std::string> heads;
  for (const std::size_t head : marked) heads.push_back(atlas::headWord(pane.model().facts(), head));
  if (!heads.empty()) spec.set("heads", std::move(heads));
  return spec;
}

std::vector<figure::FigureSpec> AtlasView::figuresOf(const atlas::ModelPane& pane) const {
  std::vector<figure::FigureSpec> figures;
  if (pane.maps().currentIndex() == 0 && pane.message(0).isEmpty()) figures.push_back(scatterFigure(pane));
  if (pane.maps().currentIndex() == 1 && pane.message(1).isEmpty()) {
    const std::string kind = pane.compared().currentData().toString().toStdString();
    figure::FigureSpec& spec = figures.emplace_back(figure::FigureSpec{"similarity"});
    spec.set("of", kind.ends_with("log_gate") ? "gates" : "attention");
    if (is_with_first(kind)) spec.set("with-first", true);
  }
  // As a tab the page is seen alone.
  if (pane.pageIsTab() && pane.maps().currentWidget() != &pane.page()) return figures;
  if (auto page = pane.page().shownFigure()) figures.push_back(std::move(*page));
  return figures;
}

ShownPanels AtlasView::shownPanels() const {
  ShownPanels rows;
  for (const int number : visiblePanes()) {
    const AtlasModel& model = pane(number).model();
    std::vector<figure::FigureSpec> figures = figuresOf(pane(number));
    rows.resize(std::max(rows.size(), figures.size()));
    for (std::size_t row = 0; row < figures.size(); ++row) {
      figures[row].set("model", model.facts().info.name);
      rows[row].push_back({std::move(figures[row]), {model.path.toStdString()}});
    }
  }
  return rows;
}

QJsonObject AtlasView::saveState() const {
  QJsonObject state;
  constexpr std::array<const char*, kUses> kKeys = {"x", "y", "colour"};
  if (m_open.empty()) return state;
  for (std::size_t use = 0; use < kUses; ++use) {
    state[kKeys[use]] = m_numbers[use]->currentData().toString();
    state[QString(kKeys[use]) + "_log"] = m_logarithmic[use]->isChecked();
  }
  state["model"] = m_models[0]->currentText();
  state["beside"] = m_models[1]->currentText();
  state["page"] = m_panes[0]->page().tabs().currentIndex();
  state["map"] = m_panes[0]->maps().currentIndex();
  if (m_panes[0]->head()) state["head"] = static_cast<int>(*m_panes[0]->head());
  return state;
}

void AtlasView::restoreState(const QJsonObject& state) {
  m_wanted = m_open.empty() ? state : QJsonObject();
  if (m_open.empty() || state.isEmpty()) return;
  for (std::size_t number = 0; number < m_models.size(); ++number) {
    const int index = m_models[number]->findText(state[number == 0 ? "model" : "beside"].toString());
    if (index >= 0) m_models[number]->setCurrentIndex(index);
  }
  showModels();
  constexpr std::array<const char*, kUses> kKeys = {"x", "y", "colour"};
  for (std::size_t use = 0; use < kUses; ++use) {
    setNumber(static_cast<Use>(use), state[kKeys[use]].toString());
    setLogarithmic(static_cast<Use>(use), state[QString(kKeys[use]) + "_log"].toBool());
  }
  m_panes[0]->page().tabs().setCurrentIndex(std::clamp(state["page"].toInt(), 0, 3));
  m_panes[0]->maps().setCurrentIndex(std::clamp(state["map"].toInt(), 0, m_panes[0]->maps().count() - 1));
  const int head = state["head"].toInt(-1);
  if (head >= 0 && index_of(head) < m_panes[0]->model().facts().head_count()) m_panes[0]->setHead(index_of(head));
}

}  // namespace foxscope::gui
