#include "app/gui/document/runs/evaluated_model.h"

#include <algorithm>
#include <utility>

#include <QCoreApplication>

#include "app/gui/document/runs/sweeps.h"
#include "backend/base/error.h"
#include "backend/model/session/engine.h"

namespace foxscope::gui {

std::vector<ModelInput> changedAlike(std::vector<ModelInput> models, const TraceInfo& evaluated) {
  const std::vector<Intervention> changes = interventionsOf(evaluated);
  const auto same = [](const QString& text, const Intervention& change) {
    try {
      return Intervention::parse(text.toStdString()) == change;
    } catch (const Error&) {
      return false;  // a session may say anything there
    }
  };
  std::erase_if(models,
                [&](const ModelInput& input) { return !std::ranges::equal(input.interventions, changes, same); });
  return models;
}

std::optional<std::string> folderOf(const TraceInfo& evaluated, const std::vector<ModelInput>& models,
                                    const Engine& engine, const Job& job, const QString& what) {
  for (const ModelInput& model : models) {
    if (model.name.toStdString() == evaluated.name) return model.path.toStdString();
  }
  for (const ModelInput& model : models) {
    ModelRequest request;
    request.name = model.name.toStdString();
    request.model = model.path.toStdString();
    const auto described = engine.open(request).describe(1, job);
    if (!described) return std::nullopt;
    if (described->weights_sha256 == evaluated.weights_sha256) return request.model;
  }
  throw Error(
      QCoreApplication::translate(
          "foxscope::gui", "To open %1, first open the checkpoint folder of %2 (Ctrl+O): no open model has its weights")
          .arg(what, QString::fromStdString(evaluated.name))
          .toStdString());
}

}  // namespace foxscope::gui
