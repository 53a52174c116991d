#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backend/base/command_line.h"
#include "backend/eval/evaluation_file.h"
#include "backend/eval/needle/needle_file.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

class NeedleFileReader {
 public:
  explicit NeedleFileReader(const std::filesystem::path& path)
      : file_(path, {{kNeedleContent}, "needle test", "`foxscope eval needle`"}) {}

  NeedleEvaluation read() {
    NeedleEvaluation result;
    file_.read_origin(result);
    result.haystack = without_folder(file_.text(file_.root(), "haystack"));
    read_words(result);
    result.lengths = axis<std::int64_t>("length", Element::int64);
    result.depths = axis<double>("depth", Element::float64);
    check_axes(result);
    dims_ = {result.lengths.size(), result.depths.size()};
    for (const Hdf5Object& group : file_.models()) result.models.push_back(read_model(group));
    return result;
  }

 private:
  void read_words(NeedleEvaluation& result) {
    const std::string mode = file_.text(file_.root(), "mode");
    if (mode != to_string(NeedleMode::easy) && mode != to_string(NeedleMode::standard)) {
      file_.fail("/@mode", "is neither easy nor standard");
    }
    result.mode = needle_mode_from_string(mode);
    result.words =
        NeedleTemplate::from_json(file_.text(file_.root(), "template"), file_.root().file().name() + ": /@template");
  }

  template <typename T>
  std::vector<T> axis(const char* name, Element element) {
    const Hdf5Dataset dataset(file_.root().child(name));
    if (dataset.dims().size() != 1 || dataset.count() == 0) file_.fail(std::string("/") + name, "is no axis");
    return file_.values<T>(file_.root(), name, element, dataset.dims());
  }

  void check_axes(const NeedleEvaluation& result) const {
    for (const std::int64_t length : result.lengths) {
      if (length < 1) file_.fail("/length", fmt::format("holds {}", length));
    }
    for (const double depth : result.depths) {
      if (!(depth >= 0 && depth <= 1)) file_.fail("/depth", fmt::format("holds {}", depth));
    }
  }

  std::vector<float> reals(const Hdf5Object& group, const char* name, const std::vector<std::uint64_t>& dims) {
    std::vector<float> result = file_.values<float>(group, name, Element::float32, dims);
    if (!std::all_of(result.begin(), result.end(), [](float value) { return std::isfinite(value); })) {
      file_.fail(group.path() + "/" + name, "holds what is no number");
    }
    return result;
  }

  /// Numbers of the heads that there are; NaN for the others.
  std::vector<float> of_heads(const Hdf5Object& group, const char* name, const std::vector<std::uint64_t>& dims,
                              const TraceInfo& info) {
    std::vector<float> result = file_.values<float>(group, name, Element::float32, dims);
    const auto heads = static_cast<std::size_t>(info.heads);
    for (std::size_t n = 0; n < result.size(); ++n) {
      const auto layer = static_cast<int>(n / heads % static_cast<std::size_t>(info.layers));
      if (static_cast<int>(n % heads) >= info.mixer(layer).heads) {
        result[n] = std::numeric_limits<float>::quiet_NaN();
      } else if (!std::isfinite(result[n])) {
        file_.fail(group.path() + "/" + name, "holds what is no number");
      }
    }
    return result;
  }

  NeedleModel read_model(const Hdf5Object& group) {
    NeedleModel model;
    model.info = file_.read_info(group);
    if (model.info.layers < 1 || model.info.heads < 1) {
      file_.fail(group, fmt::format("has {} layers of {} heads", model.info.layers, model.info.heads));
    }
    model.haystack_tokens = file_.count(group, "haystack_tokens");
    const std::vector<std::uint64_t> lengths = {dims_[0]};
    const std::vector<std::uint64_t> per_head = {dims_[0], dims_[1], static_cast<std::uint64_t>(model.info.layers),
                                                 static_cast<std::uint64_t>(model.info.heads)};
    model.found = file_.values<std::int32_t>(group, "found", Element::int32, dims_);
    model.answer_log_probability = reals(group, "answer_log_probability", dims_);
    model.baseline_log_probability = reals(group, "baseline_log_probability", lengths);
    model.position = file_.values<std::int64_t>(group, "position", Element::int64, lengths);
    model.needle_begin = file_.values<std::int64_t>(group, "needle_begin", Element::int64, dims_);
    model.needle_end = file_.values<std::int64_t>(group, "needle_end", Element::int64, dims_);
    model.needle_mass = of_heads(group, "needle_mass", per_head, model.info);
    model.needle_gate = of_heads(group, "needle_gate", per_head, model.info);
    model.continuation = Hdf5Dataset(group.child("continuation")).texts(file_.heap());
    if (model.continuation.size() != model.found.size()) {
      file_.fail(group.path() + "/continuation", "has not one text for each cell");
    }
    for (std::size_t cell = 0; cell < model.found.size(); ++cell) check_cell(group, model, cell);
    model.info.length = *std::max_element(model.position.begin(), model.position.end()) + 1;
    return model;
  }

  void check_cell(const Hdf5Object& group, const NeedleModel& model, std::size_t cell) const {
    const auto fail = [&](const char* what) { file_.fail(group, fmt::format("cell {} {}", cell, what)); };
    if (model.found[cell] != 0 && model.found[cell] != 1) fail("is neither found nor not found");
    const bool inside = model.needle_begin[cell] >= 0 && model.needle_begin[cell] < model.needle_end[cell] &&
                        model.needle_end[cell] <= model.position[cell / dims_[1]];
    if (!inside) fail("has its needle outside the prompt");
    if (find_invalid_utf8(model.continuation[cell])) fail("has a continuation that is not UTF-8");
  }

  EvaluationFile file_;
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
