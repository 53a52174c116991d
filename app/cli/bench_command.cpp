#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "backend/base/error.h"

namespace foxscope::cli {
namespace {

struct Benchmark {
  const char* name;
  const char* measures;
};
constexpr std::array<Benchmark, 10> kBenchmarks = {
    {{"attention", "The attention kernel against LibTorch's own"},
     {"gpu-model", "Forward passes of FoX (Pro) and of linear mixers of 760M shape on a GPU"},
     {"gradients", "A forward and a backward pass against eager autograd"},
     {"gui", "The window: start, demo, panning, scrolling, latency, memory"},
     {"kernels", "The kernels on the GPU, with shares of what the hardware reaches"},
     {"linear", "Models of linear mixers against eager LibTorch in chunks"},
     {"map", "Maps and head statistics of one head"},
     {"model", "A forward pass against a plain dense program"},
     {"text", "The tokenizer against the tokenizers package"},
     {"training", "Steps of training, on a CPU against eager autograd"}}};

/// "attention, gui or text"
std::string names() {
  std::string text = kBenchmarks.front().name;
  for (std::size_t i = 1; i < kBenchmarks.size(); ++i) {
    text += i + 1 < kBenchmarks.size() ? ", " : " or ";
    text += kBenchmarks[i].name;
  }
  return text;
}

// The benchmark's path: beside the executable in a build folder, in libexec once installed.
std::filesystem::path findBenchmark(const std::string& name, const std::filesystem::path& programFolder) {
  const std::string program = "foxscope-bench-" + name;
  for (const auto& folder : {programFolder, programFolder / ".." / "libexec" / "foxscope"}) {
    if (access((folder / program).c_str(), X_OK) == 0) return folder / program;
  }
  throw Error(fmt::format("bench {0}: {1} is not built: run cmake --build {2} --target {1}", name, program,
                          programFolder.string()));
}

int runBenchmark(const std::string& name, std::vector<std::string> arguments, const CommandContext& context) {
  std::string program = findBenchmark(name, context.programFolder).string();
  std::vector<char*> pointers{program.data()};
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  InterruptThread::restoreSignals();
  execv(program.c_str(), pointers.data());
  throw Error(fmt::format("{}: cannot be run: {}: build it again", program, std::strerror(errno)));
}

[[noreturn]] void refuse(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw UsageError(fmt::format("bench: which one? use {}", names()));
  throw UsageError(fmt::format("bench {}: there is no such benchmark: use {}", arguments.front(), names()));
}

}  // namespace

void addBenchCommand(CLI::App& program, ParsedCommand& parsed) {
  CLI::App* command =
      addSubcommand(program, parsed, "bench", "Run one of the benchmarks of docs/benchmarks.md: bench NAME [ARGUMENTS]",
                    "  foxscope bench attention\n"
                    "  foxscope bench model --help\n"
                    "\n"
                    "NAME is " +
                        names() + "; what follows it goes to the benchmark.");
  command->prefix_command();
  command->callback([command, &parsed] {
    if (!command->get_subcommands().empty()) return;
    parsed.action = [arguments = command->remaining()](const CommandContext&) -> int { refuse(arguments); };
  });
  // Subcommands of their own, since CLI11 would take `map` for the program's.
  for (const auto& [name, measures] : kBenchmarks) {
    CLI::App* benchmark = command->add_subcommand(name, measures);
    benchmark->set_help_flag();
    benchmark->prefix_command();
    benchmark->callback([benchmark, name = std::string(name), &parsed] {
      parsed.action = [name, arguments = benchmark->remaining()](const CommandContext& context) {
        return runBenchmark(name, arguments, context);
      };
    });
  }
}

}  // namespace foxscope::cli
