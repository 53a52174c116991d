#include "backend/map/map.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/log.h"
#include "backend/map/device/device_map.h"
#include "backend/map/distance_axis.h"
#include "backend/map/entry_map.h"
#include "backend/map/forget_map.h"
#include "backend/map/log_normalizer.h"
#include "backend/map/map_stages.h"
#include "backend/map/maps_elsewhere.h"
#include "backend/trace/mixer_text.h"
#include "backend/trace/run_origin.h"

namespace foxscope {
namespace {

constexpr std::array<std::pair<Quantity, const char*>, 7> kQuantities{{
    {Quantity::forget, "forget"},
    {Quantity::log_forget, "log_forget"},
    {Quantity::logits, "logits"},
    {Quantity::attention, "attention"},
    {Quantity::attention_without_gate, "attention_without_gate"},
    {Quantity::gate_effect, "gate_effect"},
    {Quantity::mixing, "mixing"},
}};
constexpr std::array<std::pair<Reduction, const char*>, 4> kReductions{{
    {Reduction::max, "max"},
    {Reduction::mean, "mean"},
    {Reduction::min, "min"},
    {Reduction::absmax, "absmax"},
}};

template <typename Table>
auto value_of(const Table& table, const std::string& name, const char* what) {
  std::string known;
  for (const auto& [value, word] : table) {
    if (name == word) return value;
    known += known.empty() ? word : fmt::format(", {}", word);
  }
  throw UsageError(fmt::format("{} '{}' is not known: choose from {}", what, name, known));
}

template <typename Table, typename Value>
const char* name_of(const Table& table, Value value) {
  for (const auto& [entry, word] : table) {
    if (entry == value) return word;
  }
  return "";
}

void check_range(const char* what, const Range& range, const TraceInfo& info) {
  if (range.begin >= 0 && range.begin < range.end && range.end <= info.length) return;
  throw UsageError(fmt::format("{} {}:{}: must be A:B with 0 <= A < B <= {}, the positions of model '{}'", what,
                               range.begin, range.end, info.length, info.name));
}

void check_quantity(const MapRequest& request, const HeadOf& head) {
  const TraceInfo& info = head.trace->info();
  const LayerMixer mixer = info.mixer(head.layer);
  if (const std::string reason = why_not(info, head.layer, request.quantity); !reason.empty()) {
    throw UsageError(fmt::format("model '{}', layer {}: {}", info.name, head.layer, reason));
  }
  if (!request.channel) return;
  const bool of_decay = request.quantity == Quantity::forget || request.quantity == Quantity::log_forget;
  if (!of_decay || !mixer.decays_by_channel()) {
    throw UsageError(
        fmt::format("model '{}', layer {}: only forget and log_forget have channels, in layers where each channel "
                    "decays (gated linear attention, Mamba): leave the channel out",
                    info.name, head.layer));
  }
  if (*request.channel < 0 || *request.channel >= mixer.head_dim) {
    throw UsageError(fmt::format("model '{}', layer {} has no channel {}: channels are 0 to {}", info.name, head.layer,
                                 *request.channel, mixer.head_dim - 1));
  }
}

void check_distances(const MapRequest& request) {
  const auto& edges = request.distances;
  const bool agree = request.columns == Range{edges.front(), edges.back()} &&
                     request.pixel_columns + 1 == static_cast<std::int64_t>(edges.size());
  if (edges.size() > 1 && agree && edges.front() >= 1 && std::is_sorted(edges.begin(), edges.end()) &&
      edges[edges.size() - 2] < edges.back()) {
    return;
  }
  throw UsageError("edges of distances: must ascend from 1 or later on, one more than there are columns");
}

void check_request(const MapRequest& request) {
  const TraceInfo& info = request.head.trace->info();
  request.head.trace->check_head(request.head.layer, request.head.head);
  check_quantity(request, request.head);
  if (request.minus) {
    const TraceInfo& other = request.minus->trace->info();
    request.minus->trace->check_head(request.minus->layer, request.minus->head);
    check_quantity(request, *request.minus);
    if (other.length != info.length) {
      throw UsageError(fmt::format("a difference needs two runs on one text: model '{}' has {} positions, '{}' has {}",
                                   info.name, info.length, other.name, other.length));
    }
  }
  if (request.first_key == FirstKey::left_out && !is_of_attention(request.quantity)) {
    throw UsageError(fmt::format("key 0 can be left out of attention only: in {} it is a key like the others",
                                 to_string(request.quantity)));
  }
  check_range("rows", request.rows, info);
  if (request.by_distance()) {
    check_distances(request);
  } else {
    check_range("columns", request.columns, info);
  }
  const bool too_many = !request.by_distance() && request.pixel_columns > request.columns.size();
  if (request.pixel_rows < 1 || request.pixel_rows > request.rows.size() || request.pixel_columns < 1 || too_many) {
    throw UsageError(fmt::format("size {}x{}: must be from 1x1 to {}x{}, the number of entries that are asked for",
                                 request.pixel_rows, request.pixel_columns, request.rows.size(),
                                 request.columns.size()));
  }
  if (!(request.skip_tolerance >= 0 && request.skip_tolerance < 1)) {
    throw UsageError(
        fmt::format("skip tolerance {}: must be 0 (exact) or a share of attention below 1", request.skip_tolerance));
  }
}

std::optional<Image> computed(const MapRequest& request, const Job& job, const MapStages* stages) {
  if (const auto gpu = gpu_of(request)) {
    Image image;
    const kernels::Status status = device_map(request, *gpu, job, image);
    if (status == kernels::Status::ok) return image;
    if (status == kernels::Status::cancelled) return std::nullopt;
    log_line(LogCategory::map, [&] {
      return fmt::format("{} of {} layer {} head {} falls back to the CPU: the GPU's kernels do not take it",
                         to_string(request.quantity), request.head.trace->info().name, request.head.layer,
                         request.head.head);
    });
  }
  return has_closed_form(request) ? forget_map(request, job) : entry_map(request, job, stages);
}

/// Columns by distance as they were asked for, of those that have distances of their own.
/// @param done  [rows] lines that are there, 0: it is not; empty: all are
Image with_repeats(const Image& image, const std::vector<std::int64_t>& distances, std::span<const std::uint8_t> done) {
  const std::size_t columns = distances.size() - 1;
  std::vector<std::int64_t> from(columns);
  for (std::size_t n = 1; n < columns; ++n) from[n] = from[n - 1] + (distances[n] > distances[n - 1] ? 1 : 0);
  Image all{image.rows, static_cast<std::int64_t>(columns), {}};
  all.value.resize(static_cast<std::size_t>(image.rows) * columns);
  for (std::int64_t row = 0; row < image.rows; ++row) {
    if (!done.empty() && done[index_of(row)] == 0) continue;
    const float* const line = image.value.data() + row * image.columns;
    float* const to = all.value.data() + row * all.columns;
    for (std::size_t n = 0; n < columns; ++n) to[n] = line[from[n]];
  }
  return all;
}

std::optional<Image> computed_by_distance(const MapRequest& request, const Job& job, const MapStages* stages) {
  if (request.keys().size() == 0) {
    Image image{request.pixel_rows, request.pixel_columns, {}};
    image.value.assign(static_cast<std::size_t>(image.rows * image.columns), std::numeric_limits<float>::quiet_NaN());
    return image;
  }
  std::vector<std::int64_t> edges = distinct(request.distances);
  if (edges.size() == request.distances.size()) return computed(request, job, stages);
  MapRequest once = request;
  once.set_distances(std::move(edges));
  MapStages shown;
  if (stages != nullptr) {
    shown.interval = stages->interval;
    shown.show = [&](const MapStage& stage) {
      const Image all = with_repeats(stage.image, request.distances, stage.done);
      stages->show({all, stage.done});
    };
  }
  const auto image = computed(once, job, stages == nullptr ? nullptr : &shown);
  return image ? std::optional(with_repeats(*image, request.distances, {})) : std::nullopt;
}

std::optional<Image> computed_map(const MapRequest& request, const Job& job, const MapStages* stages) {
  check_request(request);
  if (const auto* const there = elsewhere(request.head, request.minus)) {
    // F takes c of a head alone, and then every part of the picture at any size. For colours alone that is too much to
    // wait for.
    const bool here =
        has_closed_form(request) && (!request.shades || (there->has_gates_here(request.head.layer, request.head.head)));
    if (!here) return there->map(request, job, stages);
  }
  try {
    std::optional<Image> image =
        request.by_distance() ? computed_by_distance(request, job, stages) : computed(request, job, stages);
    assert(!image || (image->rows == request.pixel_rows && image->columns == request.pixel_columns &&
                      static_cast<std::int64_t>(image->value.size()) == image->rows * image->columns));
    return image;
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("no memory for a map of {}x{} pixels: ask for a smaller size or fewer rows",
                            request.pixel_rows, request.pixel_columns));
  }
}

}  // namespace

