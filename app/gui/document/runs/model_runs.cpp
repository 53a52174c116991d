#include "app/gui/document/runs/model_runs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <QUndoCommand>

#include "app/gui/document/remote/remote_model.h"
#include "app/gui/document/remote/remote_place.h"
#include "app/gui/document/runs/prediction_heads.h"
#include "app/gui/document/runs/run_list.h"
#include "backend/base/index.h"
#include "backend/base/sha256.h"
#include "backend/model/session/engine.h"
#include "backend/model/session/run.h"
#include "backend/text/token_ids.h"
#include "backend/trace/run_origin.h"

namespace foxscope::gui {
namespace {

constexpr std::size_t kModelsKept = 2;  ///< of the runs made last, to change and run them again
/// More is asked about; as much in a file is announced by the command line.
constexpr double kUnasked = 4e9;
/// Share of the free memory; the rest is for pictures, other programs, what the estimate does not know.
constexpr double kUnaskedShare = 0.8;

/// Nothing if the user need not be asked: the run takes little, or more than there is, which run_model refuses with the
/// figure. Traces of all runs are there together, the rest is one run's at a time.
std::optional<MemoryQuestion> questionOf(const std::vector<RunEstimate>& estimates, TokenCount count) {
  MemoryQuestion question;
  question.free = std::numeric_limits<double>::max();
  double fixed = 0;
  double perToken = 0;
  bool fits = true;
  for (const RunEstimate& estimate : estimates) {
    const RunMemory& host = estimate.needs.host;
    const auto tokens = static_cast<double>(estimate.tokens);
    question.tokens = std::max(question.tokens, estimate.tokens);
    question.free = std::min(question.free, static_cast<double>(estimate.free.host));
    fixed = std::max(fixed, static_cast<double>(host.fixed));
    perToken += static_cast<double>(host.per_token + host.stored_per_token);
    question.needed += static_cast<double>(host.per_token + host.stored_per_token) * tokens;
    fits = fits && static_cast<double>(host.fixed) + static_cast<double>(host.per_token) * tokens <=
                       static_cast<double>(estimate.free.host);
  }
  question.needed += fixed;
  const double unasked = std::min(kUnasked, kUnaskedShare * question.free);
  if (question.needed <= unasked || (!fits && count == TokenCount::exact)) return std::nullopt;
  constexpr double kRound = 1000;
  question.fewer = static_cast<std::int64_t>(std::max(0.0, std::floor((unasked - fixed) / perToken / kRound) * kRound));
  return question;
}

/// Runs of the window keep what a mixture of experts chose.
RunRequest withExperts(RunRequest run, const OpenedModel& model) {
  if (model.config.mixture) run.keep.insert(Keep::experts);
  return run;
}

/// The reason why a run cannot be made once more; empty where it can.
QString obstacleTo(const Run& run, const QString& doing) {
  if (origin_of(run.trace->info()) == RunOrigin::recorded) {
    return ModelRuns::tr("%1 was recorded in Python, and %2 needs its model, which is not here").arg(run.name, doing);
  }
  if (run.model.isEmpty()) {
    return ModelRuns::tr(
               "%1 comes from a file, and %2 needs its model: open the checkpoint folder (Ctrl+O), the text, "
               "and press F5 first")
        .arg(run.name, doing);
  }
  return run.trace->text() ? QString() : ModelRuns::tr("%1 was run without a text").arg(run.name);
}

}  // namespace

ModelRequest RunSettings::requestOf(const QString& name, const QString& model) const {
  ModelRequest wanted;
  wanted.name = name.toStdString();
  wanted.model = model.toStdString();
  wanted.device = device;
  wanted.dtype = dtype;
  return wanted;
}

/// A text in the place of another, and how much of it is read where that changes with it.
class ModelRuns::Replacement : public QUndoCommand {
 public:
  Replacement(ModelRuns& made, const TextInput& text, std::optional<std::int64_t> limit)
      : QUndoCommand(ModelRuns::tr("replace the text")), m_made(made), m_other(text), m_limit(limit) {}
  void redo() override { exchange(); }
  void undo() override { exchange(); }

 private:
  void exchange() {
    TextInput before = m_made.m_text;
    m_made.changeText(m_other);
    m_other = std::move(before);
    if (!m_limit) return;
    RunSettings settings = m_made.m_settings;
    std::swap(settings.limit, *m_limit);
    m_made.changeSettings(settings);
  }

