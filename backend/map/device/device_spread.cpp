#include "backend/map/device/device_spread.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "backend/base/index.h"
#include "backend/map/attention_pass.h"
#include "backend/map/device/device_map.h"
#include "backend/map/statistics/distance_bins.h"
#include "backend/map/statistics/head_labels.h"
#include "kernels/cuda/maps/attention_statistics.h"
#include "kernels/cuda/maps/mixing_statistics.h"
#include "kernels/cuda/maps/sampled_rows.h"

namespace foxscope {
namespace {

namespace cuda = kernels::cuda;
using kernels::Status;

static_assert(cuda::kFewRows == kLocalTokens && cuda::kManyRows == kLongTokens);

/// Bytes of a batch of heads in GPU memory.
constexpr std::size_t kBatchBytes = std::size_t{1} << 30U;

std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// A head of a linear mixer for the kernels.
cuda::MixingHead mixing_head_of(const HeadEntries& entries) {
  return mixing_head(*entries.head.trace, entries.head.layer, false);
}

}  // namespace

/// Where the parts of the GPU's memory lie, in bytes.
struct DeviceSpreads::Layout {
  std::size_t distances = 0;  ///< after the numbers of all heads, which come first
  std::size_t results = 0;    ///< bytes of both
  std::size_t normalizers = 0;
  std::size_t gates = 0;  ///< of sampled rows, which need no tables beside them
  std::size_t token = 0;
  std::size_t positions = 0;
  std::size_t stands_for = 0;
  std::size_t workspace = 0;
  std::size_t bytes = 0;

