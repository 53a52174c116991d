#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "backend/base/error.h"

namespace foxscope::cli {
namespace {

constexpr std::array<std::string_view, 4> kBenchmarks = {"attention", "map", "model", "text"};

// Beside the executable in a build folder, in libexec once installed.
std::filesystem::path findBenchmark(const std::string& name, const std::filesystem::path& programFolder) {
  const std::string program = "foxscope-bench-" + name;
  for (const auto& folder : {programFolder, programFolder / ".." / "libexec" / "foxscope"}) {
    if (access((folder / program).c_str(), X_OK) == 0) return folder / program;
  }
  throw Error(fmt::format("bench {0}: {1} is not built: run cmake --build {2} --target {1}", name, program,
                          programFolder.string()));
}

int runBenchmark(const std::vector<std::string>& arguments, const Session& session) {
  if (arguments.empty()) throw UsageError("bench: which one? use attention, map, model or text");
  const std::string& name = arguments.front();
  if (std::find(kBenchmarks.begin(), kBenchmarks.end(), name) == kBenchmarks.end()) {
    throw UsageError(fmt::format("bench {}: there is no such benchmark: use attention, map, model or text", name));
  }
  const std::string program = findBenchmark(name, session.programFolder).string();
  std::vector<char*> pointers{const_cast<char*>(program.c_str())};
  for (std::size_t index = 1; index < arguments.size(); ++index) {
    pointers.push_back(const_cast<char*>(arguments[index].c_str()));
  }
  pointers.push_back(nullptr);
  InterruptThread::restoreSignals();
  execv(program.c_str(), pointers.data());
  throw Error(fmt::format("{}: cannot be run: {}: build it again", program, std::strerror(errno)));
}

}  // namespace

void addBenchCommand(CLI::App& program, Selection& selection) {
  CLI::App* command = addSubcommand(program, selection, "bench",
                                    "Run one of the benchmarks that the README quotes: bench NAME [ARGUMENTS]",
                                    "  foxscope bench attention\n"
                                    "  foxscope bench model --help\n"
                                    "\n"
                                    "NAME is attention, map, model or text; what follows it goes to the benchmark.");
  command->prefix_command();
  command->callback([command, &selection] {
    selection.action = [arguments = command->remaining()](const Session& session) {
      return runBenchmark(arguments, session);
    };
  });
}

}  // namespace foxscope::cli