void MapRequest::set_distances(std::vector<std::int64_t> edges) {
  distances = std::move(edges);
  columns = {distances.front(), distances.back()};
  pixel_columns = static_cast<std::int64_t>(distances.size()) - 1;
}

Range MapRequest::keys() const {
  if (!by_distance()) return columns;
  const Range seen{std::max<std::int64_t>(0, rows.begin - (distances.back() - 2)), rows.end - (distances.front() - 1)};
  return seen.begin < seen.end ? seen : Range{0, 0};
}

const char* to_string(Quantity quantity) { return name_of(kQuantities, quantity); }
const char* to_string(Reduction reduction) { return name_of(kReductions, reduction); }
Quantity quantity_from_string(const std::string& name) { return value_of(kQuantities, name, "quantity"); }
Reduction reduction_from_string(const std::string& name) { return value_of(kReductions, name, "reduction"); }

Reduction default_reduction(Quantity quantity, bool difference) {
  const bool is_signed =
      difference || quantity == Quantity::logits || quantity == Quantity::gate_effect || quantity == Quantity::mixing;
  return is_signed ? Reduction::absmax : Reduction::max;
}

std::string why_not(const TraceInfo& info, int layer, Quantity quantity) {
  const LayerMixer mixer = info.mixer(layer);
  if (mixer.has_softmax()) return {};
  if (!mixer.kind().mixes) {
    return fmt::format("layer {} has no heads: it {}", layer,
                       is_unrecorded(info, layer) ? "was not recorded" : "does not mix positions");
  }
  switch (quantity) {
    case Quantity::forget:
    case Quantity::log_forget:
      if (mixer.decays()) return {};
      return fmt::format("the {} forgets {}: ask for mixing or attention", mixer_words(mixer),
                         mixer.erases() ? "only what it overwrites" : "nothing");
    case Quantity::attention:
    case Quantity::mixing:
      return {};
    case Quantity::logits:
    case Quantity::attention_without_gate:
    case Quantity::gate_effect:
      break;
  }
  return fmt::format("{} needs softmax attention, and {} has no softmax: ask for mixing or attention",
                     to_string(quantity), mixer_words(mixer));
}

bool is_of_attention(Quantity quantity) {
  return quantity == Quantity::attention || quantity == Quantity::attention_without_gate ||
         quantity == Quantity::gate_effect;
}

std::optional<Image> compute_map(const MapRequest& request, const Job& job) {
  return computed_map(request, job, nullptr);
}

std::optional<Image> compute_map_in_stages(const MapRequest& request, const Job& job, const MapStages& stages) {
  return computed_map(request, job, &stages);
}

std::span<const float> log_normalizer_without_gate(const HeadOf& head, const Job& job) {
  return head.trace->log_normalizer_without_gate(head.layer, head.head, [&] {
    const Range all{0, head.trace->info().length};
    if (forgets(head.trace->info(), head.layer)) return compute_log_normalizer_without_gate(head, all, job);
    // Without a gate the run's own normaliser is the one; taking it makes the gate's effect exactly 0.
    const std::span<const float> own = head.trace->log_normalizer(head.layer, head.head);
    return std::vector<float>(own.begin(), own.end());
  });
}

}  // namespace foxscope
