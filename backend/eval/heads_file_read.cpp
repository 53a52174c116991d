#include "backend/eval/heads_file.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/file/hdf5_object.h"
#include "backend/file/provenance.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kMostHeads = 65'536;
constexpr std::int64_t kLongest = std::int64_t{1} << 40;

/// The file while it is read.
class HeadsFileReader {
 public:
  explicit HeadsFileReader(const std::filesystem::path& path)
      : file_(Hdf5File::open(path)), heap_(file_), root_(file_, file_->root(), "/") {}

  HeadsEvaluation read() {
    HeadsEvaluation evaluation;
    evaluation.content = read_content();
    evaluation.program_version = text(root_, "program_version");
    evaluation.command_line = text(root_, "command_line");
    evaluation.created = text(root_, "created");
    read_corpus(evaluation.corpus);
    std::vector<std::pair<std::int64_t, std::string>> order;
    const Hdf5Object models = root_.child("models");
    for (const std::string& name : models.names()) {
      order.emplace_back(integer(models.child(name), "order", 0, kMostHeads), name);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [place, name] : order) {
      evaluation.models.push_back(read_model(models.child(name), name, evaluation.corpus));
    }
    if (evaluation.models.empty()) file_->fail_damaged("/models", "is empty");
    return evaluation;
  }

 private:
  HeadsContent read_content() {
    const auto schema = root_.integer_attribute("foxscope_schema");
    const std::string content = text(root_, "content");
    if (!schema || (content != kEvalHeadsContent && content != kHeadsContent)) {
      throw Error(fmt::format(
          "{}: holds no statistics of heads: name a file that `foxscope eval heads` or `foxscope heads -o` wrote",
          file_->name()));
    }
    if (*schema > kSchema) {
      throw Error(
          fmt::format("{}: was written by a newer Foxscope (schema {}, this program reads up to {}): update Foxscope",
                      file_->name(), *schema, kSchema));
    }
    return content == kHeadsContent ? HeadsContent::run : HeadsContent::evaluation;
  }

  std::string text(const Hdf5Object& object, const std::string& name) {
    std::string value = object.text_attribute(name, heap_).value_or("");
    if (find_invalid_utf8(value)) file_->fail_damaged(object.path() + "@" + name, "is not UTF-8");
    return value;
  }

  std::int64_t integer(const Hdf5Object& object, const std::string& name, std::int64_t least, std::int64_t most) const {
    const std::int64_t value = object.integer_attribute(name).value_or(0);
    if (value < least || value > most) {
      file_->fail_damaged(object.path() + "@" + name, fmt::format("is {}, not from {} to {}", value, least, most));
    }
    return value;
  }

  void read_corpus(EvaluatedCorpus& corpus) {
    corpus.source = text(root_, "source");
    corpus.seed = static_cast<std::uint64_t>(root_.integer_attribute("seed").value_or(0));
    corpus.documents_read = root_.integer_attribute("corpus_documents").value_or(0);
    corpus.tokens_read = root_.integer_attribute("corpus_tokens").value_or(0);
    const auto documents = root_.find("documents");
    if (!documents) return;
    const std::vector<std::string> names = Hdf5Dataset(documents->child("name")).texts(heap_);
    const std::vector<std::string> hashes = Hdf5Dataset(documents->child("sha256")).texts(heap_);
    if (names.size() != hashes.size()) {
      file_->fail_damaged(documents->path(), "has not one SHA-256 for each name");
    }
    for (std::size_t n = 0; n < names.size(); ++n) corpus.documents.push_back({names[n], hashes[n]});
  }

  template <typename T>
  std::vector<T> column(const Hdf5Object& group, const char* name, Element element, std::uint64_t size) {
    const auto object = group.find(name);
    if (!object) return {};
    const Hdf5Dataset dataset(*object);
    dataset.require(element, {size});
    return dataset.values<T>();
  }

  std::shared_ptr<const EvaluatedWindows> read_windows(const Hdf5Object& group, const EvaluatedCorpus& corpus) {
    auto windows = std::make_shared<EvaluatedWindows>();
    const std::uint64_t count = Hdf5Dataset(group.child("document")).count();
    windows->document = column<std::int32_t>(group, "document", Element::int32, count);
    windows->tokens = column<std::int64_t>(group, "tokens", Element::int64, count);
    windows->token_start = column<std::int64_t>(group, "token_start", Element::int64, count);
    windows->byte_start = column<std::int64_t>(group, "byte_start", Element::int64, count);
    windows->byte_end = column<std::int64_t>(group, "byte_end", Element::int64, count);
    const auto documents = static_cast<std::int32_t>(corpus.documents.size());
    const bool outside = std::any_of(windows->document.begin(), windows->document.end(), [&](std::int32_t document) {
      return document < 0 || (documents > 0 && document >= documents);
    });
    if (outside) file_->fail_damaged(group.path() + "/document", "names a document that is not there");
    return windows;
  }

