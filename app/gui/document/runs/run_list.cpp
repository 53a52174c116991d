#include "app/gui/document/runs/run_list.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include <QDir>
#include <QFileInfo>
#include <QLoggingCategory>
#include <QThread>
#include <QUndoCommand>

#include "app/gui/document/opened_path.h"
#include "app/gui/document/remote/remote_place.h"
#include "app/gui/document/session_store.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

Q_LOGGING_CATEGORY(selectionLog, "foxscope.session", QtWarningMsg)

/// "hide fox", "rename fox": what a look changes.
QString wordsOfLook(const RunLook& before, const RunLook& after, const QString& name) {
  if (before.hidden != after.hidden) return (after.hidden ? RunList::tr("hide %1") : RunList::tr("show %1")).arg(name);
  return (before.label != after.label ? RunList::tr("rename %1") : RunList::tr("recolour %1")).arg(name);
}

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
class RunList::Removal : public QUndoCommand {
 public:
  Removal(RunList& list, std::optional<int> model, const std::vector<RunId>& ids, const QString& what)
      : QUndoCommand(RunList::tr("remove %1").arg(what)), m_list(list) {
    if (model) m_model = {*model, list.m_models[index_of(*model)]};
    for (std::size_t place = 0; place < list.m_runs.size(); ++place) {
      const Run& run = list.m_runs[place];
      if (std::find(ids.begin(), ids.end(), run.id) != ids.end()) m_runs.emplace_back(place, run);
    }
  }

  void redo() override {
    if (m_model) {
      auto& models = m_list.m_models;
      const auto gone = [&](const ModelInput& model) { return model.name == m_model->second.name; };
      const auto place = std::find_if(models.begin(), models.end(), gone);
      if (place != models.end()) m_model->second = *place;
      std::erase_if(models, gone);
      emit m_list.modelsChanged();
    }
    if (m_runs.empty()) return;
    std::vector<Run> kept = m_list.m_runs;
    for (auto& gone : m_runs) {
      if (const Run* now = m_list.run(gone.second.id)) gone.second = *now;
      std::erase_if(kept, [&](const Run& run) { return run.id == gone.second.id; });
    }
    m_list.takeRuns(std::move(kept));
  }

  void undo() override {
    if (m_model) {
      auto& models = m_list.m_models;
      const auto place = std::min<std::size_t>(static_cast<std::size_t>(m_model->first), models.size());
      // The model may have been opened again meanwhile.
      m_model->second.name = freeModelName(models, m_model->second.name);
      models.insert(models.begin() + static_cast<std::ptrdiff_t>(place), m_model->second);
      emit m_list.modelsChanged();
    }
    if (m_runs.empty()) return;
    std::vector<Run> runs = m_list.m_runs;
    for (const auto& [place, run] : m_runs) {
      runs.insert(runs.begin() + static_cast<std::ptrdiff_t>(std::min(place, runs.size())), run);
    }
    m_list.takeRuns(std::move(runs));
  }

 private:
  RunList& m_list;
  std::optional<std::pair<int, ModelInput>> m_model;
  std::vector<std::pair<std::size_t, Run>> m_runs;  ///< with their places, rising
};

/// Other locked pairs of one text, which need not be the one shown when this is undone.
class RunList::LockChange : public QUndoCommand {
 public:
  LockChange(RunList& list, const std::vector<Cursor>& after, const QString& what)
      : QUndoCommand(what),
        m_list(list),
        m_text(list.m_shownText),
        m_before(list.m_selection.locks()),
        m_after(after) {}
  void redo() override { set(m_after); }
  void undo() override { set(m_before); }

 private:
  void set(const std::vector<Cursor>& locks) {
    if (m_text == m_list.m_shownText) {
      m_list.m_selection.setLocks(m_list.inText(locks));
    } else if (const auto left = m_list.m_leftPlaces.find(m_text); left != m_list.m_leftPlaces.end()) {
      left->second.locks = locks;
    }
  }

  RunList& m_list;
  int m_text;
  std::vector<Cursor> m_before;
  std::vector<Cursor> m_after;
};

