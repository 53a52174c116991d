#include "backend/eval/evaluation_file.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "backend/base/command_line.h"
#include "backend/file/file_trace.h"
#include "backend/file/layer_mixers.h"
#include "backend/file/model_writer.h"
#include "backend/file/provenance.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

constexpr std::int64_t kMostModels = 10'000;
constexpr std::int64_t kMostLayersOrHeads = 1'000'000;
constexpr std::int64_t kLongest = std::int64_t{1} << 40;

constexpr const char* kEstimator =
    "jackknife over documents, each of G left out in turn: se^2 = (G-1)/G sum_g (estimate without g - estimate)^2; NaN "
    "below 4 effective documents (M^2 / sum m_g^2) or 3 degrees of freedom";

}  // namespace

EvaluationFile::EvaluationFile(const std::filesystem::path& path, const Kind& kind)
    : file_(Hdf5File::open(path)), heap_(file_), account_(*file_), root_(file_, file_->root(), "/") {
  check_content(kind);
}

void EvaluationFile::check_content(const Kind& kind) {
  const std::string& name = file_->name();
  const std::string remedy = fmt::format("name a file that {} wrote", kind.made_by);
  const std::optional<std::int64_t> schema = root_.integer_attribute("foxscope_schema");
  if (!schema) throw Error(fmt::format("{}: is not a file of Foxscope: {}", name, remedy));
  if (*schema > kSchema) {
    throw Error(
        fmt::format("{}: was written by a newer Foxscope (schema {}, this program reads up to {}): update Foxscope",
                    name, *schema, kSchema));
  }
  if (*schema < 1) fail("/@foxscope_schema", fmt::format("is {}", *schema));
  content_ = text(root_, "content");
  if (std::find(kind.contents.begin(), kind.contents.end(), content_) != kind.contents.end()) return;
  throw Error(fmt::format("{}: holds {} and no {}: {}", name,
                          content_.empty() ? "a run or maps" : content_words(content_), kind.holds, remedy));
}

std::string EvaluationFile::text(const Hdf5Object& object, const std::string& name) {
  std::string value = object.text_attribute(name, heap_).value_or("");
  if (find_invalid_utf8(value)) fail(object.path() + "@" + name, "is not UTF-8");
  return value;
}

std::int64_t EvaluationFile::count(const Hdf5Object& object, const std::string& name) const {
  const std::int64_t value = object.integer_attribute(name).value_or(0);
  if (value < 0 || value > kLongest) fail(object.path() + "@" + name, fmt::format("is {}", value));
  return value;
}

EvaluatedCorpus EvaluationFile::read_corpus() {
  EvaluatedCorpus corpus;
  corpus.source = without_folder(text(root_, "source"));
  corpus.seed = static_cast<std::uint64_t>(root_.integer_attribute("seed").value_or(0));
  corpus.documents_read = count(root_, "corpus_documents");
  corpus.tokens_read = count(root_, "corpus_tokens");
  const std::optional<Hdf5Object> documents = root_.find("documents");
  if (!documents) return corpus;
  std::vector<std::string> names = Hdf5Dataset(documents->child("name")).texts(heap_);
  std::vector<std::string> hashes = Hdf5Dataset(documents->child("sha256")).texts(heap_);
  if (names.size() != hashes.size()) fail(*documents, "does not have one hash for each name");
  for (std::size_t n = 0; n < names.size(); ++n) {
    if (find_invalid_utf8(names[n])) fail(documents->path() + "/name", "is not UTF-8");
    corpus.documents.push_back({std::move(names[n]), std::move(hashes[n])});
  }
  return corpus;
}

std::vector<Hdf5Object> EvaluationFile::models() {
  const Hdf5Object group = root_.child("models");
  std::vector<std::pair<std::int64_t, Hdf5Object>> ordered;
  for (const std::string& name : group.names()) {
    Hdf5Object model = group.child(name);
    if (!is_model_name(name)) fail(model, "is not the name of a model");
    account_.take(model);
    const std::int64_t order = model.integer_attribute("order").value_or(kMostModels);
    ordered.emplace_back(order, std::move(model));
  }
  if (ordered.empty()) fail(group, "is empty");
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Hdf5Object> models;
  models.reserve(ordered.size());
  for (auto& [order, model] : ordered) models.push_back(std::move(model));
  return models;
}

TraceInfo EvaluationFile::read_info(const Hdf5Object& model) {
  TraceInfo info;
  info.name = model.path().substr(model.path().rfind('/') + 1);
  info.model_type = text(model, "model_type");
  info.config = text(model, "config");
  info.weights_sha256 = text(model, "weights_sha256");
  info.device = text(model, "device");
  info.intervention = text(model, "intervention");
  info.dtype = text(model, "dtype") == "bfloat16" ? DType::bfloat16 : DType::float32;
  info.window_size = count(model, "window_size");
  info.length = count(model, "length");
  info.pruning_tolerance = model.real_attribute("pruning_tolerance").value_or(0);
  info.softmax_scale = static_cast<float>(model.real_attribute("softmax_scale").value_or(0));
  info.unchecked = model.integer_attribute("unchecked").value_or(0) != 0;
  for (const auto& [name, into] : {std::pair{"layers", &info.layers}, std::pair{"heads", &info.heads},
                                   std::pair{"key_heads", &info.key_heads}, std::pair{"head_dim", &info.head_dim}}) {
    const std::int64_t value = count(model, name);
    if (value > kMostLayersOrHeads) fail(model.path() + "@" + name, fmt::format("is {}", value));
    *into = static_cast<int>(value);
  }
  if (!fits_heads(*file_, info.layers, info.heads)) {
    fail(model, fmt::format("{} layers of {} heads are too much for a file of {} bytes", info.layers, info.heads,
                            file_->size()));
  }
  read_mixers(model, heap_, info);
  read_attention(model, info);
  return info;
}

