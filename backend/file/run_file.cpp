#include "backend/file/run_file.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/base/nearest_name.h"
#include "backend/base/sha256.h"
#include "backend/file/file_trace.h"
#include "backend/file/hdf5/hdf5_dataset.h"
#include "backend/file/hdf5/hdf5_writer.h"
#include "backend/file/layer_mixers.h"
#include "backend/file/model_writer.h"
#include "backend/file/provenance.h"
#include "backend/file/raw_copy.h"
#include "backend/file/run_check.h"
#include "backend/file/run_sizes.h"
#include "backend/map/complete_rows.h"
#include "backend/text/json_reading.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

/// Tokens that stand for one character all name its bytes, so that ranges overlap: an escape of twelve bytes in JSON
/// has twelve at most, a character that a normaliser spells out some more.
constexpr std::int64_t kMostTokensOfAByte = 64;

/// The state of reading a file.
struct Reading {
  std::shared_ptr<const Hdf5File> file;
  Hdf5Heap heap;
  Hdf5Account account;
  std::stop_token stop;
  RunCheck check;
  std::int64_t schema = kSchema;
  std::shared_ptr<const Text> text;
  /// Token tables by the address of their group: models with equal tokens share one.
  std::map<std::uint64_t, std::shared_ptr<const TokenTable>> tokens;

  Reading(std::shared_ptr<const Hdf5File> opened, std::stop_token asked_to_stop, RunCheck how_far)
      : file(std::move(opened)), heap(file), account(*file), stop(std::move(asked_to_stop)), check(how_far) {}

  void check_utf8(const std::string& value, const std::string& object) const {
    if (find_invalid_utf8(value)) file->fail_damaged(object, "is not UTF-8");
  }

  std::string text_attribute(const Hdf5Object& object, const std::string& name) {
    std::string value = object.text_attribute(name, heap).value_or("");
    check_utf8(value, object.path() + "@" + name);
    return value;
  }

  std::string json_attribute(const Hdf5Object& object, const std::string& name) {
    std::string value = text_attribute(object, name);
    if (value.empty()) return value;
    check_json_bounds(value, fmt::format("{}: {}@{}", file->name(), object.path(), name));
    if (!nlohmann::json::accept(value)) {
      file->fail_damaged(object.path() + "@" + name, "is not JSON");
    }
    return value;
  }

  /// A whole number within bounds; `otherwise` where the attribute is absent.
  std::int64_t integer_attribute(const Hdf5Object& object, const std::string& name, std::int64_t otherwise,
                                 std::int64_t least, std::int64_t most) const {
    const std::int64_t value = object.integer_attribute(name).value_or(otherwise);
    if (value < least || value > most) {
      file->fail_damaged(object.path() + "@" + name, fmt::format("is {}, not from {} to {}", value, least, most));
    }
    return value;
  }

  double real_attribute(const Hdf5Object& object, const std::string& name, double otherwise) const {
    const double value = object.real_attribute(name).value_or(otherwise);
    if (!std::isfinite(value) || value < 0) file->fail_damaged(object.path() + "@" + name, "is no such number");
    return value;
  }
};

std::shared_ptr<const Text> read_text(Reading& reading, const Hdf5Object& root) {
  const std::optional<Hdf5Object> group = root.find("text");
  if (!group) return nullptr;
  const Hdf5Object object = group->child("content");
  auto text = std::make_shared<Text>();
  const Hdf5Dataset dataset(object);
  if (dataset.count() != 1) reading.file->fail_damaged(object.path(), "is not one string");
  std::vector<std::string> content = dataset.texts(reading.heap);
  text->content = std::move(content.front());
  reading.check_utf8(text->content, object.path());
  text->sha256 = reading.text_attribute(object, "sha256");
  if (!text->sha256.empty() && text->sha256 != sha256(text->content)) {
    reading.file->fail_damaged(object.path(), "does not have the SHA-256 that the file gives");
  }
  text->unread_bytes =
      reading.integer_attribute(object, "unread_bytes", 0, 0, std::numeric_limits<std::int64_t>::max() / 2);
  text->cut_word = reading.integer_attribute(object, "cut_word", 0, 0, 1) == 1;
  return text;
}

