#include "app/cli/together.h"

#include <unistd.h>

#include <exception>
#include <memory>
#include <optional>

#include "app/cli/interrupt.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/model/training/processes.h"

namespace foxscope::cli {

int workTogether(const Session& session, const DeviceChoice& device, const std::string& remedy,
                 const std::function<int(Processes*)>& work) {
  const std::optional<ProcessPlace> place = process_place();
  if (!place) return work(nullptr);
  const auto lost = [&console = session.console](const std::string& message) {
    if (!message.empty()) console.error(message);
    remove_unfinished_files();
    _exit(kFailed);
  };
  const auto waiting = [&console = session.console](const std::string& text) { console.note(text); };
  const std::unique_ptr<Processes> processes = Processes::join(*place, Processes::device_of(*place, device),
                                                               {"foxscope " FOXSCOPE_VERSION, remedy, waiting, lost});
  if (!processes->first()) {
    session.console.setVerbosity(Verbosity::quiet);
    session.interrupt.say("");
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

void requireAlone(const std::string& command) {
  if (!process_place()) return;
  throw UsageError(command +
                   " works in one process, and several were started for it: start it without torchrun or srun");
}

}  // namespace foxscope::cli
