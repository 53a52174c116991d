#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/eval/needle_file.h"
#include "backend/file/file_trace.h"
#include "backend/file/hdf5_object.h"
#include "backend/file/provenance.h"

namespace foxscope {
namespace {

class NeedleFileReader {
 public:
  explicit NeedleFileReader(const std::filesystem::path& path)
      : file_(Hdf5File::open(path)), heap_(file_), root_(file_, file_->root(), "/") {}

  NeedleEvaluation read() {
    check_root();
    NeedleEvaluation result;
    result.program_version = text_attribute(root_, "program_version");
    result.command_line = text_attribute(root_, "command_line");
    result.created = text_attribute(root_, "created");
    result.haystack = text_attribute(root_, "haystack");
    read_words(result);
    result.lengths = values<std::int64_t>(root_, "length", Element::int64, axis_size("length"));
    result.depths = values<double>(root_, "depth", Element::float64, axis_size("depth"));
    check_axes(result);
    dims_ = {result.lengths.size(), result.depths.size()};
    const Hdf5Object models = root_.child("models");
    std::vector<std::pair<std::int64_t, NeedleModel>> ordered;
    for (const std::string& name : models.names()) {
      const Hdf5Object group = models.child(name);
      const std::int64_t order = group.integer_attribute("order").value_or(0);
      ordered.emplace_back(order, read_model(group, name, result.lengths));
    }
    if (ordered.empty()) file_->fail_damaged("/models", "is empty");
    std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [order, model] : ordered) result.models.push_back(std::move(model));
    return result;
  }

 private:
  void check_root() {
    const std::string& name = file_->name();
    const std::string remedy = "name a file that `foxscope eval needle` wrote";
    const std::optional<std::int64_t> schema = root_.integer_attribute("foxscope_schema");
    if (!schema) throw Error(fmt::format("{}: is not a file of Foxscope: {}", name, remedy));
    if (*schema > kSchema) {
      throw Error(
          fmt::format("{}: was written by a newer Foxscope (schema {}, this program reads up to {}): update "
                      "Foxscope",
                      name, *schema, kSchema));
    }
    const std::string content = text_attribute(root_, "content");
    if (content == kNeedleContent) return;
    throw Error(
        fmt::format("{}: holds {} and no needle test: {}", name, content.empty() ? "a run or maps" : content, remedy));
  }

  std::string text_attribute(const Hdf5Object& object, const std::string& name) {
    std::string value = object.text_attribute(name, heap_).value_or("");
    if (find_invalid_utf8(value)) file_->fail_damaged(object.path() + "@" + name, "is not UTF-8");
    return value;
  }

  void read_words(NeedleEvaluation& result) {
    const std::string mode = text_attribute(root_, "mode");
    if (mode != to_string(NeedleMode::easy) && mode != to_string(NeedleMode::standard)) {
      file_->fail_damaged("/@mode", "is neither easy nor standard");
    }
    result.mode = needle_mode_from_string(mode);
    result.words = NeedleTemplate::from_json(text_attribute(root_, "template"), file_->name() + ": /@template");
  }

  std::uint64_t axis_size(const char* name) {
    const Hdf5Dataset dataset(root_.child(name));
    if (dataset.dims().size() != 1 || dataset.count() == 0) file_->fail_damaged(std::string("/") + name, "is no axis");
    return dataset.count();
  }

  void check_axes(const NeedleEvaluation& result) const {
    for (const std::int64_t length : result.lengths) {
      if (length < 1) file_->fail_damaged("/length", fmt::format("holds {}", length));
    }
    for (const double depth : result.depths) {
      if (!(depth >= 0 && depth <= 1)) file_->fail_damaged("/depth", fmt::format("holds {}", depth));
    }
  }

  template <typename T>
  std::vector<T> values(const Hdf5Object& group, const char* name, Element element, std::uint64_t size) {
    return values<T>(group, name, element, std::vector<std::uint64_t>{size});
  }

  template <typename T>
  std::vector<T> values(const Hdf5Object& group, const char* name, Element element,
                        const std::vector<std::uint64_t>& dims) {
    const Hdf5Dataset dataset(group.child(name));
    dataset.require(element, dims);
    return dataset.values<T>();
  }

  std::vector<float> reals(const Hdf5Object& group, const char* name, const std::vector<std::uint64_t>& dims) {
    std::vector<float> result = values<float>(group, name, Element::float32, dims);
    if (!std::all_of(result.begin(), result.end(), [](float value) { return std::isfinite(value); })) {
      file_->fail_damaged(group.path() + "/" + name, "holds what is no number");
    }
    return result;
  }

