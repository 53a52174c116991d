#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/file/file_trace.h"
#include "backend/file/hdf5_writer.h"
#include "backend/file/provenance.h"
#include "backend/file/run_file.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

using Part = QueryKeyStore::Part;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPieceBytes = 8U << 20U;
constexpr auto kReportInterval = std::chrono::milliseconds(100);

Element element_of(DType dtype) { return dtype == DType::float32 ? Element::float32 : Element::bfloat16; }

void check_traces(const std::filesystem::path& path, std::span<const std::shared_ptr<const Trace>> traces) {
  if (traces.empty()) throw Error(fmt::format("{}: no runs to write: name a model", path.string()));
  std::set<std::string> names;
  for (const auto& trace : traces) {
    const std::string& name = trace->info().name;
    if (!is_model_name(name)) {
      throw UsageError(fmt::format("model name '{}': use letters, digits, '.', '_' and '-' (--model NAME=DIR)", name));
    }
    if (!names.insert(name).second) {
      throw UsageError(fmt::format("two models are named '{}': give them names of their own (--model NAME=DIR)", name));
    }
    const Text* text = trace->text().get();
    const Text* first = traces.front()->text().get();
    if ((text == nullptr) != (first == nullptr) || (text != nullptr && text->content != first->content)) {
      throw Error(fmt::format("{}: the runs of '{}' and '{}' are on different texts: write one file for each",
                              path.string(), traces.front()->info().name, name));
    }
    if (text != nullptr && text->content.find('\0') != std::string::npos) {
      throw Error(fmt::format("{}: the text holds a NUL byte, which HDF5 strings cannot: remove it from the text",
                              path.string()));
    }
  }
}

/// What a variable-length UTF-8 string cannot hold is spelled out or replaced.
std::string as_hdf5_string(const std::string& text) {
  std::string escaped;
  for (const char c : text) c == '\0' ? escaped.append("\\x00") : escaped.append(1, c);
  return find_invalid_utf8(escaped) ? replace_invalid_utf8(escaped) : escaped;
}

/// Queries or keys of one layer and the place in the file that is kept for them.
struct RawArray {
  const QueryKeyStore* store;
  Part part;
  int layer;
  std::uint64_t offset;
};

/// Copies queries and keys into the file: pages of the system's cache are filled straight from where they lie, past
/// libhdf5 and while other threads compress the rest. Two threads writing to one file would only wait for each other.
/// @returns false if the job was stopped
bool copy_raw_arrays(const AtomicFile& file, const std::vector<RawArray>& arrays, const std::stop_token& stop,
                     std::atomic<std::uint64_t>& bytes_written) {
  std::vector<std::byte> scratch;
  for (const RawArray& array : arrays) {
    const QueryKeyStore::Shape& shape = array.store->shape();
    const std::uint64_t row_bytes = static_cast<std::uint64_t>(shape.head_dim) * size_of(array.store->dtype());
    const auto piece_rows = static_cast<std::int64_t>(std::max<std::uint64_t>(1, kPieceBytes / row_bytes));
    const int heads = array.part == Part::query ? shape.heads : shape.key_heads;
    std::uint64_t offset = array.offset;
    for (int head = 0; head < heads; ++head) {
      for (std::int64_t begin = 0; begin < shape.length; begin += piece_rows) {
        if (stop.stop_requested()) return false;
        const std::int64_t end = std::min(shape.length, begin + piece_rows);
        const std::span<const std::byte> bytes =
            array.store->raw_rows(array.part, array.layer, head, begin, end, scratch);
        if (const int error = file.try_write_at(offset, bytes.data(), bytes.size()); error != 0) {
          file.throw_write_error(error);
        }
        offset += bytes.size();
        bytes_written += bytes.size();
      }
    }
  }
  return true;
}

/// Writes the group of one model.
class ModelWriter {
 public:
  ModelWriter(Hdf5Writer& writer, const AtomicFile& file, const Trace& trace, const Job& job)
      : writer_(writer),
        file_(file),
        trace_(trace),
        info_(trace.info()),
        job_(job),
        root_("/models/" + info_.name),
        length_(static_cast<std::uint64_t>(info_.length)) {}

  /// Creates what can be filled past libhdf5.
  std::vector<RawArray> reserve_query_key() {
    std::vector<RawArray> arrays;
    const QueryKeyStore* store = trace_.query_key();
    if (store == nullptr) return arrays;
    for (int layer = 0; layer < info_.layers; ++layer) {
      for (const Part part : {Part::query, Part::key}) {
        const std::string path = layer_path(layer) + (part == Part::query ? "/query" : "/key");
        const auto heads = static_cast<std::uint64_t>(part == Part::query ? info_.heads : info_.key_heads);
        arrays.push_back({store, part, layer,
                          writer_.reserve(path, element_of(store->dtype()),
                                          {heads, length_, static_cast<std::uint64_t>(info_.head_dim)})});
      }
    }
    return arrays;
  }