template <typename T>
std::vector<T> read_column(Reading& reading, const Hdf5Object& group, const char* name, Element element,
                           std::uint64_t length) {
  const Hdf5Dataset column(group.child(name));
  column.require(element, {length});
  reading.account.take_values(column);
  return column.values<T>();
}

void check_byte_range(const Reading& reading, const Hdf5Object& group, const TokenTable& tokens) {
  if (!reading.text) reading.file->fail_damaged(group.path() + "/byte_start", "is present without a text");
  const auto size = static_cast<std::int64_t>(reading.text->content.size());
  const auto fail = [&](std::size_t token, const char* problem) {
    reading.file->fail_damaged(group.path() + "/byte_start", fmt::format("token {} {}", token, problem));
  };
  std::int64_t covered = 0;
  for (std::size_t n = 0; n < tokens.id.size(); ++n) {
    const std::int64_t begin = tokens.byte_start[n];
    const std::int64_t end = tokens.byte_end[n];
    if (begin < 0 || begin > end || end > size) fail(n, "lies outside of the text");
    if (n > 0 && (begin < tokens.byte_start[n - 1] || end < tokens.byte_end[n - 1])) {
      fail(n, "comes before the token that it follows");
    }
    covered += end - begin;
    if (covered / kMostTokensOfAByte > size) fail(n, "names bytes that too many tokens have named before");
  }
}

/// @returns null if the reading was stopped
std::shared_ptr<const TokenTable> read_tokens(Reading& reading, const Hdf5Object& model) {
  const Hdf5Object group = model.child("tokens");
  std::shared_ptr<const TokenTable>& known = reading.tokens[group.address()];
  if (known) return known;
  auto tokens = std::make_shared<TokenTable>();
  const auto stopped = [&reading] { return reading.stop.stop_requested(); };
  const Hdf5Dataset id(group.child("id"));
  if (id.dims().size() != 1 || id.count() == 0) reading.file->fail_damaged(group.path() + "/id", "holds no tokens");
  const std::uint64_t length = id.count();
  id.require(Element::int32, {length});
  id.require_list();
  reading.account.take_values(id);
  tokens->id = id.values<std::int32_t>();
  tokens->input_id = read_column<std::int32_t>(reading, group, "input_id", Element::int32, length);
  // -1 is the label of a position that nothing follows.
  for (const auto& [name, ids, first] :
       {std::tuple("id", &tokens->id, -1), std::tuple("input_id", &tokens->input_id, 0)}) {
    const auto negative = std::ranges::find_if(*ids, [least = first](std::int32_t one) { return one < least; });
    if (negative == ids->end()) continue;
    reading.file->fail_damaged(group.path() + "/" + name,
                               fmt::format("names token {} at {}", *negative, negative - ids->begin()));
  }
  if (stopped()) return nullptr;
  if (group.find("byte_start")) {
    tokens->byte_start = read_column<std::int64_t>(reading, group, "byte_start", Element::int64, length);
    tokens->byte_end = read_column<std::int64_t>(reading, group, "byte_end", Element::int64, length);
    check_byte_range(reading, group, *tokens);
  }
  tokens->first_string = reading.text_attribute(group, "first_string");
  if (stopped()) return nullptr;
  if (const std::optional<Hdf5Object> strings = group.find("string")) {
    const Hdf5Dataset column(*strings);
    if (column.dims() != id.dims())
      reading.file->fail_damaged(strings->path(), "does not have one string for each token");
    tokens->string = column.texts(reading.heap);
    for (const std::string& string : tokens->string) reading.check_utf8(string, strings->path());
  }
  known = tokens;
  return known;
}