  TraceInfo read_info(const Hdf5Object& group) {
    TraceInfo info;
    info.model_type = text_attribute(group, "model_type");
    info.config = text_attribute(group, "config");
    info.weights_sha256 = text_attribute(group, "weights_sha256");
    info.device = text_attribute(group, "device");
    info.intervention = text_attribute(group, "intervention");
    info.dtype = text_attribute(group, "dtype") == "bfloat16" ? DType::bfloat16 : DType::float32;
    info.window_size = group.integer_attribute("window_size").value_or(0);
    info.pruning_tolerance = group.real_attribute("pruning_tolerance").value_or(0);
    info.gated = group.integer_attribute("gated").value_or(1) != 0;
    for (const auto& [name, into] : {std::pair{"layers", &info.layers}, std::pair{"heads", &info.heads}}) {
      constexpr std::int64_t kMost = 1'000'000;
      const std::int64_t value = group.integer_attribute(name).value_or(0);
      if (value < 1 || value > kMost) file_->fail_damaged(group.path() + "@" + name, fmt::format("is {}", value));
      *into = static_cast<int>(value);
    }
    return info;
  }

  NeedleModel read_model(const Hdf5Object& group, const std::string& name, const std::vector<std::int64_t>& lengths) {
    if (!is_model_name(name)) file_->fail_damaged(group.path(), "is not a name of a model");
    NeedleModel model;
    model.info = read_info(group);
    model.info.name = name;
    model.haystack_tokens = group.integer_attribute("haystack_tokens").value_or(0);
    const std::vector<std::uint64_t> per_head = {dims_[0], dims_[1], static_cast<std::uint64_t>(model.info.layers),
                                                 static_cast<std::uint64_t>(model.info.heads)};
    model.found = values<std::int32_t>(group, "found", Element::int32, dims_);
    model.answer_log_probability = reals(group, "answer_log_probability", dims_);
    model.baseline_log_probability = reals(group, "baseline_log_probability", {dims_[0]});
    model.position = values<std::int64_t>(group, "position", Element::int64, dims_[0]);
    model.needle_begin = values<std::int64_t>(group, "needle_begin", Element::int64, dims_);
    model.needle_end = values<std::int64_t>(group, "needle_end", Element::int64, dims_);
    model.needle_mass = reals(group, "needle_mass", per_head);
    model.needle_gate = reals(group, "needle_gate", per_head);
    model.continuation = Hdf5Dataset(group.child("continuation")).texts(heap_);
    if (model.continuation.size() != model.found.size()) {
      file_->fail_damaged(group.path() + "/continuation", "has not one text for each cell");
    }
    for (std::size_t cell = 0; cell < model.found.size(); ++cell) check_cell(group, model, cell);
    model.info.length = *std::max_element(model.position.begin(), model.position.end()) + 1;
    if (model.position.size() != lengths.size()) file_->fail_damaged(group.path() + "/position", "is no axis");
    return model;
  }

  void check_cell(const Hdf5Object& group, const NeedleModel& model, std::size_t cell) const {
    const auto fail = [&](const char* what) {
      file_->fail_damaged(group.path(), fmt::format("cell {} {}", cell, what));
    };
    if (model.found[cell] != 0 && model.found[cell] != 1) fail("is neither found nor not found");
    const bool inside = model.needle_begin[cell] >= 0 && model.needle_begin[cell] < model.needle_end[cell] &&
                        model.needle_end[cell] <= model.position[cell / dims_[1]];
    if (!inside) fail("has its needle outside the prompt");
    if (find_invalid_utf8(model.continuation[cell])) fail("has a continuation that is not UTF-8");
  }

  std::shared_ptr<const Hdf5File> file_;
  Hdf5Heap heap_;
  Hdf5Object root_;
  std::vector<std::uint64_t> dims_;  ///< [P, Q]
};

}  // namespace

std::vector<float> NeedleModel::gain() const {
  const std::size_t depths = answer_log_probability.size() / baseline_log_probability.size();
  std::vector<float> result;
  for (std::size_t cell = 0; cell < answer_log_probability.size(); ++cell) {
    result.push_back(answer_log_probability[cell] - baseline_log_probability[cell / depths]);
  }
  return result;
}

NeedleEvaluation NeedleEvaluation::open(const std::filesystem::path& path) { return NeedleFileReader(path).read(); }

}  // namespace foxscope
