#include "app/gui/experts/experts_view.h"

#include <algorithm>
#include <utility>

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QLocale>
#include <QMimeData>

#include "app/gui/document/runs/without_experts.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/table_text.h"
#include "backend/base/atomic_file.h"

namespace foxscope::gui {

ExpertsView::ExpertsView(RunList& runs, const ModelRuns& modelRuns, FileWriter& files, QWidget* parent)
    : QWidget(parent),
      m_runs(runs),
      m_modelRuns(modelRuns),
      m_files(files),
      m_caption(new ElidedLabel),
      m_export(new QToolButton),
      m_list(new ExpertList) {
  auto* tools = new QHBoxLayout;
  tools->addWidget(m_caption, 1);
  tools->addWidget(m_export);
  auto* page = new QWidget;
  auto* column = new QVBoxLayout(page);
  column->setContentsMargins(0, 0, 0, 0);
  column->addLayout(tools);
  column->addWidget(m_list, 1);
  m_pages = new MessagePages(page, this);
  makeCommands();
  connect(&m_runs, &RunList::runsChanged, this, &ExpertsView::followRuns);
  connect(&m_modelRuns, &ModelRuns::noRunTextChanged, this, &ExpertsView::outdate);
  connect(&m_runs.selection(), &Selection::headChanged, this, &ExpertsView::outdate);
  followRuns();
}

void ExpertsView::makeCommands() {
  auto* exporting = new QAction(themedIcon(QStringLiteral("export")), tr("Export Experts…"), this);
  exporting->setToolTip(tr("Save the experts of all layers as CSV, as `foxscope info --experts --csv` prints them"));
  connect(exporting, &QAction::triggered, this, &ExpertsView::exportShown);
  m_export->setAutoRaise(true);
  m_export->setDefaultAction(exporting);
  m_commands += exporting;
  auto* copying = new QAction(tr("Copy Rows"), m_list);
  connect(copying, &QAction::triggered, m_list, [this] {
    auto* copy = new QMimeData;
    setTableText(*copy, tsvOf(*m_list, Rows::selected));
    QApplication::clipboard()->setMimeData(copy);
  });
  m_list->addAction(copying);
  m_list->setContextMenuPolicy(Qt::ActionsContextMenu);
}

void ExpertsView::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (!m_fresh) refresh();
}

void ExpertsView::followRuns() {
  const RunList& runs = m_runs;
  const bool any =
      std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.trace->has(TraceArray::expert); });
  if (any && !m_any) emit available();
  m_any = any;
  outdate();
}

void ExpertsView::outdate() {
  m_fresh = false;
  if (isVisible()) refresh();
}

void ExpertsView::refresh() {
  const HeadChoice choice = m_runs.selection().head();
  const Run* run = m_runs.run(choice.run);
  if (run == nullptr) return showMessage(m_modelRuns.noRunText() + '.');
  if (!run->trace->has(TraceArray::expert)) return showMessage(withoutExperts(*run) + '.');
  JobRunner::Request<ExpertTable> request;
  request.work = [trace = run->trace, layer = choice.layer](const Job&) -> std::optional<ExpertTable> {
    return expert_table(trace, expert_layer(*trace, layer).value_or(layer));
  };
  request.done = [this, name = run->name](const ExpertTable& table) { take(table, name); };
  request.failed = [this](const QString& message) { showMessage(message + '.'); };
  m_runs.quickJobs().submit(this, kTable, std::move(request));
}

void ExpertsView::take(const ExpertTable& table, const QString& run) {
  m_fresh = true;
  m_list->setTable(table);
  const QLocale locale(QLocale::English);
  m_caption->setFullText(tr("Experts of %1, layer %2: %3 of %4 a token, %5 tokens")
                             .arg(run)
                             .arg(table.layer)
                             .arg(table.run->info().chosen_experts)
                             .arg(table.experts.size())
                             .arg(locale.toString(static_cast<qlonglong>(table.positions()))));
  m_pages->showContent();
}

void ExpertsView::showMessage(const QString& message) {
  m_runs.quickJobs().cancel(this, kTable);
  m_fresh = true;
  m_pages->showMessage(message);
}

void ExpertsView::exportShown() {
  const Run* run = m_runs.run(m_runs.selection().head().run);
  if (run == nullptr || !run->trace->has(TraceArray::expert)) {
    emit m_runs.messageRaised(
        {Message::Kind::warning, run == nullptr ? m_modelRuns.noRunText() : withoutExperts(*run)});
    return;
  }
  const QString path =
      QFileDialog::getSaveFileName(this, tr("Export experts"), QStringLiteral("experts.csv"), tr("Tables (*.csv)"));
  if (!path.isEmpty()) exportTo(path);
}

void ExpertsView::exportTo(const QString& path) {
  const Run* run = m_runs.run(m_runs.selection().head().run);
  if (run == nullptr) return;
  m_files.writeFile(path, [trace = run->trace, path = path.toStdString()](const Job&) -> std::optional<bool> {
    const std::string csv = csv_of(expert_tables(trace));
    AtomicFile file(path, true);
    file.write(csv.data(), csv.size());
    file.commit();
    return true;
  });
}

}  // namespace foxscope::gui