  ModelRuns& m_made;
  TextInput m_other;
  std::optional<std::int64_t> m_limit;
};

/// Letters that were typed in a row.
class ModelRuns::Typing : public QUndoCommand {
 public:
  Typing(ModelRuns& made, TextInput after)
      : QUndoCommand(ModelRuns::tr("type in the text")),
        m_made(made),
        m_before(made.m_text),
        m_after(std::move(after)) {}
  void redo() override { m_made.changeText(m_after); }
  void undo() override { m_made.changeText(m_before); }
  [[nodiscard]] int id() const override { return 1; }
  bool mergeWith(const QUndoCommand* next) override {
    m_after = static_cast<const Typing*>(next)->m_after;
    setObsolete(m_after.content == m_before.content);
    // Taken back, it is the text of its file again.
    if (isObsolete()) m_made.changeText(m_before);
    return true;
  }

 private:
  ModelRuns& m_made;
  TextInput m_before;
  TextInput m_after;
};

/// Other settings of runs.
class ModelRuns::SettingsChange : public QUndoCommand {
 public:
  SettingsChange(ModelRuns& made, const RunSettings& after)
      : QUndoCommand(words(made.m_settings, after)), m_made(made), m_before(made.m_settings), m_after(after) {}
  void redo() override { m_made.changeSettings(m_after); }
  void undo() override { m_made.changeSettings(m_before); }

 private:
  static QString words(const RunSettings& before, const RunSettings& after) {
    if (before.limit == after.limit) return ModelRuns::tr("change how models run");
    return after.limit > 0 ? ModelRuns::tr("read the first %1 tokens").arg(after.limit)
                           : ModelRuns::tr("read all tokens");
  }

