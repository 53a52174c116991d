#include "backend/map/device/device_spread.h"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "backend/map/attention_pass.h"
#include "backend/map/device/device_map.h"
#include "backend/trace/device_heads.h"
#include "kernels/cuda/maps/attention_statistics.h"

namespace foxscope {
namespace {

namespace cuda = kernels::cuda;
using kernels::Status;

std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Status device_attention_spread(const HeadEntries& entries, int gpu, AttentionSpread& spread) {
  if (!device_takes(entries.head)) return Status::unsupported;
  const Trace& trace = *entries.head.trace;
  const auto heads = trace.device_heads(gpu);
  const auto lock = heads->lock();
  const cuda::DeviceScope scope(gpu);
  const DeviceParts parts{.query_key = entries.store != nullptr, .gate = entries.gated};
  const auto arrays = heads->head(trace, entries.head.layer, entries.head.head, parts);
  cuda::AttentionStatistics statistics;
  statistics.head = map_head(trace, arrays);
  if (entries.store == nullptr) statistics.head.query = statistics.head.key = nullptr;
  if (!entries.gated) statistics.head.cumulative_log_gate = nullptr;

  const auto length = static_cast<std::size_t>(entries.length);
  const std::size_t mass_bytes = rounded(length * sizeof(double));
  const std::size_t normalizer_bytes = rounded(length * sizeof(float));
  const std::size_t token_bytes = rounded(entries.token.size_bytes());
  auto* memory = static_cast<std::byte*>(heads->workspace(256 + 2 * mass_bytes + normalizer_bytes + token_bytes +
                                                          cuda::attention_statistics_workspace_bytes(entries.length)));
  statistics.sums = reinterpret_cast<cuda::AttentionSums*>(memory);
  statistics.mass = reinterpret_cast<double*>(memory + 256);
  statistics.mass_without_first = reinterpret_cast<double*>(memory + 256 + mass_bytes);
  auto* normalizer = memory + 256 + 2 * mass_bytes;
  statistics.head.log_normalizer = reinterpret_cast<float*>(normalizer);
  auto* token = normalizer + normalizer_bytes;
  if (!entries.token.empty()) statistics.token = reinterpret_cast<std::int32_t*>(token);
  statistics.workspace = token + token_bytes;
  const bool given =
      cuda::copy_to_device(normalizer, std::as_bytes(entries.normalizer), heads->stream()) &&
      (entries.token.empty() || cuda::copy_to_device(token, std::as_bytes(entries.token), heads->stream()));
  require_device(given ? Status::ok : Status::failed, gpu);
  const Status status = cuda::attention_statistics(statistics, heads->stream());
  if (status == Status::unsupported) return status;
  require_device(status == Status::ok && !heads->wait() ? Status::failed : status, gpu);

  cuda::AttentionSums sums;
  std::vector<double> mass(length);
  std::vector<double> without_first(length);
  const bool whole =
      cuda::copy_to_host(std::as_writable_bytes(std::span(&sums, 1)), statistics.sums) &&
      cuda::copy_to_host(std::as_writable_bytes(std::span(mass)), statistics.mass) &&
      cuda::copy_to_host(std::as_writable_bytes(std::span(without_first)), statistics.mass_without_first);
  require_device(whole ? Status::ok : Status::failed, gpu);
  const auto rows = static_cast<double>(length);
  spread.entropy = sums.entropy / rows;
  spread.mass_on_first = sums.on_first / rows;
  spread.mean_log_decay = sums.log_decay / rows;
  spread.distance = distance_profile(std::move(mass), entries.length);
  spread.mass_on_self = spread.distance.mass.front();
  spread.rows_without_first = static_cast<std::int64_t>(sums.rows_beside);
  spread.distance_without_first = distance_profile(std::move(without_first), spread.rows_without_first);
  set_means_of_rows(entries, sums.square_without_first, sums.on_repeats, spread);
  return Status::ok;
}

}  // namespace foxscope
