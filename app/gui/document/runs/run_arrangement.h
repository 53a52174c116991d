#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <QString>
#include <QStringList>

#include "app/gui/document/places.h"
#include "app/gui/document/runs/run.h"
#include "app/gui/document/session.h"

// How runs stand in a list: their order, names, looks, and which of them read the same text.
namespace foxscope::gui {

/// A run with its model where that is there, or a model that has not run.
struct ListRow {
  std::optional<int> model;  ///< place among the models
  RunId run = kNoRun;
};

/// A model's name on screen; a changed one is "fox-pro-12m, L3 H0, gate 1".
[[nodiscard]] inline QString shownName(const ModelInput& model) {
  return model.look.label.isEmpty() ? model.name : model.look.label;
}
/// The name of the text that a run read: the text's file, else what it was called, else the run's
/// own file, else "typed text".
[[nodiscard]] QString textNameOf(const Run& run);

/// The runs in their order, then the models that have not run.
[[nodiscard]] std::vector<ListRow> listRows(const std::vector<Run>& runs, const std::vector<ModelInput>& models);
/// The name, with a number behind it where a model has that name already.
[[nodiscard]] QString freeModelName(const std::vector<ModelInput>& models, const QString& wanted);
/// The colour that fewest have, so that two share one only when there is no other.
[[nodiscard]] int freeColour(const std::vector<Run>& runs, const std::vector<ModelInput>& models);
/// The look of a changed copy of a model: the model's colour with another line, its name with the change.
[[nodiscard]] RunLook lookOfChanged(const std::vector<ModelInput>& models, const ModelInput& base,
                                    const QStringList& interventions);

/// Puts a run that a model has made in the place of the one before. The runs that models made stand in the order of
/// their models, unless they were put into another one. Runs of models on another text go; runs of files stay.
void placeMade(std::vector<Run>& runs, const std::vector<ModelInput>& models, const Run& made);
/// Puts runs that a session names into the session's order, the others behind them.
void sortAsInSession(std::vector<Run>& runs, const std::vector<SessionRun>& session);

/// Whether two runs read the same text: by the text where both hold it, by their tokens where neither does.
[[nodiscard]] bool sameText(const Trace& a, const Trace& b);
/// Gives each run the number of its text (Run::text).
/// @param before  the runs that have numbers: an equal text keeps its number
/// @param last    the highest number that was ever given; counted up
void numberTexts(std::vector<Run>& runs, const std::vector<Run>& before, int& last);
/// Gives each run the name under which it is shown (Run::name). A run keeps the name that it was given or that its
/// model has; of files the name of the file is added where it is needed. Wherever a name is shown it says that a run's
/// file was not checked.
void nameApart(std::vector<Run>& runs);

/// The first run on a text, one that is not hidden if there is any; null where there is none.
[[nodiscard]] const Run* referenceAmong(const std::vector<Run>& runs, int text);
/// Positions of the first run on a run's text in that run, and back. Null: they are the same, for that first run.
struct RunPlaces {
  std::shared_ptr<const PlaceMap> fromReference;
  std::shared_ptr<const PlaceMap> toReference;
};
/// The positions of every run but the references.
[[nodiscard]] std::map<RunId, RunPlaces> mapPlaces(const std::vector<Run>& runs);

}  // namespace foxscope::gui