  void write_attributes() {
    writer_.attribute(root_, "NX_class", "NXentry");
    if (const std::string plotted = default_plot(); !plotted.empty()) writer_.attribute(root_, "default", plotted);
    writer_.attribute(root_, "model_type", info_.model_type);
    writer_.attribute(root_, "config", info_.config);
    writer_.attribute(root_, "weights_sha256", info_.weights_sha256);
    writer_.attribute(root_, "dtype", to_string(info_.dtype));
    writer_.attribute(root_, "device", info_.device);
    writer_.attribute(root_, "attention_kernel", info_.attention_kernel);
    writer_.attribute(root_, "softmax_scale", static_cast<double>(info_.softmax_scale));
    writer_.attribute(root_, "window_size", info_.window_size);
    writer_.attribute(root_, "pruning_tolerance", info_.pruning_tolerance);
    writer_.attribute(root_, "intervention", info_.intervention);
    writer_.attribute(root_, "gated", std::int64_t{info_.gated});
    writer_.attribute(root_, "layers", std::int64_t{info_.layers});
    writer_.attribute(root_, "heads", std::int64_t{info_.heads});
    writer_.attribute(root_, "key_heads", std::int64_t{info_.key_heads});
    writer_.attribute(root_, "head_dim", std::int64_t{info_.head_dim});
  }

