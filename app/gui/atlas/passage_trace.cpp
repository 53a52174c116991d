#include "app/gui/atlas/passage_trace.h"

#include <algorithm>
#include <string>
#include <utility>

#include <QJsonArray>
#include <QJsonDocument>
#include <QLocale>

#include "app/gui/document/remote/remote_place.h"
#include "app/gui/document/runs/evaluated_model.h"
#include "backend/base/index.h"
#include "backend/model/session/engine.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/text/tokenizer.h"

namespace foxscope::gui::atlas {
namespace {

std::string jsonOf(const std::vector<std::int32_t>& ids) {
  QJsonArray list;
  for (const std::int32_t id : ids) list.append(id);
  return QJsonDocument(list).toJson(QJsonDocument::Compact).toStdString();
}

/// "moby.txt, tokens 1,024 to 1,279", of a window; of one without a document the window of the atlas.
QString nameOfWindow(const AtlasModel& model, std::int64_t window) {
  const EvaluatedWindows& windows = *model.facts().windows;
  const auto n = index_of(window);
  const auto& documents = model.reader->corpus().documents;
  const auto count = [](std::int64_t number) { return QLocale().toString(static_cast<qlonglong>(number)); };
  if (documents.empty() || windows.token_start.empty()) {
    return PassageTrace::tr("window %1 of %2").arg(count(window), fileNameOf(model.path));
  }
  const QString document = QString::fromStdString(documents[index_of(windows.document[n])].name);
  if (const std::int64_t first = windows.token_start[n]; first >= 0) {
    return PassageTrace::tr("%1, tokens %2 to %3").arg(document, count(first), count(first + windows.tokens[n] - 1));
  }
  return PassageTrace::tr("%1, bytes %2 to %3").arg(document, count(windows.byte_start[n]), count(windows.byte_end[n]));
}

/// The text of a window where the model's tokenizer cuts it into the window's tokens again, else the tokens.
TextInput inputOf(const std::vector<std::int32_t>& ids, const std::string& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  if (Tokenizer::is_in(checkpoint.folder())) {
    const Tokenizer tokenizer = Tokenizer::load(checkpoint.folder());
    const std::string text = tokenizer.decode(ids);
    if (!find_invalid_utf8(text) && tokenizer.encode(text).id == ids) return {{}, text};
  }
  return {{}, jsonOf(ids), true};
}

}  // namespace

struct PassageTrace::Window {
  std::vector<std::int32_t> ids;
  std::optional<TextInput> input;  ///< to be run; nothing: no model was asked for
};

bool isOf(const Run& run, const AtlasFacts& facts) {
  const TraceInfo& info = run.trace->info();
  if (info.layers != facts.info.layers || info.heads != facts.info.heads) return false;
  if (info.intervention != facts.info.intervention) return false;
  if (info.weights_sha256.empty() || facts.info.weights_sha256.empty()) return info.name == facts.info.name;
  return info.weights_sha256 == facts.info.weights_sha256;
}

PassageTrace::PassageTrace(RunList& runs, ModelRuns& modelRuns, QObject* parent)
    : QObject(parent), m_runs(runs), m_modelRuns(modelRuns) {
  // Runs are chosen by those who bring them: this comes after.
  connect(&m_runs, &RunList::runsChanged, this, &PassageTrace::followRuns, Qt::QueuedConnection);
  connect(&m_modelRuns, &ModelRuns::runStatusChanged, this, &PassageTrace::followRuns, Qt::QueuedConnection);
}

void PassageTrace::open(const AtlasModel& model, const PassageRow& row) {
  const std::vector<ModelInput> models = changedAlike(m_runs.models(), model.facts().info);
  const Wanted wanted{model, row.head, row.place.window, row.place.position, {}};
  std::vector<std::vector<std::int32_t>> open;
  for (const Run& run : std::as_const(m_runs)) {
    if (isOf(run, model.facts())) open.push_back(run.trace->tokens()->id);
  }
  m_reading = true;
  JobRunner::Request<Window> request;
  request.work = [model, window = row.place.window, open, models,
                  engine = m_modelRuns.engine()](const Job& job) -> std::optional<Window> {
    Window read{model.reader->windows(model.index, window, 1).front(), std::nullopt};
    if (std::ranges::find(open, read.ids) != open.end()) return read;
    const auto folder = folderOf(model.facts().info, models, engine, job, tr("this passage"));
    if (!folder) return std::nullopt;
    read.input =
        isRemote(QString::fromStdString(*folder)) ? TextInput{{}, jsonOf(read.ids), true} : inputOf(read.ids, *folder);
    read.input->name = nameOfWindow(model, window);
    return read;
  };
  request.done = [this, wanted](const Window& window) { take(wanted, window); };
  request.failed = [this](const QString& message) {
    m_reading = false;
    emit told(message);
  };
  m_runs.jobs().submit(this, kWindow, std::move(request));
}

void PassageTrace::take(const Wanted& wanted, const Window& window) {
  m_reading = false;
  m_wanted = wanted;
  m_wanted->ids = window.ids;
  if (show() || !window.input) return;
  if (m_modelRuns.runStatus().running) {
    m_wanted.reset();
    return emit told(m_modelRuns.runObstacle());
  }
  m_modelRuns.setText(*window.input, 0);
  m_modelRuns.startRun();
}

bool PassageTrace::show() {
  const RunList& runs = m_runs;
  const auto found = std::find_if(runs.begin(), runs.end(), [this](const Run& run) {
    return isOf(run, m_wanted->model.facts()) && run.trace->tokens()->id == m_wanted->ids;
  });
  if (found == runs.end()) return false;
  const Wanted wanted = *std::exchange(m_wanted, std::nullopt);
  const RunId id = found->id;
  const auto heads = index_of(wanted.model.facts().info.heads);
  m_runs.selection().setHead({id, static_cast<int>(wanted.head / heads), static_cast<int>(wanted.head % heads)});
  m_runs.goTo(id, wanted.position);
  const Cursor pin = m_runs.selection().pin();
  if (pin.query) m_runs.selection().setPin({pin.query, *pin.query - 1});
  m_opened = wanted;
  m_openedRun = id;
  emit openedChanged();
  emit told(tr("%1 %3, position %2: F of the pinned pair is its f")
                .arg(wanted.model.name())
                .arg(wanted.position)
                .arg(headName(wanted.model.facts(), wanted.head)));
  return true;
}

std::optional<PassagePlace> PassageTrace::opened(const AtlasModel& model) const {
  if (!m_opened || !(m_opened->model == model)) return std::nullopt;
  return PassagePlace{m_opened->head, m_opened->window, m_opened->position};
}

void PassageTrace::followRuns() {
  if (m_opened && std::as_const(m_runs).run(m_openedRun) == nullptr) {
    m_opened.reset();
    emit openedChanged();
  }
  if (!m_wanted || show()) return;
  // A run that failed, or was cancelled, has said so itself.
  if (!m_modelRuns.runStatus().running) m_wanted.reset();
}

}  // namespace foxscope::gui::atlas
