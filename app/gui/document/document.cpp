#include "app/gui/document/document.h"

#include <algorithm>

#include <QDir>
#include <QFileInfo>

#include "app/gui/document/opened_path.h"
#include "app/gui/document/session.h"

namespace foxscope::gui {
namespace {

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

struct Document::Opened {
  QString path;
  OpenedContent content;
};

Document::Document(QObject* parent) : QObject(parent), m_jobs(Team::lent), m_quick(Team::lent), m_runner(Team::own) {
  const auto whenIdle = [this] {
    if (!busy()) emit idle();
  };
  for (JobRunner* runner : {&m_jobs, &m_quick, &m_runner}) connect(runner, &JobRunner::idle, this, whenIdle);
}

Document::~Document() = default;

bool Document::busy() const { return m_jobs.busy() || m_quick.busy() || m_runner.busy(); }

const Run* Document::run(RunId id) const {
  const auto found = std::find_if(m_runs.begin(), m_runs.end(), [&](const Run& run) { return run.id == id; });
  return found == m_runs.end() ? nullptr : &*found;
}

const Run* Document::reference() const { return m_runs.empty() ? nullptr : &m_runs.front(); }

std::int64_t Document::length() const { return m_runs.empty() ? 0 : m_runs.front().trace->info().length; }

std::int64_t Document::positionIn(RunId id, std::int64_t position) const {
  const auto places = m_places.find(id);
  return places == m_places.end() ? position : places->second.fromReference(position);
}

std::int64_t Document::positionFrom(RunId id, std::int64_t position) const {
  const auto places = m_places.find(id);
  return places == m_places.end() ? position : places->second.toReference(position);
}

void Document::mapPlaces() {
  m_places.clear();
  for (const Run& run : m_runs) {
    if (&run == reference()) continue;
    const auto& own = run.trace->tokens();
    const auto& theirs = m_runs.front().trace->tokens();
    m_places.emplace(run.id, Places{PlaceMap(theirs, own), PlaceMap(own, theirs)});
  }
}

std::optional<HeadOf> Document::headOf(const HeadChoice& choice) const {
  const Run* chosen = run(choice.run);
  if (chosen == nullptr) return std::nullopt;
  const TraceInfo& info = chosen->trace->info();
  if (choice.layer < 0 || choice.layer >= info.layers || choice.head < 0 || choice.head >= info.heads) {
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

void Document::addModel(const QString& path, const QString& name) {
  const auto same = [&](const ModelInput& model) { return model.path == path && model.interventions.isEmpty(); };
  if (std::any_of(m_models.begin(), m_models.end(), same)) return;
  m_models.push_back({freeModelName(name.isEmpty() ? nameFromPath(path) : name), path, {}, {}});
  emit inputsChanged();
}

void Document::removeModel(int index) {
  if (index < 0 || index >= static_cast<int>(m_models.size())) return;
  m_models.erase(m_models.begin() + index);
  emit inputsChanged();
}

void Document::setText(const TextInput& text) {
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
  std::vector<Run> kept;
  for (const Run& run : m_runs) {
    if (run.id != id) kept.push_back(run);
  }
  takeRuns(std::move(kept));
}

void Document::clear() {
  cancelRun();
  m_models.clear();
  m_text = {};
  m_sessionFile.clear();
  m_wantedSelection = {};
  emit inputsChanged();
  takeRuns({});
}

void Document::open(const QStringList& paths) {
  for (const QString& given : paths) {
    const bool isPath = QFileInfo::exists(given);
    const QString path = isPath ? QFileInfo(given).absoluteFilePath() : given;
    JobRunner::Request<Opened> request;
    request.work = [path](const Job&) { return std::optional<Opened>(Opened{path, openPath(path)}); };
    request.done = [this](Opened opened) { receive(std::move(opened)); };
    request.failed = [this](const QString& message) { tell(Message::Kind::error, message); };
    m_jobs.submit(this, kFirstOpen + m_openChannel++, std::move(request));
  }
}

void Document::receive(Opened opened) {
  if (const auto* checkpoint = std::get_if<OpenedCheckpoint>(&opened.content)) {
    addModel(opened.path);
    for (const QString& note : checkpoint->notes) tell(Message::Kind::note, opened.path + ": " + note);
  } else if (auto* text = std::get_if<OpenedText>(&opened.content)) {
    setText({opened.path, std::move(text->content)});
  } else if (std::holds_alternative<OpenedRunFile>(opened.content)) {
    receiveRunFile(opened);
  } else {
    receiveSession(opened);
  }
  emit pathOpened(opened.path);
}

void Document::receiveRunFile(const Opened& opened) {
  const auto& content = std::get<OpenedRunFile>(opened.content);
  std::vector<Run> runs;
  for (std::size_t index = 0; index < content.file.traces.size(); ++index) {
    const auto& trace = content.file.traces[index];
    Run run{++m_lastRun, QString::fromStdString(trace->info().name), trace};
    run.file = opened.path;
    run.telling = content.telling[index];
    runs.push_back(std::move(run));
  }
  if (runs.empty()) return;
  if (const auto& text = runs.front().trace->text())
    setText({m_text.content == text->content ? m_text.file : QString(), text->content});
  takeRuns(std::move(runs));
}

void Document::receiveSession(const Opened& opened) {
  const Session session =
      Session::fromJson(std::get<OpenedSession>(opened.content).session, QFileInfo(opened.path).absolutePath());
  cancelRun();
  m_models.clear();
  m_settings = session.settings;
  m_sessionFile = opened.path;
  m_wantedSelection = session.selection;
  QStringList existing;
  const auto ask = [&](const QString& what, const QString& path) {
    if (QFileInfo::exists(path)) return true;
    emit fileMissing(what, path);
    return false;
  };
  for (const ModelInput& model : session.models) {
    const bool hubId = !QDir::isAbsolutePath(model.path);
    if (hubId || ask(tr("checkpoint"), model.path)) m_models.push_back(model);
  }
  m_text = session.text;
  if (!m_text.file.isEmpty() && m_text.content.empty() && ask(tr("text"), m_text.file)) existing += m_text.file;
  for (const QString& file : session.runFiles) {
    if (ask(tr("run file"), file)) existing += file;
  }
  emit inputsChanged();
  takeRuns({});
  emit sessionOpened(session.window);
  open(existing);
  // A session of runs that were never saved makes them again, once its text is there.
  if (session.runFiles.isEmpty() && !m_models.empty()) {
    if (canRun()) {
      startRun();
    } else if (!existing.isEmpty()) {
      connect(this, &Document::inputsChanged, this, &Document::startRun, Qt::SingleShotConnection);
    }
  }
}

void Document::takeRuns(std::vector<Run> runs) {
  const std::int64_t before = length();
  const std::shared_ptr<const TokenTable> tokens = m_runs.empty() ? nullptr : reference()->trace->tokens();
  const HeadChoice head = m_selection.head();
  const Run* chosen = run(head.run);
  const QString chosenName = chosen != nullptr ? chosen->name : QString();
  m_runs = std::move(runs);
  mapPlaces();
  // Views hear of new runs before they hear of the selection in them.
  emit runsChanged();
  if (m_runs.empty()) return;
  if (run(head.run) == nullptr) {
    const auto same =
        std::find_if(m_runs.begin(), m_runs.end(), [&](const Run& run) { return run.name == chosenName; });
    const Run& next = same == m_runs.end() ? m_runs.front() : *same;
    HeadChoice choice{next.id, head.layer, head.head};
    if (head.run == kNoRun || !headOf(choice)) choice = {next.id, next.telling.layer, next.telling.head};
    m_selection.setHead(choice);
  }
  const std::shared_ptr<const TokenTable>& now = reference()->trace->tokens();
  if (!tokens || before != length() || tokens->id != now->id) {
    m_selection.setPin({});
    m_selection.setHover({});
    m_selection.resetView(length());
  }
  restoreSelection();
}

void Document::restoreSelection() {
  if (m_wantedSelection.isEmpty()) return;
  const SelectionState state = SelectionState::fromJson(m_wantedSelection);
  const auto found = std::find_if(m_runs.begin(), m_runs.end(), [&](const Run& run) { return run.name == state.run; });
  if (found == m_runs.end()) return;
  m_wantedSelection = {};
  const HeadChoice choice{found->id, state.layer, state.head};
  if (headOf(choice)) m_selection.setHead(choice);
  const auto inside = [&](const std::optional<std::int64_t>& position) {
    return position && *position >= 0 && *position < length() ? position : std::nullopt;
  };
  m_selection.setPin({inside(state.pin.query), inside(state.pin.key)});
  const auto fits = [&](const Range& range) { return range.begin >= 0 && range.size() > 0 && range.end <= length(); };
  if (fits(state.view.rows) && fits(state.view.columns)) m_selection.setView(state.view);
  m_selection.endMovement();
}

void Document::saveSession(const QString& path, const QJsonObject& windowState) {
  Session session;
  session.models = m_models;
  session.text = m_text;
  session.settings = m_settings;
  for (const Run& run : m_runs) {
    if (!run.file.isEmpty() && !session.runFiles.contains(run.file)) session.runFiles += run.file;
  }
  const Run* chosen = run(m_selection.head().run);
  session.selection = SelectionState{chosen != nullptr ? chosen->name : QString(), m_selection.head().layer,
                                     m_selection.head().head, m_selection.pin(), m_selection.view()}
                          .toJson();
  session.window = windowState;
  JobRunner::Request<bool> request;
  request.work = [session, path](const Job&) {
    session.write(path);
    return std::optional<bool>(true);
  };
  request.done = [this, path](bool) {
    m_sessionFile = path;
    tell(Message::Kind::note, tr("Saved %1").arg(path));
    emit pathOpened(path);
  };
  request.failed = [this](const QString& message) { tell(Message::Kind::error, message); };
  m_jobs.submit(this, kSaveSession, std::move(request));
}

void Document::tell(Message::Kind kind, const QString& text) { emit messageRaised({kind, text}); }

}  // namespace foxscope::gui
