#include "app/gui/evaluations/evaluations_view.h"

#include <algorithm>

#include <QAction>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QLabel>
#include <QTabBar>
#include <QTabWidget>
#include <QToolButton>
#include <QVBoxLayout>

#include "app/gui/document/remote/remote_place.h"
#include "app/gui/evaluations/evaluation_export.h"
#include "app/gui/evaluations/heads_page.h"
#include "app/gui/evaluations/loss_page.h"
#include "app/gui/evaluations/needle_page.h"
#include "app/gui/views/flow_layout.h"
#include "app/gui/views/icon.h"

namespace foxscope::gui {

using evaluations::HeadsPage;
using evaluations::LossPage;
using evaluations::NeedlePage;

EvaluationsView::EvaluationsView(EvaluationList& evaluations, RunList& runs, ModelRuns& modelRuns, FileWriter& files,
                                 QWidget* parent)
    : QWidget(parent),
      m_evaluations(evaluations),
      m_runs(runs),
      m_files(new FlowLayout(6, 2)),
      m_tabs(new QTabWidget),
      m_reading(new QLabel),
      m_export(new QAction(themedIcon(QStringLiteral("export")), tr("Export Evaluation…"), this)),
      m_loss(new LossPage(evaluations, runs, files)),
      m_needle(new NeedlePage(evaluations, runs, modelRuns, files)),
      m_heads(new HeadsPage(evaluations, runs, files)),
      m_atlas(new AtlasView(evaluations, runs, modelRuns)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 4, 6, 4);
  layout->setSpacing(4);
  auto* bar = new QHBoxLayout;
  bar->addLayout(m_files, 1);
  auto* exporting = new QToolButton;
  exporting->setDefaultAction(m_export);
  exporting->setAutoRaise(true);
  bar->addWidget(exporting);
  layout->addLayout(bar);
  m_tabs->addTab(m_loss, tr("Loss"));
  m_tabs->addTab(m_needle, tr("Needle"));
  m_tabs->addTab(m_heads, tr("Heads"));
  m_tabs->addTab(m_atlas, tr("Atlas"));
  m_tabs->setDocumentMode(true);
  m_loss->setWhatsThis(QStringLiteral("loss"));
  m_needle->setWhatsThis(QStringLiteral("needle"));
  m_heads->setWhatsThis(QStringLiteral("decay-time"));
  m_atlas->setWhatsThis(QStringLiteral("atlas"));
  layout->addWidget(m_tabs, 1);
  m_reading->setTextFormat(Qt::PlainText);
  m_reading->setTextInteractionFlags(Qt::TextSelectableByMouse);
  m_reading->setWordWrap(true);
  // Words come and go with the mouse: pages keep their height.
  m_reading->setMinimumHeight(m_reading->fontMetrics().height());
  layout->addWidget(m_reading);
  m_export->setToolTip(tr("Save the figure of these evaluations as PDF, SVG or PNG, as `foxscope figure` draws it"));
  connect(m_export, &QAction::triggered, this, &EvaluationsView::exportShown);
  const auto tellOf = [this](QWidget* page) {
    return [this, page](const QString& words) {
      m_told[page] = words;
      showReading();
    };
  };
  connect(m_loss, &LossPage::told, this, tellOf(m_loss));
  connect(m_needle, &NeedlePage::told, this, tellOf(m_needle));
  connect(m_heads, &HeadsPage::told, this, tellOf(m_heads));
  connect(m_atlas, &AtlasView::told, this, tellOf(m_atlas));
  connect(m_tabs, &QTabWidget::currentChanged, this, &EvaluationsView::showReading);
  connect(&m_evaluations, &EvaluationList::evaluationsChanged, this, &EvaluationsView::follow);
  // Colours are those of the runs, and what is hidden in their list is hidden here.
  for (const auto signal : {&RunList::runsChanged, &RunList::modelsChanged}) {
    connect(&m_runs, signal, this, &EvaluationsView::followLooks);
  }
  follow();
}

