#include "backend/map/map.h"

#include <array>
#include <cassert>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/map/device/device_map.h"
#include "backend/map/entry_map.h"
#include "backend/map/forget_map.h"
#include "backend/map/log_normalizer.h"
#include "backend/map/map_stages.h"
#include "backend/trace/mixer_text.h"

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
    throw UsageError(fmt::format(
        "model '{}', layer {}: a channel is chosen of forget and log_forget of gated linear attention and Mamba, where "
        "each channel decays: leave it out",
        info.name, head.layer));
  }
  if (*request.channel < 0 || *request.channel >= mixer.head_dim) {
    throw UsageError(fmt::format("model '{}', layer {} has no channel {}: channels are 0 to {}", info.name, head.layer,
                                 *request.channel, mixer.head_dim - 1));
  }
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
    throw UsageError(
        fmt::format("key 0 is left out of attention: of {} it is a key like others", to_string(request.quantity)));
  }
  check_range("rows", request.rows, info);
  check_range("columns", request.columns, info);
  if (request.pixel_rows < 1 || request.pixel_rows > request.rows.size() || request.pixel_columns < 1 ||
      request.pixel_columns > request.columns.size()) {
    throw UsageError(fmt::format("size {}x{}: must be from 1x1 to {}x{}, the number of entries that are asked for",
                                 request.pixel_rows, request.pixel_columns, request.rows.size(),
                                 request.columns.size()));
  }
  if (!(request.skip_tolerance >= 0 && request.skip_tolerance < 1)) {
    throw UsageError(
        fmt::format("skip tolerance {}: must be 0 (exact) or a share of attention below 1", request.skip_tolerance));
  }
}

std::optional<Image> computed_map(const MapRequest& request, const Job& job, const MapStages* stages) {
  check_request(request);
  try {
    const bool counted = request.first_key == FirstKey::counted;
    if (const auto gpu = counted ? gpu_of(request) : std::nullopt) {
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
    std::optional<Image> image = has_closed_form(request) ? forget_map(request, job) : entry_map(request, job, stages);
    assert(!image || (image->rows == request.pixel_rows && image->columns == request.pixel_columns &&
                      static_cast<std::int64_t>(image->value.size()) == image->rows * image->columns));
    return image;
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("no memory for a map of {}x{} pixels: ask for a smaller size or fewer rows",
                            request.pixel_rows, request.pixel_columns));
  }
}

}  // namespace

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
  switch (quantity) {
    case Quantity::forget:
    case Quantity::log_forget:
      if (mixer.decays()) return {};
      return fmt::format("the {} forgets only what it overwrites: ask for mixing or attention", mixer_words(mixer));
    case Quantity::attention:
    case Quantity::mixing:
      return {};
    case Quantity::logits:
    case Quantity::attention_without_gate:
    case Quantity::gate_effect:
      break;
  }
  return fmt::format("{} is of softmax attention, and {} has no softmax: ask for mixing or attention",
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
