#include "backend/file/model_writer.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

using Part = QueryKeyStore::Part;

Element element_of(DType dtype) { return dtype == DType::float32 ? Element::float32 : Element::bfloat16; }

}  // namespace

std::string as_hdf5_string(const std::string& text) {
  std::string escaped;
  for (const char c : text) c == '\0' ? escaped.append("\\x00") : escaped.append(1, c);
  return find_invalid_utf8(escaped) ? replace_invalid_utf8(escaped) : escaped;
}

ModelWriter::ModelWriter(Hdf5Writer& writer, const AtomicFile& file, const Trace& trace, const Job& job)
    : writer_(writer),
      file_(file),
      trace_(trace),
      info_(trace.info()),
      job_(job),
      root_("/models/" + info_.name),
      length_(static_cast<std::uint64_t>(info_.length)) {}

std::vector<RawArray> ModelWriter::reserve_query_key() {
  std::vector<RawArray> arrays;
  const QueryKeyStore* store = trace_.query_key();
  if (store == nullptr) return arrays;
  for (int layer = 0; layer < info_.layers; ++layer) {
    for (const Part part : {Part::query, Part::key}) {
      const std::string path = fmt::format("{}/layers/{:02}", root_, layer) + (part == Part::query ? "/query" : "/key");
      const auto heads = static_cast<std::uint64_t>(part == Part::query ? info_.heads : info_.key_heads);
      arrays.push_back({store, part, layer,
                        writer_.reserve(path, element_of(store->dtype()),
                                        {heads, length_, static_cast<std::uint64_t>(info_.head_dim)})});
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
  writer.attribute(group, "gated", std::int64_t{info.gated});
  writer.attribute(group, "layers", std::int64_t{info.layers});
  writer.attribute(group, "heads", std::int64_t{info.heads});
  writer.attribute(group, "key_heads", std::int64_t{info.key_heads});
  writer.attribute(group, "head_dim", std::int64_t{info.head_dim});
}

void ModelWriter::write_attributes() {
  writer_.attribute(root_, "NX_class", "NXentry");
  if (const std::string plotted = default_plot(); !plotted.empty()) writer_.attribute(root_, "default", plotted);
  write_run_attributes(writer_, root_, info_);
  writer_.attribute(root_, "attention_kernel", info_.attention_kernel);
}

void ModelWriter::write_tokens(const std::string& shared) {
  if (!shared.empty()) {
    writer_.link("/models/" + shared + "/tokens", root_ + "/tokens");
    writer_.link("/models/" + shared + "/axes/position", root_ + "/axes/position");
    return;
  }
  write_scale("position", length_);
  const TokenTable& tokens = *trace_.tokens();
  write_column("tokens/id", Element::int32, tokens.id.data());
  write_column("tokens/input_id", Element::int32, tokens.input_id.data());
  if (!tokens.byte_start.empty()) write_column("tokens/byte_start", Element::int64, tokens.byte_start.data());
  if (!tokens.byte_end.empty()) write_column("tokens/byte_end", Element::int64, tokens.byte_end.data());
  if (!tokens.string.empty()) {
    std::vector<std::string> strings;
    strings.reserve(tokens.string.size());
    for (const std::string& string : tokens.string) strings.push_back(as_hdf5_string(string));
    writer_.strings(root_ + "/tokens/string", strings);
    attach("tokens/string", {"position"});
  }
}

void ModelWriter::write_loss() {
  if (trace_.per_token_loss().empty()) return;
  write_column("loss/per_token_loss", Element::float32, trace_.per_token_loss().data());
  writer_.attribute(root_ + "/loss/per_token_loss", "units", "nats");
  make_plottable("loss", "per_token_loss", {"position"});
}

bool ModelWriter::write_layers() {
  write_scale("head", static_cast<std::uint64_t>(info_.heads));
  if (trace_.query_key() != nullptr) {
    write_scale("key_head", static_cast<std::uint64_t>(info_.key_heads));
    write_scale("channel", static_cast<std::uint64_t>(info_.head_dim));
  }
  for (int layer = 0; layer < info_.layers; ++layer) {
    if (job_.stopped()) return false;
    write_layer(layer);
  }
  return true;
}

bool ModelWriter::write_wide_arrays() {
  if (const std::vector<float> logits = trace_.source().logits(); !logits.empty()) {
    if (!write_wide("logits", logits, "vocabulary")) return false;
  }
  for (int index = 0; index <= info_.layers; ++index) {
    const std::vector<float> states = trace_.source().hidden_states(index);
    if (states.empty()) break;
    if (!write_wide(fmt::format("hidden_states/{:02}", index), states, "hidden")) return false;
  }
  return true;
}

std::string ModelWriter::default_plot() const {
  if (!trace_.per_token_loss().empty()) return "loss";
  const std::shared_ptr<const LayerRows> rows = trace_.source().rows(0);
  return rows->cumulative_log_gate.empty() && rows->log_normalizer.empty() ? "" : "layers/00";
}

void ModelWriter::write_scale(const std::string& name, std::uint64_t size) {
  std::vector<std::int64_t> index(size);
  std::iota(index.begin(), index.end(), 0);
  writer_.array(root_ + "/axes/" + name, Element::int64, {size}, index.data(), job_.executor);
  writer_.make_scale(root_ + "/axes/" + name, name.c_str());
}

void ModelWriter::attach(const std::string& path, std::initializer_list<const char*> scales) {
  unsigned dimension = 0;
  for (const char* scale : scales) {
    writer_.attach_scale(root_ + "/" + path, dimension++, fmt::format("{}/axes/{}", root_, scale));
  }
}

void ModelWriter::write_column(const std::string& path, Element element, const void* data) {
  writer_.array(root_ + "/" + path, element, {length_}, data, job_.executor);
  attach(path, {"position"});
}

void ModelWriter::make_plottable(const std::string& group, const std::string& signal,
                                 const std::vector<std::string>& axes) {
  const std::string path = root_ + "/" + group;
  for (const std::string& axis : axes) {
    writer_.link(fmt::format("{}/axes/{}", root_, axis), fmt::format("{}/{}", path, axis));
  }
  writer_.attribute(path, "NX_class", "NXdata");
  writer_.attribute(path, "signal", signal);
  writer_.attribute(path, "axes", axes);
  writer_.attribute(path, "interpretation", "spectrum");
  writer_.attribute(path + "/" + signal, "interpretation", "spectrum");
}

void ModelWriter::write_rows(const std::string& path, Element element, const void* data, std::size_t count) {
  if (count == 0) return;
  writer_.array(root_ + "/" + path, element, {static_cast<std::uint64_t>(info_.heads), length_}, data, job_.executor);
  writer_.attribute(root_ + "/" + path, "units", "nats");
  attach(path, {"head", "position"});
}

void ModelWriter::write_layer(int layer) {
  const std::string group = fmt::format("layers/{:02}", layer);
  const std::shared_ptr<const LayerRows> rows = trace_.source().rows(layer);
  write_rows(group + "/cumulative_log_gate", Element::float64, rows->cumulative_log_gate.data(),
             rows->cumulative_log_gate.size());
  write_rows(group + "/log_normalizer", Element::float32, rows->log_normalizer.data(), rows->log_normalizer.size());
  write_rows(group + "/log_normalizer_without_gate", Element::float32, rows->log_normalizer_without_gate.data(),
             rows->log_normalizer_without_gate.size());
  if (trace_.query_key() != nullptr) {
    attach(group + "/query", {"head", "position", "channel"});
    attach(group + "/key", {"key_head", "position", "channel"});
  }
  if (!rows->cumulative_log_gate.empty()) {
    make_plottable(group, "cumulative_log_gate", {"head", "position"});
  } else if (!rows->log_normalizer.empty()) {
    make_plottable(group, "log_normalizer", {"head", "position"});
  } else if (trace_.query_key() == nullptr && rows->log_normalizer_without_gate.empty()) {
    writer_.group(root_ + "/" + group);
  }
}

bool ModelWriter::write_wide(const std::string& path, const std::vector<float>& values, const char* axis) {
  const std::uint64_t width = values.size() / length_;
  if (!wide_axes_.contains(axis)) {
    write_scale(axis, width);
    wide_axes_.insert(axis);
  }
  const std::uint64_t offset = writer_.reserve(root_ + "/" + path, Element::float32, {length_, width});
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  for (std::uint64_t begin = 0; begin < bytes.size(); begin += kRawPieceBytes) {
    if (job_.stopped()) return false;
    const std::uint64_t size = std::min<std::uint64_t>(kRawPieceBytes, bytes.size() - begin);
    if (const int error = file_.try_write_at(offset + begin, bytes.data() + begin, size); error != 0) {
      file_.throw_write_error(error);
    }
  }
  attach(path, {"position", axis});
  return true;
}

}  // namespace foxscope