/// Another look of a run and its model, or of the run that the model has made meanwhile.
class RunList::LookChange : public QUndoCommand {
 public:
  LookChange(RunList& list, const ListRow& row, const RunLook& after)
      : QUndoCommand(wordsOfLook(list.lookOf(row), after, list.nameOf(row))),
        m_list(list),
        m_run(row.run),
        m_model(row.model ? list.m_models[index_of(*row.model)].name : QString()),
        m_before(list.lookOf(row)),
        m_after(after) {}
  void redo() override { m_list.takeLook(m_run, m_model, m_after); }
  void undo() override { m_list.takeLook(m_run, m_model, m_before); }

 private:
  RunList& m_list;
  RunId m_run;
  QString m_model;  ///< empty: none
  RunLook m_before;
  RunLook m_after;
};

/// Another order of runs and models.
class RunList::OrderChange : public QUndoCommand {
 public:
  OrderChange(RunList& list, Order after, const QString& what)
      : QUndoCommand(what), m_list(list), m_before(list.order()), m_after(std::move(after)) {}
  void redo() override { m_list.take(m_after); }
  void undo() override { m_list.take(m_before); }

 private:
  RunList& m_list;
  Order m_before;
  Order m_after;
};

RunList::RunList(QObject* parent) : QObject(parent), m_jobs(Threads::lent), m_quick(Threads::lent) {
  // This comes before any view: they ask for positions of the reference when they hear of the head.
  connect(&m_selection, &Selection::headChanged, this, &RunList::followHead);
}

RunList::~RunList() = default;

const Run* RunList::run(RunId id) const {
  const auto found = std::find_if(m_runs.begin(), m_runs.end(), [&](const Run& run) { return run.id == id; });
  return found == m_runs.end() ? nullptr : &*found;
}

const Run* RunList::baseOf(const Run& run) const {
  const auto named = [&](const Run& other) {
    // A training's model may show another checkpoint by now.
    const bool sameModel = run.model.isEmpty() || other.model.isEmpty() || other.model == run.model;
    return other.id != run.id && other.text == run.text && other.plainName() == run.base && sameModel;
  };
  auto found = run.base.isEmpty() ? m_runs.end() : std::find_if(m_runs.begin(), m_runs.end(), named);
  // A run from a file names no other run: the unchanged one has its weights, and read its text.
  const TraceInfo& info = run.trace->info();
  if (found == m_runs.end() && !info.intervention.empty() && !info.weights_sha256.empty()) {
    found = std::find_if(m_runs.begin(), m_runs.end(), [&](const Run& other) {
      const TraceInfo& theirs = other.trace->info();
      return other.text == run.text && theirs.intervention.empty() && theirs.weights_sha256 == info.weights_sha256;
    });
  }
  return found == m_runs.end() ? nullptr : &*found;
}

