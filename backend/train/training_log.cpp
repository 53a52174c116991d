#include "backend/train/training_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <functional>
#include <limits>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/text/file_bytes.h"

namespace foxscope {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLargestLog = std::size_t{1} << 31;
constexpr std::int64_t kSinglePositions = 8;  // bins of one position, before those of a quarter of an octave

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw Error(fmt::format("{}: cannot {} the training's log: {}; check the folder and its disk", path.string(), what,
                          std::generic_category().message(errno)));
}

/// Calls with every whole line of a file, as JSON.
/// @param take  gets the line and where it ends, in bytes; false ends the reading
void read_lines(const std::filesystem::path& path,
                const std::function<bool(const nlohmann::json&, std::size_t end)>& take) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return;
  const std::string content = read_file_bytes(path, "training's log", kLargestLog);
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = content.find('\n', begin);
    if (end == std::string::npos) return;  // cut short
    ++number;
    const auto line = nlohmann::json::parse(content.begin() + static_cast<std::ptrdiff_t>(begin),
                                            content.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) {
      throw Error(fmt::format("{}: line {} is no step of a training: is this another file?", path.string(), number));
    }
    try {
      if (!take(line, end + 1)) return;
    } catch (const nlohmann::json::exception&) {
      throw Error(fmt::format("{}: line {} lacks a figure, or one is of another kind", path.string(), number));
    }
    begin = end + 1;
  }
}

ordered_json losses_json(const PositionLosses& losses) { return {{"edges", losses.edges}, {"loss", losses.loss}}; }

PositionLosses losses_of(const nlohmann::json& line, const char* key) {
  PositionLosses losses;
  if (!line.contains(key)) return losses;
  losses.edges = line[key].at("edges").get<std::vector<std::int64_t>>();
  losses.loss = line[key].at("loss").get<std::vector<double>>();
  return losses;
}

std::optional<double> optional_of(const nlohmann::json& line, const char* key) {
  if (!line.contains(key) || line[key].is_null()) return std::nullopt;
  return line[key].get<double>();
}

ordered_json groups_json(const ErrorGroups& over) {
  const bool blocks = over.kind == ErrorGroups::Kind::blocks;
  ordered_json groups{{blocks ? "blocks" : "documents", over.count}};
  if (blocks) groups["tokens"] = over.tokens;
  if (!blocks) groups["effective"] = over.effective;
  groups["degrees_of_freedom"] = over.degrees;
  return groups;
}

ErrorGroups groups_of(const nlohmann::json& line) {
  ErrorGroups over;
  if (!line.contains("error_over")) return over;
  const auto& groups = line["error_over"];
  const bool blocks = groups.contains("blocks");
  over.kind = blocks ? ErrorGroups::Kind::blocks : ErrorGroups::Kind::documents;
  groups.at(blocks ? "blocks" : "documents").get_to(over.count);
  if (blocks) groups.at("tokens").get_to(over.tokens);
  over.effective = blocks ? static_cast<double>(over.count) : groups.at("effective").get<double>();
  groups.at("degrees_of_freedom").get_to(over.degrees);
  return over;
}

}  // namespace

PositionLosses bin_losses(const std::vector<double>& loss) {
  const auto length = static_cast<std::int64_t>(loss.size());
  PositionLosses bins;
  std::int64_t width = 1;
  std::int64_t next_width = 2 * kSinglePositions;
  for (std::int64_t edge = 0; edge < length;) {
    bins.edges.push_back(edge);
    if (edge >= next_width) {
      width *= 2;
      next_width *= 2;
    }
    const std::int64_t end = std::min(edge + (edge < kSinglePositions ? 1 : width * 2), length);
    double sum = 0;
    for (std::int64_t n = edge; n < end; ++n) sum += loss[static_cast<std::size_t>(n)];
    bins.loss.push_back(sum / static_cast<double>(end - edge));
    edge = end;
  }
  bins.edges.push_back(length);
  return bins;
}

TrainingLog::TrainingLog(const std::filesystem::path& path, std::int64_t last_step) : path_(path) {
  std::size_t kept = 0;
  read_lines(path, [&](const nlohmann::json& line, std::size_t end) {
    if (line["step"].get<std::int64_t>() > last_step) return false;
    kept = end;
    return true;
  });
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) fail(path_, "open");
  if (::ftruncate(descriptor_, static_cast<off_t>(kept)) != 0 || ::lseek(descriptor_, 0, SEEK_END) < 0) {
    fail(path_, "write");
  }
}

