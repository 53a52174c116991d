#include "app/gui/document/document.h"

#include <algorithm>
#include <cassert>
#include <iterator>

#include <QDir>
#include <QFileInfo>
#include <QLoggingCategory>
#include <QThread>
#include <QUndoCommand>

#include "app/gui/document/opened_path.h"
#include "backend/base/atomic_file.h"
#include "backend/model/session/engine.h"

namespace foxscope::gui {
namespace {

Q_LOGGING_CATEGORY(sessionLog, "foxscope.session", QtWarningMsg)
// Removed runs keep their memory for as long as they can come back.
constexpr int kMostUndone = 20;
constexpr std::size_t kModelsKept = 2;  ///< of the runs made last, to change and run them again

// NAME of a run file: letters, digits, '.', '_' and '-'.
QString nameFromPath(const QString& path) {
  QString name = QFileInfo(QDir::cleanPath(path)).fileName();
  for (QChar& character : name) {
    const bool allowed =
        (character.isLetterOrNumber() && character.unicode() < 128) || QStringLiteral("._-").contains(character);
    if (!allowed) character = '-';
  }
  return name.isEmpty() ? QStringLiteral("model") : name;
}

}  // namespace

/// A model and runs that were taken out.
class Document::Removal : public QUndoCommand {
 public:
  Removal(Document& document, std::optional<int> model, const std::vector<RunId>& ids, const QString& what)
      : QUndoCommand(Document::tr("remove %1").arg(what)), m_document(document) {
    if (model) m_model = {*model, document.m_models[static_cast<std::size_t>(*model)]};
    for (std::size_t place = 0; place < document.m_runs.size(); ++place) {
      const Run& run = document.m_runs[place];
      if (std::find(ids.begin(), ids.end(), run.id) != ids.end()) m_runs.emplace_back(place, run);
    }
  }

  void redo() override {
    if (m_model) {
      auto& models = m_document.m_models;
      const auto gone = [&](const ModelInput& model) { return model.name == m_model->second.name; };
      const auto place = std::find_if(models.begin(), models.end(), gone);
      if (place != models.end()) m_model->second = *place;
      std::erase_if(models, gone);
      emit m_document.inputsChanged();
    }
    if (m_runs.empty()) return;
    std::vector<Run> kept = m_document.m_runs;
    for (auto& gone : m_runs) {
      if (const Run* now = m_document.run(gone.second.id)) gone.second = *now;
      std::erase_if(kept, [&](const Run& run) { return run.id == gone.second.id; });
    }
    m_document.takeRuns(std::move(kept));
  }

  void undo() override {
    if (m_model) {
      auto& models = m_document.m_models;
      const auto place = std::min<std::size_t>(static_cast<std::size_t>(m_model->first), models.size());
      // It may have been opened again meanwhile.
      m_model->second.name = m_document.freeModelName(m_model->second.name);
      models.insert(models.begin() + static_cast<std::ptrdiff_t>(place), m_model->second);
      emit m_document.inputsChanged();
    }
    if (m_runs.empty()) return;
    std::vector<Run> runs = m_document.m_runs;
    for (const auto& [place, run] : m_runs) {
      runs.insert(runs.begin() + static_cast<std::ptrdiff_t>(std::min(place, runs.size())), run);
    }
    m_document.takeRuns(std::move(runs));
  }

 private:
  Document& m_document;
  std::optional<std::pair<int, ModelInput>> m_model;
  std::vector<std::pair<std::size_t, Run>> m_runs;  ///< with their places, rising
};

/// A text in the place of another, and how much of it is read where that changes with it. Going back keeps what was
/// typed meanwhile for going forth.
class Document::Replacement : public QUndoCommand {
 public:
  Replacement(Document& document, const TextInput& text, std::optional<std::int64_t> limit)
      : QUndoCommand(Document::tr("replace the text")), m_document(document), m_other(text), m_limit(limit) {}
  void redo() override { exchange(); }
  void undo() override { exchange(); }