/// @throws Error for a mixer that files of the schema do not have, which older readers would take for attention
void check_schema(const Reading& reading, const Hdf5Object& model, const TraceInfo& info) {
  if (reading.schema >= kMixerSchema) return;
  for (int layer = 0; layer < info.layers; ++layer) {
    const LayerMixer mixer = info.mixer(layer);
    if (mixer.has_softmax()) continue;
    throw Error(
        fmt::format("{}: {}/layers/{:02}@mixer: is {}, which files of schema {} have, and @foxscope_schema is {}: "
                    "correct what wrote the file",
                    reading.file->name(), model.path(), layer, to_string(mixer.mixer), kMixerSchema, reading.schema));
  }
}

TraceInfo read_info(Reading& reading, const Hdf5Object& model, const std::optional<Hdf5Object>& layers) {
  TraceInfo info;
  info.model_type = reading.text_attribute(model, "model_type");
  info.config = reading.json_attribute(model, "config");
  info.weights_sha256 = reading.text_attribute(model, "weights_sha256");
  info.device = reading.text_attribute(model, "device");
  info.attention_kernel = reading.text_attribute(model, "attention_kernel");
  info.intervention = reading.json_attribute(model, "intervention");
  const std::string dtype = reading.text_attribute(model, "dtype");
  if (dtype != "float32" && dtype != "bfloat16") {
    reading.file->fail_damaged(model.path() + "@dtype", "is neither float32 nor bfloat16");
  }
  info.dtype = dtype_from_string(dtype);
  info.window_size = reading.integer_attribute(model, "window_size", 0, 0, kMostWindow);
  info.pruning_tolerance = reading.real_attribute(model, "pruning_tolerance", 0);
  (void)reading.integer_attribute(model, "gated", 1, 0, 1);
  if (const auto gradient = find_array(model, spec_of(TraceArray::log_forget_gradient))) {
    info.saliency_target = reading.text_attribute(*gradient, "target");
  }
  fill_sizes(model, layers, info);
  info.layers = static_cast<int>(reading.integer_attribute(model, "layers", info.layers, 1, kMostLayers));
  info.heads = static_cast<int>(reading.integer_attribute(model, "heads", info.heads, 1, kMostHeads));
  info.key_heads =
      static_cast<int>(reading.integer_attribute(model, "key_heads", std::max(1, info.key_heads), 1, info.heads));
  info.head_dim = static_cast<int>(reading.integer_attribute(model, "head_dim", info.head_dim, 0, kMostHeads));
  read_mixers(model, reading.heap, info);
  read_attention(model, info);
  check_schema(reading, model, info);
  info.softmax_scale = static_cast<float>(reading.real_attribute(model, "softmax_scale", usual_scale(info)));
  if (info.mixers.empty() && info.heads % info.key_heads != 0) {
    reading.file->fail_damaged(model.path(),
                               fmt::format("{} heads cannot share {} key heads", info.heads, info.key_heads));
  }
  if (!fits_heads(*reading.file, info.layers, info.heads)) {
    reading.file->fail_damaged(model.path(), fmt::format("{} layers of {} heads are too much for a file of {} bytes",
                                                         info.layers, info.heads, reading.file->size()));
  }
  return info;
}

using Names = std::set<std::string, std::less<>>;

/// Logs the members of a group that are not read.
void log_skipped(const Reading& reading, const Hdf5Object& group, const Names& known) {
  if (!logging()) return;
  std::string skipped;
  for (const std::string& name : group.names()) {
    if (!known.contains(name)) skipped += (skipped.empty() ? "" : ", ") + name;
  }
  if (skipped.empty()) return;
  write_log(LogCategory::file, fmt::format("{}: {}: skipped {}", reading.file->name(), group.path(), skipped));
}

/// Names of the arrays that a model's group or a layer's holds.
Names names_of_arrays(Names names, bool of_layers) {
  for (const ArraySpec& spec : kTraceArrays) {
    if (!of_layers) names.insert(std::string(spec.path).substr(0, std::string_view(spec.path).find('/')));
    if (of_layers && spec.repeat == Repeat::layers) names.insert(name_of(spec));
  }
  return names;
}

