// The tests of this folder, and in the place of ssh what answers them: FOXSCOPE_TEST_ROLE says as what.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "backend/agent/agent.h"
#include "backend/agent/command_answers.h"
#include "backend/agent/fields.h"
#include "backend/agent/file_answers.h"
#include "backend/agent/run_answers.h"
#include "backend/agent/temporary_folders.h"
#include "tests/agent/peers.h"

namespace foxscope::test {
namespace {

/// The next line of a file that all starts of this program share: so many were there.
int starts() {
  const char* const counter = std::getenv("FOXSCOPE_TEST_COUNTER");
  if (counter == nullptr) return 0;
  std::ofstream(counter, std::ios::app) << "started\n";
  return static_cast<int>(std::filesystem::file_size(counter) / 8);
}

/// Answers what any agent answers, and
/// - "end": ends at once, without an answer
/// - "stopped once": the first one says that it was stopped, as an agent that is ended there
/// - "echo": gives the request's "word" back
void serve(const std::string& role) {
  const int start = starts();
  agent::Agent agent(STDIN_FILENO, STDOUT_FILENO);
  agent::add_run_answers(agent);
  agent::add_file_answers(agent);
  agent::add_command_answers(agent);
  agent.answers("end", [](const agent::Asked&) -> std::optional<agent::Message> { _exit(3); });
  agent.answers("end once", [start](const agent::Asked&) -> std::optional<agent::Message> {
    if (start == 1) _exit(3);
    agent::Message answer;
    answer.header["answer"] = start;
    return answer;
  });
  agent.answers("stopped once", [start](const agent::Asked&) -> std::optional<agent::Message> {
    if (start == 1) return std::nullopt;
    agent::Message answer;
    answer.header["answer"] = start;
    return answer;
  });
  agent.answers("echo", [](const agent::Asked& asked) {
    agent::Message answer;
    answer.header["answer"] = asked.request.header.at("word");
    return std::optional(std::move(answer));
  });
  if (role == "banner") write_text(STDOUT_FILENO, "Welcome to the cluster.\n\033[31mQuota: 90 %\n");
  agent.serve();
  agent::remove_temporary_folders();
}

int play(const std::string& role) {
  if (role == "no program") {
    write_text(STDERR_FILENO, "bash: line 1: foxscope: command not found\n");
    return 127;
  }
  if (role == "no host") {
    write_text(STDERR_FILENO, "Warning: first line\nssh: Could not resolve hostname box: Name or service not known\n");
    return 255;
  }
  if (role == "banner alone") {
    write_text(STDOUT_FILENO, "This account is currently not available.\n");
    return 1;
  }
  if (role == "endless") {
    for (int n = 0; n < 40; ++n) write_text(STDOUT_FILENO, std::string(4096, 'x'));
    return 0;
  }
  if (role == "other protocol") {
    write_bytes(STDOUT_FILENO, hello_of_agent(77));
    return 0;
  }
  if (role == "arguments") {
    write_text(STDERR_FILENO, std::getenv("FOXSCOPE_TEST_ARGUMENTS") + std::string("\n"));
    return 1;
  }
  serve(role);
  return 0;
}

}  // namespace
}  // namespace foxscope::test

int main(int count, char** arguments) {
  const char* const role = std::getenv("FOXSCOPE_TEST_ROLE");
  if (role != nullptr && std::string_view(arguments[count - 1]) == "agent") {
    std::string words;
    for (int n = 1; n < count; ++n) words += (n > 1 ? "|" : "") + std::string(arguments[n]);
    setenv("FOXSCOPE_TEST_ARGUMENTS", words.c_str(), 1);
    return foxscope::test::play(role);
  }
  if (role != nullptr) return std::string_view(arguments[1]) == "fail" ? 1 : 0;  // as a command there
  foxscope::test::set_this_program(std::filesystem::read_symlink("/proc/self/exe"));
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
