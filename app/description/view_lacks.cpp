#include "app/description/view_lacks.h"

#include <algorithm>

#include <fmt/format.h>

#include "backend/base/number_ranges.h"

namespace foxscope {
namespace {

/// Layers that lack an array.
struct LackingLayers {
  TraceArray array;
  std::vector<int> layers;
};

class LackSearch {
 public:
  explicit LackSearch(const SchemaModel& model) : model_(model), info_(model.info) {}

  std::vector<ViewLack> search() {
    add("maps of F, gates, decay times", lacking(&LackSearch::is_of_gates));
    add("maps of A, M and logits, statistics of heads", lacking(&LackSearch::is_of_entries));
    addComputed();
    addOnce("curves of losses, compare, the tint by loss", {TraceArray::per_token_loss});
    if (!model_.has_text && !model_.has_words) {
      lacks_.push_back({"words", {"tokens/string, or /text/content with tokens/byte_start and byte_end"}});
    }
    addOnce("saliency", {TraceArray::log_forget_gradient});
    addOnce("predictions", {TraceArray::prediction_state, TraceArray::hidden_states, TraceArray::logits});
    return std::move(lacks_);
  }

 private:
  using Need = bool (LackSearch::*)(const ArraySpec&, int) const;

  [[nodiscard]] bool has(TraceArray array, int layer) const { return model_.present.contains({array, layer}); }

  /// Sums of decays; c of attention that may have had a gate.
  [[nodiscard]] bool is_of_gates(const ArraySpec& spec, int layer) const {
    return spec.keep == Keep::gates && (forgets(info_, layer) || !info_.intervention.empty());
  }
  /// Entries are made of these arrays and of row normalisers, which can be computed.
  [[nodiscard]] bool is_of_entries(const ArraySpec& spec, int layer) const {
    return spec.keep == Keep::query_key || spec.array == TraceArray::sink_logit || is_of_gates(spec, layer);
  }
  /// Row normalisers of layers that have all else.
  [[nodiscard]] bool is_computed(const ArraySpec& spec, int layer) const {
    if (spec.array != TraceArray::log_normalizer) return false;
    for (const ArraySpec& other : kTraceArrays) {
      if (other.repeat == Repeat::layers && belongs_to(other, info_.mixer(layer)) && is_of_entries(other, layer) &&
          !has(other.array, layer)) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] std::vector<LackingLayers> lacking(Need need) const {
    std::vector<LackingLayers> found;
    for (const ArraySpec& spec : kTraceArrays) {
      if (spec.repeat != Repeat::layers) continue;
      LackingLayers of{spec.array, {}};
      for (int layer = 0; layer < info_.layers; ++layer) {
        if (std::ranges::binary_search(model_.not_looked_at, layer)) continue;
        if (belongs_to(spec, info_.mixer(layer)) && (this->*need)(spec, layer) && !has(spec.array, layer)) {
          of.layers.push_back(layer);
        }
      }
      if (!of.layers.empty()) found.push_back(std::move(of));
    }
    return found;
  }

  void add(const char* view, const std::vector<LackingLayers>& arrays, bool computed = false) {
    ViewLack lack{view, {}, computed};
    for (const LackingLayers& of : arrays) {
      const bool all = static_cast<int>(of.layers.size()) == info_.layers;
      lack.arrays.push_back(fmt::format(
          "{} ({})", spec_of(of.array).path,
          all ? "all layers" : fmt::format("layer{} {}", of.layers.size() == 1 ? "" : "s", ranges_text(of.layers))));
    }
    if (!lack.arrays.empty()) lacks_.push_back(std::move(lack));
  }

  void addComputed() { add("row normalisers", lacking(&LackSearch::is_computed), /*computed=*/true); }

  /// Any of these arrays will do.
  void addOnce(const char* view, const std::vector<TraceArray>& arrays) {
    std::vector<std::string> paths;
    for (const TraceArray array : arrays) {
      if (has(array, 0)) return;
      paths.emplace_back(spec_of(array).path);
    }
    lacks_.push_back({view, {fmt::format("{}", fmt::join(paths, " or "))}});
  }

  const SchemaModel& model_;
  const TraceInfo& info_;
  std::vector<ViewLack> lacks_;
};

}  // namespace

std::vector<ViewLack> viewLacks(const SchemaModel& model) {
  if (!model.looked_at) return {};
  return LackSearch(model).search();
}

}  // namespace foxscope
