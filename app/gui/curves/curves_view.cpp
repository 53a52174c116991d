#include "app/gui/curves/curves_view.h"

#include <array>

#include <QHBoxLayout>
#include <QStackedWidget>
#include <QTabBar>
#include <QToolBar>
#include <QVBoxLayout>

#include "app/gui/curves/distance_profiles.h"
#include "app/gui/curves/tabs/context_tab.h"
#include "app/gui/curves/tabs/decay_tab.h"
#include "app/gui/curves/tabs/distance_tab.h"
#include "app/gui/curves/tabs/gate_tab.h"
#include "app/gui/curves/tabs/loss_tab.h"
#include "app/gui/curves/tabs/profile_tab.h"
#include "app/gui/curves/tabs/saliency_tab.h"
#include "app/gui/views/flow_layout.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr int kGapOfChoices = 6;  ///< between tabs and choices, logical pixels

// The names of tabs in sessions, in the order of CurvesView::Tab. Sessions call the profile "row", as there were only
// rows once.
constexpr std::array<const char*, 8> kStateNames{"loss",  "context",  "row",     "gate",
                                                 "decay", "distance", "content", "saliency"};
/// The entries of the glossary that explain them.
constexpr std::array<const char*, 8> kTerms{"loss",       "loss",     "profile",       "forget-gate",
                                            "decay-time", "distance", "content-decay", "saliency"};

}  // namespace

CurvesView::CurvesView(RunList& runs, ModelRuns& modelRuns, QWidget* parent)
    : QWidget(parent), m_bar(new QTabBar(this)), m_pages(new QStackedWidget(this)), m_controls(new QWidget(this)) {
  m_bar->setDrawBase(false);
  m_bar->setExpanding(false);
  m_bar->setUsesScrollButtons(true);
  m_bar->setAccessibleName(tr("Curves"));
  auto* controls = new QHBoxLayout(m_controls);
  controls->setContentsMargins(0, 0, 0, 0);
  // Below the tabs where there is no room beside them.
  auto* top = new FlowLayout(kGapOfChoices, 0);
  top->addWidget(m_bar);
  top->addWidget(m_controls);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(4, 2, 4, 2);
  layout->setSpacing(2);
  layout->addLayout(top);
  layout->addWidget(m_pages, 1);
  add(new curves::LossTab(runs, modelRuns, this), tr("Loss"), tr("Loss of every token along the text"),
      tr("Show loss along the text"));
  add(new curves::ContextTab(runs, modelRuns, this), tr("P(l)"), tr("Perplexity against context length"),
      tr("Show perplexity against context length"));
  m_profile = new curves::ProfileTab(runs, modelRuns, this);
  add(m_profile, tr("Profile"), tr("Attention and F along a row, a column or a diagonal of the chosen head's map"));
  addCommand(tr("Show the pinned query's row"), tr("Attention and F of the pinned query"),
             [this] { showProfile(MapLine::Along::row); });
  addCommand(tr("Show the pinned key's column"), tr("Attention on the pinned key, and its F, of every query after it"),
             [this] { showProfile(MapLine::Along::column); });
  addCommand(tr("Show the pinned pair's diagonal"), tr("Attention and F along the text at the pinned pair's distance"),
             [this] { showProfile(MapLine::Along::diagonal); });
  add(new curves::GateTab(runs, modelRuns, this), tr("Gate"), tr("Forget gate of the chosen head along the text"),
      tr("Show the forget gate along the text"));
  add(new curves::DecayTab(runs, modelRuns, this), tr("Decay"), tr("Decay times of all heads"),
      tr("Show decay times of all heads"));
  using curves::DistanceTab;
  auto* profiles = new curves::DistanceProfiles(runs, this);
  add(new DistanceTab(runs, modelRuns, *profiles, DistanceTab::Shows::attention, this), tr("Distance"),
      tr("Attention against distance, with and without the gate"), tr("Show attention against distance"));
  add(new DistanceTab(runs, modelRuns, *profiles, DistanceTab::Shows::logits, this), tr("Content"),
      tr("Content and decay, the two terms of the logits, against distance"), tr("Show content and decay apart"));
  add(new curves::SaliencyTab(runs, modelRuns, this), tr("Saliency"),
      tr("Gradient of the loss by the chosen head's gates, beside the gates, and where gates matter most"),
      tr("Show saliency along the text"));
  connect(m_bar, &QTabBar::currentChanged, this, &CurvesView::showCurrent);
  showCurrent();
}

void CurvesView::add(curves::CurveTab* tab, const QString& name, const QString& tip, const QString& command) {
  const int index = m_bar->addTab(name);
  m_bar->setTabToolTip(index, tip);
  m_pages->addWidget(tab);
  m_controls->layout()->addWidget(tab->controls());
  m_tabs.push_back(tab);
  connect(tab, &curves::CurveTab::exportWanted, this, &CurvesView::exportWanted);
  if (!command.isEmpty()) addCommand(command, tip, [this, index] { m_bar->setCurrentIndex(index); });
}

void CurvesView::addCommand(const QString& text, const QString& tip, const std::function<void()>& act) {
  auto* action = new QAction(text, this);
  action->setToolTip(tip);
  connect(action, &QAction::triggered, this, act);
  m_commands += action;
}

void CurvesView::showCurrent() {
  const int current = m_bar->currentIndex();
  for (int index = 0; index < static_cast<int>(m_tabs.size()); ++index) {
    m_tabs[index_of(index)]->controls()->setVisible(index == current);
  }
  m_controls->setVisible(!m_tabs[index_of(current)]->controls()->actions().isEmpty());
  m_pages->setCurrentIndex(current);
  // Help is of the tab in front, wherever in the view the mouse is.
  setWhatsThis(QString::fromLatin1(kTerms[index_of(current)]));
}

void CurvesView::setTab(Tab tab) { m_bar->setCurrentIndex(static_cast<int>(tab)); }

void CurvesView::stepTab(int by) {
  m_bar->setCurrentIndex((m_bar->currentIndex() + by + m_bar->count()) % m_bar->count());
}

void CurvesView::showProfile(MapLine::Along along) {
  m_profile->setAlong(along);
  setTab(Tab::profile);
}

CurvesView::Tab CurvesView::tab() const { return static_cast<Tab>(m_bar->currentIndex()); }

QJsonObject CurvesView::saveState() const {
  QJsonObject state;
  for (std::size_t index = 0; index < m_tabs.size(); ++index) {
    const QJsonObject part = m_tabs[index]->saveState();
    if (!part.isEmpty()) state[kStateNames[index]] = part;
  }
  state["tab"] = kStateNames[index_of(m_bar->currentIndex())];
  return state;
}

void CurvesView::restoreState(const QJsonObject& state) {
  for (std::size_t index = 0; index < m_tabs.size(); ++index) {
    m_tabs[index]->restoreState(state[kStateNames[index]].toObject());
    if (state["tab"].toString() == kStateNames[index]) m_bar->setCurrentIndex(static_cast<int>(index));
  }
}

bool CurvesView::isSettled() const { return !isVisible() || m_tabs[index_of(m_bar->currentIndex())]->isSettled(); }

std::optional<figure::CurveFigure> CurvesView::figureOfCurrentTab() const {
  return m_tabs[index_of(m_bar->currentIndex())]->figure();
}

QMimeData* CurvesView::copied() const { return m_tabs[index_of(m_bar->currentIndex())]->copied(); }

QString CurvesView::dataOfCurrentTab() const { return m_tabs[index_of(m_bar->currentIndex())]->data(); }

}  // namespace foxscope::gui