const Run* RunList::runNamed(const QString& name) const {
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

ModelInput RunList::modelOf(const Run& run) const {
  const auto made =
      std::find_if(m_models.begin(), m_models.end(), [&](const ModelInput& model) { return run.isOf(model); });
  return made != m_models.end() ? *made : ModelInput{run.plainName(), run.model, {}, {}, run.look};
}

std::optional<HeadOf> RunList::headOf(const HeadChoice& choice) const {
  const Run* chosen = run(choice.run);
  if (chosen == nullptr) return std::nullopt;
  const TraceInfo& info = chosen->trace->info();
  if (choice.layer < 0 || choice.layer >= info.layers || choice.head < 0 ||
      choice.head >= info.mixer(choice.layer).heads) {
    return std::nullopt;
  }
  return HeadOf{chosen->trace, choice.layer, choice.head};
}

std::int64_t RunList::length() const {
  const Run* run = reference();
  return run == nullptr ? 0 : run->trace->info().length;
}

std::vector<const Run*> RunList::runsOnText() const {
  std::vector<const Run*> runs;
  for (const Run& run : m_runs) {
    if (run.text == m_shownText && !run.look.hidden) runs.push_back(&run);
  }
  return runs;
}

bool RunList::isOnText(RunId id) const {
  const Run* found = run(id);
  return found != nullptr && found->text == m_shownText;
}

TextPlace RunList::placeIn(int text) const {
  if (text == m_shownText) return {m_selection.pin(), m_selection.view(), m_selection.locks()};
  const auto left = m_leftPlaces.find(text);
  if (left != m_leftPlaces.end()) return left->second;
  const Run* run = referenceOf(text);
  const std::int64_t length = run == nullptr ? 0 : run->trace->info().length;
  return {{}, {{0, length}, {0, length}}, {}};
}

std::optional<std::int64_t> RunList::positionIn(RunId id, std::int64_t position) const {
  if (!isOnText(id)) return std::nullopt;
  const auto places = m_places.find(id);
  return places == m_places.end() ? position : (*places->second.fromReference)(position);
}

RunPlaces RunList::placesOf(RunId id) const {
  const auto places = m_places.find(id);
  return places == m_places.end() ? RunPlaces() : places->second;
}

void RunList::goTo(RunId id, std::int64_t position) {
  if (!isOnText(id)) return;
  const auto places = placesOf(id).toReference;
  const auto place = places ? (*places)(position) : std::optional(position);
  if (place && *place < length()) m_selection.goTo(*place, length());
}

void RunList::lockPair(const Cursor& pair) {
  std::vector<Cursor> locks = m_selection.locks();
  const bool exists = pair.query && pair.key && *pair.key <= *pair.query && inText({pair}).size() == 1;
  if (!exists || std::find(locks.begin(), locks.end(), pair) != locks.end()) return;
  locks.push_back(pair);
  changeLocks(locks, tr("lock a pair"));
}

void RunList::unlockPair(std::size_t place) {
  std::vector<Cursor> locks = m_selection.locks();
  if (place >= locks.size()) return;
  locks.erase(locks.begin() + static_cast<std::ptrdiff_t>(place));
  changeLocks(locks, tr("unlock a pair"));
}

void RunList::unlockAll() {
  if (!m_selection.locks().empty()) changeLocks({}, tr("unlock all pairs"));
}

void RunList::changeLocks(const std::vector<Cursor>& locks, const QString& what) {
  m_undo.push(new LockChange(*this, locks, what));
}

std::vector<Cursor> RunList::inText(const std::vector<Cursor>& pairs) const {
  std::vector<Cursor> inside;
  std::copy_if(pairs.begin(), pairs.end(), std::back_inserter(inside), [&](const Cursor& pair) {
    return pair.query && pair.key && *pair.key >= 0 && *pair.key <= *pair.query && *pair.query < length();
  });
  return inside;
}

QString RunList::nameOf(const ListRow& row) const {
  if (const Run* shown = run(row.run)) return shown->name;
  return shownName(m_models[index_of(*row.model)]);
}

const RunLook& RunList::lookOf(const ListRow& row) const {
  const Run* shown = run(row.run);
  return shown != nullptr ? shown->look : m_models[index_of(*row.model)].look;
}

void RunList::setLook(const ListRow& row, const RunLook& look) {
  if (look != lookOf(row)) m_undo.push(new LookChange(*this, row, look));
}

void RunList::takeLook(RunId id, const QString& model, const RunLook& look) {
  const auto named = [&](const ModelInput& each) { return !model.isEmpty() && each.name == model; };
  const auto owner = std::ranges::find_if(m_models, named);
  std::vector<Run> runs = m_runs;
  auto shown = std::ranges::find(runs, id, &Run::id);
  if (owner != m_models.end()) {
    owner->look = look;
    if (shown == runs.end()) shown = std::ranges::find_if(runs, [&](const Run& each) { return each.isOf(*owner); });
  }
  if (shown == runs.end()) {
    emit modelsChanged();
    return;
  }
  shown->look = look;
  takeRuns(std::move(runs));
  const Run* chosen = run(m_selection.head().run);
  if (chosen == nullptr || !chosen->look.hidden) return;
  const Run* next = reference();
  if (next->look.hidden) {
    const auto seen = std::find_if(m_runs.begin(), m_runs.end(), [](const Run& each) { return !each.look.hidden; });
    if (seen == m_runs.end()) return;
    next = &*seen;
  }
  HeadChoice choice{next->id, m_selection.head().layer, m_selection.head().head};
  if (!headOf(choice)) choice = {next->id, next->representative.layer, next->representative.head};
  m_selection.setHead(choice);
}

RunList::Order RunList::order() const {
  Order order;
  for (const Run& run : m_runs) order.runs.push_back(run.id);
  for (const ModelInput& model : m_models) order.models += model.name;
  return order;
}

// Runs that came meanwhile stand behind those that are named.
void RunList::take(const Order& order) {
  m_sessionRuns.clear();
  const auto place = [&](const Run& run) { return std::ranges::find(order.runs, run.id) - order.runs.begin(); };
  const auto placeOfModel = [&](const ModelInput& model) {
    const qsizetype found = order.models.indexOf(model.name);
    return found < 0 ? order.models.size() : found;
  };
  std::ranges::stable_sort(m_models, {}, placeOfModel);
  std::vector<Run> runs = m_runs;
  std::ranges::stable_sort(runs, {}, place);
  if (!std::ranges::equal(runs, m_runs, {}, &Run::id, &Run::id)) takeRuns(std::move(runs));
  emit modelsChanged();
}

void RunList::changeOrder(const Order& order, const QString& what) {
  if (order != this->order()) m_undo.push(new OrderChange(*this, order, what));
}

void RunList::moveRow(int from, int to) {
  std::vector<ListRow> rows = listRows();
  const int runCount = static_cast<int>(m_runs.size());
  const int count = static_cast<int>(rows.size());
  if (from < 0 || from >= count) return;
  to = from < runCount ? std::clamp(to, 0, runCount - 1) : std::clamp(to, runCount, count - 1);
  if (from == to) return;
  const ListRow moved = rows[index_of(from)];
  rows.erase(rows.begin() + from);
  rows.insert(rows.begin() + to, moved);
  Order order;
  for (const ListRow& row : rows) {
    if (row.model) order.models += m_models[index_of(*row.model)].name;
    if (row.run != kNoRun) order.runs.push_back(row.run);
  }
  changeOrder(order, tr("move %1").arg(nameOf(moved)));
}

void RunList::sortRuns(const std::vector<RunId>& wanted, const QString& what) {
  Order order{wanted, {}};
  for (const RunId id : wanted) {
    const Run* each = run(id);
    if (each != nullptr && !each->model.isEmpty()) order.models += modelOf(*each).name;
  }
  const Order before = this->order();
  std::ranges::copy_if(before.runs, std::back_inserter(order.runs),
                       [&](RunId id) { return std::ranges::find(wanted, id) == wanted.end(); });
  for (const QString& model : before.models) {
    if (!order.models.contains(model)) order.models += model;
  }
  changeOrder(order, what);
}

void RunList::removeRow(const ListRow& row) { row.model ? removeModel(*row.model) : removeRun(row.run); }

void RunList::removeRun(RunId id) {
  if (const Run* gone = run(id)) remove(std::nullopt, {id}, gone->name);
}

void RunList::removeModel(int index) {
  if (index < 0 || index >= static_cast<int>(m_models.size())) return;
  const ModelInput& model = m_models[index_of(index)];
  std::vector<RunId> made;
  for (const Run& run : m_runs) {
    if (run.isOf(model)) made.push_back(run.id);
  }
  remove(index, made, model.name);
}

void RunList::remove(std::optional<int> model, const std::vector<RunId>& ids, const QString& what) {
  m_undo.push(new Removal(*this, model, ids, what), UndoHistory::Weight::heavy);
}

void RunList::addModel(const QString& path, const QString& name, const QString& training, const QString& device) {
  const auto same = [&](const ModelInput& model) {
    if (model.training != training || !model.interventions.isEmpty()) return false;
    return !training.isEmpty() || model.path == path;
  };
  if (std::any_of(m_models.begin(), m_models.end(), same)) return;
  const QString wanted = !name.isEmpty() ? name : nameFromPath(training.isEmpty() ? path : training);
  m_models.push_back({freeModelName(m_models, wanted), path});
  m_models.back().training = training;
  m_models.back().device = device;
  m_models.back().look.colour = freeColour(m_runs, m_models);
  emit modelsChanged();
}

ModelInput RunList::addChanged(const ModelInput& base, const QStringList& interventions) {
  QString name = base.name;
  for (QString part : interventions) {
    name += QLatin1Char('.') + part.replace('*', QStringLiteral("all")).replace(':', '-').remove('=').remove('@');
  }
  const ModelInput changed{freeModelName(m_models, name),
                           base.path,
                           base.interventions + interventions,
                           base.name,
                           lookOfChanged(m_models, base, interventions),
                           {},
                           base.device};
  m_models.push_back(changed);
  emit modelsChanged();
  return changed;
}

void RunList::showCheckpoint(const QString& model, const QString& path, std::optional<Run> made) {
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
    placeMade(runs, m_models, *made);
    takeRuns(std::move(runs));
  }
  emit modelsChanged();
}

