#include "backend/train/training_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kLastPosition = std::uint64_t{1} << 53;
constexpr std::int64_t kSinglePositions = 8;  // bins of one position, before those of a quarter of an octave

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw Error(fmt::format("{}: cannot {} the training's log: {}; check the folder and its disk", path.string(), what,
                          std::generic_category().message(errno)));
}

ordered_json losses_json(const PositionLosses& losses) { return {{"edges", losses.edges}, {"loss", losses.loss}}; }

PositionLosses losses_of(const nlohmann::json& line, const char* key) {
  PositionLosses losses;
  if (!line.contains(key)) return losses;
  for (const auto& edge : line[key].at("edges")) {
    const bool is_position = edge.is_number_unsigned() && edge.get<std::uint64_t>() <= kLastPosition;
    if (!is_position) throw std::domain_error(key);
    losses.edges.push_back(static_cast<std::int64_t>(edge.get<std::uint64_t>()));
  }
  losses.loss = line[key].at("loss").get<std::vector<double>>();
  const bool rise = std::ranges::adjacent_find(losses.edges, std::greater_equal<>()) == losses.edges.end();
  if (losses.edges.size() != losses.loss.size() + 1 || !rise) throw std::domain_error(key);
  return losses;
}

/// T of each head, layer by layer.
void read_decay_times(const nlohmann::json& layers, TrainingMeasures& measures) {
  if (!layers.is_array()) throw std::domain_error("decay_time");
  for (const auto& layer : layers) {
    if (!layer.is_array() || measures.decay_times.size() + layer.size() > kMostLoggedHeads) {
      throw std::domain_error("decay_time");
    }
    ++measures.layers;
    measures.heads = static_cast<int>(layer.size());
    for (const auto& time : layer) {
      measures.decay_times.push_back(time.is_null() ? std::numeric_limits<double>::infinity() : time.get<double>());
    }
  }
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
    for (std::int64_t n = edge; n < end; ++n) sum += loss[index_of(n)];
    bins.loss.push_back(sum / static_cast<double>(end - edge));
    edge = end;
  }
  bins.edges.push_back(length);
  return bins;
}

TrainingLog::TrainingLog(const std::filesystem::path& path, std::int64_t last_step) : path_(path) {
  std::size_t kept = 0;
  std::int64_t last = 0;
  try {
    read_lines(path, [&](const nlohmann::json& line, std::size_t end) {
      const auto step = line["step"].get<std::int64_t>();
      if (step > last_step) return false;
      if (step <= last) throw Error(fmt::format("{}: step {} comes twice", path.string(), step));
      kept = end;
      last = step;
      ++kept_;
      return true;
    });
  } catch (const Error&) {
    keep_damaged(kept);
  }
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) fail(path_, "open");
  if (::ftruncate(descriptor_, static_cast<off_t>(kept)) != 0) fail(path_, "write");
}

void TrainingLog::keep_damaged(std::size_t kept) {
  damaged_ = path_.string() + ".damaged";
  std::error_code failed;
  std::filesystem::copy_file(path_, damaged_, std::filesystem::copy_options::overwrite_existing, failed);
  if (failed) {
    throw Error(fmt::format("{}: is damaged behind byte {}, and cannot be copied to {} before it is cut there: {}",
                            path_.string(), kept, damaged_.filename().string(), failed.message()));
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
        const double time = measures.decay_times[index_of(std::int64_t{layer} * measures.heads + head)];
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

void read_training_steps(const std::filesystem::path& path, LogPlace& place, std::vector<TrainingStep>& steps) {
  read_lines(path, place, [&](const nlohmann::json& line, std::size_t /*end*/) {
    TrainingStep step;
    step.step = whole_number_of(line, "step", 1);
    step.tokens = whole_number_of(line, "tokens", 1);
    line.at("loss").get_to(step.loss);
    line.at("grad_norm").get_to(step.gradient_norm);
    line.at("lr").get_to(step.learning_rate);
    step.seconds = optional_of(line, "seconds").value_or(0);
    step.tokens_per_second = optional_of(line, "tokens_per_second").value_or(0);
    step.mfu = optional_of(line, "mfu");
    step.mfu_pruned = optional_of(line, "mfu_pruned");
    step.skipped_blocks = optional_of(line, "skipped_blocks");
    steps.push_back(step);
    return true;
  });
}

void read_training_measures(const std::filesystem::path& path, LogPlace& place, std::vector<TrainingMeasures>& all) {
  read_lines(path, place, [&](const nlohmann::json& line, std::size_t /*end*/) {
    TrainingMeasures measures;
    measures.step = whole_number_of(line, "step", 1);
    measures.tokens = whole_number_of(line, "tokens", 1);
    measures.loss = optional_of(line, "loss");
    measures.loss_error = optional_of(line, "loss_error");
    if (line.contains("rows")) measures.rows = whole_number_of(line, "rows", 0);
    measures.error_over = groups_of(line);
    measures.held_out = losses_of(line, "loss_by_position");
    measures.training = losses_of(line, "training_loss_by_position");
    if (line.contains("decay_time")) read_decay_times(line["decay_time"], measures);
    all.push_back(std::move(measures));
    return true;
  });
}

}  // namespace foxscope
