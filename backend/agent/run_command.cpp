#include "backend/agent/run_command.h"

#include <fmt/format.h>

#include "backend/agent/fields.h"
#include "backend/agent/remote.h"
#include "backend/base/error.h"

namespace foxscope::agent {
namespace {

constexpr std::size_t kMostOutput = std::size_t{16} << 20;
constexpr std::size_t kMostNotes = 1000;

}  // namespace

std::optional<CommandResult> run_command(const RemoteHost& host, const std::vector<std::string>& arguments,
                                         const std::string& input, const Job& job) {
  Message request = request_for("command");
  put(request, "arguments", arguments);
  put(request, "input", std::vector<std::uint8_t>(input.begin(), input.end()));
  CommandResult result;
  const auto take_message = [&](const Message& message) {
    if (message.header.contains("note")) {
      result.notes.push_back(take<std::string>(message, "note"));
      if (result.notes.size() > kMostNotes) result.notes.erase(result.notes.begin());
    } else if (message.header.contains("output") && !message.parts.empty()) {
      const std::string piece = message.parts.front().text();
      if (result.output.size() + piece.size() > kMostOutput) {
        throw Error(fmt::format("{}: {} says more than {} MB", host.words(), arguments.front(), kMostOutput >> 20U));
      }
      result.output += piece;
    }
  };
  const auto answer = Remote::at(host)->ask(request, job, Again::never, take_message);
  if (!answer) return std::nullopt;
  if (const int status = take<int>(*answer, "answer"); status != 0) {
    throw Error(said_there(host.words(), result.notes.empty()
                                             ? fmt::format("{} ended with status {}", arguments.front(), status)
                                             : result.notes.back()));
  }
  return result;
}

}  // namespace foxscope::agent