  /// @param shared  model that holds an equal token table already; empty: none does
  void write_tokens(const std::string& shared) {
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

  void write_loss() {
    if (trace_.per_token_loss().empty()) return;
    write_column("loss/per_token_loss", Element::float32, trace_.per_token_loss().data());
    writer_.attribute(root_ + "/loss/per_token_loss", "units", "nats");
    make_plottable("loss", "per_token_loss", {"position"}, "spectrum");
  }

  /// @returns false if the job was stopped
  bool write_layers() {
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

  /// Logits and hidden states: large, and fetched from the trace one array at a time.
  /// @returns false if the job was stopped
  bool write_wide_arrays() {
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

 private:
  [[nodiscard]] std::string layer_path(int layer) const { return fmt::format("{}/layers/{:02}", root_, layer); }

  [[nodiscard]] std::string default_plot() const {
    if (!trace_.per_token_loss().empty()) return "loss";
    const std::shared_ptr<const LayerRows> rows = trace_.source().rows(0);
    return rows->cumulative_log_gate.empty() && rows->log_normalizer.empty() ? "" : "layers/00";
  }

  void write_scale(const std::string& name, std::uint64_t size) {
    std::vector<std::int64_t> index(size);
    std::iota(index.begin(), index.end(), 0);
    writer_.array(root_ + "/axes/" + name, Element::int64, {size}, index.data(), job_.executor);
    writer_.make_scale(root_ + "/axes/" + name, name.c_str());
  }

  void attach(const std::string& path, std::initializer_list<const char*> scales) {
    unsigned dimension = 0;
    for (const char* scale : scales) writer_.attach_scale(root_ + "/" + path, dimension++, root_ + "/axes/" + scale);
  }

  void write_column(const std::string& path, Element element, const void* data) {
    writer_.array(root_ + "/" + path, element, {length_}, data, job_.executor);
    attach(path, {"position"});
  }

  /// An NXdata group: viewers plot its signal against its axes.
  void make_plottable(const std::string& group, const std::string& signal, const std::vector<std::string>& axes,
                      const char* interpretation) {
    const std::string path = root_ + "/" + group;
    for (const std::string& axis : axes) writer_.link(root_ + "/axes/" + axis, path + "/" + axis);
    writer_.attribute(path, "NX_class", "NXdata");
    writer_.attribute(path, "signal", signal);
    writer_.attribute(path, "axes", axes);
    writer_.attribute(path, "interpretation", interpretation);
    writer_.attribute(path + "/" + signal, "interpretation", interpretation);
  }

  template <typename T>
  void write_rows(const std::string& path, Element element, const std::vector<T>& values) {
    if (values.empty()) return;
    writer_.array(root_ + "/" + path, element, {static_cast<std::uint64_t>(info_.heads), length_}, values.data(),
                  job_.executor);
    writer_.attribute(root_ + "/" + path, "units", "nats");
    attach(path, {"head", "position"});
  }

  void write_layer(int layer) {
    const std::string group = fmt::format("layers/{:02}", layer);
    const std::shared_ptr<const LayerRows> rows = trace_.source().rows(layer);
    write_rows(group + "/cumulative_log_gate", Element::float64, rows->cumulative_log_gate);
    write_rows(group + "/log_normalizer", Element::float32, rows->log_normalizer);
    write_rows(group + "/log_normalizer_without_gate", Element::float32, rows->log_normalizer_without_gate);
    if (trace_.query_key() != nullptr) {
      attach(group + "/query", {"head", "position", "channel"});
      attach(group + "/key", {"key_head", "position", "channel"});
    }
    if (!rows->cumulative_log_gate.empty()) {
      make_plottable(group, "cumulative_log_gate", {"head", "position"}, "spectrum");
    } else if (!rows->log_normalizer.empty()) {
      make_plottable(group, "log_normalizer", {"head", "position"}, "spectrum");
    } else if (trace_.query_key() == nullptr && rows->log_normalizer_without_gate.empty()) {
      writer_.group(root_ + "/" + group);
    }
  }

  bool write_wide(const std::string& path, const std::vector<float>& values, const char* axis) {
    const std::uint64_t width = values.size() / length_;
    if (!wide_axes_.contains(axis)) {
      write_scale(axis, width);
      wide_axes_.insert(axis);
    }
    const std::uint64_t offset = writer_.reserve(root_ + "/" + path, Element::float32, {length_, width});
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    for (std::uint64_t begin = 0; begin < bytes.size(); begin += kPieceBytes) {
      if (job_.stopped()) return false;
      const std::uint64_t size = std::min<std::uint64_t>(kPieceBytes, bytes.size() - begin);
      if (const int error = file_.try_write_at(offset + begin, bytes.data() + begin, size); error != 0) {
        file_.throw_write_error(error);
      }
    }
    attach(path, {"position", axis});
    return true;
  }

  Hdf5Writer& writer_;
  const AtomicFile& file_;
  const Trace& trace_;
  const TraceInfo& info_;
  const Job& job_;
  std::string root_;
  std::uint64_t length_;
  std::set<std::string> wide_axes_;
};

std::uint64_t query_key_bytes(const Trace& trace) {
  const TraceInfo& info = trace.info();
  if (trace.query_key() == nullptr) return 0;
  return static_cast<std::uint64_t>(info.layers) * static_cast<std::uint64_t>(info.heads + info.key_heads) *
         static_cast<std::uint64_t>(info.length) * static_cast<std::uint64_t>(info.head_dim) *
         size_of(trace.query_key()->dtype());
}

void write_text(Hdf5Writer& writer, const Text& text) {
  writer.text("/text/content", text.content);
  writer.attribute("/text/content", "sha256", text.sha256);
}

/// Everything that goes through libhdf5. @returns false if the job was stopped
bool write_structure(Hdf5Writer& writer, std::span<const std::shared_ptr<const Trace>> traces,
                     std::vector<ModelWriter>& models) {
  if (traces.front()->text()) write_text(writer, *traces.front()->text());
  for (std::size_t n = 0; n < models.size(); ++n) {
    std::string shared;
    for (std::size_t before = 0; before < n && shared.empty(); ++before) {
      if (*traces[before]->tokens() == *traces[n]->tokens()) shared = traces[before]->info().name;
    }
    models[n].write_attributes();
    models[n].write_tokens(shared);
    models[n].write_loss();
    if (!models[n].write_layers()) return false;
  }
  return true;
}

}  // namespace

bool write_run_file(const std::filesystem::path& path, std::span<const std::shared_ptr<const Trace>> traces,
                    const Provenance& provenance, Overwrite overwrite, const Job& job, double* seconds_without_flush) {
  const Clock::time_point start = Clock::now();
  check_traces(path, traces);
  AtomicFile file(path, overwrite == Overwrite::force);
  std::uint64_t total = 0;
  for (const auto& trace : traces) total += query_key_bytes(*trace);
  file.require_space(total);

  Hdf5Writer writer(file);
  write_root(writer, provenance);
  writer.attribute("/", "default", "models/" + traces.front()->info().name);
  std::vector<ModelWriter> models;
  std::vector<RawArray> arrays;
  for (const auto& trace : traces) {
    writer.group("/models/" + trace->info().name);
    models.emplace_back(writer, file, *trace, job);
    const std::vector<RawArray> more = models.back().reserve_query_key();
    arrays.insert(arrays.end(), more.begin(), more.end());
  }

  std::atomic<std::uint64_t> done = 0;
  std::stop_source give_up;
  const std::stop_callback forward(job.stop, [&give_up] { give_up.request_stop(); });
  std::future<bool> copied =
      std::async(std::launch::async, [&] { return copy_raw_arrays(file, arrays, give_up.get_token(), done); });
  bool whole = false;
  try {
    whole = write_structure(writer, traces, models);
  } catch (...) {
    give_up.request_stop();
    copied.wait();
    throw;
  }
  while (copied.wait_for(kReportInterval) != std::future_status::ready) {
    job.tell({static_cast<std::int64_t>(done), static_cast<std::int64_t>(total), "bytes", "writing"});
  }
  whole = copied.get() && whole;
  for (ModelWriter& model : models) whole = whole && model.write_wide_arrays();
  if (!whole || job.stopped()) return false;
  writer.close();
  job.tell({static_cast<std::int64_t>(total), static_cast<std::int64_t>(total), "bytes", "writing"});
  if (seconds_without_flush != nullptr) {
    *seconds_without_flush = std::chrono::duration<double>(Clock::now() - start).count();
  }
  file.commit();
  return true;
}

}  // namespace foxscope
