#include "app/gui/evaluations/needle_page.h"

#include <algorithm>

#include <QFileInfo>
#include <QVBoxLayout>

#include "app/figure/kinds/needle.h"
#include "app/gui/document/figure_export.h"
#include "app/gui/document/remote/remote_place.h"
#include "app/gui/document/runs/evaluated_model.h"
#include "app/gui/document/runs/sweeps.h"
#include "app/gui/evaluations/evaluation_export.h"
#include "app/gui/evaluations/grid_row.h"
#include "backend/base/error.h"
#include "backend/eval/needle/needle_prompt.h"
#include "backend/model/session/engine.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/text/tokenizer.h"

namespace foxscope::gui::evaluations {
namespace {

constexpr int kPromptJob = 0;

/// One cell of a test.
struct NeedleCell {
  std::shared_ptr<const NeedleEvaluation> test;
  const NeedleModel* model = nullptr;  ///< of the test
  std::size_t length = 0;
  std::size_t depth = 0;
  [[nodiscard]] std::size_t place() const { return length * test->depths.size() + depth; }
};

QString readingOf(const NeedleCell& cell) {
  const NeedleModel& model = *cell.model;
  const std::size_t at = cell.place();
  QString text = NeedlePage::tr(
                     "%1: length %2, depth %3 %: gain %4 nats a token, answer %5, needle at %6 to %7, found "
                     "at position %8")
                     .arg(QString::fromStdString(model.info.name))
                     .arg(cell.test->lengths[cell.length])
                     .arg(100 * cell.test->depths[cell.depth], 0, 'g', 3)
                     .arg(static_cast<double>(model.gain()[at]), 0, 'g', 3)
                     .arg(model.found[at] != 0 ? NeedlePage::tr("given") : NeedlePage::tr("not given"))
                     .arg(model.needle_begin[at])
                     .arg(model.needle_end[at] - 1)
                     .arg(model.position[cell.length]);
  if (at < model.continuation.size()) {
    text += NeedlePage::tr(", continues “%1”").arg(QString::fromStdString(model.continuation[at]).simplified());
  }
  return text;
}

/// The text of a cell's prompt and of its answer, as its model's tokenizer puts them together: the prompt's last
/// position predicts the answer's first token, and is there only if that follows.
std::string promptOf(const NeedleCell& cell, const std::string& folder, const std::string& haystack) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const Tokenizer tokenizer = Tokenizer::load(checkpoint.folder());
  const NeedleEvaluation& test = *cell.test;
  NeedleParts parts = cut_needle(test.words, test.mode, tokenizer);
  const std::int64_t length = test.lengths[cell.length];
  cut_haystack({haystack}, test.haystack, context_tokens(parts, length) + std::ssize(parts.needle), tokenizer, parts);
  std::vector<std::int32_t> ids = needle_prompt(parts, 0, length, test.depths[cell.depth]).input_ids;
  ids.erase(ids.begin());
  ids.insert(ids.end(), parts.answer.begin(), parts.answer.end());
  return tokenizer.decode(ids);
}

}  // namespace

NeedlePage::NeedlePage(EvaluationList& evaluations, RunList& runs, ModelRuns& modelRuns, FileWriter& files,
                       QWidget* parent)
    : QWidget(parent),
      m_evaluations(evaluations),
      m_runs(runs),
      m_modelRuns(modelRuns),
      m_files(files),
      m_row(new GridRow) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(m_row);
}

bool NeedlePage::isEmpty() const { return m_row->isEmpty(); }

void NeedlePage::follow() {
  m_row->clear();
  std::vector<NeedleCell> models;
  std::vector<float> gains;
  for (const auto& test : shownNeedles(m_evaluations, m_runs)) {
    for (const NeedleModel& model : test->models) {
      models.push_back({test, &model});
      for (const float gain : model.gain()) gains.push_back(gain);
    }
  }
  const figure::ScaledColours colours = figure::needleColours(gains, figure::NeedleTint::gain);
  const bool several = shownNeedles(m_evaluations, m_runs).size() > 1;
  for (const NeedleCell& model : models) {
    QString name = QString::fromStdString(model.model->info.name);
    if (several) name += tr(" on %1").arg(QString::fromStdString(model.test->haystack));
    add(model.test, *model.model, name, colours);
  }
}

