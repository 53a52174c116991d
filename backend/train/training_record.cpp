#include "backend/train/training_record.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope {
namespace {

template <typename Line>
const Line* find_line(const std::vector<Line>& lines, std::int64_t number) {
  const auto found = std::ranges::lower_bound(lines, number, {}, &Line::step);
  return found != lines.end() && found->step == number ? &*found : nullptr;
}

/// Steps and tokens rise from line to line.
template <typename Line>
void require_order(const std::vector<Line>& lines, const std::filesystem::path& file) {
  for (std::size_t n = 1; n < lines.size(); ++n) {
    if (lines[n].step > lines[n - 1].step && lines[n].tokens > lines[n - 1].tokens) continue;
    throw Error(
        fmt::format("{}: line {} does not follow the one before it: does the file mix two trainings? Delete the lines "
                    "of the other one",
                    file.string(), n + 1));
  }
}

const TrainingMeasures* with_decay_times(const std::vector<TrainingMeasures>& measures) {
  const auto found = std::ranges::find_if(measures, [](const auto& line) { return !line.decay_times.empty(); });
  return found == measures.end() ? nullptr : &*found;
}

void require_shape(const std::vector<TrainingMeasures>& measures, const std::filesystem::path& file) {
  const TrainingMeasures* const first = with_decay_times(measures);
  for (std::size_t n = 0; n < measures.size(); ++n) {
    const TrainingMeasures& line = measures[n];
    if (line.decay_times.empty()) continue;
    const auto heads = static_cast<std::size_t>(line.layers) * static_cast<std::size_t>(line.heads);
    if (line.decay_times.size() != heads) {
      throw Error(
          fmt::format("{}: line {} has decay times of other heads in some layers than in others: delete the line",
                      file.string(), n + 1));
    }
    if (line.layers == first->layers && line.heads == first->heads) continue;
    throw Error(fmt::format(
        "{}: line {} has decay times of {} layers of {} heads, line {} of {} of {}: does the file mix two trainings? "
        "Delete the lines of the other one",
        file.string(), n + 1, line.layers, line.heads, first - measures.data() + 1, first->layers, first->heads));
  }
}

}  // namespace

const TrainingStep* TrainingRecord::step(std::int64_t number) const { return find_line(steps, number); }

const TrainingMeasures* TrainingRecord::measured(std::int64_t number) const { return find_line(measures, number); }

double TrainingRecord::seconds_left() const {
  constexpr std::size_t kLastSteps = 20;
  if (!running || steps.empty() || planned_steps <= steps.back().step) return 0;
  const std::size_t count = std::min(kLastSteps, steps.size());
  double seconds = 0;
  for (std::size_t n = steps.size() - count; n < steps.size(); ++n) seconds += steps[n].seconds;
  return seconds / static_cast<double>(count) * static_cast<double>(planned_steps - steps.back().step);
}

int TrainingRecord::layers() const {
  const TrainingMeasures* const line = with_decay_times(measures);
  return line == nullptr ? 0 : line->layers;
}

int TrainingRecord::heads() const {
  const TrainingMeasures* const line = with_decay_times(measures);
  return line == nullptr ? 0 : line->heads;
}

std::shared_ptr<const TrainingRecord> TrainingReader::read() {
  const std::filesystem::path& path = folder_.path();
  TrainingFolder::require(path);
  Known now = known_;
  auto record = std::make_shared<TrainingRecord>(now.record == nullptr ? TrainingRecord() : *now.record);
  if (!has_lines_up_to(folder_.log(), now.steps)) {
    now.steps = {};
    record->steps.clear();
  }
  if (!has_lines_up_to(folder_.evaluation(), now.measures)) {
    now.measures = {};
    record->measures.clear();
  }
  read_training_steps(folder_.log(), now.steps, record->steps);
  if (record->steps.empty()) {
    throw Error(fmt::format("{}: has no step yet: wait for the training's first", path.string()));
  }
  read_training_measures(folder_.evaluation(), now.measures, record->measures);
  record->checkpoints = folder_.checkpoints();
  record->planned_steps = folder_.planned_steps();
  record->running = folder_.is_running();
  require_order(record->steps, folder_.log());
  require_order(record->measures, folder_.evaluation());
  require_shape(record->measures, folder_.evaluation());
  now.record = std::move(record);
  known_ = std::move(now);
  return known_.record;
}

TrainingRecord read_training(const std::filesystem::path& folder) { return *TrainingReader(folder).read(); }

std::vector<double> smoothed_losses(const std::vector<TrainingStep>& steps, std::int64_t width) {
  if (width < 1 || width % 2 == 0) {
    throw UsageError(fmt::format("--smooth {}: use an odd number of steps, as 9 or 101; 1 is none", width));
  }
  const auto count = static_cast<std::int64_t>(steps.size());
  std::vector<double> sums{0};
  for (const TrainingStep& step : steps) sums.push_back(sums.back() + step.loss);
  std::vector<double> means;
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t begin = std::max<std::int64_t>(0, n - width / 2);
    const std::int64_t end = std::min(count, n + width / 2 + 1);
    means.push_back((sums[index_of(end)] - sums[index_of(begin)]) / static_cast<double>(end - begin));
  }
  return means;
}

}  // namespace foxscope
