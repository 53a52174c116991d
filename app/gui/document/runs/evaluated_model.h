#pragma once

#include <optional>
#include <string>
#include <vector>

#include <QString>

#include "app/gui/document/runs/run.h"
#include "backend/base/job.h"
#include "backend/trace/trace.h"

namespace foxscope {
class Engine;
}

namespace foxscope::gui {

/// Models of the window that have the changes that an evaluated one had, which are part of what its file shows.
std::vector<ModelInput> changedAlike(std::vector<ModelInput> models, const TraceInfo& evaluated);

/// The checkpoint, of these, that an evaluated model was read from: the one of its weights, whatever it is called and
/// wherever it lies, one that is here before one on another machine. Where the file does not say which weights, the
/// one of its name.
/// @param what  is to be opened with it: "this cell"
/// @returns its folder, hub id or URL; nothing where the job was stopped
/// @throws Error that says to open it, where none is, and why a model was not read
std::optional<std::string> folderOf(const TraceInfo& evaluated, std::vector<ModelInput> models, const Engine& engine,
                                    const Job& job, const QString& what);

}  // namespace foxscope::gui
