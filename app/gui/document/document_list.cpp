// The list of a document's runs: their order, names and looks.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <QFileInfo>

#include "app/figure/curves/curve_palette.h"
#include "app/gui/document/document.h"
#include "app/gui/document/intervention_text.h"

namespace foxscope::gui {

std::vector<Document::ListRow> Document::listRows() const {
  std::vector<ListRow> rows;
  const auto modelOf = [this](const Run& run) -> std::optional<int> {
    const auto found =
        std::find_if(m_models.begin(), m_models.end(), [&](const ModelInput& model) { return run.isOf(model); });
    return found == m_models.end() ? std::nullopt : std::optional(static_cast<int>(found - m_models.begin()));
  };
  for (const Run& run : m_runs) rows.push_back({modelOf(run), run.id});
  for (int index = 0; index < static_cast<int>(m_models.size()); ++index) {
    const ModelInput& model = m_models[static_cast<std::size_t>(index)];
    if (std::none_of(m_runs.begin(), m_runs.end(), [&](const Run& run) { return run.isOf(model); }))
      rows.push_back({index});
  }
  return rows;
}

QString Document::nameOf(const ListRow& row) const {
  if (const Run* shown = run(row.run)) return shown->name;
  return shownName(m_models[static_cast<std::size_t>(*row.model)]);
}

QString Document::textNameOf(const Run& run) {
  if (!run.textFile.isEmpty()) return QFileInfo(run.textFile).fileName();
  return run.file.isEmpty() ? tr("typed text") : tr("the text of %1").arg(QFileInfo(run.file).fileName());
}

const RunLook& Document::lookOf(const ListRow& row) const {
  const Run* shown = run(row.run);
  return shown != nullptr ? shown->look : m_models[static_cast<std::size_t>(*row.model)].look;
}

void Document::setLook(const ListRow& row, const RunLook& look) {
  if (look == lookOf(row)) return;
  if (row.model) m_models[static_cast<std::size_t>(*row.model)].look = look;
  if (run(row.run) == nullptr) {
    emit inputsChanged();
    return;
  }
  std::vector<Run> runs = m_runs;
  std::find_if(runs.begin(), runs.end(), [&](const Run& each) { return each.id == row.run; })->look = look;
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
  if (!headOf(choice)) choice = {next->id, next->telling.layer, next->telling.head};
  m_selection.setHead(choice);
}

void Document::moveRow(int from, int to) {
  std::vector<ListRow> rows = listRows();
  const int runCount = static_cast<int>(m_runs.size());
  const int count = static_cast<int>(rows.size());
  if (from < 0 || from >= count) return;
  to = from < runCount ? std::clamp(to, 0, runCount - 1) : std::clamp(to, runCount, count - 1);
  if (from == to) return;
  const ListRow moved = rows[static_cast<std::size_t>(from)];
  rows.erase(rows.begin() + from);
  rows.insert(rows.begin() + to, moved);
  m_sessionRuns.clear();
  std::vector<ModelInput> models;
  std::vector<Run> runs;
  for (const ListRow& row : rows) {
    if (row.model) models.push_back(m_models[static_cast<std::size_t>(*row.model)]);
    if (const Run* each = run(row.run)) runs.push_back(*each);
  }
  m_models = std::move(models);
  if (from < runCount) takeRuns(std::move(runs));
  emit inputsChanged();
}

void Document::removeRow(const ListRow& row) { row.model ? removeModel(*row.model) : removeRun(row.run); }

const Run* Document::baseOf(const Run& run) const {
  const auto named = [&](const Run& other) {
    // Of a training's model another checkpoint may be shown by now.
    const bool sameModel = run.model.isEmpty() || other.model.isEmpty() || other.model == run.model;
    return other.id != run.id && other.text == run.text && other.plainName() == run.base && sameModel;
  };
  auto found = run.base.isEmpty() ? m_runs.end() : std::find_if(m_runs.begin(), m_runs.end(), named);
  // What comes from a file names no other run: the unchanged one has its weights, and read its text.
  const TraceInfo& info = run.trace->info();
  if (found == m_runs.end() && !info.intervention.empty() && !info.weights_sha256.empty()) {
    found = std::find_if(m_runs.begin(), m_runs.end(), [&](const Run& other) {
      const TraceInfo& theirs = other.trace->info();
      return other.text == run.text && theirs.intervention.empty() && theirs.weights_sha256 == info.weights_sha256;
    });
  }
  return found == m_runs.end() ? nullptr : &*found;
}

// The colour that fewest have, so that two share one only when there is no other.
int Document::freeColour() const {
  std::array<int, figure::kCurveColours> uses{};
  const auto count = [&](const RunLook& look) {
    if (look.colour >= 0 && look.change == 0) ++uses[static_cast<std::size_t>(look.colour % figure::kCurveColours)];
  };
  for (const ModelInput& model : m_models) count(model.look);
  for (const Run& run : m_runs) {
    if (std::none_of(m_models.begin(), m_models.end(), [&](const ModelInput& model) { return run.isOf(model); }))
      count(run.look);
  }
  return static_cast<int>(std::min_element(uses.begin(), uses.end()) - uses.begin());
}

RunLook Document::lookOfChanged(const ModelInput& base, const QStringList& interventions) const {
  int change = base.look.change;
  for (const ModelInput& model : m_models) {
    if (model.path == base.path && model.look.colour == base.look.colour) change = std::max(change, model.look.change);
  }
  const bool again = !base.interventions.isEmpty() && !base.look.label.isEmpty();
  const QString name = shownName(base);
  const QString label =
      again ? name + QStringLiteral("; ") + changedName({}, interventions).mid(2) : changedName(name, interventions);
  return {label, base.look.colour, change + 1, false};
}

// The runs that models made stand in the order of their models, unless they were put into another one.
void Document::place(std::vector<Run>& runs, Run made) const {
  const auto before = std::find_if(runs.begin(), runs.end(), [&](const Run& run) {
    return run.model == made.model && run.plainName() == made.plainName();
  });
  if (before != runs.end()) {
    *before = made;
  } else {
    const auto orderOf = [this](const Run& run) {
      return std::find_if(m_models.begin(), m_models.end(), [&](const ModelInput& model) { return run.isOf(model); }) -
             m_models.begin();
    };
    const auto later = std::find_if(runs.begin(), runs.end(), [&](const Run& run) {
      return !run.model.isEmpty() && orderOf(run) > orderOf(made) && orderOf(run) < std::ssize(m_models);
    });
    runs.insert(later, made);
  }
  // What models made on another text goes; what files hold stays.
  std::erase_if(runs, [&](const Run& run) { return !run.model.isEmpty() && !sameText(*run.trace, *made.trace); });
}

void Document::sortAsInSession(std::vector<Run>& runs) const {
  if (m_sessionRuns.empty()) return;
  const auto orderOf = [this](const Run& run) {
    return std::find_if(m_sessionRuns.begin(), m_sessionRuns.end(),
                        [&](const SessionRun& entry) { return entry.isOf(run); }) -
           m_sessionRuns.begin();
  };
  std::stable_sort(runs.begin(), runs.end(), [&](const Run& a, const Run& b) { return orderOf(a) < orderOf(b); });
}

// A run keeps the name that it was given or that its model has; of files the name of the file is added where it is
// needed. Wherever a name is shown it says that a run's file was not checked.
void Document::nameApart(std::vector<Run>& runs) const {
  const auto plain = [](const Run& run) { return run.look.label.isEmpty() ? run.plainName() : run.look.label; };
  std::map<QString, int> wanted;
  for (const Run& run : runs) ++wanted[plain(run)];
  std::map<QString, int> taken;
  for (Run& run : runs) {
    const bool alone = wanted[plain(run)] == 1 || !run.model.isEmpty() || !run.look.label.isEmpty();
    run.name = alone ? plain(run) : run.nameWithFile();
    const int number = ++taken[run.name];
    if (number > 1) run.name += QStringLiteral(" (%1)").arg(number);
    if (run.trace->info().unchecked) run.name = tr("unchecked ") + run.name;  // where names are cut, too
  }
}

}  // namespace foxscope::gui
