#include "backend/map/statistics/head_statistics.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/attention_pass.h"
#include "backend/map/device/device_spread.h"
#include "backend/map/head_entries.h"
#include "backend/map/maps_elsewhere.h"
#include "backend/map/statistics/gate_statistics.h"
#include "backend/map/statistics/sampled_spread.h"
#include "backend/map/team.h"
#include "backend/trace/decay_time.h"

namespace foxscope {

std::vector<double> channel_log_decays(const HeadOf& head) {
  const std::int64_t length = head.trace->info().length;
  const std::vector<double> first = head.trace->log_decay_at(head.layer, head.head, 0);
  std::vector<double> means = head.trace->log_decay_at(head.layer, head.head, length - 1);
  for (std::size_t n = 0; n < means.size(); ++n) means[n] = (means[n] - first[n]) / static_cast<double>(length - 1);
  return means;
}

std::vector<double> channel_decay_times(const HeadStatistics& statistics) {
  std::vector<double> times;
  for (const double mean : statistics.channel_log_decay) times.push_back(decay_time(mean));
  std::ranges::sort(times);
  return times;
}

void check_rows(std::int64_t rows, std::int64_t length) {
  if (rows < 0) throw UsageError(fmt::format("--rows {}: it must be at least 2", rows));
  if (rows % 2 != 0) {
    throw UsageError(
        fmt::format("--rows {}: rows are drawn in pairs, whose difference gives the error: give an even number", rows));
  }
  if (rows < length && rows > kMostSampled / length) {
    throw UsageError(
        fmt::format("--rows {}: of a text of {} tokens at most {} rows can be sampled; leave out --rows "
                    "to measure all of them",
                    rows, count_text(length), count_text(kMostSampled / length / 2 * 2)));
  }
}

SharedRows shared_rows(const Trace& trace, const StatisticsOptions& options) {
  SharedRows shared;
  const std::int64_t length = trace.info().length;
  check_rows(options.rows, length);
  if (options.rows > 0 && options.rows < length) shared.drawn = sample_rows(length, options.rows, options.rows_seed);
  if (trace.tokens()) shared.repeat_distances = repeat_distances(trace.tokens()->input_id);
  return shared;
}

namespace {

/// Measures several heads of one layer.
class LayerPass {
 public:
  LayerPass(const RunOnDevice& run, int layer, std::span<const int> heads, const StatisticsOptions& options,
            const Job& job)
      : run_(run),
        info_(run->info()),
        layer_(layer),
        heads_(heads),
        options_(options),
        team_(job),
        job_{job.stop, job.report, team_.executor()},
        statistics_(heads.size()) {}

  /// @returns nothing if the job was stopped
  std::optional<std::vector<HeadStatistics>> run() {
    for (std::size_t n = 0; n < heads_.size(); ++n) {
      statistics_[n].layer = layer_;
      statistics_[n].head = heads_[n];
    }
    const bool attention = options_.with_attention && run_->has_attention(layer_);
    if (attention) {
      for (const int head : heads_) entries_.emplace_back(HeadOf{run_, layer_, head}, Quantity::attention, kNoRows);
      find_rows();
    }
    // A GPU works on the first heads meanwhile.
    std::unique_ptr<DeviceSpreads> spreads = start(0);
    if (!measure_gates()) return std::nullopt;
    for (std::size_t n = 0; n < entries_.size();) {
      const std::size_t measured = spreads ? finish(*spreads, n) : measure_on_cpu(n);
      if (measured == 0) return std::nullopt;
      n += measured;
      spreads.reset();
      spreads = start(n);
    }
    return std::move(statistics_);
  }

 private:
  static constexpr std::span<const float> kNoRows = {};

  void find_rows() {
    if (options_.these_rows) {
      sample_ = &*options_.these_rows;
      return;
    }
    shared_ = options_.shared ? options_.shared : std::make_shared<const SharedRows>(shared_rows(*run_, options_));
    sees_ = rows_with_repeats(shared_->repeat_distances, entries_.front().window);
    repeats_ = std::ranges::count(sees_, 1);
    if (shared_->drawn) sample_ = &*shared_->drawn;
  }