TrainingLog::~TrainingLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void TrainingLog::add(const TrainingStep& step) {
  ordered_json line = {{"step", step.step},
                       {"tokens", step.tokens},
                       {"loss", step.loss},
                       {"grad_norm", step.gradient_norm},
                       {"lr", step.learning_rate},
                       {"tokens_per_second", step.tokens_per_second},
                       {"mfu", nullptr},
                       {"mfu_pruned", nullptr},
                       {"skipped_blocks", nullptr},
                       {"seconds", step.seconds}};
  if (step.mfu) line["mfu"] = *step.mfu;
  if (step.mfu_pruned) line["mfu_pruned"] = *step.mfu_pruned;
  if (step.skipped_blocks) line["skipped_blocks"] = *step.skipped_blocks;
  add_line(line.dump());
}

Estimate TrainingMeasures::held_out_loss() const {
  return {*loss, loss_error.value_or(std::numeric_limits<double>::quiet_NaN()), error_over};
}

void TrainingLog::add(const TrainingMeasures& measures) {
  ordered_json line = {{"step", measures.step}, {"tokens", measures.tokens}};
  if (measures.loss) {
    line["loss"] = *measures.loss;
    if (measures.loss_error) line["loss_error"] = *measures.loss_error;
    line["rows"] = measures.rows;
    line["error_over"] = groups_json(measures.error_over);
    line["loss_by_position"] = losses_json(measures.held_out);
  }
  if (!measures.training.loss.empty()) line["training_loss_by_position"] = losses_json(measures.training);
  if (!measures.decay_times.empty()) {
    ordered_json layers = ordered_json::array();
    for (int layer = 0; layer < measures.layers; ++layer) {
      ordered_json heads = ordered_json::array();
      for (int head = 0; head < measures.heads; ++head) {
        const double time = measures.decay_times[static_cast<std::size_t>(std::int64_t{layer} * measures.heads + head)];
        heads.push_back(std::isfinite(time) ? ordered_json(time) : ordered_json(nullptr));
      }
      layers.push_back(heads);
    }
    line["decay_time"] = layers;
  }
  add_line(line.dump());
}

void TrainingLog::add_line(const std::string& line) {
  const std::string text = line + '\n';
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(descriptor_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "write");
    done += static_cast<std::size_t>(written);
  }
}

std::vector<TrainingStep> read_training_steps(const std::filesystem::path& path) {
  std::vector<TrainingStep> steps;
  read_lines(path, [&](const nlohmann::json& line, std::size_t /*end*/) {
    TrainingStep& step = steps.emplace_back();
    line["step"].get_to(step.step);
    line.at("tokens").get_to(step.tokens);
    line.at("loss").get_to(step.loss);
    line.at("grad_norm").get_to(step.gradient_norm);
    line.at("lr").get_to(step.learning_rate);
    step.seconds = optional_of(line, "seconds").value_or(0);
    step.tokens_per_second = optional_of(line, "tokens_per_second").value_or(0);
    step.mfu = optional_of(line, "mfu");
    step.mfu_pruned = optional_of(line, "mfu_pruned");
    step.skipped_blocks = optional_of(line, "skipped_blocks");
    return true;
  });
  return steps;
}

std::vector<TrainingMeasures> read_training_measures(const std::filesystem::path& path) {
  std::vector<TrainingMeasures> all;
  read_lines(path, [&](const nlohmann::json& line, std::size_t /*end*/) {
    TrainingMeasures& measures = all.emplace_back();
    line["step"].get_to(measures.step);
    line.at("tokens").get_to(measures.tokens);
    measures.loss = optional_of(line, "loss");
    measures.loss_error = optional_of(line, "loss_error");
    measures.rows = line.value("rows", std::int64_t{0});
    measures.error_over = groups_of(line);
    measures.held_out = losses_of(line, "loss_by_position");
    measures.training = losses_of(line, "training_loss_by_position");
    if (!line.contains("decay_time")) return true;
    for (const auto& layer : line["decay_time"]) {
      ++measures.layers;
      measures.heads = static_cast<int>(layer.size());
      for (const auto& time : layer) {
        measures.decay_times.push_back(time.is_null() ? std::numeric_limits<double>::infinity() : time.get<double>());
      }
    }
    return true;
  });
  return all;
}

}  // namespace foxscope