/// Logs the arrays that were read from a model's group, and those that were skipped.
void log_model(const Reading& reading, const Hdf5Object& model, const std::optional<Hdf5Object>& layers,
               const Trace& trace) {
  const TraceInfo& info = trace.info();
  write_log(LogCategory::file,
            fmt::format("{}: {}: {} tokens, {} layers, {} heads of {}, {}{}{}", reading.file->name(), model.path(),
                        info.length, info.layers, info.heads, info.head_dim, to_string(info.dtype),
                        trace.query_key() == nullptr ? ", without queries and keys" : "",
                        trace.per_token_loss().empty() ? ", without losses" : ""));
  log_skipped(reading, model, names_of_arrays({"tokens", "axes"}, /*of_layers=*/false));
  log_skipped(reading, model.child("tokens"), {"id", "input_id", "byte_start", "byte_end", "string"});
  const Names of_layer = names_of_arrays({"head", "position"}, /*of_layers=*/true);
  for (int layer = 0; layers && layer < info.layers; ++layer) {
    log_skipped(reading, layers->child(fmt::format("{:02}", layer)), of_layer);
  }
}

RunCheckReport check_arrays(const Reading& reading, const Trace& trace) {
  if (reading.check == RunCheck::none) return {};
  const CheckExtent extent = reading.check == RunCheck::glance ? kGlance : kWholeCheck;
  const RunCheckReport report = check_run(trace, reading.file->name(), extent, reading.stop);
  if (!logging()) return report;
  write_log(
      LogCategory::file,
      fmt::format("{}: {}: checked {} of {} layers: c of {} heads falls, {} rows of the attention sum to 1 within "
                  "{:.1e}",
                  reading.file->name(), trace.info().name, report.layers, trace.info().layers, report.gates,
                  report.rows, report.largest_error));
  return report;
}

/// @returns null if the reading was stopped
std::shared_ptr<const Trace> read_model(Reading& reading, const Hdf5Object& model, const std::string& name) {
  if (!is_model_name(name)) reading.file->fail_damaged(model.path(), "is not a name of a model");
  reading.account.take(model);
  const std::optional<Hdf5Object> layers = model.find("layers");
  std::shared_ptr<const TokenTable> tokens = read_tokens(reading, model);
  if (!tokens) return nullptr;
  TraceInfo info = read_info(reading, model, layers);
  info.name = name;
  info.length = static_cast<std::int64_t>(tokens->id.size());
  info.unchecked = reading.check == RunCheck::none;
  FileTraceParts parts = locate_trace_parts(reading.file, model, layers, info, reading.account);
  auto trace = std::make_shared<const Trace>(std::move(info), reading.text, std::move(tokens), std::move(parts.source),
                                             std::move(parts.store));
  if (logging()) log_model(reading, model, layers, *trace);
  return trace;
}

void check_root(Reading& reading, const Hdf5Object& root) {
  const std::optional<std::int64_t> schema = root.integer_attribute("foxscope_schema");
  const std::string& name = reading.file->name();
  if (!schema && !root.find("models")) {
    throw Error(fmt::format("{}: is not a run file of Foxscope: name a file that `foxscope run` wrote", name));
  }
  if (schema.value_or(1) > kAttentionSchema) {
    throw Error(
        fmt::format("{}: was written by a newer Foxscope (schema {}, this program reads up to {}): update "
                    "Foxscope",
                    name, *schema, kAttentionSchema));
  }
  if (schema.value_or(1) < 1) reading.file->fail_damaged("/@foxscope_schema", fmt::format("is {}", *schema));
  reading.schema = schema.value_or(1);
  if (const std::string content = reading.text_attribute(root, "content"); !content.empty()) {
    throw Error(
        fmt::format("{}: holds {} and no runs: name a file that `foxscope run` wrote", name, content_words(content)));
  }
  if (root.find("models")) return;
  throw Error(fmt::format("{}: holds {} but no runs: name a file that `foxscope run` wrote", name,
                          root.find("maps") ? "maps" : "nothing"));
}

