#include "backend/agent/command_answers.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "backend/agent/child.h"
#include "backend/agent/fields.h"
#include "backend/agent/said_progress.h"
#include "backend/agent/temporary_folders.h"
#include "backend/base/error.h"

namespace foxscope::agent {
namespace {

constexpr int kLookMilliseconds = 50;
constexpr std::size_t kLongestLine = std::size_t{64} << 10;
constexpr std::chrono::milliseconds kPatienceOfCommand{5000};
constexpr std::string_view kNameOfProgram = "foxscope: ";

std::optional<Message> answer_folder(const Asked& /*asked*/) {
  Message answer;
  put(answer, "answer", make_folder_of_client().string());
  return answer;
}

/// Leaves folders that were made for one file each where they are.
/// @returns whether all of them were
bool leave_folders_of(const std::vector<std::string>& files) {
  bool all = !files.empty();
  for (const std::filesystem::path file : files) all = leave_temporary_folder(file.parent_path()) && all;
  return all;
}

/// Lines of a command's standard error: notes, and progress between them.
class NoteLines {
 public:
  explicit NoteLines(const Asked& asked) : asked_(asked) {}

  void take(std::string_view text) {
    rest_ += text;
    for (std::size_t end = rest_.find('\n'); end != std::string::npos || rest_.size() > kLongestLine;
         end = rest_.find('\n')) {
      tell(std::string_view(rest_).substr(0, end));
      rest_.erase(0, end == std::string::npos ? end : end + 1);
    }
  }
  void finish() {
    if (!rest_.empty()) tell(rest_);
  }

 private:
  void tell(std::string_view line) {
    if (line.starts_with(kProgressMark)) return tell_progress(line.substr(1));
    if (line.starts_with(kNameOfProgram)) line.remove_prefix(kNameOfProgram.size());
    if (line.empty()) return;
    Message message;
    message.header["note"] = std::string(line);
    asked_.put_out(std::move(message));
  }
  void tell_progress(std::string_view line) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return;
    if (const auto bytes = json.find(kOutputBytes); bytes != json.end() && bytes->is_number_integer()) {
      Message message;
      message.header[kOutputBytes] = *bytes;
      asked_.put_out(std::move(message));
      return;
    }
    asked_.job.tell(SaidProgress(json).progress());
  }

  const Asked& asked_;
  std::string rest_;
};

void send_output(const Asked& asked, std::string_view bytes) {
  Message message;
  message.header["output"] = {{"part", 0}};
  message.parts.push_back(Part::of(bytes));
  asked.put_out(std::move(message));
}

/// Passes on what a command writes until it has closed both streams.
/// @returns false if the job was stopped
bool pass_on(const Child& child, const Asked& asked) {
  NoteLines notes(asked);
  pollfd polled[] = {{child.output(), POLLIN, 0}, {child.errors(), POLLIN, 0}};
  std::vector<char> piece(kLongestLine);
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    if (asked.job.stopped()) return false;
    if (poll(polled, 2, kLookMilliseconds) <= 0) continue;
    for (pollfd& stream : polled) {
      if (stream.fd < 0 || stream.revents == 0) continue;
      const ssize_t got = ::read(stream.fd, piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      const std::string_view text(piece.data(), static_cast<std::size_t>(std::max<ssize_t>(0, got)));
      if (got <= 0) {
        stream.fd = -1;
      } else if (&stream == polled) {
        send_output(asked, text);
      } else {
        notes.take(text);
      }
    }
  }
  notes.finish();
  return true;
}

std::vector<std::string> words_of_command(const Message& request) {
  const auto words = take<std::vector<std::string>>(request, "arguments");
  if (words.empty()) throw Error("a command has at least one word");
  for (const char* alone : {"agent", "open", "serve"}) {
    if (words.front() == alone) throw Error(fmt::format("{}: is not run through an agent", words.front()));
  }
  std::vector<std::string> all{"/proc/self/exe"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::optional<Message> answer_command(const Asked& asked) {
  const std::vector<std::string> words = words_of_command(asked.request);
  const auto input = take<std::vector<std::uint8_t>>(asked.request, "input", {});
  const auto leave = take<std::vector<std::string>>(asked.request, "leave", {});
  Child child(words);
  std::jthread writer([&child, &input] {
    for (std::size_t done = 0; done < input.size();) {
      const ssize_t written = ::write(child.input(), input.data() + done, input.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) break;
      done += static_cast<std::size_t>(written);
    }
    child.close_input();
  });
  const bool whole = pass_on(child, asked);
  if (!whole) child.terminate();
  const int status = child.finish(kPatienceOfCommand);
  if (!whole) return std::nullopt;
  Message answer;
  put(answer, "answer", status);
  // Before the answer is sent, so that no end of the connection takes away what is done.
  if (status == 0) put(answer, "left", leave_folders_of(leave));
  return answer;
}

}  // namespace

void add_command_answers(Agent& agent) {
  agent.answers("folder", answer_folder);
  agent.answers("command", answer_command);
}

}  // namespace foxscope::agent
