#include "backend/train/remote_training.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "backend/agent/fields.h"
#include "backend/agent/remote.h"
#include "backend/agent/temporary_folders.h"
#include "backend/base/error.h"
#include "backend/train/training_answers.h"

namespace foxscope {
namespace {

constexpr std::size_t kMostPieces = 1000;

/// Adds lines that came to the copy of a log, and moves its place on.
void add_lines(const std::filesystem::path& file, const std::string& lines, bool anew, LogPlace& place) {
  if (anew) place = {};
  std::ofstream stream(file, std::ios::binary | (anew ? std::ios::trunc : std::ios::app));
  stream << lines;
  stream.close();
  if (!stream) throw Error(fmt::format("{}: cannot be written: is the disk full?", file.string()));
  if (lines.empty()) return;
  place.bytes += lines.size();
  const std::size_t end = lines.size() - 1;  // of the last line, which has its line feed
  const std::size_t before = end == 0 ? std::string::npos : lines.rfind('\n', end - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  place.last = lines.substr(begin, end - begin);
}

}  // namespace

RemoteTrainingReader::RemoteTrainingReader(agent::RemotePath folder) : folder_(std::move(folder)) {}

std::optional<bool> RemoteTrainingReader::fetch(const Job& job) {
  if (copy_.empty()) {
    copy_ = agent::make_temporary_folder();
    std::filesystem::create_directories(copy_ / "checkpoints");
    reader_ = std::make_unique<TrainingReader>(copy_);
  }
  agent::Message request = agent::request_for("training");
  agent::put(request, "path", folder_.path);
  agent::put(request, "steps_bytes", static_cast<std::int64_t>(steps_.bytes));
  agent::put(request, "steps_last", steps_.last);
  agent::put(request, "measures_bytes", static_cast<std::int64_t>(measures_.bytes));
  agent::put(request, "measures_last", measures_.last);
  const auto answer = agent::Remote::at(folder_.host)->ask(request, job);
  if (!answer) return std::nullopt;
  TrainingNews news;
  try {
    news = agent::take<TrainingNews>(*answer, "answer");
  } catch (const agent::ProtocolError& error) {
    throw Error(fmt::format("{}: {}: install the same version on both machines", folder_.url(), error.what()));
  }
  for (const std::string* lines : {&news.steps, &news.measures}) {
    if (!lines->empty() && lines->back() != '\n') throw Error(fmt::format("{}: a line came in parts", folder_.url()));
  }
  const TrainingFolder copy(copy_);
  std::ofstream(copy.recipe(), std::ios::binary) << news.recipe;
  add_lines(copy.log(), news.steps, news.steps_anew, steps_);
  add_lines(copy.evaluation(), news.measures, news.measures_anew, measures_);
  checkpoints_ = std::move(news.checkpoints);
  running_ = news.running;
  return news.more && (!news.steps.empty() || !news.measures.empty());
}

std::shared_ptr<const TrainingRecord> RemoteTrainingReader::read(const Job& job) {
  for (std::size_t piece = 0; piece < kMostPieces; ++piece) {
    const std::optional<bool> more = fetch(job);
    if (!more) return nullptr;
    if (!*more) break;
  }
  // The copy has an empty folder of each checkpoint's name, so that one place reads names.
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(copy_ / "checkpoints", failed)) {
    const std::string name = entry.path().filename().string();
    if (std::ranges::find(checkpoints_, name) == checkpoints_.end()) std::filesystem::remove(entry.path(), failed);
  }
  for (const std::string& name : checkpoints_) {
    if (name.find('/') == std::string::npos && name != "..") {
      std::filesystem::create_directory(copy_ / "checkpoints" / name, failed);
    }
  }
  auto record = [&] {
    try {
      return std::make_shared<TrainingRecord>(*reader_->read());
    } catch (const Error& error) {
      // It names the copy.
      std::string text = error.what();
      const std::string copy = copy_.string();
      if (text.starts_with(copy)) text.replace(0, copy.size(), folder_.url());
      throw Error(text);
    }
  }();
  for (TrainingCheckpoint& checkpoint : record->checkpoints) {
    agent::RemotePath there = folder_;
    there.path += "/checkpoints/" + checkpoint.folder.filename().string();
    checkpoint.folder = there.url();
  }
  record->running = running_;
  return record;
}

}  // namespace foxscope