RunId RunList::addMade(Run made) {
  made.id = ++m_lastRun;
  made.look = modelOf(made).look;
  std::vector<Run> runs = m_runs;
  // The session that has the run before has all of this one but its saliency.
  const auto before = std::ranges::find_if(runs, [&](const Run& run) {
    const bool same = run.model == made.model && run.plainName() == made.plainName();
    return same && run.trace->info().length == made.trace->info().length && sameText(*run.trace, *made.trace);
  });
  if (before != runs.end() && before->ofSession && made.trace->has(TraceArray::log_forget_gradient)) {
    made.ofSession = true;
    made.saliencyLost = true;
  }
  placeMade(runs, m_models, made);
  sortAsInSession(runs, m_sessionRuns);
  takeRuns(std::move(runs));
  return made.id;
}

std::vector<Run> RunList::runsOfFile(const QString& path, const OpenedRunFile& opened) {
  const auto same = [&](const Run& run) { return !run.file.isEmpty() && samePlace(run.file, path); };
  const auto there = std::find_if(m_runs.begin(), m_runs.end(), same);
  if (there != m_runs.end()) {
    emit messageRaised(
        {Message::Kind::note,
         tr("%1 is open already: to read it again, remove its runs first").arg(QFileInfo(path).fileName())});
    m_selection.setHead({there->id, there->representative.layer, there->representative.head});
    return {};
  }
  // A session has kept one run in a file of its own: it comes back as it was made.
  const auto keeps = std::ranges::find_if(m_wantedRuns, [&](const SessionRun& run) { return run.kept == path; });
  if (keeps != m_wantedRuns.end()) {
    const SessionRun kept = *keeps;
    m_wantedRuns.erase(keeps);
    return keptRun(kept, opened);
  }
  // A session names those of the file's runs that it had open.
  const auto left = [&](const QString& name) {
    const auto ofFile = [&](const SessionRun& run) { return run.file == path; };
    const auto wanted = [&](const SessionRun& run) { return ofFile(run) && run.model == name; };
    return std::any_of(m_wantedRuns.begin(), m_wantedRuns.end(), ofFile) &&
           std::none_of(m_wantedRuns.begin(), m_wantedRuns.end(), wanted);
  };
  std::vector<Run> runs;
  for (std::size_t index = 0; index < opened.file.traces.size(); ++index) {
    const auto& trace = opened.file.traces[index];
    Run run{++m_lastRun, QString::fromStdString(trace->info().name), trace};
    if (left(run.name)) continue;
    run.file = path;
    run.host = hostOf(path);
    run.representative = opened.representative[index];
    run.created =
        tr("%1 by foxscope %2")
            .arg(QString::fromStdString(opened.file.created), QString::fromStdString(opened.file.program_version));
    run.command = QString::fromStdString(opened.file.command_line);
    const auto kept = std::find_if(m_sessionRuns.begin(), m_sessionRuns.end(),
                                   [&](const SessionRun& entry) { return entry.isOf(run); });
    if (kept != m_sessionRuns.end()) run.look = kept->look;
    runs.push_back(std::move(run));
  }
  std::erase_if(m_wantedRuns, [&](const SessionRun& run) { return run.file == path; });
  return runs;
}

