#include "backend/map/device/device_map.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/forget_map.h"
#include "backend/map/head_entries.h"
#include "backend/map/log_normalizer.h"
#include "backend/map/mixing_entries.h"
#include "backend/map/statistics/bins.h"
#include "backend/trace/device_heads.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/maps/attention_statistics.h"
#include "kernels/cuda/maps/forget_map.h"
#include "kernels/cuda/maps/mixing_map.h"
#include "kernels/cuda/maps/strip_map.h"

namespace foxscope {
namespace {

namespace cuda = kernels::cuda;
using kernels::Status;

cuda::MapReduction reduction_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::max:
      return cuda::MapReduction::max;
    case Reduction::mean:
      return cuda::MapReduction::mean;
    case Reduction::min:
      return cuda::MapReduction::min;
    case Reduction::absmax:
      return cuda::MapReduction::absmax;
  }
  return cuda::MapReduction::max;
}

DeviceParts parts_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::forget:
    case Quantity::log_forget:
      return {.gate = true};
    case Quantity::logits:
      return {.query_key = true};
    case Quantity::attention:
    case Quantity::mixing:
      return {.query_key = true, .gate = true, .normalizer = true};
    case Quantity::attention_without_gate:
      return {.query_key = true, .without_gate = true};
    case Quantity::gate_effect:
      return {.query_key = true, .gate = true, .normalizer = true, .without_gate = true};
  }
  return {};
}

/// Leaves of a head what the quantity is made of.
cuda::MapHead head_of(Quantity quantity, const Trace& trace, const DeviceHead& arrays) {
  cuda::MapHead head = map_head(trace, arrays);
  if (quantity == Quantity::forget || quantity == Quantity::log_forget) {
    head.query = head.key = nullptr;
    head.log_normalizer = nullptr;
  } else if (quantity == Quantity::logits) {
    head.cumulative_log_gate = nullptr;
    head.log_normalizer = nullptr;
  } else if (quantity == Quantity::attention_without_gate) {
    head.cumulative_log_gate = nullptr;
    head.log_normalizer = arrays.without_gate;
  }
  return head;
}

bool is_of_decay(Quantity quantity) { return quantity == Quantity::forget || quantity == Quantity::log_forget; }

/// Whether a head's F is that of one sum of log decays, in a run where there are linear mixers.
bool forgets_as_one(const HeadOf& head, Quantity quantity) {
  const TraceInfo& info = head.trace->info();
  if (info.mixers.empty() || !is_of_decay(quantity)) return false;
  const LayerMixer mixer = info.mixer(head.layer);
  if (mixer.has_softmax()) return false;
  return mixer.decays_by_head() || (mixer.decays_by_channel() && quantity == Quantity::log_forget);
}

bool device_takes(const MapRequest& request, const HeadOf& head) {
  if (request.channel) return false;
  return device_mixes(head, request.quantity) || forgets_as_one(head, request.quantity) || foxscope::device_takes(head);
}

/// Whether no kernel makes pixels of a linear mixer's entries on the way.
bool is_wide(const HeadOf& head) { return head.trace->info().mixer(head.layer).head_dim > 128; }

/// Whether a linear mixer's entries are written to memory first.
bool goes_by_strips(const MapRequest& request) {
  if (request.minus && device_mixes(*request.minus, request.quantity)) return true;
  return device_mixes(request.head, request.quantity) &&
         (request.minus || request.by_distance() || request.first_key == FirstKey::left_out || is_wide(request.head));
}

/// The arrays of a request on the GPU while it is computed.
class DeviceMap {
 public:
  DeviceMap(const MapRequest& request, int gpu) : request_(request), heads_(request.head.trace->device_heads(gpu)) {}