  Layout(const HeadEntries& entries, std::size_t heads, std::int64_t rows) {
    const auto length = static_cast<std::size_t>(entries.length);
    const auto sampled = static_cast<std::size_t>(rows);
    const auto count = static_cast<int>(heads);
    distances = rounded(heads * (rows > 0 ? sampled * sizeof(cuda::SampledRow) : sizeof(cuda::AttentionSums)));
    results = distances + heads * length * (rows > 0 ? 4 : 2) * sizeof(double);
    normalizers = rounded(results);
    gates = normalizers + heads * rounded(length * sizeof(float));
    token = gates + (rows > 0 && entries.gated ? heads * rounded(length * sizeof(double)) : 0);
    positions = token + rounded(entries.token.size_bytes());
    stands_for = positions + rounded(sampled * sizeof(std::int32_t));
    workspace = stands_for + rounded(sampled * sizeof(double));
    const bool mixing = entries.mixing != nullptr;
    if (rows > 0) {
      bytes = workspace + cuda::sampled_rows_workspace_bytes(entries.length, static_cast<int>(rows), count, mixing);
    } else if (mixing) {
      bytes = workspace + cuda::mixing_statistics_workspace_bytes(mixing_head_of(entries));  // of one after the other
    } else {
      bytes = workspace + cuda::attention_statistics_workspace_bytes(entries.length, count);
    }
  }
};

bool DeviceSpreads::takes(const HeadEntries& entries) {
  return entries.mixing == nullptr ? device_takes(entries.head) : device_mixes(entries.head, Quantity::attention);
}

std::size_t DeviceSpreads::most_heads(const HeadEntries& entries, std::int64_t rows) {
  const Layout layout(entries, 1, rows);
  std::size_t head = layout.bytes + 2 * static_cast<std::size_t>(entries.length * entries.head_dim) * sizeof(float);
  if (entries.mixing != nullptr) {
    head = (rows > 0 ? layout.bytes : layout.workspace) + cuda::mixing_table_bytes(mixing_head_of(entries));
  }
  constexpr auto kMost = static_cast<std::size_t>(cuda::AttentionStatistics::kMostHeads);
  return std::clamp<std::size_t>(kBatchBytes / head, 1, kMost);
}

DeviceSpreads::DeviceSpreads(std::vector<const HeadEntries*> heads, int gpu)
    : heads_(std::move(heads)),
      gpu_(gpu),
      device_(heads_.front()->head.trace->device_heads(gpu)),
      lock_(device_->lock()),
      scope_(gpu) {}

DeviceSpreads::~DeviceSpreads() {
  if (!device_->wait()) results_ = nullptr;
}

/// Heads' own arrays are there; normalisers may be others than the trace's.
bool DeviceSpreads::put_arrays(std::byte* memory, const Layout& layout) {
  const HeadEntries& first = *heads_.front();
  const bool own_gates = sample_ != nullptr && first.gated;
  const std::size_t row_bytes = rounded(static_cast<std::size_t>(first.length) * sizeof(float));
  const std::size_t gate_bytes = rounded(static_cast<std::size_t>(first.length) * sizeof(double));
  // All in one copy.
  const std::span<std::byte> given = host_.subspan(0, layout.workspace - layout.normalizers);
  const auto put = [&](std::size_t at, auto values) {
    std::ranges::copy(std::as_bytes(values), given.subspan(at - layout.normalizers).begin());
  };
  put(layout.token, first.token);
  for (std::size_t n = 0; n < heads_.size(); ++n) {
    put(layout.normalizers + n * row_bytes, heads_[n]->normalizer);
    if (own_gates) put(layout.gates + n * gate_bytes, heads_[n]->gate);
  }
  if (sample_ != nullptr) {
    std::vector<std::int32_t> positions;
    std::vector<double> stands_for;
    for (std::size_t n = 0; n < sample_->rows.size(); ++n) {
      positions.push_back(static_cast<std::int32_t>(sample_->rows[n]));
      stands_for.push_back(static_cast<double>(sample_->positions[n / 2]));
    }
    put(layout.positions, std::span<const std::int32_t>(positions));
    put(layout.stands_for, std::span<const double>(stands_for));
  }
  const bool copied = cuda::copy_to_device(memory + layout.normalizers, given, device_->stream());
  require_device(copied ? Status::ok : Status::failed, gpu_);
  for (std::size_t n = 0; n < heads_.size(); ++n) {
    const HeadEntries& entries = *heads_[n];
    const Trace& trace = *entries.head.trace;
    const bool mixes = entries.mixing != nullptr;
    const DeviceParts parts{
        .query_key = entries.store != nullptr, .gate = entries.gated && !own_gates, .mixing = mixes};
    held_.push_back(device_->head(trace, entries.head.layer, entries.head.head, parts));
    cuda::MapHead head = map_head(trace, held_.back());
    if (entries.store == nullptr) head.query = head.key = nullptr;
    if (!entries.gated) head.cumulative_log_gate = nullptr;
    if (own_gates) {
      head.cumulative_log_gate = reinterpret_cast<const double*>(memory + layout.gates + n * gate_bytes);
    }
    head.log_normalizer = reinterpret_cast<const float*>(memory + layout.normalizers + n * row_bytes);
    arrays_.push_back(head);
    if (!mixes) continue;
    if (held_.back().mixing == nullptr) return false;
    cuda::PreparedMixer& mixer = mixers_.emplace_back();
    mixer.head = mixing_head_of(entries);
    mixer.tables = held_.back().mixing;
  }
  return true;
}

Status DeviceSpreads::start(const RowSample* sample) {
  sample_ = sample;
  const HeadEntries& first = *heads_.front();
  const std::int64_t rows = sample == nullptr ? 0 : std::ssize(sample->rows);
  if (first.store == nullptr && first.mixing == nullptr && sample != nullptr) return Status::unsupported;
  const Layout layout(first, heads_.size(), rows);
  auto* const memory = static_cast<std::byte*>(device_->workspace(layout.bytes));
  host_ = device_->host_workspace(std::max(layout.results, layout.workspace - layout.normalizers));
  if (!put_arrays(memory, layout)) return Status::unsupported;
  results_ = memory;
  distances_ = layout.distances;
  result_bytes_ = layout.results;
  const auto count = static_cast<int>(heads_.size());
  const auto length = static_cast<std::size_t>(first.length);
  const auto* const token =
      first.token.empty() ? nullptr : reinterpret_cast<const std::int32_t*>(memory + layout.token);
  auto* const mass = reinterpret_cast<double*>(memory + layout.distances);
  auto* const rest = mass + heads_.size() * length;
  std::vector<float> sinks;
  for (const HeadEntries* const head : heads_) {
    sinks.push_back(head->sink ? static_cast<float>(*head->sink) : -std::numeric_limits<float>::infinity());
  }
  Status status = Status::ok;
  if (sample == nullptr && first.mixing != nullptr) {
    for (std::size_t n = 0; n < heads_.size() && status == Status::ok; ++n) {
      cuda::MixingStatistics statistics;
      statistics.mixer = mixers_[n];
      statistics.gate = arrays_[n].cumulative_log_gate;
      statistics.token = token;
      statistics.sums = reinterpret_cast<cuda::AttentionSums*>(memory) + n;
      statistics.mass = mass + n * length;
      statistics.mass_without_first = rest + n * length;
      statistics.workspace = memory + layout.workspace;
      status = cuda::mixing_statistics(statistics, device_->stream());
    }
  } else if (sample == nullptr) {
    cuda::AttentionStatistics statistics;
    statistics.heads = arrays_.data();
    statistics.count = count;
    statistics.sinks = sinks.data();
    statistics.token = token;
    statistics.sums = reinterpret_cast<cuda::AttentionSums*>(memory);
    statistics.mass = mass;
    statistics.mass_without_first = rest;
    statistics.workspace = memory + layout.workspace;
    status = cuda::attention_statistics(statistics, device_->stream());
  } else {
    cuda::SampledRows sampled;
    sampled.heads = arrays_.data();
    sampled.count = count;
    if (first.mixing != nullptr) sampled.mixers = mixers_.data();
    sampled.token = token;
    sampled.positions = reinterpret_cast<const std::int32_t*>(memory + layout.positions);
    sampled.stands_for = reinterpret_cast<const double*>(memory + layout.stands_for);
    sampled.rows = static_cast<int>(rows);
    sampled.numbers = reinterpret_cast<cuda::SampledRow*>(memory);
    sampled.mass = mass;
    sampled.half = rest;
    sampled.received = rest + 2 * heads_.size() * length;
    sampled.workspace = memory + layout.workspace;
    status = cuda::sampled_rows(sampled, device_->stream());
  }
  if (status != Status::unsupported) require_device(status, gpu_);
  return status;
}

void DeviceSpreads::finish() {
  const bool whole = cuda::copy_to_host(host_.first(result_bytes_), results_, device_->stream());
  require_device(whole ? Status::ok : Status::failed, gpu_);
}

AttentionSpread DeviceSpreads::spread(std::size_t head, std::int64_t repeats) const {
  const HeadEntries& entries = *heads_[head];
  const auto length = static_cast<std::size_t>(entries.length);
  const cuda::AttentionSums& sums = taken<cuda::AttentionSums>(0, heads_.size())[head];
  const auto by_distance = taken<double>(distances_, 2 * heads_.size() * length);
  const auto masses = [&](std::size_t index) {
    const auto values = by_distance.subspan(index * length, length);
    return std::vector<double>(values.begin(), values.end());
  };
  const auto rows = static_cast<double>(length);
  AttentionSpread spread;
  spread.entropy = sums.entropy / rows;
  spread.mass_on_first = sums.on_first / rows;
  spread.mean_log_decay = sums.log_decay / rows;
  if (entries.sink) spread.mass_on_sink = mean_sink_share(entries);
  spread.distance = distance_profile(masses(head), entries.length, 1 - spread.mass_on_sink.value_or(0));
  spread.mass_on_self = spread.distance.mass.front();
  spread.rows_without_first = static_cast<std::int64_t>(sums.rows_beside);
  spread.rows_up_to_local = static_cast<std::int64_t>(sums.few_rows_beside);
  spread.rows_up_to_long = static_cast<std::int64_t>(sums.many_rows_beside);
  spread.distance_without_first = distance_profile(masses(heads_.size() + head), spread.rows_without_first);
  set_means_of_rows(sums.square_without_first, sums.on_repeats, repeats, spread);
  return spread;
}

SampledRows DeviceSpreads::sampled(std::size_t head) const {
  const auto length = static_cast<std::size_t>(heads_[head]->length);
  const std::size_t rows = sample_->rows.size();
  const std::size_t bins = distance_bins(heads_[head]->length).size();
  SampledRows result;
  for (const cuda::SampledRow& row : taken<cuda::SampledRow>(0, heads_.size() * rows).subspan(head * rows, rows)) {
    const double weight = weight_of(sample_->rows[result.entropy.size()], row.beside);
    result.entropy.push_back(row.entropy);
    result.on_first.push_back(row.on_first);
    result.on_self.push_back(row.on_self);
    result.log_decay.push_back(row.log_decay);
    result.beside.push_back(row.beside);
    result.square.push_back(weight * weight * row.square);
    result.on_repeats.push_back(row.on_repeats);
    for (std::size_t half = 0; half < 2; ++half) result.toward[half].push_back(row.toward[half]);
    double within = 0;
    double within_beside = 0;
    for (std::size_t bin = 0; bin < bins; ++bin) {
      result.within.push_back(within += row.mass[bin]);
      result.within_beside.push_back(within_beside += weight * row.others[bin]);
    }
  }
  const auto by_distance = taken<double>(distances_, 4 * heads_.size() * length);
  const auto masses = [&](std::size_t index) {
    const auto values = by_distance.subspan(index * length, length);
    return std::vector<double>(values.begin(), values.end());
  };
  result.mass = masses(head);
  for (std::size_t half = 0; half < 2; ++half) result.half[half] = masses(heads_.size() + 2 * head + half);
  result.received = masses(3 * heads_.size() + head);
  return result;
}

}  // namespace foxscope
