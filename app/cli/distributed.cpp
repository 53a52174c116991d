#include "app/cli/distributed.h"

#include <unistd.h>

#include <exception>
#include <memory>
#include <optional>

#include "app/cli/interrupt.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/model/training/processes.h"

namespace foxscope::cli {

int runDistributed(const CommandContext& context, const DeviceChoice& device, const std::string& remedy,
                   const std::function<int(Processes*)>& work) {
  const std::optional<DistributedConfig> distributed = distributed_config();
  if (!distributed) return work(nullptr);
  const auto lost = [&console = context.console](const std::string& message) {
    if (!message.empty()) console.error(message);
    remove_unfinished_files();
    _exit(kFailed);
  };
  const auto waiting = [&console = context.console](const std::string& text) { console.note(text); };
  const std::unique_ptr<Processes> processes = Processes::join(*distributed, Processes::device_of(*distributed, device),
                                                               {"foxscope " FOXSCOPE_VERSION, remedy, waiting, lost});
  if (!processes->first()) {
    context.console.setVerbosity(Verbosity::quiet);
    context.interrupt.say("");
  }
  try {
    return work(processes.get());
  } catch (const std::exception& error) {
    processes->fail(error.what());
    if (processes->first()) throw;
    return dynamic_cast<const UsageError*>(&error) == nullptr ? kFailed : kWrongUsage;
  } catch (const OutputClosed&) {
    processes->fail("standard output was closed");
    throw;
  }
}

void requireSingleProcess(const std::string& command) {
  if (!distributed_config()) return;
  throw UsageError(command +
                   " works in one process, and several were started for it: start it without torchrun or srun");
}

}  // namespace foxscope::cli
