#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <QString>
#include <QStringList>

#include "app/gui/document/runs/run.h"
#include "backend/base/job.h"

namespace foxscope {
struct RunRequest;
}

namespace foxscope::gui {

/// A model on another machine, before it runs.
struct ModelThere {
  /// A device that it can run on: the word of --device, and what people call it.
  struct Device {
    QString word;
    QString words;
  };
  QString facts;                ///< "FoX (Pro), 12M parameters, 8 layers of 4 heads, 23 MB"; empty for a training
  QStringList notes;            ///< what the user should be told of it
  std::vector<Device> devices;  ///< the best first
};

/// Asks the machine what a model is, and which devices there are.
/// @param url       of a checkpoint or a training
/// @param training  whether it is a training, of which only the devices are asked
/// @returns nothing if the job was stopped
/// @throws Error with the remedy
std::optional<ModelThere> modelThere(const QString& url, bool training, const Job& job);

/// The SHA-256 of a checkpoint's weights on another machine, where all of them are read for it.
/// @returns nothing if the job was stopped
/// @throws Error with the remedy
std::optional<std::string> weightsThere(const QString& url, const Job& job);

/// A run that was made on another machine, and what was said of it.
struct MadeThere {
  Run run;  ///< its file lies there, in the folder that keeps runs until they are saved
  QStringList notes;
};

/// Runs a model where it lies, over its program's command line, and opens the run from here.
/// @param model     its path is an URL
/// @param settings  of runs; where the model names no device, theirs is taken
/// @param request   what is read and kept
/// @returns nothing if the job was stopped, which ends the run there
/// @throws Error with the remedy
std::optional<MadeThere> runThere(const ModelInput& model, const RunSettings& settings, const RunRequest& request,
                                  const Job& job);

}  // namespace foxscope::gui
