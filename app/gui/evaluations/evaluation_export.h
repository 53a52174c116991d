#pragma once

#include <string>
#include <vector>

#include "app/figure/figure_style.h"
#include "app/figure/kinds/loss_source.h"
#include "app/gui/document/evaluation_list.h"
#include "app/gui/document/file_writer.h"
#include "app/gui/document/runs/run_list.h"

namespace foxscope::gui::evaluations {

/// Names of the models that are hidden in the list of runs: their evaluations are left out.
std::vector<std::string> hiddenModels(const RunList& runs);

/// The models of all loss evaluations that are open, each under a name of its own.
/// @param hidden  models that are left out
std::vector<figure::LossSource> lossSources(const std::vector<Evaluation>& evaluations,
                                            const std::vector<std::string>& hidden);

/// The evaluations of one kind, without what is hidden.
std::vector<std::shared_ptr<const NeedleEvaluation>> shownNeedles(const EvaluationList& evaluations,
                                                                  const RunList& runs);
std::vector<std::shared_ptr<const HeadsEvaluation>> shownHeads(const EvaluationList& evaluations, const RunList& runs);

/// Looks of models by name: the look of an open run of the model, else a colour that no other model has.
std::vector<std::pair<std::string, figure::CurveLook>> looksOf(const std::vector<std::string>& names,
                                                               const RunList& runs);

/// Writes a text in the background.
void exportText(FileWriter& files, const QString& path, const std::string& text);

}  // namespace foxscope::gui::evaluations