EvaluatedWindows EvaluationFile::read_windows(const Hdf5Object& group, std::size_t documents) {
  EvaluatedWindows windows;
  const std::vector<std::uint64_t> dims = {Hdf5Dataset(group.child("document")).count()};
  windows.document = values<std::int32_t>(group, "document", dims);
  windows.tokens = values<std::int64_t>(group, "tokens", dims);
  if (group.find("byte_start")) {
    windows.token_start = values<std::int64_t>(group, "token_start", dims);
    windows.byte_start = values<std::int64_t>(group, "byte_start", dims);
    windows.byte_end = values<std::int64_t>(group, "byte_end", dims);
  }
  const auto most = static_cast<std::int64_t>(documents > 0 ? documents : windows.document.size());
  for (std::size_t n = 0; n < windows.document.size(); ++n) {
    if (windows.document[n] < 0 || windows.document[n] >= most)
      fail(group, fmt::format("window {} lies in no document", n));
    if (windows.tokens[n] < 0) fail(group, fmt::format("window {} has {} tokens", n, windows.tokens[n]));
    if (windows.byte_start.empty()) continue;
    if (windows.byte_start[n] < 0 || windows.byte_start[n] > windows.byte_end[n]) {
      fail(group, fmt::format("window {} ends before it begins", n));
    }
  }
  return windows;
}

EvaluationWriter::EvaluationWriter(const std::filesystem::path& path, const Provenance& provenance, Overwrite overwrite,
                                   const char* content, const std::string& first)
    : file_(path, overwrite == Overwrite::force), writer_(file_) {
  write_root(writer_, provenance);
  attribute("/", "content", std::string(content));
  attribute("/", "default", first);
}

void EvaluationWriter::finish() {
  writer_.close();
  file_.commit();
}

void EvaluationWriter::corpus(const EvaluatedCorpus& corpus) {
  attribute("/", "source", corpus.source);
  attribute("/", "seed", static_cast<std::int64_t>(corpus.seed));
  attribute("/", "corpus_documents", corpus.documents_read);
  attribute("/", "corpus_tokens", corpus.tokens_read);
  attribute("/", "error_estimator", kEstimator);
  if (corpus.documents.empty()) return;
  std::vector<std::string> names;
  std::vector<std::string> hashes;
  for (const WindowDocument& document : corpus.documents) {
    names.push_back(document.name);
    hashes.push_back(document.sha256);
  }
  writer_.strings("/documents/name", names);
  writer_.strings("/documents/sha256", hashes);
}

void EvaluationWriter::info(const std::string& group, std::size_t order, const TraceInfo& info) {
  attribute(group, "order", static_cast<std::int64_t>(order));
  // An imported file gives a model's name and nothing else.
  if (info.layers == 0) return;
  write_run_attributes(writer_, group, info);
  attribute(group, "length", info.length);
  if (!info.mixers.empty() || has_windows_by_layer(info)) {
    for (int layer = 0; layer < info.layers; ++layer) writer_.group(fmt::format("{}/layers/{:02}", group, layer));
  }
  if (!info.mixers.empty()) write_mixers(writer_, group, info);
  write_attention(writer_, group, info);
}

void EvaluationWriter::windows(const std::string& group, const EvaluatedWindows& windows) {
  column(group + "/document", windows.document);
  column(group + "/tokens", windows.tokens);
  column(group + "/token_start", windows.token_start);
  column(group + "/byte_start", windows.byte_start);
  column(group + "/byte_end", windows.byte_end);
}

void EvaluationWriter::distances(const std::string& group, const std::vector<DistanceBin>& bins) {
  std::vector<std::int64_t> begin, end;
  for (const DistanceBin& bin : bins) {
    begin.push_back(bin.from);
    end.push_back(bin.to);
  }
  scale(group + "/distance", begin);
  column(group + "/distance_end", end);
  attribute(group + "/distance", "units", "tokens");
  attribute(group + "/distance_end", "units", "tokens");
}

void EvaluationWriter::index(const std::string& path, std::int64_t size, std::int64_t first) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(size));
  std::iota(places.begin(), places.end(), first);
  scale(path, places);
}

void EvaluationWriter::describe(const std::string& path, const std::string& units,
                                const std::vector<std::string>& axes) {
  if (!units.empty()) attribute(path, "units", units);
  attribute(path, "interpretation", axes.size() % 2 == 0 ? "image" : "spectrum");
  for (unsigned axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis] != ".") writer_.attach_scale(path, axis, path.substr(0, path.rfind('/') + 1) + axes[axis]);
  }
}

void EvaluationWriter::plottable(const std::string& group, const std::string& signal,
                                 const std::vector<std::string>& axes) {
  attribute(group, "NX_class", "NXdata");
  attribute(group, "signal", signal);
  attribute(group, "axes", axes);
}

}  // namespace foxscope
