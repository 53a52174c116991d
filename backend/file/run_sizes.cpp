#include "backend/file/run_sizes.h"

#include <algorithm>

#include "backend/file/file_trace.h"

namespace foxscope {
namespace {

/// Without arrays of layers, gradients and hidden states have one of each layer; of losses alone it does not matter how
/// many layers there were.
void fill_sizes_without_layers(const Hdf5Object& model, TraceInfo& info) {
  info.layers = 1;
  if (const auto states = model.find("hidden_states")) {
    info.layers = static_cast<int>(std::clamp<std::size_t>(states->names().size(), 2, kMostLayers + 1)) - 1;
  }
  const auto gradient = find_array(model, spec_of(TraceArray::log_forget_gradient));
  if (!gradient) return;
  const std::vector<std::uint64_t> dims = Hdf5Dataset(*gradient).dims();
  if (dims.size() != 3) return;  // refused where its shape is
  info.layers = static_cast<int>(std::min<std::uint64_t>(dims[0], kMostLayers));
  info.heads = static_cast<int>(std::min<std::uint64_t>(dims[1], kMostHeads));
}

}  // namespace

void fill_sizes(const Hdf5Object& model, const std::optional<Hdf5Object>& layers, TraceInfo& info) {
  if (!layers) return fill_sizes_without_layers(model, info);
  info.layers = static_cast<int>(std::min<std::size_t>(layers->names().size(), kMostLayers));
  const std::optional<Hdf5Object> first = layers->find("00");
  if (!first) return;
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.repeat != Repeat::layers) continue;
    const std::optional<Hdf5Object> object = first->find(name_of(spec));
    if (!object) continue;
    const std::vector<std::uint64_t> dims = Hdf5Dataset(*object).dims();
    for (std::size_t n = 0; n < std::min(dims.size(), spec.axes.size()); ++n) {
      const Axis axis = spec.axes.begin()[n];
      const auto extent = static_cast<int>(std::min<std::uint64_t>(dims[n], kMostHeads));
      if (axis == Axis::head || axis == Axis::query_head) info.heads = std::max(info.heads, extent);
      if (axis == Axis::key_head) info.key_heads = extent;
      if (axis == Axis::channel) info.head_dim = extent;
    }
  }
}

double usual_scale(const TraceInfo& info) {
  int head_dim = info.head_dim;
  for (const LayerMixer& mixer : info.mixers) {
    if (mixer.has_softmax()) head_dim = mixer.head_dim;
  }
  return head_dim > 0 ? softmax_scale<double>(head_dim) : 0;
}

}  // namespace foxscope
