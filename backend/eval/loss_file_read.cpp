#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/eval/loss_file.h"
#include "backend/file/file_trace.h"
#include "backend/file/hdf5_object.h"
#include "backend/file/provenance.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

constexpr std::int64_t kMostModels = 10'000;

class LossFileReader {
 public:
  explicit LossFileReader(const std::filesystem::path& path)
      : file_(Hdf5File::open(path)), heap_(file_), root_(file_, file_->root(), "/") {}

  LossEvaluation read() {
    check_root();
    LossEvaluation result;
    result.program_version = text_attribute(root_, "program_version");
    result.command_line = text_attribute(root_, "command_line");
    result.created = text_attribute(root_, "created");
    read_corpus(result.corpus);
    with_documents_ = static_cast<std::int64_t>(result.corpus.documents.size());
    const Hdf5Object models = root_.child("models");
    std::vector<std::pair<std::int64_t, EvaluatedModel>> ordered;
    for (const std::string& name : models.names()) {
      const Hdf5Object group = models.child(name);
      const std::int64_t order = group.integer_attribute("order").value_or(kMostModels);
      ordered.emplace_back(order, read_model(group, name));
    }
    if (ordered.empty()) file_->fail_damaged("/models", "is empty");
    std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [order, model] : ordered) {
      if (!result.models.empty() && model.windows->document != result.models.front().windows->document) {
        file_->fail_damaged("/models/" + model.info.name, "has other windows than the first model");
      }
      result.models.push_back(std::move(model));
    }
    return result;
  }

 private:
  void check_root() {
    const std::string& name = file_->name();
    const std::string remedy = "name a file that `foxscope eval loss` wrote";
    const std::optional<std::int64_t> schema = root_.integer_attribute("foxscope_schema");
    if (!schema) throw Error(fmt::format("{}: is not a file of Foxscope: {}", name, remedy));
    if (*schema > kSchema) {
      throw Error(
          fmt::format("{}: was written by a newer Foxscope (schema {}, this program reads up to {}): update "
                      "Foxscope",
                      name, *schema, kSchema));
    }
    if (*schema < 1) file_->fail_damaged("/@foxscope_schema", fmt::format("is {}", *schema));
    const std::string content = text_attribute(root_, "content");
    if (content == kLossContent) return;
    throw Error(fmt::format("{}: holds {} and no losses of windows: {}", name,
                            content.empty() ? "a run or maps" : content, remedy));
  }

  std::string text_attribute(const Hdf5Object& object, const std::string& name) {
    std::string value = object.text_attribute(name, heap_).value_or("");
    if (find_invalid_utf8(value)) file_->fail_damaged(object.path() + "@" + name, "is not UTF-8");
    return value;
  }

  std::int64_t count_attribute(const Hdf5Object& object, const std::string& name) {
    const std::int64_t value = object.integer_attribute(name).value_or(0);
    if (value < 0) file_->fail_damaged(object.path() + "@" + name, fmt::format("is {}", value));
    return value;
  }

  void read_corpus(EvaluatedCorpus& corpus) {
    corpus.source = text_attribute(root_, "source");
    corpus.seed = static_cast<std::uint64_t>(root_.integer_attribute("seed").value_or(0));
    corpus.documents_read = count_attribute(root_, "corpus_documents");
    corpus.tokens_read = count_attribute(root_, "corpus_tokens");
    const std::optional<Hdf5Object> documents = root_.find("documents");
    if (!documents) return;
    const std::vector<std::string> names = Hdf5Dataset(documents->child("name")).texts(heap_);
    const std::vector<std::string> hashes = Hdf5Dataset(documents->child("sha256")).texts(heap_);
    if (names.size() != hashes.size()) file_->fail_damaged(documents->path(), "has not one hash for each name");
    for (std::size_t n = 0; n < names.size(); ++n) {
      if (find_invalid_utf8(names[n])) file_->fail_damaged(documents->path() + "/name", "is not UTF-8");
      corpus.documents.push_back({names[n], hashes[n]});
    }
  }

  template <typename T>
  std::vector<T> column(const Hdf5Object& group, const char* name, Element element, std::uint64_t size) {
    const Hdf5Dataset dataset(group.child(name));
    dataset.require(element, {size});
    return dataset.values<T>();
  }

  std::shared_ptr<const EvaluatedWindows> read_windows(const Hdf5Object& model,
                                                       const std::vector<std::uint64_t>& dims) {
    const Hdf5Object group = model.child("windows");
    std::shared_ptr<const EvaluatedWindows>& known = windows_[group.address()];
    if (known) return known;
    const std::uint64_t count = dims[0];
    auto windows = std::make_shared<EvaluatedWindows>();
    windows->length = static_cast<std::int64_t>(dims[1]);
    windows->document = column<std::int32_t>(group, "document", Element::int32, count);
    windows->tokens = column<std::int64_t>(group, "tokens", Element::int64, count);
    if (group.find("byte_start")) {
      windows->token_start = column<std::int64_t>(group, "token_start", Element::int64, count);
      windows->byte_start = column<std::int64_t>(group, "byte_start", Element::int64, count);
      windows->byte_end = column<std::int64_t>(group, "byte_end", Element::int64, count);
    }
    if (const auto ids = group.find("token_id")) {
      const Hdf5Dataset dataset(*ids);
      dataset.require(Element::int32, dims);
      windows->token_id = dataset.values<std::int32_t>();
    }
    check_windows(group, *windows);
    known = windows;
    return known;
  }

  void check_windows(const Hdf5Object& group, const EvaluatedWindows& windows) const {
    const std::int64_t most =
        with_documents_ > 0 ? with_documents_ : static_cast<std::int64_t>(windows.document.size());
    double bytes = 0;
    for (std::size_t n = 0; n < windows.document.size(); ++n) {
      const auto fail = [&](const char* what) {
        file_->fail_damaged(group.path(), fmt::format("window {} {}", n, what));
      };
      if (windows.document[n] < 0 || windows.document[n] >= most) fail("lies in no document");
      if (windows.tokens[n] < 0 || windows.tokens[n] > windows.length) fail("has more tokens than losses");
      if (windows.byte_start.empty()) continue;
      if (windows.byte_start[n] < 0 || windows.byte_start[n] > windows.byte_end[n]) fail("ends before it begins");
      bytes += static_cast<double>(windows.byte_end[n] - windows.byte_start[n]);
    }
    if (*std::max_element(windows.tokens.begin(), windows.tokens.end()) == 0) {
      file_->fail_damaged(group.path(), "holds no tokens");
    }
    if (!windows.byte_start.empty() && bytes == 0) file_->fail_damaged(group.path(), "holds no bytes");
  }

  /// Every loss of a window is a number, and nothing is behind its end.
  void check_losses(const Hdf5Object& object, const LossTable& losses) const {
    for (std::int64_t window = 0; window < losses.windows; ++window) {
      const auto row = losses.row(window);
      const std::int64_t tokens = losses.tokens[static_cast<std::size_t>(window)];
      for (std::int64_t p = 0; p < losses.length; ++p) {
        const float loss = row[static_cast<std::size_t>(p)];
        if (p < tokens ? std::isfinite(loss) : std::isnan(loss)) continue;
        file_->fail_damaged(object.path(), fmt::format("the loss of window {} at position {} is {}", window, p, loss));
      }
    }
  }

  EvaluatedModel read_model(const Hdf5Object& group, const std::string& name) {
    if (!is_model_name(name)) file_->fail_damaged(group.path(), "is not a name of a model");
    EvaluatedModel model;
    model.info = read_info(group);
    model.info.name = name;
    model.averaged = group.integer_attribute("averaged").value_or(0) != 0;
    const Hdf5Object object = group.child("loss").child("per_token_loss");
    const Hdf5Dataset dataset(object);
    if (dataset.dims().size() != 2 || dataset.count() == 0) file_->fail_damaged(object.path(), "holds no losses");
    dataset.require(Element::float32, dataset.dims());
    model.windows = read_windows(group, dataset.dims());
    if (model.windows->length != static_cast<std::int64_t>(dataset.dims()[1]) ||
        model.windows->document.size() != dataset.dims()[0]) {
      file_->fail_damaged(object.path(), "has not the shape of the model's windows");
    }
    model.losses = {static_cast<std::int64_t>(dataset.dims()[0]), model.windows->length, dataset.values<float>(),
                    model.windows->tokens};
    check_losses(object, model.losses);
    return model;
  }

  TraceInfo read_info(const Hdf5Object& group) {
    TraceInfo info;
    info.model_type = text_attribute(group, "model_type");
    info.config = text_attribute(group, "config");
    info.weights_sha256 = text_attribute(group, "weights_sha256");
    info.device = text_attribute(group, "device");
    info.intervention = text_attribute(group, "intervention");
    info.dtype = text_attribute(group, "dtype") == "bfloat16" ? DType::bfloat16 : DType::float32;
    info.window_size = count_attribute(group, "window_size");
    info.pruning_tolerance = group.real_attribute("pruning_tolerance").value_or(0);
    info.softmax_scale = static_cast<float>(group.real_attribute("softmax_scale").value_or(0));
    info.gated = group.integer_attribute("gated").value_or(1) != 0;
    const auto small = [&](const char* name) {
      constexpr std::int64_t kMost = 1'000'000;
      return static_cast<int>(std::min(kMost, count_attribute(group, name)));
    };
    info.layers = small("layers");
    info.heads = small("heads");
    info.key_heads = small("key_heads");
    info.head_dim = small("head_dim");
    return info;
  }

  std::shared_ptr<const Hdf5File> file_;
  Hdf5Heap heap_;
  Hdf5Object root_;
  std::int64_t with_documents_ = 0;
  /// By the address of their group: models with equal tokens share one.
  std::map<std::uint64_t, std::shared_ptr<const EvaluatedWindows>> windows_;
};

}  // namespace

LossEvaluation LossEvaluation::open(const std::filesystem::path& path) { return LossFileReader(path).read(); }

}  // namespace foxscope