  ModelRuns& m_made;
  RunSettings m_before;
  RunSettings m_after;
};

struct ModelRuns::Produced {
  ModelInput model;
  Run run;
  QStringList notes;
};

ModelRuns::ModelRuns(RunList& runs, QObject* parent)
    : QObject(parent),
      m_runs(runs),
      m_engine(std::make_unique<Engine>(kModelsKept)),
      m_heads(std::make_shared<PredictionHeads>(*m_engine)),
      m_runner(Threads::own) {
  connect(&m_runner, &JobRunner::idle, this, &ModelRuns::idle);
  const auto withoutRuns = [this] {
    if (m_runs.empty()) emit noRunTextChanged();
  };
  connect(this, &ModelRuns::inputsChanged, this, withoutRuns);
  connect(this, &ModelRuns::runStatusChanged, this, withoutRuns);
  connect(&m_runs, &RunList::modelsChanged, this, &ModelRuns::inputsChanged);
}

ModelRuns::~ModelRuns() = default;

ModelRuns::FindHead ModelRuns::headOf(const Run& run) const {
  std::vector<std::string> models;
  if (!run.model.isEmpty()) models.push_back(run.model.toStdString());
  if (models.empty()) {
    for (const ModelInput& model : m_runs.models()) models.push_back(model.path.toStdString());
  }
  return [heads = m_heads, trace = run.trace, models](const Job& job) { return heads->find(*trace, models, job); };
}

QStringList ModelRuns::waiting() const {
  QStringList names;
  if (!m_status.running) return names;
  for (int place = m_status.index; place < m_status.count; ++place) names += shownName(m_queue[index_of(place)]);
  return names;
}

QString ModelRuns::runObstacle() const {
  if (m_status.running) return tr("A run is in progress: wait for it, or cancel it");
  if (m_runs.models().empty()) {
    return m_runs.empty() ? tr("No model yet: open a checkpoint folder (Ctrl+O), or a run file (Ctrl+Alt+O)")
                          : tr("No model yet: open a checkpoint folder (Ctrl+O)");
  }
  return m_text.empty() ? tr("No text yet: open one (Ctrl+Shift+O), or type or paste it") : QString();
}

QString ModelRuns::noRunText() const {
  const QString obstacle = runObstacle();
  return obstacle.isEmpty() ? tr("No run yet: press F5") : obstacle;
}

bool ModelRuns::isTextOf(const Run& run) const {
  if (m_text.ids) return run.ids && *run.ids == m_text.content;
  return run.trace->text() && is_read_of(*run.trace->text(), m_text.content);
}

bool ModelRuns::isTextNew() const {
  const RunList& runs = m_runs;
  const auto read = [this](const Run& run) { return isTextOf(run); };
  return !runs.empty() && !m_text.empty() && std::none_of(runs.begin(), runs.end(), read);
}

void ModelRuns::setText(const TextInput& text, std::optional<std::int64_t> limit) {
  if (text == m_text) return;
  if (limit == m_settings.limit) limit.reset();
  if (m_text.empty() && !limit) return changeText(text);
  m_runs.undoStack().push(new Replacement(*this, text, limit));
}

void ModelRuns::editText(const std::string& content) {
  if (content != m_text.content)
    m_runs.undoStack().push(new Typing(*this, {{}, content, m_text.ids && !content.empty()}));
}

void ModelRuns::followText(const Text& text) {
  const auto isOfRun = [&](const Run& run) {
    return run.trace->text() && is_read_of(*run.trace->text(), m_text.content);
  };
  const bool untouched = m_text.file.isEmpty() && std::any_of(m_runs.begin(), m_runs.end(), isOfRun);
  if (m_text.empty() || untouched) changeText({{}, text.content});
}

void ModelRuns::setTextFile(const QString& file, const std::string& content) {
  if (m_text.content == content) changeText({file, content, m_text.ids});
}

void ModelRuns::changeText(const TextInput& text) {
  if (text == m_text) return;
  m_text = text;
  emit inputsChanged();
}

void ModelRuns::setSettings(const RunSettings& settings) {
  if (settings != m_settings) m_runs.undoStack().push(new SettingsChange(*this, settings));
}

void ModelRuns::changeSettings(const RunSettings& settings) {
  if (settings == m_settings) return;
  m_settings = settings;
  emit inputsChanged();
}

void ModelRuns::restore(const TextInput& text, const RunSettings& settings) {
  m_text = text;
  m_settings = settings;
}

void ModelRuns::startRun() {
  if (m_status.running) return;
  if (!canRun()) return tell(Message::Kind::warning, runObstacle());
  run(m_runs.models(), enteredText());
}

void ModelRuns::startSessionRun(const std::vector<ModelInput>& models) {
  if (!canRun()) return;
  Reading reading = enteredText();
  reading.wanted = Wanted::bySession;
  run(models, std::move(reading));
}

ModelRuns::Reading ModelRuns::enteredText() const {
  if (m_text.ids) {
    Reading reading{m_text.file, nullptr, m_settings.limit};
    reading.ids = std::make_shared<const std::string>(m_text.content);
    reading.name = m_text.name;
    return reading;
  }
  Reading reading{m_text.file, std::make_shared<const Text>(Text{m_text.content, sha256(m_text.content)}),
                  m_settings.limit};
  reading.name = m_text.name;
  return reading;
}

const Run* ModelRuns::runToRepeat(RunId id, const QString& obstacle) {
  const QString why = m_runs.run(id) == nullptr ? noRunText() : m_status.running ? runObstacle() : obstacle;
  if (why.isEmpty()) return m_runs.run(id);
  tell(Message::Kind::warning, why);
  return nullptr;
}

QString ModelRuns::saliencyObstacle(RunId id) const {
  const Run* from = m_runs.run(id);
  if (from == nullptr) return {};
  const TraceInfo& info = from->trace->info();
  if (origin_of(info) == RunOrigin::recorded) {
    return tr("%1 kept no saliency: %2").arg(from->name, QString::fromStdString(keep_remedy(info, Keep::saliency)));
  }
  const bool mixed =
      std::ranges::any_of(info.mixers, [](const LayerMixer& one) { return one.mixer == Mixer::attention; });
  for (int layer = 0; layer < info.layers; ++layer) {
    const LayerMixer& own = info.mixer(layer);
    if (own.mixer == Mixer::attention || (!mixed && own.decay == Decay::head)) continue;
    const QString mixer = QString::fromLatin1(to_string(own.mixer)).replace('_', ' ');
    return tr("%1 has layers of %2: saliency needs a model in which every layer is attention, or decays as a whole "
              "head")
        .arg(from->name, mixer);
  }
  return obstacleTo(*from, tr("its saliency"));
}

void ModelRuns::startSaliency(RunId id, std::optional<Range> target) {
  const Run* from = runToRepeat(id, saliencyObstacle(id));
  if (from == nullptr) return;
  const std::int64_t length = from->trace->info().length;
  if (target && (target->begin < 0 || target->size() < 1 || target->end > length)) {
    return tell(Message::Kind::warning, tr("%1 did not read these positions").arg(from->name));
  }
  Reading reading{from->textFile, from->trace->text(), length, true, target};
  reading.name = from->textName;
  run({m_runs.modelOf(*from)}, std::move(reading));
}

void ModelRuns::startDerivedRun(RunId base, const QStringList& interventions) {
  const Run* changed = m_runs.run(base);
  const Run* from = runToRepeat(base, changed == nullptr ? QString() : obstacleTo(*changed, tr("changing it")));
  if (from == nullptr || interventions.isEmpty()) return;
  Reading reading{from->textFile, from->trace->text(), from->trace->info().length};
  reading.name = from->textName;
  run({m_runs.addChanged(m_runs.modelOf(*from), interventions)}, std::move(reading));
}

void ModelRuns::run(std::vector<ModelInput> models, Reading reading) {
  m_queue = std::move(models);
  m_reading = std::move(reading);
  m_cut.clear();
  m_status = {};
  m_status.running = true;
  m_status.count = static_cast<int>(m_queue.size());
  estimateMemory();
}

void ModelRuns::tellStage(const QString& stage, double fraction, double secondsLeft) {
  m_status.stage = stage;
  m_status.fraction = fraction;
  m_status.secondsLeft = secondsLeft;
  emit runStatusChanged();
}

void ModelRuns::estimateMemory() {
  m_memoryAsked = false;
  m_status.model = shownName(m_queue.front());
  tellStage(tr("estimating memory"), -1, -1);
  std::vector<ModelRequest> wanted;
  for (const ModelInput& model : m_queue) {
    if (!isRemote(model.path)) wanted.push_back(m_settings.requestOf(model.name, model.path));
  }
  // A machine refuses itself what it has no memory for.
  if (wanted.empty()) return runNext();
  struct Estimated {
    std::optional<MemoryQuestion> question;
    std::vector<std::shared_ptr<const TokenTable>> cut;
  };
  JobRunner::Request<Estimated> request;
  request.work = [engine = *m_engine, wanted, run = requestOfRun()](const Job& job) -> std::optional<Estimated> {
    Estimated estimated;
    std::vector<OpenedModel> models;
    models.reserve(wanted.size());
    for (const ModelRequest& model : wanted) models.push_back(engine.open(model));
    // Cutting a text into tokens takes its time, and most texts are short.
    for (const TokenCount count : {TokenCount::at_most, TokenCount::exact}) {
      std::vector<RunEstimate> estimates;
      for (const OpenedModel& model : models) {
        const auto estimate = estimate_run(model, withExperts(run, model), count, job);
        if (!estimate) return std::nullopt;
        estimates.push_back(*estimate);
        if (estimate->cut) estimated.cut.push_back(estimate->cut);
      }
      estimated.question = questionOf(estimates, count);
      if (!estimated.question) break;
    }
    return estimated;
  };
  request.done = [this](const Estimated& estimated) {
    if (estimated.cut.size() == m_queue.size()) m_cut = estimated.cut;
    if (!estimated.question) return runNext();
    endRun();
    m_memoryAsked = true;
    emit memoryAsked(*estimated.question);
  };
  // The error of a model is told when its turn comes, after the results of those before it.
  request.failed = [this](const QString& /*message*/) { runNext(); };
  m_runner.submit(this, kRun, std::move(request));
}

void ModelRuns::runAnyway() {
  if (!std::exchange(m_memoryAsked, false)) return;
  m_status.running = true;
  m_status.count = static_cast<int>(m_queue.size());
  runNext();
}

void ModelRuns::runFewer(std::int64_t tokens) {
  if (!m_memoryAsked || tokens < 1) return;
  m_reading.limit = tokens;
  m_cut.clear();
  RunSettings settings = m_settings;
  settings.limit = tokens;
  setSettings(settings);
  runAnyway();
}

RunRequest ModelRuns::requestOfRun() const {
  RunRequest wanted;
  wanted.input.text = m_reading.text;
  wanted.input.name = m_reading.file.isEmpty() ? "the text" : m_reading.file.toStdString();
  if (m_reading.ids) {
    TokenIds ids = read_token_ids(*m_reading.ids, wanted.input.name, std::numeric_limits<std::int32_t>::max());
    wanted.input.ids = std::move(ids.ids);
    wanted.input.labels = std::move(ids.labels);
  }
  if (m_reading.limit > 0) wanted.limit = m_reading.limit;
  wanted.keep = {Keep::loss, Keep::gates, Keep::rows, Keep::predictions};
  if (m_settings.keepQueryKey) wanted.keep.insert(Keep::query_key);
  if (m_reading.saliency) {
    wanted.keep.insert(Keep::saliency);
    wanted.saliency = m_reading.target;
  }
  return wanted;
}

void ModelRuns::runNext() {
  const ModelInput& model = m_queue[index_of(m_status.index)];
  m_status.model = shownName(model);
  tellStage(tr("starting"), -1, -1);

  std::shared_ptr<const TokenTable> cut;
  if (!m_cut.empty()) cut = std::move(m_cut[index_of(m_status.index)]);
  JobRunner::Request<Produced> request;
  request.work = isRemote(model.path) ? workThere(model) : workHere(model, cut);
  request.done = [this](const Produced& produced) { receiveRun(produced); };
  request.failed = [this](const QString& message) {
    tell(Message::Kind::error, message);
    endRun();
  };
  request.progress = [this](const JobProgress& progress) {
    if (!m_status.running) return;
    tellStage(progress.stage, progress.fraction, m_stageClock.secondsLeft(progress.stage, progress.fraction));
  };
  m_runner.submit(this, kRun, std::move(request));
}

ModelRuns::Work ModelRuns::workThere(const ModelInput& model) const {
  return [model, settings = m_settings, run = requestOfRun()](const Job& job) -> std::optional<Produced> {
    auto made = runThere(model, settings, run, job);
    if (!made) return std::nullopt;
    return Produced{model, std::move(made->run), made->notes};
  };
}

ModelRuns::Work ModelRuns::workHere(const ModelInput& model, const std::shared_ptr<const TokenTable>& cut) const {
  return [engine = *m_engine, wanted = m_settings.requestOf(model.name, model.path), run = requestOfRun(), cut,
          model](const Job& job) mutable -> std::optional<Produced> {
    for (const QString& text : model.interventions) {
      wanted.interventions.push_back(Intervention::parse(text.toStdString()));
    }
    const OpenedModel opened = engine.open(wanted);
    auto result = run_model(plan_run(opened, withExperts(run, opened), cut), job);
    if (!result) return std::nullopt;
    Produced made{model, {}, {}};
    made.run.name = QString::fromStdString(result->trace->info().name);
    made.run.trace = result->trace;
    made.run.model = model.path;
    made.run.forwardSeconds = result->report.forward_seconds;
    made.run.representative = representativeHead(*result->trace);
    for (const std::string& note : result->report.notes) made.notes += QString::fromStdString(note);
    return made;
  };
}

void ModelRuns::receiveRun(const Produced& produced) {
  Run made = produced.run;
  made.base = produced.model.base;
  made.look = produced.model.look;
  made.textFile = m_reading.file;
  made.textName = m_reading.name;
  made.ids = m_reading.ids;
  made.ofSession = m_reading.wanted == Wanted::bySession;
  for (const QString& note : produced.notes) tell(Message::Kind::note, made.name + ": " + note);
  const HeadChoice representative{m_runs.addMade(made), made.representative.layer, made.representative.head};
  // The run that was asked for is shown, also where runs of files on another text are open.
  if (m_status.index == 0 && !made.ofSession && !m_runs.isOnText(representative.run))
    m_runs.selection().setHead(representative);
  if (++m_status.index < m_status.count) {
    runNext();
  } else {
    endRun();
  }
}

void ModelRuns::cancelRun() {
  m_memoryAsked = false;
  if (!m_status.running) return;
  m_runner.cancel(this, kRun);
  endRun();
}

void ModelRuns::endRun() {
  m_status = {};
  emit runStatusChanged();
  emit inputsChanged();
}

void ModelRuns::tell(Message::Kind kind, const QString& text) { emit messageRaised({kind, text}); }

}  // namespace foxscope::gui