  bool measure_gates() {
    // In a run that kept saliency and no gates, gates are as unknown as in a text of one token.
    const LayerMixer mixer = info_.mixer(layer_);
    const bool known = run_->has(TraceArray::cumulative_log_gate, layer_) || mixer.decays_by_channel() ||
                       !run_->has(TraceArray::log_forget_gradient);
    const bool gated = known && forgets(info_, layer_);
    const std::vector<double> open(gated ? 0 : static_cast<std::size_t>(forgets(info_, layer_) ? 1 : info_.length));
    std::vector<std::span<const double>> gates;
    for (const int head : heads_) {
      gates.push_back(gated ? run_->cumulative_log_gate(layer_, head) : std::span<const double>(open));
    }
    if (options_.with_gates && !gate_statistics(gates, options_.events, job_, statistics_)) return false;
    for (HeadStatistics& head : statistics_) {
      const HeadOf of{run_, layer_, head.head};
      if (mixer.decays_by_channel()) head.channel_log_decay = channel_log_decays(of);
      head.saliency = head_saliency(of, options_.events);
    }
    return true;
  }

  /// Gives heads from the n-th on to the GPU. @returns nothing where it does not take them
  std::unique_ptr<DeviceSpreads> start(std::size_t n) {
    if (n >= entries_.size() || !run_.gpu || !DeviceSpreads::takes(entries_[n])) return nullptr;
    const std::size_t most = DeviceSpreads::most_heads(entries_[n], sample_ ? std::ssize(sample_->rows) : 0);
    std::vector<const HeadEntries*> heads;
    for (std::size_t at = n; at < std::min(entries_.size(), n + most); ++at) heads.push_back(&entries_[at]);
    auto spreads = std::make_unique<DeviceSpreads>(std::move(heads), *run_.gpu);
    if (spreads->start(sample_) != kernels::Status::ok) spreads.reset();
    return spreads;
  }

  /// @returns how many heads were measured; 0: the job was stopped
  std::size_t finish(DeviceSpreads& spreads, std::size_t first) {
    spreads.finish();
    const auto count = static_cast<std::int64_t>(spreads.size());
    const bool done = team_.run({"measuring attention", "heads", count}, count, [&](std::int64_t n, int /*thread*/) {
      HeadStatistics& head = statistics_[first + index_of(n)];
      if (sample_) {
        estimate(first + index_of(n), spreads.sampled(index_of(n)));
      } else {
        take(spreads.spread(index_of(n), repeats_), head);
      }
    });
    return done ? spreads.size() : 0;
  }

  std::size_t measure_on_cpu(std::size_t n) {
    if (sample_) {
      auto rows = measure_sampled_rows(entries_[n], *sample_, job_);
      if (rows) estimate(n, std::move(*rows));
      return rows ? 1 : 0;
    }
    auto spread = attention_spread_on_cpu(entries_[n], repeats_, job_);
    if (spread) take(std::move(*spread), statistics_[n]);
    return spread ? 1 : 0;
  }

  void estimate(std::size_t n, SampledRows rows) {
    if (options_.take_rows) options_.take_rows(statistics_[n], *sample_, rows);
    if (options_.these_rows) return;
    estimate_spread(entries_[n], *sample_, sees_, std::move(rows), statistics_[n]);
  }

  void take(AttentionSpread spread, HeadStatistics& head) const {
    static_cast<AttentionSpread&>(head) = std::move(spread);
    head.has_attention = true;
    head.label_scores = label_scores(head, window_of(info_, layer_));
  }

  const RunOnDevice& run_;
  const TraceInfo& info_;
  int layer_;
  std::span<const int> heads_;
  const StatisticsOptions& options_;
  Team team_;
  Job job_;
  std::vector<HeadStatistics> statistics_;
  std::deque<HeadEntries> entries_;  ///< of attention; empty where that is not measured
  std::vector<std::uint8_t> sees_;
  std::int64_t repeats_ = 0;
  std::shared_ptr<const SharedRows> shared_;
  const RowSample* sample_ = nullptr;  ///< null: all rows
};

}  // namespace

std::optional<std::vector<HeadStatistics>> layer_statistics(const RunOnDevice& run, int layer,
                                                            std::span<const int> heads,
                                                            const StatisticsOptions& options, const Job& job) {
  for (const int head : heads) run->check_head(layer, head);
  check_rows(options.rows, run->info().length);
  if (heads.empty()) return std::vector<HeadStatistics>();
  const auto* const there = elsewhere(HeadOf{run, layer, heads.front()});
  if (there == nullptr) return LayerPass(run, layer, heads, options, job).run();
  std::vector<HeadStatistics> statistics;
  for (const int head : heads) {
    auto one = there->statistics({run, layer, head}, options, job);
    if (!one) return std::nullopt;
    statistics.push_back(std::move(*one));
  }
  return statistics;
}

std::optional<HeadStatistics> head_statistics(const HeadOf& head, const StatisticsOptions& options, const Job& job) {
  auto statistics = layer_statistics(head, head.layer, std::span(&head.head, 1), options, job);
  if (!statistics) return std::nullopt;
  return std::move(statistics->front());
}

}  // namespace foxscope
