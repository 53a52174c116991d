#pragma once

#include <functional>
#include <string>

#include "app/cli/command.h"
#include "backend/base/device_name.h"

namespace foxscope {
class Processes;
}

namespace foxscope::cli {

/// Does a command's work in this process alone or, under torchrun or srun, together with the others that they started.
/// There the first process speaks for all: the others say nothing, and why one of them cannot go on is said by it.
/// @param device  of all; --device cuda is each one's own GPU
/// @param remedy  what to do when a process is lost
/// @param work    gets the processes, null where this one is alone; returns an exit code
int runDistributed(const CommandContext& context, const DeviceChoice& device, const std::string& remedy,
                   const std::function<int(Processes*)>& work);

/// For commands that do not share their work.
/// @throws UsageError where torchrun or srun started several processes
void requireSingleProcess(const std::string& command);

}  // namespace foxscope::cli