  Status run(const Job& job, Image& image) {
    if (goes_by_strips(request_)) return mix_by_strips(job, image);
    if (device_mixes(request_.head, request_.quantity)) return mix(job, image);
    const bool effect = request_.quantity == Quantity::gate_effect;
    if (!find_normalizers(job) || !leave_out_first(job)) return Status::cancelled;
    const cuda::DeviceScope scope(heads_->device());
    // One lock after the other: two differences of the same traces may be computed at once, each way round.
    std::optional<DeviceHead> other;
    if (request_.minus) other = find(*request_.minus, parts_of(request_.quantity));
    const auto lock = heads_->lock();
    const HeadOf& first = request_.head;
    const DeviceHead own = heads_->head(*first.trace, first.layer, first.head, parts_of(request_.quantity));
    if (job.stopped()) return Status::cancelled;
    if (is_of_decay(request_.quantity) && (own.gate == nullptr || (other && other->gate == nullptr))) {
      return Status::unsupported;
    }
    if (has_closed_form(request_)) return pool_forget(own, other ? &*other : nullptr, image);
    cuda::PooledMap map;
    map.head = head_of(request_.quantity, *request_.head.trace, own);
    cuda::MapHead minus;
    if (request_.minus) minus = head_of(request_.quantity, *request_.minus->trace, *other);
    if (effect) minus = head_of(Quantity::attention_without_gate, *request_.head.trace, own);
    if (request_.minus || effect) map.minus = &minus;
    return pool(map, besides_, image);
  }

 private:
  /// Rows of softmax without the gate, where the quantity needs them. @returns false if the job was stopped
  bool find_normalizers(const Job& job) const {
    if (!parts_of(request_.quantity).without_gate) return true;
    if (log_normalizer_without_gate(request_.head, job).empty()) return false;
    return !request_.minus || !log_normalizer_without_gate(*request_.minus, job).empty();
  }

  /// Makes the rows of softmax without key 0, of the head and of what is subtracted from it, where the request leaves
  /// that key out. @returns false if the job was stopped
  bool leave_out_first(const Job& job) {
    if (request_.first_key == FirstKey::counted) return true;
    const auto add = [&](const HeadOf& head, bool gated) {
      std::span<const float> rows;
      if (!gated) rows = log_normalizer_without_gate(head, job);
      besides_.push_back(compute_log_normalizer_beside_first(head, rows, request_.rows, job));
      return !besides_.back().empty();
    };
    const bool gated = request_.quantity != Quantity::attention_without_gate;
    if (!add(request_.head, gated)) return false;
    if (request_.quantity == Quantity::gate_effect) return add(request_.head, false);
    return !request_.minus || add(*request_.minus, gated);
  }

  /// Computes the map of a linear mixer.
  Status mix(const Job& job, Image& image) {
    const HeadOf& head = request_.head;
    const bool shares = request_.quantity == Quantity::attention;
    const bool of_decay = request_.quantity == Quantity::forget;
    if (shares && row_sizes(head, job).empty()) return Status::cancelled;
    const cuda::DeviceScope scope(heads_->device());
    const auto lock = heads_->lock();
    const DeviceHead own = heads_->head(*head.trace, head.layer, head.head,
                                        {.mixing = !of_decay, .mean_decay = of_decay, .row_sizes = shares});
    cuda::MixingMap map;
    map.head = mixing_head(*head.trace, head.layer, of_decay);
    map.tables = of_decay ? own.mean_decay : own.mixing;
    if (map.tables == nullptr) return Status::unsupported;
    if (job.stopped()) return Status::cancelled;
    map.value = shares ? cuda::MixingValue::share : cuda::MixingValue::mixing;
    map.row_sizes = own.row_sizes;
    map.reduction = reduction_of(request_.reduction);
    map.skip_below = kSmallestExponent;
    if (shares && request_.skip_tolerance > 0) {
      map.skip_below = std::max(kSmallestExponent, std::log2(request_.skip_tolerance));
    }
    place(map);
    const std::size_t workspace = cuda::mixing_map_workspace_bytes(map);
    return deliver(map, workspace, image, [&] { return cuda::mixing_map(map, heads_->stream()); });
  }