using Clock = std::chrono::steady_clock;

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
    if ((text == nullptr) != (first == nullptr) || (text != nullptr && !same_text(*text, *first))) {
      throw Error(fmt::format("{}: the runs of '{}' and '{}' are on different texts: write one file for each",
                              path.string(), traces.front()->info().name, name));
    }
    if (text != nullptr && text->content.find('\0') != std::string::npos) {
      throw Error(fmt::format("{}: the text holds a NUL byte, which HDF5 strings cannot: remove it from the text",
                              path.string()));
    }
  }
}

void write_text(Hdf5Writer& writer, const Text& text) {
  writer.text("/text/content", text.content);
  writer.attribute("/text/content", "sha256", text.sha256);
  if (text.unread_bytes == 0) return;
  writer.attribute("/text/content", "unread_bytes", text.unread_bytes);
  writer.attribute("/text/content", "cut_word", std::int64_t{text.cut_word ? 1 : 0});
}

/// Writes everything that goes through libhdf5. @returns false if the job was stopped
bool write_structure(Hdf5Writer& writer, std::span<const std::shared_ptr<const Trace>> traces,
                     std::vector<ModelWriter>& models) {
  // Models that cut a text otherwise have read to different places by one limit.
  const auto longest = std::ranges::max_element(
      traces, {}, [](const auto& trace) { return trace->text() ? trace->text()->content.size() : 0; });
  if ((*longest)->text()) write_text(writer, *(*longest)->text());
  for (std::size_t n = 0; n < models.size(); ++n) {
    std::string shared;
    for (std::size_t before = 0; before < n && shared.empty(); ++before) {
      if (*traces[before]->tokens() == *traces[n]->tokens()) shared = traces[before]->info().name;
    }
    models[n].write_attributes(static_cast<std::int64_t>(n));
    models[n].write_tokens(shared);
    if (!models[n].write_arrays()) return false;
  }
  return true;
}

/// The models by @order. Where a file of an older program has none, the model of @default comes first, and the others
/// follow by name.
std::vector<std::pair<std::string, Hdf5Object>> ordered_models(const Reading& reading, const Hdf5Object& root,
                                                               const std::string& first) {
  const Hdf5Object group = root.child("models");
  constexpr std::int64_t kLast = std::numeric_limits<std::int32_t>::max();
  std::vector<std::pair<std::int64_t, std::pair<std::string, Hdf5Object>>> placed;
  for (const std::string& name : group.names()) {
    Hdf5Object model = group.child(name);
    const std::int64_t otherwise = "models/" + name == first ? 0 : kLast;
    const std::int64_t order = reading.integer_attribute(model, "order", otherwise, 0, kLast);
    placed.emplace_back(order, std::pair(name, std::move(model)));
  }
  std::ranges::stable_sort(placed, {}, [](const auto& one) { return one.first; });
  std::vector<std::pair<std::string, Hdf5Object>> models;
  for (auto& [place, model] : placed) models.push_back(std::move(model));
  return models;
}

/// @returns nothing if it was stopped
std::optional<RunFile> open_as_stored(const std::filesystem::path& path, const std::stop_token& stop, RunCheck check) {
  Reading reading(Hdf5File::open(path), stop, check);
  const Hdf5Object root(reading.file, reading.file->root(), "/");
  check_root(reading, root);
  RunFile run;
  run.program_version = reading.text_attribute(root, "program_version");
  run.command_line = reading.text_attribute(root, "command_line");
  run.created = reading.text_attribute(root, "created");
  const std::string first = reading.text_attribute(root, "default");
  reading.text = read_text(reading, root);
  for (const auto& [name, model] : ordered_models(reading, root, first)) {
    std::shared_ptr<const Trace> trace = read_model(reading, model, name);
    if (!trace || stop.stop_requested()) return std::nullopt;
    run.checks.push_back(check_arrays(reading, *trace));
    if (stop.stop_requested()) return std::nullopt;
    run.traces.push_back(std::move(trace));
  }
  if (run.traces.empty()) reading.file->fail_damaged("/models", "is empty");
  log_skipped(reading, root, {"text", "models"});
  return run;
}

}  // namespace