 private:
  void exchange() {
    TextInput before = m_document.m_text;
    m_document.changeText(m_other);
    m_other = std::move(before);
    if (!m_limit) return;
    RunSettings settings = m_document.m_settings;
    std::swap(settings.limit, *m_limit);
    m_document.setSettings(settings);
  }

  Document& m_document;
  TextInput m_other;
  std::optional<std::int64_t> m_limit;
};

/// Other locked pairs of one text, which need not be the one shown when this is undone.
class Document::LockChange : public QUndoCommand {
 public:
  LockChange(Document& document, const std::vector<Cursor>& after, const QString& what)
      : QUndoCommand(what),
        m_document(document),
        m_text(document.m_shownText),
        m_before(document.m_selection.locks()),
        m_after(after) {}
  void redo() override { set(m_after); }
  void undo() override { set(m_before); }

 private:
  void set(const std::vector<Cursor>& locks) {
    if (m_text == m_document.m_shownText) {
      m_document.m_selection.setLocks(m_document.inText(locks));
    } else if (const auto left = m_document.m_leftPlaces.find(m_text); left != m_document.m_leftPlaces.end()) {
      left->second.locks = locks;
    }
  }

  Document& m_document;
  int m_text;
  std::vector<Cursor> m_before;
  std::vector<Cursor> m_after;
};

struct Document::Opened {
  QString path;
  OpenedContent content;
};

Document::Document(QObject* parent)
    : QObject(parent),
      m_engine(std::make_unique<Engine>(kModelsKept)),
      m_jobs(Team::lent),
      m_quick(Team::lent),
      m_runner(Team::own),
      m_writer(Team::lent, kBehindPictures) {
  const auto whenIdle = [this] {
    if (!busy()) emit idle();
  };
  for (JobRunner* runner : {&m_jobs, &m_quick, &m_runner, &m_writer}) connect(runner, &JobRunner::idle, this, whenIdle);
  const auto withoutRuns = [this] {
    if (m_runs.empty()) emit noRunTextChanged();
  };
  connect(this, &Document::inputsChanged, this, withoutRuns);
  connect(this, &Document::runStatusChanged, this, withoutRuns);
  m_undo.setUndoLimit(kMostUndone);
  // Before any view: they ask for positions of the reference when they hear of the head.
  connect(&m_selection, &Selection::headChanged, this, &Document::followHead);
}

Document::~Document() = default;

bool Document::busy() const { return m_jobs.busy() || m_quick.busy() || m_runner.busy() || m_writer.busy(); }

const Run* Document::run(RunId id) const {
  const auto found = std::find_if(m_runs.begin(), m_runs.end(), [&](const Run& run) { return run.id == id; });
  return found == m_runs.end() ? nullptr : &*found;
}

const Run* Document::runNamed(const QString& name) const {
  if (name.isEmpty()) return nullptr;
  const auto found = [&](auto nameOf) -> const Run* {
    const auto place = std::find_if(m_runs.begin(), m_runs.end(), [&](const Run& run) { return nameOf(run) == name; });
    return place == m_runs.end() ? nullptr : &*place;
  };
  const Run* named = found([](const Run& run) { return run.name; });
  if (named == nullptr) {
    named = found([](const Run& run) { return run.file.isEmpty() ? QString() : run.nameWithFile(); });
  }
  return named != nullptr ? named : found([](const Run& run) { return run.plainName(); });
}

const Run* Document::referenceOf(int text) const {
  const Run* first = nullptr;
  for (const Run& run : m_runs) {
    if (run.text != text) continue;
    if (!run.look.hidden) return &run;
    if (first == nullptr) first = &run;
  }
  return first;
}

std::vector<const Run*> Document::runsOnText() const {
  std::vector<const Run*> runs;
  for (const Run& run : m_runs) {
    if (run.text == m_shownText && !run.look.hidden) runs.push_back(&run);
  }
  return runs;
}

bool Document::isOnText(RunId id) const {
  const Run* found = run(id);
  return found != nullptr && found->text == m_shownText;
}

std::int64_t Document::length() const {
  const Run* run = reference();
  return run == nullptr ? 0 : run->trace->info().length;
}

Document::TextPlace Document::placeIn(int text) const {
  if (text == m_shownText) return {m_selection.pin(), m_selection.view(), m_selection.locks()};
  const auto left = m_leftPlaces.find(text);
  if (left != m_leftPlaces.end()) return left->second;
  const Run* run = referenceOf(text);
  const std::int64_t length = run == nullptr ? 0 : run->trace->info().length;
  return {{}, {{0, length}, {0, length}}, {}};
}

std::optional<std::int64_t> Document::positionIn(RunId id, std::int64_t position) const {
  if (!isOnText(id)) return std::nullopt;
  const auto places = m_places.find(id);
  return places == m_places.end() ? position : (*places->second.fromReference)(position);
}

Document::Places Document::placesOf(RunId id) const {
  const auto places = m_places.find(id);
  return places == m_places.end() ? Places() : places->second;
}

void Document::mapPlaces() {
  m_places.clear();
  for (const Run& run : m_runs) {
    const Run& reference = *referenceOf(run.text);
    if (&run == &reference) continue;
    const auto& own = run.trace->tokens();
    const auto& theirs = reference.trace->tokens();
    m_places.emplace(
        run.id, Places{std::make_shared<const PlaceMap>(theirs, own), std::make_shared<const PlaceMap>(own, theirs)});
  }
}

std::optional<HeadOf> Document::headOf(const HeadChoice& choice) const {
  const Run* chosen = run(choice.run);
  if (chosen == nullptr) return std::nullopt;
  const TraceInfo& info = chosen->trace->info();
  if (choice.layer < 0 || choice.layer >= info.layers || choice.head < 0 ||
      choice.head >= info.mixer(choice.layer).heads) {
    return std::nullopt;
  }
  return HeadOf{chosen->trace, choice.layer, choice.head};
}

QString Document::freeModelName(const QString& wanted) const {
  const auto taken = [&](const QString& name) {
    return std::any_of(m_models.begin(), m_models.end(), [&](const ModelInput& model) { return model.name == name; });
  };
  QString name = wanted;
  for (int number = 2; taken(name); ++number) name = QStringLiteral("%1-%2").arg(wanted).arg(number);
  return name;
}

void Document::addModel(const QString& path, const QString& name, const QString& training) {
  const auto same = [&](const ModelInput& model) {
    if (model.training != training || !model.interventions.isEmpty()) return false;
    return !training.isEmpty() || model.path == path;
  };
  if (std::any_of(m_models.begin(), m_models.end(), same)) return;
  m_models.push_back({freeModelName(name.isEmpty() ? nameFromPath(path) : name), path});
  m_models.back().training = training;
  m_models.back().look.colour = freeColour();
  emit inputsChanged();
}

void Document::showCheckpoint(const QString& model, const QString& path, std::optional<Run> made) {
  const auto shown =
      std::find_if(m_models.begin(), m_models.end(), [&](const ModelInput& each) { return each.name == model; });
  if (shown == m_models.end()) return;
  std::vector<Run> runs = m_runs;
  const auto before = std::find_if(runs.begin(), runs.end(), [&](const Run& run) { return run.isOf(*shown); });
  shown->path = path;
  if (made) {
    if (before != runs.end()) before->model = path;
    made->id = ++m_lastRun;
    made->model = path;
    made->look = shown->look;
    made->ofSession = before != runs.end() && before->ofSession;
    place(runs, *made);
  }
  if (made) takeRuns(std::move(runs));
  emit inputsChanged();
}

void Document::removeModel(int index) {
  if (index < 0 || index >= static_cast<int>(m_models.size())) return;
  const ModelInput& model = m_models[static_cast<std::size_t>(index)];
  std::vector<RunId> made;
  for (const Run& run : m_runs) {
    if (run.isOf(model)) made.push_back(run.id);
  }
  remove(index, made, model.name);
}

void Document::remove(std::optional<int> model, const std::vector<RunId>& ids, const QString& what) {
  m_undo.push(new Removal(*this, model, ids, what));
}

void Document::setText(const TextInput& text, std::optional<std::int64_t> limit) {
  if (text == m_text) return;
  if (m_text.empty() && !limit) return changeText(text);
  m_undo.push(new Replacement(*this, text, limit));
}

void Document::editText(const std::string& content) { changeText({{}, content}); }

void Document::changeText(const TextInput& text) {
  if (text == m_text) return;
  m_text = text;
  emit inputsChanged();
}

void Document::setSettings(const RunSettings& settings) {
  if (settings == m_settings) return;
  m_settings = settings;
  emit inputsChanged();
}

void Document::removeRun(RunId id) {
  if (const Run* gone = run(id)) remove(std::nullopt, {id}, gone->name);
}

Unsaved Document::unsaved() const {
  Unsaved unsaved;
  bool kept = m_text.empty() || !m_text.file.isEmpty() || m_text.content == m_keptText;
  for (const Run& run : m_runs) {
    if (run.file.isEmpty() && !run.ofSession) unsaved.runs += run.name;
    const auto& text = run.trace->text();
    kept = kept || (!run.file.isEmpty() && text && is_read_of(*text, m_text.content));
  }
  unsaved.text = !kept;
  return unsaved;
}

void Document::clear() {
  cancelRun();
  waitForNoText();
  m_models.clear();
  m_text = {};
  m_sessionFile.clear();
  m_keptText.clear();
  m_wantedSelection = {};
  m_wantedRuns.clear();
  m_sessionRuns.clear();
  m_undo.clear();
  m_evaluations.clear();
  emit evaluationsChanged();
  emit inputsChanged();
  takeRuns({});
}

void Document::open(const QStringList& paths) {
  for (const QString& given : paths) {
    const bool isPath = QFileInfo::exists(given);
    const QString path = isPath ? QFileInfo(given).absoluteFilePath() : given;
    JobRunner::Request<Opened> request;
    request.work = [path, check = m_check](const Job& job) {
      Opened opened{path, openPath(path, job.stop, check)};
      return job.stopped() ? std::nullopt : std::optional(std::move(opened));
    };
    request.done = [this](Opened opened) { receive(std::move(opened)); };
    request.failed = [this, path](const QString& message) {
      if (path == m_runWhenRead) waitForNoText();
      tell(Message::Kind::error, message);
    };
    m_jobs.submit(this, kFirstOpen + m_openChannel++, std::move(request));
  }
}

void Document::receive(Opened opened) {
  assert(QThread::currentThread() == thread());
  const bool runs = opened.path == m_runWhenRead && std::holds_alternative<OpenedText>(opened.content);
  if (opened.path == m_runWhenRead) m_runWhenRead.clear();
  if (std::holds_alternative<OpenedSession>(opened.content)) return receiveSession(opened);
  if (const auto* checkpoint = std::get_if<OpenedCheckpoint>(&opened.content)) {
    addModel(opened.path);
    for (const QString& note : checkpoint->notes) tell(Message::Kind::note, opened.path + ": " + note);
  } else if (const auto* training = std::get_if<OpenedTraining>(&opened.content)) {
    addModel(training->checkpoint, nameFromPath(opened.path), opened.path);
  } else if (auto* text = std::get_if<OpenedText>(&opened.content)) {
    setText({opened.path, std::move(text->content)});
  } else if (const auto* sweep = std::get_if<OpenedSweep>(&opened.content)) {
    emit sweepOpened(*sweep);
  } else if (auto* evaluation = std::get_if<Evaluation>(&opened.content)) {
    receiveEvaluation(std::move(*evaluation));
  } else {
    receiveRunFile(opened);
  }
  emit pathOpened(opened.path);
  if (runs) runWantedModels();
}

void Document::receiveRunFile(const Opened& opened) {
  const auto& content = std::get<OpenedRunFile>(opened.content);
  const auto same = [file = QFileInfo(opened.path).canonicalFilePath()](const Run& run) {
    return !run.file.isEmpty() && QFileInfo(run.file).canonicalFilePath() == file;
  };
  const auto there = std::find_if(m_runs.begin(), m_runs.end(), same);
  if (there != m_runs.end()) {
    tell(Message::Kind::note,
         tr("%1 is open already: to read it anew, remove its runs first").arg(QFileInfo(opened.path).fileName()));
    return m_selection.setHead({there->id, there->telling.layer, there->telling.head});
  }
  // A session names those of the file's runs that it had open.
  const auto left = [&](const QString& name) {
    const auto ofFile = [&](const SessionRun& run) { return run.file == opened.path; };
    const auto wanted = [&](const SessionRun& run) { return ofFile(run) && run.model == name; };
    return std::any_of(m_wantedRuns.begin(), m_wantedRuns.end(), ofFile) &&
           std::none_of(m_wantedRuns.begin(), m_wantedRuns.end(), wanted);
  };
  std::vector<Run> runs = m_runs;
  for (std::size_t index = 0; index < content.file.traces.size(); ++index) {
    const auto& trace = content.file.traces[index];
    Run run{++m_lastRun, QString::fromStdString(trace->info().name), trace};
    if (left(run.name)) continue;
    run.file = opened.path;
    run.telling = content.telling[index];
    run.created =
        tr("%1 by foxscope %2")
            .arg(QString::fromStdString(content.file.created), QString::fromStdString(content.file.program_version));
    run.command = QString::fromStdString(content.file.command_line);
    const auto kept = std::find_if(m_sessionRuns.begin(), m_sessionRuns.end(),
                                   [&](const SessionRun& entry) { return entry.isOf(run); });
    if (kept != m_sessionRuns.end()) run.look = kept->look;
    runs.push_back(std::move(run));
  }
  sortAsInSession(runs);
  std::erase_if(m_wantedRuns, [&](const SessionRun& run) { return run.file == opened.path; });
  if (runs.size() == m_runs.size()) return;
  // What was typed or opened to be run stays.
  const auto& text = content.file.traces.back()->text();
  const auto isOfRun = [&](const Run& run) {
    return run.trace->text() && is_read_of(*run.trace->text(), m_text.content);
  };
  const bool untouched = m_text.file.isEmpty() && std::any_of(m_runs.begin(), m_runs.end(), isOfRun);
  if (text && (m_text.empty() || untouched)) changeText({{}, text->content});
  takeRuns(std::move(runs));
}

// Read anew where it is open already: it may have been made again.
void Document::receiveEvaluation(Evaluation evaluation) {
  evaluation.ofSession = m_sessionEvaluations.removeAll(evaluation.path) > 0;
  const auto same = std::find_if(m_evaluations.begin(), m_evaluations.end(),
                                 [&](const Evaluation& open) { return open.path == evaluation.path; });
  if (same == m_evaluations.end()) {
    m_evaluations.push_back(std::move(evaluation));
  } else {
    *same = std::move(evaluation);
  }
  emit evaluationsChanged();
}

void Document::closeEvaluation(const QString& path) {
  if (std::erase_if(m_evaluations, [&](const Evaluation& open) { return open.path == path; }) == 0) return;
  emit evaluationsChanged();
}

void Document::receiveSession(const Opened& opened) {
  if (!m_guard) return replaceBySession(opened);
  m_guard([this, opened] { replaceBySession(opened); });
}

void Document::replaceBySession(const Opened& opened) {
  const auto& content = std::get<OpenedSession>(opened.content);
  const Session session = Session::fromJson(content.session, QFileInfo(opened.path).absolutePath());
  for (const QString& note : content.notes) tell(Message::Kind::note, note);
  cancelRun();
  waitForNoText();
  m_models.clear();
  m_settings = session.settings;
  m_sessionFile = opened.path;
  m_keptText = session.text.content;
  m_wantedSelection = session.selection;
  m_wantedRuns = session.runs;
  m_sessionRuns = session.runs;
  m_undo.clear();
  QStringList existing;
  const auto ask = [&](const QString& what, const QString& path) {
    if (QFileInfo::exists(path)) return true;
    qCDebug(sessionLog).noquote() << opened.path << "skips the" << what << path << "which is not there";
    emit fileMissing(what, path);
    return false;
  };
  for (const ModelInput& model : session.models) {
    const bool hubId = !QDir::isAbsolutePath(model.path);
    if (!hubId && !ask(tr("checkpoint"), model.path)) continue;
    m_models.push_back(model);
    if (model.look.colour < 0) m_models.back().look.colour = freeColour();
  }
  m_text = session.text;
  if (!m_text.file.isEmpty() && m_text.content.empty() && ask(tr("text"), m_text.file)) existing += m_text.file;
  for (const QString& file : session.runFiles) {
    if (ask(tr("run file"), file)) existing += file;
  }
  qCDebug(sessionLog).noquote() << opened.path << "restores" << m_models.size() << "models," << existing.size()
                                << "files, views" << session.window.keys().join(QStringLiteral(", "));
  for (const QString& file : session.evaluations) {
    if (ask(tr("evaluation"), file)) existing += file;
  }
  m_evaluations.clear();
  emit evaluationsChanged();
  emit inputsChanged();
  takeRuns({});
  emit sessionOpened(session.window);
  m_sessionEvaluations = session.evaluations;
  open(existing);
  emit pathOpened(opened.path);
  // Runs that were in no file are made again, once the text is there; older sessions do not name them.
  for (const ModelInput& model : m_models) {
    const auto made = [&](const SessionRun& run) { return run.file.isEmpty() && run.model == model.name; };
    const bool wanted = std::any_of(session.runs.begin(), session.runs.end(), made);
    if (wanted || (session.runs.empty() && session.runFiles.isEmpty())) m_wantedModels.push_back(model);
  }
  if (m_wantedModels.empty()) return;
  if (canRun()) {
    runWantedModels();
  } else if (existing.contains(m_text.file)) {
    m_runWhenRead = QFileInfo(m_text.file).absoluteFilePath();
  }
}

void Document::runWantedModels() {
  const std::vector<ModelInput> models = std::exchange(m_wantedModels, {});
  if (!canRun()) return;
  m_queueOfSession = true;
  run(models, m_text.file, enteredText(), m_settings.limit);
}

void Document::waitForNoText() {
  m_runWhenRead.clear();
  m_wantedModels.clear();
}

void Document::takeRuns(std::vector<Run> runs) {
  assert(QThread::currentThread() == thread());
  const std::int64_t before = length();
  const std::shared_ptr<const TokenTable> tokens = m_runs.empty() ? nullptr : reference()->trace->tokens();
  const HeadChoice head = m_selection.head();
  const Run* chosen = run(head.run);
  const QString chosenName = chosen != nullptr ? chosen->name : QString();
  numberTexts(runs);
  nameApart(runs);
  m_runs = std::move(runs);
  for (Run& run : m_runs) {
    if (run.look.colour < 0) run.look.colour = freeColour();
  }
  const Run* next = run(head.run);
  if (next == nullptr) next = runNamed(chosenName);
  if (next == nullptr && !m_runs.empty()) next = &m_runs.front();
  const int text = next != nullptr ? next->text : 0;
  const bool otherText = text != m_shownText;
  if (otherText) leaveText();
  m_shownText = text;
  mapPlaces();
  // Views hear of new runs before they hear of the selection in them.
  emit runsChanged();
  if (m_runs.empty()) return m_leftPlaces.clear();
  if (run(head.run) == nullptr) {
    HeadChoice choice{next->id, head.layer, head.head};
    if (head.run == kNoRun || !headOf(choice)) choice = {next->id, next->telling.layer, next->telling.head};
    m_selection.setHead(choice);
  }
  const std::shared_ptr<const TokenTable>& now = reference()->trace->tokens();
  if (otherText) {
    enterText(text);
  } else if (!tokens || before != length() || tokens->id != now->id) {
    m_selection.setPin({});
    m_selection.setLocks({});
    m_selection.setHover({});
    m_selection.resetView(length());
  }
  restoreSelection();
}

bool Document::sameText(const Trace& a, const Trace& b) {
  if (a.text() && b.text()) return same_text(*a.text(), *b.text());
  return !a.text() && !b.text() && a.tokens()->id == b.tokens()->id;
}

void Document::numberTexts(std::vector<Run>& runs) {
  const auto among = [](const std::vector<Run>& others, const Run& run) {
    const auto same = std::find_if(others.begin(), others.end(), [&](const Run& other) {
      return other.text != 0 && sameText(*other.trace, *run.trace);
    });
    return same == others.end() ? 0 : same->text;
  };
  // One that comes back may find its text under another number.
  for (Run& run : runs) {
    if (this->run(run.id) == nullptr) run.text = 0;
  }
  for (Run& run : runs) {
    if (run.text == 0) run.text = among(m_runs, run);
    if (run.text == 0) run.text = among(runs, run);
    if (run.text == 0) run.text = ++m_lastText;
  }
}

void Document::followHead() {
  const Run* chosen = run(m_selection.head().run);
  if (chosen == nullptr || chosen->text == m_shownText) return;
  leaveText();
  m_shownText = chosen->text;
  emit referenceChanged();
  enterText(m_shownText);
}

void Document::lockPair(const Cursor& pair) {
  std::vector<Cursor> locks = m_selection.locks();
  const bool exists = pair.query && pair.key && *pair.key <= *pair.query && inText({pair}).size() == 1;
  if (!exists || std::find(locks.begin(), locks.end(), pair) != locks.end()) return;
  locks.push_back(pair);
  changeLocks(locks, tr("lock a pair"));
}

void Document::unlockPair(std::size_t place) {
  std::vector<Cursor> locks = m_selection.locks();
  if (place >= locks.size()) return;
  locks.erase(locks.begin() + static_cast<std::ptrdiff_t>(place));
  changeLocks(locks, tr("unlock a pair"));
}

void Document::unlockAll() {
  if (!m_selection.locks().empty()) changeLocks({}, tr("unlock all pairs"));
}

void Document::changeLocks(const std::vector<Cursor>& locks, const QString& what) {
  m_undo.push(new LockChange(*this, locks, what));
}

std::vector<Cursor> Document::inText(const std::vector<Cursor>& pairs) const {
  std::vector<Cursor> inside;
  std::copy_if(pairs.begin(), pairs.end(), std::back_inserter(inside), [&](const Cursor& pair) {
    return pair.query && pair.key && *pair.key >= 0 && *pair.key <= *pair.query && *pair.query < length();
  });
  return inside;
}

void Document::leaveText() { m_leftPlaces[m_shownText] = {m_selection.pin(), m_selection.view(), m_selection.locks()}; }

void Document::enterText(int text) {
  const auto left = m_leftPlaces.extract(text);
  m_selection.setHover({});
  m_selection.setPin({});
  m_selection.setLocks({});
  m_selection.resetView(length());
  if (left.empty()) return;
  const auto inside = [&](const std::optional<std::int64_t>& position) { return !position || *position < length(); };
  const TextPlace& place = left.mapped();
  if (inside(place.pin.query) && inside(place.pin.key)) m_selection.setPin(place.pin);
  m_selection.setLocks(inText(place.locks));
  if (place.view.rows.end <= length() && place.view.columns.end <= length()) m_selection.setView(place.view);
  m_selection.endMovement();
}

void Document::restoreSelection() {
  if (m_wantedSelection.isEmpty()) return;
  const SelectionState state = SelectionState::fromJson(m_wantedSelection);
  const Run* found = runNamed(state.run);
  if (found == nullptr) {
    qCDebug(sessionLog).noquote() << "the selection waits for the run" << state.run;
    return;
  }
  m_wantedSelection = {};
  const HeadChoice choice{found->id, state.layer, state.head};
  if (headOf(choice)) m_selection.setHead(choice);
  const auto inside = [&](const std::optional<std::int64_t>& position) {
    return position && *position >= 0 && *position < length() ? position : std::nullopt;
  };
  m_selection.setPin({inside(state.pin.query), inside(state.pin.key)});
  m_selection.setLocks(inText(state.locks));
  const auto fits = [&](const Range& range) { return range.begin >= 0 && range.size() > 0 && range.end <= length(); };
  if (fits(state.view.rows) && fits(state.view.columns)) m_selection.setView(state.view);
  m_selection.endMovement();
}

void Document::saveSession(const QString& path, const QJsonObject& windowState) {
  Session session;
  session.models = m_models;
  session.text = m_text;
  session.settings = m_settings;
  for (const Evaluation& evaluation : m_evaluations) session.evaluations += evaluation.path;
  for (const Run& run : m_runs) {
    if (!run.file.isEmpty() && !session.runFiles.contains(run.file)) session.runFiles += run.file;
    session.runs.push_back({run.file, run.plainName(), run.look});
  }
  const Run* chosen = run(m_selection.head().run);
  session.selection = SelectionState{chosen != nullptr ? chosen->name : QString(),
                                     m_selection.head().layer,
                                     m_selection.head().head,
                                     m_selection.pin(),
                                     m_selection.view(),
                                     m_selection.locks()}
                          .toJson();
  session.window = windowState;
  JobRunner::Request<bool> request;
  request.work = [session, path](const Job&) {
    session.write(path);
    return std::optional<bool>(true);
  };
  // Opening it makes again what its models made of its text.
  std::vector<RunId> remade;
  for (const Run& run : m_runs) {
    const auto& text = run.trace->text();
    const bool whole = m_settings.limit == 0 || m_settings.limit == run.trace->info().length;
    const bool has = std::ranges::any_of(m_models, [&run](const ModelInput& model) { return run.isOf(model); });
    const bool more = run.trace->has(TraceArray::log_forget_gradient);
    if (text && is_read_of(*text, m_text.content) && whole && has && !more) remade.push_back(run.id);
  }
  request.done = [this, path, remade, kept = m_text.file.isEmpty() ? m_text.content : std::string()](bool) {
    m_sessionFile = path;
    m_keptText = kept;
    for (Run& run : m_runs) run.ofSession = run.ofSession || std::ranges::find(remade, run.id) != remade.end();
    tell(Message::Kind::note, tr("Saved %1").arg(path));
    emit pathOpened(path);
  };
  request.failed = [this](const QString& message) { tell(Message::Kind::error, message); };
  m_jobs.submit(this, kSaveSession, std::move(request));
}

void Document::saveText(const QString& path) {
  const auto work = [path, content = m_text.content](const Job& job) -> std::optional<bool> {
    AtomicFile file(path.toStdString(), true);
    file.write(content.data(), content.size());
    if (job.stopped()) return std::nullopt;
    file.commit();
    return true;
  };
  writeFile(path, work, [this, path, content = m_text.content] {
    if (m_text.content == content) changeText({path, content});
    emit pathOpened(path);
  });
}

void Document::tell(Message::Kind kind, const QString& text) { emit messageRaised({kind, text}); }

}  // namespace foxscope::gui
