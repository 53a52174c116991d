#pragma once

#include <string>
#include <vector>

#include "app/figure/figure_style.h"
#include "app/figure/kinds/loss_source.h"
#include "app/gui/document/document.h"

namespace foxscope::gui::evaluations {

/// Names of the models that are hidden in the list of runs: their evaluations are left out.
std::vector<std::string> hiddenModels(const Document& document);

/// The models of all loss evaluations that are open, each under a name of its own.
/// @param hidden  models that are left out
std::vector<figure::LossSource> lossSources(const std::vector<Evaluation>& evaluations,
                                            const std::vector<std::string>& hidden);

/// The evaluations of one kind, without what is hidden.
std::vector<std::shared_ptr<const NeedleEvaluation>> shownNeedles(const Document& document);
std::vector<std::shared_ptr<const HeadsEvaluation>> shownHeads(const Document& document);

/// Looks of models by name: that of an open run of the model, else a colour that no other has.
std::vector<std::pair<std::string, figure::CurveLook>> looksOf(const std::vector<std::string>& names,
                                                               const Document& document);

/// Writes a text in the background.
void exportText(Document& document, const QString& path, const std::string& text);

}  // namespace foxscope::gui::evaluations
