#include "backend/file/model_writer.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "backend/file/file_trace.h"
#include "backend/file/layer_mixers.h"
#include "backend/map/statistics/gate_mean.h"

namespace foxscope {
namespace {

/// An attribute has 64 KiB at most: without it who wants the means reads the gates.
constexpr int kMostMeans = 4096;

/// The group that an array lies in; empty for the model's own.
std::string group_of(const std::string& path) {
  return path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
}

/// Whether an array can be the signal of its group: one that has no other signals and is small enough to be looked at.
bool is_plotted(const ArraySpec& spec) {
  return spec.storage != Storage::store && spec.keep != Keep::query_key &&
         spec.array != TraceArray::cumulative_log_decay && spec.array != TraceArray::decay_rate &&
         spec.repeat != Repeat::layers_and_output && !group_of(spec.path).empty();
}

}  // namespace

ModelWriter::ModelWriter(Hdf5Writer& writer, const AtomicFile& file, const Trace& trace, const Job& job)
    : writer_(writer),
      file_(file),
      trace_(trace),
      info_(trace.info()),
      job_(job),
      root_("/models/" + info_.name),
      length_(static_cast<std::uint64_t>(info_.length)) {}

std::vector<RawArray> ModelWriter::reserve_stored() {
  std::vector<RawArray> arrays;
  for (const ArraySpec& spec : kTraceArrays) {
    const QueryKeyStore* const store = trace_.store_of(spec.array);
    for (int layer = 0; store != nullptr && layer < info_.layers; ++layer) {
      if (!belongs_to(spec, info_.mixer(layer))) continue;
      arrays.push_back({store, spec.array, layer,
                        writer_.reserve(root_ + "/" + path_of(spec, layer), element_of(spec.number, info_.dtype),
                                        shape_of(spec, info_, layer))});
    }
  }
  return arrays;
}

void write_run_attributes(Hdf5Writer& writer, const std::string& group, const TraceInfo& info) {
  writer.attribute(group, "model_type", info.model_type);
  writer.attribute(group, "config", info.config);
  writer.attribute(group, "weights_sha256", info.weights_sha256);
  writer.attribute(group, "dtype", to_string(info.dtype));
  writer.attribute(group, "device", info.device);
  writer.attribute(group, "softmax_scale", static_cast<double>(info.softmax_scale));
  writer.attribute(group, "window_size", info.window_size);
  writer.attribute(group, "pruning_tolerance", info.pruning_tolerance);
  writer.attribute(group, "intervention", info.intervention);
  writer.attribute(group, "gated", std::int64_t{forgets(info)});
  if (info.unchecked) writer.attribute(group, "unchecked", std::int64_t{1});
  writer.attribute(group, "layers", std::int64_t{info.layers});
  writer.attribute(group, "heads", std::int64_t{info.heads});
  writer.attribute(group, "key_heads", std::int64_t{info.key_heads});
  writer.attribute(group, "head_dim", std::int64_t{info.head_dim});
}

void ModelWriter::write_attributes(std::int64_t order) {
  writer_.attribute(root_, "NX_class", "NXentry");
  // The array that a viewer plots first: the first array that has a group to be plotted in.
  const auto plotted = std::ranges::find_if(
      kTraceArrays, [this](const ArraySpec& spec) { return is_plotted(spec) && trace_.has(spec.array); });
  if (plotted != kTraceArrays.end()) writer_.attribute(root_, "default", group_of(path_of(*plotted, 0)));
  write_run_attributes(writer_, root_, info_);
  writer_.attribute(root_, "order", order);
  writer_.attribute(root_, "attention_kernel", info_.attention_kernel);
}

void ModelWriter::write_tokens(const std::string& shared) {
  if (!shared.empty()) {
    writer_.link("/models/" + shared + "/tokens", root_ + "/tokens");
    writer_.link("/models/" + shared + "/axes/position", root_ + "/axes/position");
    scales_[Axis::position].push_back(length_);
    return;
  }
  const TokenTable& tokens = *trace_.tokens();
  write_column("tokens/id", Element::int32, tokens.id.data());
  write_column("tokens/input_id", Element::int32, tokens.input_id.data());
  if (!tokens.byte_start.empty()) write_column("tokens/byte_start", Element::int64, tokens.byte_start.data());
  if (!tokens.byte_end.empty()) write_column("tokens/byte_end", Element::int64, tokens.byte_end.data());
  if (!tokens.first_string.empty()) writer_.attribute(root_ + "/tokens", "first_string", tokens.first_string);
  if (!tokens.string.empty()) {
    writer_.strings(root_ + "/tokens/string", tokens.string);
    attach("tokens/string", {Axis::position}, {length_});
  }
}

/// Whether there is an array of that layer: a store holds nothing of layers without a mixer.
bool ModelWriter::has(const ArraySpec& spec, int index) const {
  if (spec.repeat == Repeat::layers && !belongs_to(spec, info_.mixer(index))) return false;
  return trace_.has(spec.array, index);
}

bool ModelWriter::write_arrays() {
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.storage == Storage::raw) continue;
    for (int index = 0; index < count_of(spec, info_.layers); ++index) {
      if (job_.stopped()) return false;
      if (has(spec, index)) write_array(spec, index);
    }
  }
  for (int layer = 0; layer < info_.layers; ++layer) {
    // Readers count the layers. Raw arrays come later.
    const bool empty = std::ranges::none_of(kTraceArrays, [&](const ArraySpec& spec) {
      return spec.repeat == Repeat::layers && spec.storage != Storage::raw && has(spec, layer);
    });
    if (empty) writer_.group(fmt::format("{}/layers/{:02}", root_, layer));
  }
  if (!info_.mixers.empty()) write_mixers(writer_, root_, info_);
  write_attention(writer_, root_, info_);
  return true;
}