std::vector<Run> RunList::keptRun(const SessionRun& kept, const OpenedRunFile& opened) {
  if (opened.file.traces.size() != 1) {
    emit messageRaised({Message::Kind::error,
                        tr("%1: the session's %2 is not in it: press F5 to make it again").arg(kept.kept, kept.model)});
    return {};
  }
  const auto& trace = opened.file.traces.front();
  Run run{++m_lastRun, QString::fromStdString(trace->info().name), trace};
  run.model = kept.path;
  run.kept = kept.kept;
  run.ofSession = kept.ofSession;
  run.forwardSeconds = kept.seconds;
  run.textFile = kept.textFile;
  run.textName = kept.textName;
  run.base = kept.base;
  run.look = kept.look;
  run.representative = opened.representative.front();
  return {run};
}

void RunList::addOfFile(const std::vector<Run>& read) {
  std::vector<Run> runs = m_runs;
  runs.insert(runs.end(), read.begin(), read.end());
  sortAsInSession(runs, m_sessionRuns);
  takeRuns(std::move(runs));
}

void RunList::setFile(const std::vector<RunId>& runs, const QString& file) {
  for (Run& run : m_runs) {
    const bool isWritten = std::find(runs.begin(), runs.end(), run.id) != runs.end();
    if (isWritten && (run.file.isEmpty() || !run.model.isEmpty())) run.file = file;
  }
}

