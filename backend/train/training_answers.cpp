#include "backend/train/training_answers.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "backend/agent/fields.h"
#include "backend/agent/file_answers.h"
#include "backend/base/error.h"
#include "backend/base/regular_file.h"
#include "backend/text/file_bytes.h"
#include "backend/train/log_lines.h"
#include "backend/train/training_folder.h"

namespace foxscope {
namespace {

constexpr std::size_t kPieceOfLog = std::size_t{8} << 20;

/// Whole lines of a log behind a place, as many as a piece has room for; one that is longer comes with the next.
std::string lines_behind(const std::filesystem::path& path, std::size_t begin, bool& more) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return "";
  const RegularFile file(path, "training's log");
  const std::size_t size = file.size();
  if (size <= begin) return "";
  std::string bytes(std::min(kPieceOfLog, size - begin), '\0');
  std::size_t read = 0;
  while (read < bytes.size()) {
    const ssize_t got =
        pread(file.descriptor(), bytes.data() + read, bytes.size() - read, static_cast<off_t>(begin + read));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    read += static_cast<std::size_t>(got);
  }
  bytes.resize(read);
  more = more || begin + read < size;
  const std::size_t last = bytes.rfind('\n');
  bytes.resize(last == std::string::npos ? 0 : last + 1);
  return bytes;
}

/// The lines behind the place that a request names; all of them where the log is another one.
std::string news_of(const agent::Message& request, const std::string& name, const std::filesystem::path& path,
                    bool& anew, bool& more) {
  LogPlace place;
  place.bytes = static_cast<std::size_t>(
      std::max<std::int64_t>(0, agent::take<std::int64_t>(request, (name + "_bytes").c_str())));
  place.last = agent::take<std::string>(request, (name + "_last").c_str());
  anew = place.bytes < place.last.size() + 1 ? place.bytes > 0 : !has_lines_up_to(path, place);
  return lines_behind(path, anew ? 0 : place.bytes, more);
}

std::optional<agent::Message> answer_training(const agent::Asked& asked) {
  const std::filesystem::path path = agent::local_path(agent::take<std::string>(asked.request, "path"));
  TrainingFolder::require(path);
  const TrainingFolder folder(path);
  TrainingNews news;
  news.recipe = read_file_bytes(folder.recipe(), "recipe", std::size_t{1} << 20);
  news.steps = news_of(asked.request, "steps", folder.log(), news.steps_anew, news.more);
  news.measures = news_of(asked.request, "measures", folder.evaluation(), news.measures_anew, news.more);
  for (const TrainingCheckpoint& checkpoint : folder.checkpoints()) {
    news.checkpoints.push_back(checkpoint.folder.filename().string());
  }
  news.running = folder.is_running();
  agent::Message answer;
  agent::put(answer, "answer", news);
  return answer;
}

}  // namespace

void add_training_answers(agent::Agent& agent) { agent.answers("training", answer_training); }

}  // namespace foxscope