void NeedlePage::add(const std::shared_ptr<const NeedleEvaluation>& test, const NeedleModel& model, const QString& name,
                     const figure::ScaledColours& colours) {
  GridContent content;
  content.title = tr("%1: gain by the needle, nats a token").arg(name);
  if (std::ranges::any_of(model.found, [](auto found) { return found != 0; })) content.title += tr("; • answer given");
  content.rowTitle = tr("depth, %");
  content.columnTitle = tr("length, tokens");
  for (const double depth : test->depths) content.rows += QString::number(100 * depth, 'g', 3);
  for (const std::int64_t length : test->lengths) content.columns += QString::number(length);
  const std::vector<float> gain = model.gain();
  for (std::size_t depth = 0; depth < test->depths.size(); ++depth) {
    for (std::size_t length = 0; length < test->lengths.size(); ++length) {
      const std::size_t at = length * test->depths.size() + depth;
      content.values.push_back(gain[at]);
      content.dots.push_back(model.found[at] != 0);
    }
  }
  content.colours = colours;
  content.reading = [test, &model](int row, int column) {
    return readingOf({test, &model, static_cast<std::size_t>(column), static_cast<std::size_t>(row)});
  };
  ValueGrid* grid = &m_row->add(std::move(content));
  grid->setToolTip(tr("Double click a cell, or press Return, to open the trace of its prompt"));
  connect(grid, &ValueGrid::told, this, &NeedlePage::told);
  connect(grid, &ValueGrid::opened, this,
          [this, test, &model](int row, int column) { openCell(test, model, column, row); });
}

void NeedlePage::openCell(const std::shared_ptr<const NeedleEvaluation>& test, const NeedleModel& model, int length,
                          int depth) {
  const QString haystack = QString::fromStdString(test->haystack);
  const std::vector<ModelInput> models = changedAlike(m_runs.models(), model.info);
  const std::vector<Intervention> changes = interventionsOf(model.info);
  QStringList missing;
  if (models.empty()) {
    const QString name = QString::fromStdString(model.info.name);
    missing += changes.empty() ? tr("the checkpoint folder of %1 (Ctrl+O)").arg(name)
                               : tr("%1 with its changes, %2").arg(name, wordsOf(changes));
  }
  if (m_haystack.empty() && QFileInfo(m_modelRuns.text().file).fileName() != haystack) {
    missing += tr("the haystack %1 as text (Ctrl+Shift+O)").arg(haystack);
  }
  if (!missing.isEmpty()) {
    return emit told(tr("To open this cell, first open %1: the file names them, but does not contain them")
                         .arg(missing.join(tr(" and "))));
  }
  // The prompt takes the haystack's place in the window.
  if (QFileInfo(m_modelRuns.text().file).fileName() == haystack) m_haystack = m_modelRuns.text().content;
  const NeedleCell cell{test, &model, static_cast<std::size_t>(length), static_cast<std::size_t>(depth)};
  JobRunner::Request<std::string> request;
  request.work = [cell, models, text = m_haystack,
                  engine = m_modelRuns.engine()](const Job& job) -> std::optional<std::string> {
    const std::optional<std::string> folder = folderOf(cell.model->info, models, engine, job, tr("this cell"));
    if (!folder) return std::nullopt;
    if (isRemote(QString::fromStdString(*folder))) {
      throw Error(tr("To open this cell, open the checkpoint folder of %1 on this machine too (Ctrl+O): its tokenizer "
                     "cuts the haystack")
                      .arg(QString::fromStdString(cell.model->info.name))
                      .toStdString());
    }
    return promptOf(cell, *folder, text);
  };
  request.done = [this, cell](const std::string& prompt) {
    m_modelRuns.setText({{}, prompt}, 0);
    const Cursor pin{cell.model->position[cell.length], cell.model->needle_begin[cell.place()]};
    // When the run is there and has been chosen.
    connect(
        &m_runs, &RunList::runsChanged, this, [this, pin] { m_runs.selection().setPin(pin); },
        static_cast<Qt::ConnectionType>(Qt::QueuedConnection | Qt::SingleShotConnection));
    m_modelRuns.startRun();
    emit told(readingOf(cell));
  };
  request.failed = [this](const QString& message) { emit told(message); };
  m_runs.jobs().submit(this, kPromptJob, std::move(request));
}

void NeedlePage::exportTo(const QString& path) {
  const auto tests = shownNeedles(m_evaluations, m_runs);
  if (!path.endsWith(QStringLiteral(".csv"))) {
    return exportFigure(m_files, path,
                        [tests](const figure::FigureStyle& style) { return drawNeedle(tests, {}, style); });
  }
  std::string text;
  for (const auto& test : tests) {
    text += test->csv(text.empty() ? NeedleEvaluation::CsvHeader::names : NeedleEvaluation::CsvHeader::none);
  }
  exportText(m_files, path, text);
}

}  // namespace foxscope::gui::evaluations