void EvaluationsView::follow() {
  fillFiles();
  m_told.clear();
  m_reading->clear();
  const auto& open = m_evaluations;
  const auto any = [&](auto is) { return std::any_of(open.begin(), open.end(), is); };
  const bool loss = any([](const Evaluation& each) { return each.as<LossEvaluation>() != nullptr; });
  if (loss || !m_loss->isEmpty()) m_loss->follow();
  m_needle->follow();
  m_heads->follow();
  m_atlas->follow(evaluations::hiddenModels(m_runs));
  m_tabs->setTabVisible(0, loss);
  m_tabs->setTabVisible(1, any([](const Evaluation& each) { return each.as<NeedleEvaluation>() != nullptr; }));
  m_tabs->setTabVisible(2, any([](const Evaluation& each) { return each.as<HeadsEvaluation>() != nullptr; }));
  m_tabs->setTabVisible(3, any([](const Evaluation& each) { return each.as<AtlasReader>() != nullptr; }));
  // One kind alone needs no tabs.
  int kinds = 0;
  for (int tab = 0; tab < m_tabs->count(); ++tab) kinds += m_tabs->isTabVisible(tab) ? 1 : 0;
  m_tabs->tabBar()->setVisible(kinds > 1);
  m_export->setEnabled(!open.empty());
  if (open.empty()) return;
  // The file that was opened last is shown.
  m_tabs->setCurrentIndex(static_cast<int>(open.back().content.index()));
}

void EvaluationsView::followLooks() {
  const bool any = !m_evaluations.empty();
  if (any || !m_loss->isEmpty()) m_loss->follow();
  std::vector<std::string> hidden = evaluations::hiddenModels(m_runs);
  if (hidden == m_hidden) return;
  m_hidden = std::move(hidden);
  m_needle->follow();
  m_heads->follow();
  m_atlas->follow(m_hidden);
}

void EvaluationsView::fillFiles() {
  while (QLayoutItem* item = m_files->takeAt(0)) {
    item->widget()->deleteLater();
    delete item;
  }
  for (const Evaluation& evaluation : m_evaluations) {
    auto* file = new QToolButton;
    file->setObjectName(QStringLiteral("close"));
    file->setAutoRaise(true);
    file->setIcon(themedIcon(QStringLiteral("remove")));
    file->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    file->setLayoutDirection(Qt::RightToLeft);
    const QString host = hostOf(evaluation.path);
    const QString name = fileNameOf(evaluation.path);
    file->setText(host.isEmpty() ? name : tr("%1 on %2").arg(name, host));
    file->setToolTip(tr("Close %1").arg(shownUrl(evaluation.path)));
    file->setAccessibleName(tr("Close %1").arg(file->text()));
    connect(
        file, &QToolButton::clicked, &m_evaluations,
        [&evaluations = m_evaluations, path = evaluation.path] { evaluations.close(path); }, Qt::QueuedConnection);
    m_files->addWidget(file);
  }
}

ShownPanels EvaluationsView::shownPanels() const {
  const bool shown = m_tabs->currentWidget() == m_atlas && m_tabs->isTabVisible(m_tabs->currentIndex());
  return shown ? m_atlas->shownPanels() : ShownPanels();
}

void EvaluationsView::exportShown() {
  if (m_tabs->currentWidget() == m_atlas) {
    if (!shownPanels().empty()) return emit panelsExportWanted();
    m_told[m_atlas] = tr("There is no figure of what is shown: choose another tab.");
    return showReading();
  }
  QString kinds = tr("Figures (*.pdf *.svg *.png)");
  if (m_tabs->currentWidget() == m_needle) kinds += tr(";;Table, a line a cell (*.csv)");
  const QString path = QFileDialog::getSaveFileName(this, tr("Export figure"), QStringLiteral("evaluation.pdf"), kinds);
  if (!path.isEmpty()) exportTo(path);
}

void EvaluationsView::exportTo(const QString& path) {
  if (m_tabs->currentWidget() == m_loss) return m_loss->exportTo(path);
  if (m_tabs->currentWidget() == m_needle) return m_needle->exportTo(path);
  m_heads->exportTo(path);
}

void EvaluationsView::stepTab(int by) {
  const int count = m_tabs->count();
  for (int n = 1; n < count; ++n) {
    const int tab = (m_tabs->currentIndex() + n * by + n * count) % count;
    if (m_tabs->isTabVisible(tab)) return m_tabs->setCurrentIndex(tab);
  }
}

void EvaluationsView::showReading() { m_reading->setText(m_told[m_tabs->currentWidget()]); }

QString EvaluationsView::reading() const { return m_reading->text(); }

QJsonObject EvaluationsView::saveState() const {
  return {{"tab", m_tabs->currentIndex()}, {"atlas", m_atlas->saveState()}};
}

void EvaluationsView::restoreState(const QJsonObject& state) {
  const int tab = state["tab"].toInt(-1);
  if (tab >= 0 && tab < m_tabs->count() && m_tabs->isTabVisible(tab)) m_tabs->setCurrentIndex(tab);
  m_atlas->restoreState(state["atlas"].toObject());
}

bool EvaluationsView::isSettled() const { return m_loss->isSettled() && m_atlas->isSettled(); }

}  // namespace foxscope::gui