void RunList::setOfSession(const std::vector<RunId>& runs) {
  for (Run& run : m_runs) {
    if (std::ranges::find(runs, run.id) == runs.end()) continue;
    run.ofSession = true;
    // A session of the user's that keeps the run has its saliency too.
    const bool kept = QFileInfo(run.kept).path().endsWith(kRunsFolder);
    run.saliencyLost = !kept && run.trace->has(TraceArray::log_forget_gradient);
  }
}

void RunList::setKept(RunId id, const QString& file) {
  const auto kept = std::ranges::find(m_runs, id, &Run::id);
  if (kept != m_runs.end()) kept->kept = file;
}

QString RunList::keptIn(const QString& path) const {
  const auto found = std::ranges::find_if(m_wantedRuns, [&](const SessionRun& run) { return run.kept == path; });
  return found == m_wantedRuns.end() ? QString() : found->model;
}

void RunList::giveUpKept(const QString& path) {
  const auto gone = std::ranges::find_if(m_wantedRuns, [&](const SessionRun& run) { return run.kept == path; });
  if (gone == m_wantedRuns.end()) return;
  const QString chosen = SelectionState::fromJson(m_wantedSelection).run;
  if (chosen == gone->model || chosen == gone->look.label) m_runUnread = true;
  m_wantedRuns.erase(gone);
  if (!m_runs.empty()) restoreSelection();
}

SelectionState RunList::selectionState() const {
  const Run* chosen = run(m_selection.head().run);
  return {chosen != nullptr ? chosen->name : QString(),
          m_selection.head().layer,
          m_selection.head().head,
          m_selection.pin(),
          m_selection.view(),
          m_selection.locks()};
}

SelectionState RunList::selectionToKeep() const {
  const SelectionState shown = selectionState();
  const SelectionState wanted = SelectionState::fromJson(m_wantedSelection);
  return !wanted.run.isEmpty() && (m_runs.empty() || shown == m_meanwhile) ? wanted : shown;
}

void RunList::replace(const std::vector<ModelInput>& models, const std::vector<SessionRun>& runs,
                      const QJsonObject& selection) {
  m_models.clear();
  for (const ModelInput& model : models) {
    m_models.push_back(model);
    if (model.look.colour < 0) m_models.back().look.colour = freeColour(m_runs, m_models);
  }
  m_wantedSelection = selection;
  m_runUnread = false;
  m_placeRestored = false;
  m_wantedRuns = runs;
  m_sessionRuns = runs;
  m_undo.clear();
  emit modelsChanged();
  takeRuns({});
}

