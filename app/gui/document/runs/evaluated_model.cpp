#include "app/gui/document/runs/evaluated_model.h"

#include <algorithm>
#include <utility>

#include <QCoreApplication>

#include "app/gui/document/remote/remote_model.h"
#include "app/gui/document/remote/remote_place.h"
#include "app/gui/document/runs/sweeps.h"
#include "backend/base/error.h"
#include "backend/model/session/engine.h"

namespace foxscope::gui {
namespace {

/// The checksum of a model's weights, here or where it lies. @returns nothing if the job was stopped
std::optional<std::string> weightsOf(const ModelInput& model, const Engine& engine, const Job& job) {
  if (isRemote(model.path)) return weightsThere(model.path, job);
  ModelRequest request;
  request.name = model.name.toStdString();
  request.model = model.path.toStdString();
  return engine.open(request).weights_sha256(job);
}

}  // namespace

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

std::optional<std::string> folderOf(const TraceInfo& evaluated, std::vector<ModelInput> models, const Engine& engine,
                                    const Job& job, const QString& what) {
  // Checksums are those of whole weights: what most likely has them, and is here, comes first.
  std::ranges::stable_sort(models, {}, [&evaluated](const ModelInput& model) {
    return std::pair(isRemote(model.path), model.name.toStdString() != evaluated.name);
  });
  QString unread;
  for (const ModelInput& model : models) {
    if (evaluated.weights_sha256.empty()) {
      if (model.name.toStdString() == evaluated.name) return model.path.toStdString();
      continue;
    }
    try {
      const auto weights = weightsOf(model, engine, job);
      if (!weights) return std::nullopt;
      if (*weights == evaluated.weights_sha256) return model.path.toStdString();
    } catch (const Error& error) {  // a later one may have them
      if (unread.isEmpty()) unread = QStringLiteral(" (%1)").arg(QString::fromUtf8(error.what()));
    }
  }
  throw Error(
      QCoreApplication::translate(
          "foxscope::gui", "To open %1, first open the checkpoint folder of %2 (Ctrl+O): no open model has its weights")
          .arg(what, QString::fromStdString(evaluated.name))
          .append(unread)
          .toStdString());
}

}  // namespace foxscope::gui