  /// All arrays of a group that begin with [layers, H].
  std::vector<HeadArray> read_arrays(const Hdf5Object& group, const std::vector<std::uint64_t>& dims) {
    std::vector<HeadArray> arrays;
    for (const std::string& name : group.names()) {
      const Hdf5Object object = group.child(name);
      if (!object.is_dataset() || name.ends_with("_errors")) continue;
      const Hdf5Dataset dataset(object);
      if (dataset.type().element != Element::float64) continue;
      dataset.require(Element::float64, dims);
      HeadArray array{name, text(object, "units"), dataset.values<double>(), {}};
      if (const auto errors = group.find(name + "_errors")) {
        const Hdf5Dataset values(*errors);
        values.require(Element::float64, dims);
        array.error = values.values<double>();
      } else {
        array.error.assign(array.value.size(), std::numeric_limits<double>::quiet_NaN());
      }
      arrays.push_back(std::move(array));
    }
    return arrays;
  }

  void read_distances(const Hdf5Object& group, std::vector<std::uint64_t> dims, EvaluatedHeads& model) {
    const std::uint64_t bins = Hdf5Dataset(group.child("distance")).count();
    const auto begin = column<std::int64_t>(group, "distance", Element::int64, bins);
    const auto end = column<std::int64_t>(group, "distance_end", Element::int64, bins);
    for (std::size_t n = 0; n < begin.size() && n < end.size(); ++n) model.distances.push_back({begin[n], end[n]});
    if (model.distances != distance_bins(model.info.length)) {
      file_->fail_damaged(group.path() + "/distance", "does not hold the bins of the windows' length");
    }
    dims.push_back(bins);
    model.by_distance = read_arrays(group, dims);
  }

  void read_classes(const Hdf5Object& group, std::vector<std::uint64_t> dims, EvaluatedHeads& model) {
    const std::vector<std::string> names = Hdf5Dataset(group.child("token_class")).texts(heap_);
    bool known = names.size() == kTokenClasses;
    for (std::size_t n = 0; known && n < names.size(); ++n) known = names[n] == to_string(static_cast<TokenClass>(n));
    if (!known) file_->fail_damaged(group.path() + "/token_class", "names other classes than this program knows");
    model.class_tokens = column<std::int64_t>(group, "tokens", Element::int64, kTokenClasses);
    dims.push_back(kTokenClasses);
    model.by_class = read_arrays(group, dims);
  }

  EvaluatedHeads read_model(const Hdf5Object& object, const std::string& name, const EvaluatedCorpus& corpus) {
    EvaluatedHeads model;
    TraceInfo& info = model.info;
    info.name = name;
    info.model_type = text(object, "model_type");
    info.config = text(object, "config");
    info.weights_sha256 = text(object, "weights_sha256");
    info.dtype = text(object, "dtype") == "bfloat16" ? DType::bfloat16 : DType::float32;
    info.device = text(object, "device");
    info.intervention = text(object, "intervention");
    info.window_size = integer(object, "window_size", 0, kLongest);
    info.pruning_tolerance = object.real_attribute("pruning_tolerance").value_or(0);
    info.gated = integer(object, "gated", 0, 1) != 0;
    info.layers = static_cast<int>(integer(object, "layers", 1, kMostLayers));
    info.heads = static_cast<int>(integer(object, "heads", 1, kMostHeads));
    info.length = integer(object, "length", 1, kLongest);
    const std::vector<std::uint64_t> dims = {static_cast<std::uint64_t>(info.layers),
                                             static_cast<std::uint64_t>(info.heads)};
    if (const auto windows = object.find("windows")) model.windows = read_windows(*windows, corpus);
    model.numbers = read_arrays(object.child("numbers"), dims);
    model.distances = distance_bins(info.length);
    if (const auto group = object.find("by_distance")) {
      model.distances.clear();
      read_distances(*group, dims, model);
    }
    if (const auto group = object.find("by_class")) read_classes(*group, dims, model);
    return model;
  }

  std::shared_ptr<const Hdf5File> file_;
  Hdf5Heap heap_;
  Hdf5Object root_;
};

}  // namespace

HeadsEvaluation HeadsEvaluation::open(const std::filesystem::path& path) { return HeadsFileReader(path).read(); }

}  // namespace foxscope