  /// Computes a map of heads of which one at least is a linear mixer's.
  Status mix_by_strips(const Job& job, Image& image) {
    const bool of_decay = request_.quantity == Quantity::forget;
    const HeadOf* const sides[2] = {&request_.head, request_.minus ? &*request_.minus : nullptr};
    const int count = request_.minus ? 2 : 1;
    bool mixes[2] = {};
    DeviceParts parts[2];
    std::vector<float> beside[2];  // normalisers of softmax without key 0
    for (int n = 0; n < count; ++n) {
      mixes[n] = device_mixes(*sides[n], request_.quantity);
      parts[n] = mixes[n] ? DeviceParts{.mixing = !of_decay, .mean_decay = of_decay} : parts_of(request_.quantity);
      if (mixes[n] || request_.first_key == FirstKey::counted) continue;
      beside[n] = compute_log_normalizer_beside_first(*sides[n], {}, request_.rows, job);
      if (beside[n].empty()) return Status::cancelled;
    }
    const cuda::DeviceScope scope(heads_->device());
    DeviceHead arrays[2];
    if (request_.minus) arrays[1] = find(*request_.minus, parts[1]);
    const auto lock = heads_->lock();
    const HeadOf& first = request_.head;
    arrays[0] = heads_->head(*first.trace, first.layer, first.head, parts[0]);
    if (job.stopped()) return Status::cancelled;
    cuda::StripMap map;
    cuda::MapHead heads[2];
    for (int n = 0; n < count; ++n) {
      if (!mixes[n]) {
        heads[n] = head_of(request_.quantity, *sides[n]->trace, arrays[n]);
        if (of_decay && arrays[n].gate == nullptr) return Status::unsupported;
        continue;
      }
      heads[n].length = request_.head.trace->info().length;
      const void* const tables = of_decay ? arrays[n].mean_decay : arrays[n].mixing;
      if (tables == nullptr) return Status::unsupported;
      cuda::PreparedMixer& mixer = n == 0 ? map.mixer : map.minus;
      mixer.head = mixing_head(*sides[n]->trace, sides[n]->layer, of_decay);
      mixer.tables = tables;
    }
    if (request_.quantity == Quantity::attention) map.value = cuda::MixingValue::share;
    map.map.head = heads[0];
    if (count == 2) map.map.minus = &heads[1];
    map.map.reduction = reduction_of(request_.reduction);
    map.map.first_key = request_.first_key == FirstKey::left_out ? 1 : 0;
    place(map.map);
    place_distances(map.map);
    const std::size_t workspace = (cuda::strip_map_workspace_bytes(map) + 255) / 256 * 256;
    const std::size_t rows = static_cast<std::size_t>(map.map.head.length) * sizeof(float);
    return deliver(map.map, workspace + 2 * rows, image, [&] {
      for (std::size_t n = 0; n < 2; ++n) {
        if (beside[n].empty()) continue;
        auto* const at = static_cast<std::byte*>(map.map.workspace) + workspace + n * rows;
        if (!cuda::copy_to_device(at, std::as_bytes(std::span(beside[n])), heads_->stream())) return Status::failed;
        heads[n].log_normalizer = reinterpret_cast<const float*>(at);
      }
      map.map.head = heads[0];
      return cuda::strip_map(map, heads_->stream());
    });
  }

  /// A head that is subtracted, kept beside its own trace; all that was given to that trace's stream is done.
  DeviceHead find(const HeadOf& head, const DeviceParts& parts) const {
    const auto heads = head.trace->device_heads(heads_->device());
    const auto lock = heads->lock();
    DeviceHead found = heads->head(*head.trace, head.layer, head.head, parts);
    require_device(heads->wait() ? Status::ok : Status::failed, heads_->device());
    return found;
  }

  /// @param besides  normalisers without key 0, of the head and of what is subtracted; empty: key 0 counts
  Status pool(cuda::PooledMap& map, std::span<const std::vector<float>> besides, Image& image) {
    map.value = request_.quantity == Quantity::logits       ? cuda::MapValue::logit
                : request_.quantity == Quantity::log_forget ? cuda::MapValue::logarithm
                                                            : cuda::MapValue::attention;
    map.reduction = reduction_of(request_.reduction);
    map.skip_below = kSmallestExponent;
    if (request_.quantity == Quantity::attention && request_.skip_tolerance > 0) {
      map.skip_below = std::max(kSmallestExponent, std::log2(request_.skip_tolerance));
    }
    place(map);
    place_distances(map);
    map.first_key = besides.empty() ? 0 : 1;
    const std::size_t workspace = (cuda::pooled_map_workspace_bytes(map) + 255) / 256 * 256;
    const std::size_t rows = static_cast<std::size_t>(map.head.length) * sizeof(float);
    return deliver(map, workspace + besides.size() * rows, image, [&] {
      cuda::MapHead minus = map.minus == nullptr ? cuda::MapHead() : *map.minus;
      for (std::size_t n = 0; n < besides.size(); ++n) {
        auto* const at = static_cast<std::byte*>(map.workspace) + workspace + n * rows;
        if (!cuda::copy_to_device(at, std::as_bytes(std::span(besides[n])), heads_->stream())) return Status::failed;
        (n == 0 ? map.head : minus).log_normalizer = reinterpret_cast<const float*>(at);
      }
      if (map.minus != nullptr) map.minus = &minus;
      return cuda::pooled_map(map, heads_->stream());
    });
  }