void RunList::takeRuns(std::vector<Run> runs) {
  assert(QThread::currentThread() == thread());
  const std::int64_t before = length();
  const std::shared_ptr<const TokenTable> tokens = m_runs.empty() ? nullptr : reference()->trace->tokens();
  const HeadChoice head = m_selection.head();
  const Run* chosen = run(head.run);
  const QString chosenName = chosen != nullptr ? chosen->name : QString();
  numberTexts(runs, m_runs, m_lastText);
  nameApart(runs);
  m_runs = std::move(runs);
  for (Run& run : m_runs) {
    if (run.look.colour < 0) run.look.colour = freeColour(m_runs, m_models);
  }
  const Run* next = run(head.run);
  if (next == nullptr) next = runNamed(chosenName);
  if (next == nullptr && !m_runs.empty()) next = &m_runs.front();
  const int text = next != nullptr ? next->text : 0;
  const bool otherText = text != m_shownText;
  if (otherText) leaveText();
  m_shownText = text;
  m_places = mapPlaces(m_runs);
  // Views hear of new runs before they hear of the selection in them.
  emit runsChanged();
  if (m_runs.empty()) return m_leftPlaces.clear();
  if (run(head.run) == nullptr) {
    HeadChoice choice{next->id, head.layer, head.head};
    if (head.run == kNoRun || !headOf(choice))
      choice = {next->id, next->representative.layer, next->representative.head};
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

void RunList::followHead() {
  const Run* chosen = run(m_selection.head().run);
  if (chosen == nullptr || chosen->text == m_shownText) return;
  leaveText();
  m_shownText = chosen->text;
  emit referenceChanged();
  enterText(m_shownText);
}

void RunList::leaveText() { m_leftPlaces[m_shownText] = {m_selection.pin(), m_selection.view(), m_selection.locks()}; }

void RunList::enterText(int text) {
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

void RunList::restoreSelection() {
  if (m_wantedSelection.isEmpty()) return;
  const SelectionState state = SelectionState::fromJson(m_wantedSelection);
  const Run* found = runNamed(state.run);
  if (found == nullptr) {
    qCDebug(selectionLog).noquote() << "the selection waits for the run" << state.run;
    if (m_runUnread && !m_placeRestored && isPlaceOf(state.run)) {
      m_placeRestored = true;
      restorePlace(state);
    }
    m_meanwhile = selectionState();
    return;
  }
  m_wantedSelection = {};
  const HeadChoice choice{found->id, state.layer, state.head};
  if (headOf(choice)) m_selection.setHead(choice);
  // Pins that were shown, and perhaps changed, while their run was missing stay.
  if (!m_placeRestored || m_selection.pin() == Cursor()) restorePlace(state);
}

// A session that keeps its runs says what each read.
bool RunList::isPlaceOf(const QString& run) const {
  const Run* shown = reference();
  const auto named = [&](const SessionRun& entry) { return entry.model == run || entry.look.label == run; };
  const auto entry = std::ranges::find_if(m_sessionRuns, named);
  return shown != nullptr && entry != m_sessionRuns.end() && shown->textFile == entry->textFile &&
         shown->textName == entry->textName;
}

void RunList::restorePlace(const SelectionState& state) {
  const auto inside = [&](const std::optional<std::int64_t>& position) {
    return position && *position >= 0 && *position < length() ? position : std::nullopt;
  };
  m_selection.setPin({inside(state.pin.query), inside(state.pin.key)});
  m_selection.setLocks(inText(state.locks));
  const auto fits = [&](const Range& range) { return range.begin >= 0 && range.size() > 0 && range.end <= length(); };
  if (fits(state.view.rows) && fits(state.view.columns)) m_selection.setView(state.view);
  m_selection.endMovement();
}

}  // namespace foxscope::gui
