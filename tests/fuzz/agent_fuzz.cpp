// Any bytes as what a client sends to an agent. Those that begin with a brace are headers of requests, one a line,
// about a run file that is there: RUN and PATH stand for it. The only way to end is with the client, or with an Error.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "backend/agent/agent.h"
#include "backend/agent/connection.h"
#include "backend/agent/file_answers.h"
#include "backend/agent/run_answers.h"
#include "backend/base/error.h"
#include "tests/fuzz/memory_file.h"

namespace {

namespace agent = foxscope::agent;

const std::string kRun = FOXSCOPE_FUZZ_RUN;

void append(std::string& all, std::string_view header) {
  const auto length = static_cast<std::uint32_t>(header.size());
  all.append(reinterpret_cast<const char*>(&length), sizeof length);
  all += header;
}

/// Frames of the lines, with RUN filled in.
std::string framed(std::string_view lines) {
  static const std::string run =
      R"({"path":")" + kRun + R"(","identity":")" + agent::file_identity(kRun) + R"(","unchecked":false})";
  std::string all;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    std::string line(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    for (const auto& [word, meaning] : {std::pair<std::string_view, const std::string&>("RUN", run), {"PATH", kRun}}) {
      if (const std::size_t place = line.find(word); place != std::string::npos)
        line.replace(place, word.size(), meaning);
    }
    append(all, line);
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile requests;
  static const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto hello = agent::encoded(agent::hello_message(agent::own_hello()));
  std::string all(reinterpret_cast<const char*>(hello.data()), hello.size());
  all += input.starts_with('{') ? framed(input) : std::string(input);
  requests.fill(reinterpret_cast<const std::uint8_t*>(all.data()), all.size());
  const int in = open(requests.path().c_str(), O_RDONLY | O_CLOEXEC);
  if (in < 0) std::abort();
  try {
    agent::Agent agent(in, nowhere);
    agent::add_run_answers(agent);
    agent.serve();
  } catch (const foxscope::Error&) {
    // The agent's line would say it.
  }
  close(in);
  return 0;
}
