#include "backend/file/run_sizes.h"

#include <algorithm>

#include <fmt/format.h>

#include "backend/base/error.h"
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

/// Calls visit(axis, extent) for the axes of an array, as far as it has them.
template <typename Visit>
void for_axes(const ArraySpec& spec, const std::vector<std::uint64_t>& dims, Visit visit) {
  for (std::size_t n = 0; n < std::min(dims.size(), spec.axes.size()); ++n) {
    visit(spec.axes.begin()[n], static_cast<int>(std::min<std::uint64_t>(dims[n], kMostHeads)));
  }
}

bool is_of_heads(Axis axis) { return axis == Axis::head || axis == Axis::query_head; }

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
    for_axes(spec, Hdf5Dataset(*object).dims(), [&](Axis axis, int extent) {
      if (is_of_heads(axis)) info.heads = std::max(info.heads, extent);
      if (axis == Axis::key_head) info.key_heads = extent;
      if (axis == Axis::channel) info.head_dim = extent;
    });
  }
}

ExtentCounts count_extents(const Hdf5Object& layers, const TraceInfo& info) {
  ExtentCounts counts;
  for (int layer = 0; layer < info.layers; ++layer) {
    for (const ArraySpec& spec : kTraceArrays) {
      if (spec.repeat != Repeat::layers || !belongs_to(spec, LayerMixer())) continue;
      try {
        const std::optional<Hdf5Object> group = layers.find(fmt::format("{:02}", layer));
        if (!group) break;
        const std::optional<Hdf5Object> object = group->find(name_of(spec));
        if (!object) continue;
        const Hdf5Dataset dataset(*object);
        if (dataset.dims().size() != spec.axes.size()) continue;
        for_axes(spec, dataset.dims(), [&](Axis axis, int extent) {
          if (is_of_heads(axis)) ++counts.heads[extent];
          if (axis == Axis::key_head) ++counts.key_heads[extent];
          if (axis == Axis::channel) ++counts.head_dim[extent];
        });
      } catch (const Error&) {
        continue;  // it is told of where it is held against the schema
      }
    }
  }
  return counts;
}

std::int64_t count_tokens(const Hdf5Object& tokens) {
  for (const char* name : {"id", "input_id"}) {
    try {
      const std::optional<Hdf5Object> object = tokens.find(name);
      if (!object) continue;
      const Hdf5Dataset dataset(*object);
      dataset.require_list();
      if (dataset.dims().size() == 1 && dataset.count() > 0) return static_cast<std::int64_t>(dataset.count());
    } catch (const Error&) {
      continue;  // it is told of where it is held against the schema
    }
  }
  return 0;
}

double usual_scale(const TraceInfo& info) {
  int head_dim = info.head_dim;
  for (const LayerMixer& mixer : info.mixers) {
    if (mixer.has_softmax()) head_dim = mixer.head_dim;
  }
  return head_dim > 0 ? softmax_scale<double>(head_dim) : 0;
}

}  // namespace foxscope