bool ModelWriter::write_raw_arrays() {
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.storage != Storage::raw) continue;
    for (int index = 0; index < count_of(spec, info_.layers); ++index) {
      if (trace_.has(spec.array, index) && !write_raw(spec, index)) return false;
    }
  }
  return true;
}

std::string ModelWriter::scale(Axis axis, std::uint64_t extent) {
  std::vector<std::uint64_t>& extents = scales_[axis];
  const bool known = std::ranges::find(extents, extent) != extents.end();
  if (!known) extents.push_back(extent);
  std::string name = extents.front() == extent ? to_string(axis) : fmt::format("{}_{}", to_string(axis), extent);
  if (known) return name;
  std::vector<std::int64_t> index(extent);
  std::iota(index.begin(), index.end(), 0);
  const std::string path = fmt::format("{}/axes/{}", root_, name);
  writer_.array(path, Element::int64, {index.size()}, index.data(), job_.executor);
  writer_.make_scale(path, to_string(axis));
  return name;
}

std::vector<std::string> ModelWriter::attach(const std::string& path, const std::vector<Axis>& axes,
                                             const std::vector<std::uint64_t>& extents) {
  std::vector<std::string> names;
  for (std::size_t n = 0; n < axes.size(); ++n) {
    names.push_back(scale(axes[n], extents[n]));
    writer_.attach_scale(root_ + "/" + path, static_cast<unsigned>(n), fmt::format("{}/axes/{}", root_, names.back()));
  }
  return names;
}

void ModelWriter::write_column(const std::string& path, Element element, const void* data) {
  writer_.array(root_ + "/" + path, element, {length_}, data, job_.executor);
  attach(path, {Axis::position}, {length_});
}

void ModelWriter::make_plottable(const std::string& path, const std::vector<std::string>& scales) {
  const std::string group = root_ + "/" + group_of(path);
  if (!plotted_.insert(group).second) return;
  for (const std::string& name : scales) {
    writer_.link(fmt::format("{}/axes/{}", root_, name), fmt::format("{}/{}", group, name));
  }
  writer_.attribute(group, "NX_class", "NXdata");
  writer_.attribute(group, "signal", path.substr(path.rfind('/') + 1));
  writer_.attribute(group, "axes", scales);
  writer_.attribute(group, "interpretation", "spectrum");
  writer_.attribute(root_ + "/" + path, "interpretation", "spectrum");
}

void ModelWriter::describe(const ArraySpec& spec, int index) {
  const std::string path = path_of(spec, index);
  const std::string dataset = root_ + "/" + path;
  if (*spec.units != '\0') writer_.attribute(dataset, "units", spec.units);
  writer_.attribute(dataset, "long_name", spec.long_name);
  if (spec.array == TraceArray::cumulative_log_gate || spec.array == TraceArray::cumulative_log_decay) {
    std::vector<double> means;
    for (int head = 0; head < info_.mixer(index).heads; ++head) means.push_back(mean_log_gate(trace_, index, head));
    if (std::ssize(means) <= kMostMeans) writer_.attribute(dataset, kMeanLogGate, std::span<const double>(means));
  }
  if (spec.array == TraceArray::log_forget_gradient) writer_.attribute(dataset, "target", info_.saliency_target);
  const LayerMixer mixer = spec.repeat == Repeat::layers ? info_.mixer(index) : LayerMixer();
  std::vector<Axis> axes;
  for (const Axis axis : spec.axes) axes.push_back(axis_of(axis, mixer));
  const std::vector<std::string> scales = attach(path, axes, shape_of(spec, info_, index));
  if (is_plotted(spec)) make_plottable(path, scales);
}

void ModelWriter::write_array(const ArraySpec& spec, int index) {
  const std::string path = path_of(spec, index);
  if (spec.storage == Storage::packed) {
    const std::shared_ptr<const ArrayValues> values = trace_.source().read(spec.array, index);
    const void* const data = std::visit([](const auto& numbers) -> const void* { return numbers.data(); }, *values);
    writer_.array(root_ + "/" + path, element_of(spec.number, info_.dtype), shape_of(spec, info_, index), data,
                  job_.executor);
  }
  describe(spec, index);
}

bool ModelWriter::write_raw(const ArraySpec& spec, int index) {
  const std::string path = path_of(spec, index);
  const std::shared_ptr<const ArrayValues> values = trace_.source().read(spec.array, index);
  const std::span<const std::byte> bytes =
      std::visit([](const auto& numbers) { return std::as_bytes(std::span(numbers)); }, *values);
  const std::uint64_t offset =
      writer_.reserve(root_ + "/" + path, element_of(spec.number, info_.dtype), shape_of(spec, info_, index));
  for (std::uint64_t begin = 0; begin < bytes.size(); begin += kRawPieceBytes) {
    if (job_.stopped()) return false;
    const std::uint64_t size = std::min<std::uint64_t>(kRawPieceBytes, bytes.size() - begin);
    if (const int error = file_.try_write_at(offset + begin, bytes.data() + begin, size); error != 0) {
      file_.throw_write_error(error);
    }
  }
  describe(spec, index);
  return true;
}

}  // namespace foxscope