  Status pool_forget(const DeviceHead& own, const DeviceHead* other, Image& image) {
    cuda::ForgetMap map;
    map.heads = 1;
    map.length = request_.head.trace->info().length;
    map.window = window_of(request_.head.trace->info(), request_.head.layer);
    if (request_.minus) {
      map.window = common_window(map.window, window_of(request_.minus->trace->info(), request_.minus->layer));
    }
    map.cumulative_log_gate = own.gate;
    map.minus = other == nullptr ? nullptr : other->gate;
    map.value = request_.quantity == Quantity::forget ? cuda::ForgetValue::forget : cuda::ForgetValue::log_forget;
    map.reduction = reduction_of(request_.reduction);
    place(map);
    place_distances(map);
    const std::size_t workspace = cuda::forget_map_workspace_bytes(map);
    return deliver(map, workspace, image, [&] { return cuda::forget_map(map, heads_->stream()); });
  }

  template <typename Map>
  void place(Map& map) const {
    map.row_begin = request_.rows.begin;
    map.row_end = request_.rows.end;
    map.column_begin = request_.columns.begin;
    map.column_end = request_.columns.end;
    map.pixel_rows = request_.pixel_rows;
    map.pixel_columns = request_.pixel_columns;
  }

  /// Beyond the text there are no distances.
  template <typename Map>
  void place_distances(Map& map) {
    if (!request_.by_distance()) return;
    const std::int64_t end = request_.head.trace->info().length + 1;
    edges_.clear();
    for (const std::int64_t distance : request_.distances) {
      edges_.push_back(static_cast<int>(std::min(distance, end)));
    }
    map.column_end = edges_.back();
    map.distance_edges = edges_.data();
  }

  /// Computes with pixels and workspace in place, and downloads the pixels.
  template <typename Map, typename Compute>
  Status deliver(Map& map, std::size_t workspace, Image& image, const Compute& compute) {
    const auto pixels = static_cast<std::size_t>(request_.pixel_rows * request_.pixel_columns);
    const std::size_t rest = (pixels * sizeof(float) + 255) / 256 * 256;
    auto* memory = static_cast<std::byte*>(heads_->workspace(rest + workspace));
    map.pixels = reinterpret_cast<float*>(memory);
    map.workspace = memory + rest;
    const Status status = compute();
    if (status == Status::unsupported) return status;
    require_device(status == Status::ok && !heads_->wait() ? Status::failed : status, heads_->device());
    image = {request_.pixel_rows, request_.pixel_columns, std::vector<float>(pixels)};
    const bool whole = cuda::copy_to_host(std::as_writable_bytes(std::span(image.value)), memory, heads_->stream());
    require_device(whole ? Status::ok : Status::failed, heads_->device());
    return Status::ok;
  }

  const MapRequest& request_;
  std::shared_ptr<DeviceHeads> heads_;
  std::vector<int> edges_;  ///< of bins of distances
  std::vector<std::vector<float>> besides_;
};

}  // namespace

bool device_takes(const HeadOf& head) {
  const TraceInfo& info = head.trace->info();
  const LayerMixer mixer = info.mixer(head.layer);
  return mixer.has_softmax() && !mixer.path && info.logit_cap == 0 && mixer.head_dim <= 256 && info.softmax_scale > 0;
}

bool device_mixes(const HeadOf& head, Quantity quantity) {
  const LayerMixer mixer = head.trace->info().mixer(head.layer);
  if (mixer.has_softmax() || mixer.head_dim > 256) return false;
  if (quantity == Quantity::forget) return mixer.decays_by_channel();
  return (quantity == Quantity::mixing || quantity == Quantity::attention) && mixing_kind(mixer).has_value();
}

void require_device(Status status, int gpu) {
  if (status == Status::ok) return;
  throw Error(fmt::format("cuda:{}: the GPU {} a map or statistics: use --device cpu", gpu,
                          status == Status::unavailable ? "is not there for" : "failed while it computed"));
}

std::optional<int> gpu_of(const MapRequest& request) {
  return request.head.gpu || !request.minus ? request.head.gpu : request.minus->gpu;
}