RunFile RunFile::open(const std::filesystem::path& path, RunCheck check) {
  return *open_as_stored(path, std::stop_token{}, check);
}

std::optional<RunFile> RunFile::open(const std::filesystem::path& path, const Job& job, RunCheck check) {
  std::optional<RunFile> run = open_as_stored(path, job.stop, check);
  if (!run) return std::nullopt;
  for (std::shared_ptr<const Trace>& trace : run->traces) {
    trace = complete_rows(std::move(trace), job);
    if (!trace) return std::nullopt;
  }
  return run;
}

std::shared_ptr<const Trace> RunFile::trace(const std::optional<std::string>& name) const {
  std::vector<std::string> names;
  for (const auto& candidate : traces) {
    if (candidate->info().name == name) return candidate;
    names.push_back(candidate->info().name);
  }
  if (!name && traces.size() == 1) return traces.front();
  const std::string list = fmt::format("{}", fmt::join(names, ", "));
  if (!name) throw UsageError(fmt::format("the file holds several models: choose one with --model: {}", list));
  throw UsageError(
      fmt::format("the file holds no model '{}': it holds {}{}", *name, list, nearest_question(*name, names)));
}

/// Whether a reader of files of schema 2 does not know a layer.
bool is_newer(const LayerMixer& mixer) {
  switch (mixer.mixer) {
    case Mixer::none:
    case Mixer::delta_product:
      return true;
    case Mixer::gated_linear_attention:
      return mixer.decay != Decay::channel;
    case Mixer::mamba:
    case Mixer::diagonal_plus_low_rank:
      return mixer.decay == Decay::head;
    default:
      return false;
  }
}

/// The oldest schema whose readers take a run for what it is.
std::int64_t schema_of(const TraceInfo& info) {
  const bool sinks =
      std::ranges::any_of(info.mixers, [](const LayerMixer& mixer) { return mixer.sinks || mixer.path; });
  const bool newer = std::ranges::any_of(info.mixers, is_newer);
  if (has_windows_by_layer(info) || info.logit_cap > 0 || sinks || newer) return kAttentionSchema;
  return info.mixers.empty() ? kSchema : kMixerSchema;
}

bool write_run_file(const std::filesystem::path& path, std::span<const std::shared_ptr<const Trace>> traces,
                    const Provenance& provenance, Overwrite overwrite, const Job& job, double* seconds_without_flush) {
  const Clock::time_point start = Clock::now();
  check_traces(path, traces);
  AtomicFile file(path, overwrite == Overwrite::force);
  Hdf5Writer writer(file);
  std::int64_t schema = kSchema;
  for (const auto& trace : traces) schema = std::max(schema, schema_of(trace->info()));
  write_root(writer, provenance, schema);
  writer.attribute("/", "default", "models/" + traces.front()->info().name);
  std::vector<ModelWriter> models;
  std::vector<RawArray> arrays;
  for (const auto& trace : traces) {
    writer.group("/models/" + trace->info().name);
    models.emplace_back(writer, file, *trace, job);
    const std::vector<RawArray> more = models.back().reserve_stored();
    arrays.insert(arrays.end(), more.begin(), more.end());
  }

  const std::uint64_t raw_bytes = total_bytes(arrays);
  file.require_space(raw_bytes);  // nearly all of the file
  RawCopy copy(file, std::move(arrays), job.stop);
  bool whole = write_structure(writer, traces, models);
  whole = copy.finish(job) && whole;
  for (ModelWriter& model : models) whole = whole && model.write_raw_arrays();
  if (!whole || job.stopped()) return false;
  writer.close();
  job.tell({static_cast<std::int64_t>(raw_bytes), static_cast<std::int64_t>(raw_bytes), "bytes", "writing"});
  if (seconds_without_flush != nullptr) {
    *seconds_without_flush = std::chrono::duration<double>(Clock::now() - start).count();
  }
  file.commit();
  return true;
}

}  // namespace foxscope
