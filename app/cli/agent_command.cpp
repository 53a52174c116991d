#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include <CLI/CLI.hpp>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "backend/agent/agent.h"
#include "backend/agent/command_answers.h"
#include "backend/agent/file_answers.h"
#include "backend/agent/run_answers.h"
#include "backend/agent/temporary_folders.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/train/checkpoint_answers.h"
#include "backend/train/training_answers.h"

namespace foxscope::cli {
namespace {

/// How long work may take to notice that nobody waits for it any more.
constexpr std::chrono::seconds kPatienceOfAgent{2};

/// Ends the process where it has not ended by itself in time.
class LastWatch {
 public:
  void begin() {
    m_thread = std::jthread([this](const std::stop_token& done) {
      std::unique_lock lock(m_mutex);
      m_done.wait_for(lock, done, kPatienceOfAgent, [] { return false; });
      if (done.stop_requested()) return;
      remove_unfinished_files();
      agent::remove_temporary_folders();
      _exit(kDone);
    });
  }

 private:
  std::mutex m_mutex;
  std::condition_variable_any m_done;
  std::jthread m_thread;
};

/// Standard output belongs to the protocol: whatever else is written to it goes to standard error.
int takeStandardOutput() {
  const int output = dup(STDOUT_FILENO);
  if (output < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) throw Error("standard output cannot be used");
  return output;
}

int serveAgent(const CommandContext& context) {
  if (isatty(STDIN_FILENO) == 1) {
    throw UsageError(
        "agent: speaks to another foxscope over its standard input and output: open ssh://HOST/PATH there");
  }
  context.interrupt.say("");
  setenv(agent::kUnderAgent, "1", 1);
  agent::Agent agent(STDIN_FILENO, takeStandardOutput());
  agent::add_run_answers(agent);
  agent::add_file_answers(agent);
  agent::add_command_answers(agent);
  add_training_answers(agent);
  add_checkpoint_answers(agent);
  const std::stop_callback stopped(context.stop, [&agent] { agent.stop(); });
  LastWatch watch;
  agent.serve([&watch] { watch.begin(); });
  return kDone;
}

}  // namespace

void addAgentCommand(CLI::App& program, ParsedCommand& parsed) {
  CLI::App* command =
      addSubcommand(program, parsed, "agent",
                    "Answer another foxscope, which starts this through ssh where a path is ssh://HOST/PATH",
                    "  foxscope map ssh://cluster/data/run.h5 --quantity attention -o attention.png");
  command->footer(
      "Reads requests from standard input and writes answers to standard output (docs/agent.md). Nothing listens on a\n"
      "network, and it ends with its input.\n\n" +
      command->get_footer());
  command->callback([&parsed] { parsed.action = [](const CommandContext& context) { return serveAgent(context); }; });
}

}  // namespace foxscope::cli