Status device_map(const MapRequest& request, int gpu, const Job& job, Image& image) {
  const bool two_effects = request.quantity == Quantity::gate_effect && request.minus;
  if (two_effects || !device_takes(request, request.head) ||
      (request.minus && !device_takes(request, *request.minus))) {
    return Status::unsupported;
  }
  job.tell({0, request.rows.size(), "tokens", "computing the map"});
  const Status status = DeviceMap(request, gpu).run(job, image);
  if (job.stopped()) return Status::cancelled;
  job.tell({request.rows.size(), request.rows.size(), "tokens", "computing the map"});
  return status;
}

Status device_log_normalizer_without_gate(const HeadOf& head, const Range& rows, int gpu,
                                          std::vector<float>& normalizer) {
  if (!device_takes(head)) return Status::unsupported;
  const auto heads = head.trace->device_heads(gpu);
  const auto lock = heads->lock();
  const cuda::DeviceScope scope(gpu);
  const auto arrays = heads->head(*head.trace, head.layer, head.head, {.query_key = true});
  const auto length = static_cast<std::size_t>(head.trace->info().length);
  auto* out = static_cast<float*>(heads->workspace(length * sizeof(float)));
  const Status status =
      cuda::log_normalizer_without_gate(map_head(*head.trace, arrays), rows.begin, rows.end, out, heads->stream());
  if (status == Status::unsupported) return status;
  require_device(status == Status::ok && !heads->wait() ? Status::failed : status, gpu);
  normalizer.assign(length, std::numeric_limits<float>::quiet_NaN());
  const std::span<float> part(normalizer.data() + rows.begin, static_cast<std::size_t>(rows.size()));
  require_device(
      cuda::copy_to_host(std::as_writable_bytes(part), out + rows.begin, heads->stream()) ? Status::ok : Status::failed,
      gpu);
  return Status::ok;
}

Status device_row_sizes(const HeadOf& head, const Range& rows, int gpu, std::vector<float>& sizes) {
  if (!device_mixes(head, Quantity::mixing)) return Status::unsupported;
  const auto heads = head.trace->device_heads(gpu);
  const auto lock = heads->lock();
  const cuda::DeviceScope scope(gpu);
  const auto arrays = heads->head(*head.trace, head.layer, head.head, {.mixing = true});
  if (arrays.mixing == nullptr) return Status::unsupported;
  const auto bytes = static_cast<std::size_t>(rows.size()) * sizeof(float);
  const std::size_t rest = (bytes + 255) / 256 * 256;
  std::byte* memory = nullptr;
  const auto place = [&](auto& map) {
    map.reduction = cuda::MapReduction::mean;
    map.row_begin = rows.begin;
    map.row_end = map.column_end = rows.end;
    map.pixel_rows = rows.size();
    map.pixel_columns = 1;
  };
  const auto compute = [&](auto& map, std::size_t workspace, const auto& run) {
    memory = static_cast<std::byte*>(heads->workspace(rest + workspace));
    map.pixels = reinterpret_cast<float*>(memory);
    map.workspace = memory + rest;
    return run();
  };
  const cuda::MixingHead mixer = mixing_head(*head.trace, head.layer, false);
  Status status = Status::ok;
  if (is_wide(head)) {
    cuda::StripMap map;
    map.mixer.head = mixer;
    map.mixer.tables = arrays.mixing;
    map.map.head.length = mixer.length;
    map.value = cuda::MixingValue::size;
    place(map.map);
    status = compute(map.map, cuda::strip_map_workspace_bytes(map), [&] { return strip_map(map, heads->stream()); });
  } else {
    cuda::MixingMap map;
    map.head = mixer;
    map.tables = arrays.mixing;
    map.value = cuda::MixingValue::size;
    place(map);
    status = compute(map, cuda::mixing_map_workspace_bytes(map), [&] { return mixing_map(map, heads->stream()); });
  }
  if (status == Status::unsupported) return status;
  require_device(status == Status::ok && !heads->wait() ? Status::failed : status, gpu);
  sizes.assign(static_cast<std::size_t>(head.trace->info().length), std::numeric_limits<float>::quiet_NaN());
  const std::span<float> part(sizes.data() + rows.begin, static_cast<std::size_t>(rows.size()));
  const bool whole = cuda::copy_to_host(std::as_writable_bytes(part), memory, heads->stream());
  require_device(whole ? Status::ok : Status::failed, gpu);
  // Turns means over a row's keys into their sums.
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    float& size = sizes[index_of(row)];
    size = static_cast<float>(static_cast<double>(size) * static_cast<double>(row + 1));
  }
  return Status::ok;
}

}  // namespace foxscope
