#include "app/gui/document/runs/run_arrangement.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <QFileInfo>
#include <QObject>

#include "app/figure/curves/curve_palette.h"
#include "app/gui/document/runs/intervention_text.h"
#include "backend/base/index.h"

namespace foxscope::gui {

QString textNameOf(const Run& run) {
  if (!run.textFile.isEmpty()) return QFileInfo(run.textFile).fileName();
  if (!run.textName.isEmpty()) return run.textName;
  return run.file.isEmpty() ? QObject::tr("typed text")
                            : QObject::tr("the text of %1").arg(QFileInfo(run.file).fileName());
}

std::vector<ListRow> listRows(const std::vector<Run>& runs, const std::vector<ModelInput>& models) {
  std::vector<ListRow> rows;
  const auto modelOf = [&](const Run& run) -> std::optional<int> {
    const auto found = std::ranges::find_if(models, [&](const ModelInput& model) { return run.isOf(model); });
    return found == models.end() ? std::nullopt : std::optional(static_cast<int>(found - models.begin()));
  };
  for (const Run& run : runs) rows.push_back({modelOf(run), run.id});
  for (int index = 0; index < static_cast<int>(models.size()); ++index) {
    const ModelInput& model = models[index_of(index)];
    if (std::ranges::none_of(runs, [&](const Run& run) { return run.isOf(model); })) rows.push_back({index});
  }
  return rows;
}

QString freeModelName(const std::vector<ModelInput>& models, const QString& wanted) {
  QString name = wanted;
  for (int number = 2; std::ranges::find(models, name, &ModelInput::name) != models.end(); ++number) {
    name = QStringLiteral("%1-%2").arg(wanted).arg(number);
  }
  return name;
}

int freeColour(const std::vector<Run>& runs, const std::vector<ModelInput>& models) {
  std::array<int, figure::kCurveColours> uses{};
  const auto count = [&](const RunLook& look) {
    if (look.colour >= 0 && look.change == 0) ++uses[index_of(look.colour % figure::kCurveColours)];
  };
  for (const ModelInput& model : models) count(model.look);
  for (const Run& run : runs) {
    if (std::ranges::none_of(models, [&](const ModelInput& model) { return run.isOf(model); })) count(run.look);
  }
  return static_cast<int>(std::min_element(uses.begin(), uses.end()) - uses.begin());
}

RunLook lookOfChanged(const std::vector<ModelInput>& models, const ModelInput& base, const QStringList& interventions) {
  int change = base.look.change;
  for (const ModelInput& model : models) {
    if (model.path == base.path && model.look.colour == base.look.colour) change = std::max(change, model.look.change);
  }
  const bool again = !base.interventions.isEmpty() && !base.look.label.isEmpty();
  const QString name = shownName(base);
  const QString label =
      again ? name + QStringLiteral("; ") + changedName({}, interventions).mid(2) : changedName(name, interventions);
  return {label, base.look.colour, change + 1, false};
}

void placeMade(std::vector<Run>& runs, const std::vector<ModelInput>& models, const Run& made) {
  const auto before = std::ranges::find_if(
      runs, [&](const Run& run) { return run.model == made.model && run.plainName() == made.plainName(); });
  if (before != runs.end()) {
    *before = made;
  } else {
    const auto orderOf = [&](const Run& run) {
      return std::ranges::find_if(models, [&](const ModelInput& model) { return run.isOf(model); }) - models.begin();
    };
    const auto later = std::ranges::find_if(runs, [&](const Run& run) {
      return !run.model.isEmpty() && orderOf(run) > orderOf(made) && orderOf(run) < std::ssize(models);
    });
    runs.insert(later, made);
  }
  std::erase_if(runs, [&](const Run& run) { return !run.model.isEmpty() && !sameText(*run.trace, *made.trace); });
}

void sortAsInSession(std::vector<Run>& runs, const std::vector<SessionRun>& session) {
  if (session.empty()) return;
  const auto orderOf = [&](const Run& run) {
    return std::ranges::find_if(session, [&](const SessionRun& entry) { return entry.isOf(run); }) - session.begin();
  };
  std::stable_sort(runs.begin(), runs.end(), [&](const Run& a, const Run& b) { return orderOf(a) < orderOf(b); });
}

bool sameText(const Trace& a, const Trace& b) {
  if (a.text() && b.text()) return same_text(*a.text(), *b.text());
  return !a.text() && !b.text() && a.tokens()->id == b.tokens()->id;
}

void numberTexts(std::vector<Run>& runs, const std::vector<Run>& before, int& last) {
  const auto among = [](const std::vector<Run>& others, const Run& run) {
    const auto same = std::ranges::find_if(
        others, [&](const Run& other) { return other.text != 0 && sameText(*other.trace, *run.trace); });
    return same == others.end() ? 0 : same->text;
  };
  // A run that comes back may find its text under another number.
  for (Run& run : runs) {
    if (std::ranges::find(before, run.id, &Run::id) == before.end()) run.text = 0;
  }
  for (Run& run : runs) {
    if (run.text == 0) run.text = among(before, run);
    if (run.text == 0) run.text = among(runs, run);
    if (run.text == 0) run.text = ++last;
  }
}

void nameApart(std::vector<Run>& runs) {
  const auto plain = [](const Run& run) { return run.look.label.isEmpty() ? run.plainName() : run.look.label; };
  std::map<QString, int> wanted;
  for (const Run& run : runs) ++wanted[plain(run)];
  std::map<QString, int> taken;
  for (Run& run : runs) {
    const bool alone = wanted[plain(run)] == 1 || !run.model.isEmpty() || !run.look.label.isEmpty();
    run.name = alone ? plain(run) : run.nameWithFile();
    const int number = ++taken[run.name];
    if (number > 1) run.name += QStringLiteral(" (%1)").arg(number);
    if (run.trace->info().unchecked) run.name = QObject::tr("unchecked ") + run.name;  // where names are cut, too
  }
}

const Run* referenceAmong(const std::vector<Run>& runs, int text) {
  const Run* first = nullptr;
  for (const Run& run : runs) {
    if (run.text != text) continue;
    if (!run.look.hidden) return &run;
    if (first == nullptr) first = &run;
  }
  return first;
}

std::map<RunId, RunPlaces> mapPlaces(const std::vector<Run>& runs) {
  std::map<RunId, RunPlaces> places;
  for (const Run& run : runs) {
    const Run& reference = *referenceAmong(runs, run.text);
    if (&run == &reference) continue;
    const auto& own = run.trace->tokens();
    const auto& theirs = reference.trace->tokens();
    places.emplace(run.id, RunPlaces{std::make_shared<const PlaceMap>(theirs, own),
                                     std::make_shared<const PlaceMap>(own, theirs)});
  }
  return places;
}

}  // namespace foxscope::gui
