#include "backend/eval/needle/needle_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include <fmt/format.h>

#include "backend/base/command_line.h"
#include "backend/base/csv_field.h"
#include "backend/eval/evaluation_file.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

/// An array of a model in its group.
struct NeedleArray {
  const char* name;
  const char* units;
  std::size_t axes;  ///< how many of length, depth, layer and head, the slowest first
  std::variant<std::vector<float> NeedleModel::*, std::vector<std::int32_t> NeedleModel::*,
               std::vector<std::int64_t> NeedleModel::*>
      numbers;
};
constexpr std::size_t kOfHeads = 4;  ///< axes of what is known of each head

const NeedleArray kArrays[] = {{"found", "", 2, &NeedleModel::found},
                               {"answer_log_probability", "nats", 2, &NeedleModel::answer_log_probability},
                               {"baseline_log_probability", "nats", 1, &NeedleModel::baseline_log_probability},
                               {"position", "", 1, &NeedleModel::position},
                               {"needle_begin", "", 2, &NeedleModel::needle_begin},
                               {"needle_end", "", 2, &NeedleModel::needle_end},
                               {"needle_mass", "", kOfHeads, &NeedleModel::needle_mass},
                               {"needle_gate", "", kOfHeads, &NeedleModel::needle_gate}};

/// Extents of the first so many axes.
std::vector<std::uint64_t> extents(const NeedleEvaluation& evaluation, const TraceInfo& info, std::size_t axes) {
  std::vector<std::uint64_t> all = {evaluation.lengths.size(), evaluation.depths.size(),
                                    static_cast<std::uint64_t>(info.layers), static_cast<std::uint64_t>(info.heads)};
  all.resize(axes);
  return all;
}

class NeedleFileReader {
 public:
  explicit NeedleFileReader(const std::filesystem::path& path)
      : file_(path, {{kNeedleContent}, "needle test", "`foxscope eval needle`"}) {}

  NeedleEvaluation read() {
    NeedleEvaluation& result = result_;
    file_.read_origin(result);
    result.haystack = without_folder(file_.text(file_.root(), "haystack"));
    read_words(result);
    result.lengths = axis<std::int64_t>("length");
    result.depths = axis<double>("depth");
    check_axes(result);
    for (const Hdf5Object& group : file_.models()) result.models.push_back(read_model(group));
    return std::move(result);
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
  std::vector<T> axis(const char* name) {
    const Hdf5Dataset dataset(file_.root().child(name));
    if (dataset.dims().size() != 1 || dataset.count() == 0) file_.fail(std::string("/") + name, "is no axis");
    return file_.values<T>(file_.root(), name, dataset.dims());
  }

  void check_axes(const NeedleEvaluation& result) const {
    for (const std::int64_t length : result.lengths) {
      if (length < 1) file_.fail("/length", fmt::format("holds {}", length));
    }
    for (const double depth : result.depths) {
      if (!(depth >= 0 && depth <= 1)) file_.fail("/depth", fmt::format("holds {}", depth));
    }
  }

  /// Checks the numbers of the heads that exist; the others must be NaN.
  void check_numbers(const std::string& path, const NeedleArray& array, const TraceInfo& info,
                     std::vector<float>& numbers) const {
    const auto heads = static_cast<std::size_t>(info.heads);
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const auto layer = static_cast<int>(n / heads % static_cast<std::size_t>(info.layers));
      if (array.axes == kOfHeads && static_cast<int>(n % heads) >= info.mixer(layer).heads) {
        numbers[n] = std::numeric_limits<float>::quiet_NaN();
      } else if (!std::isfinite(numbers[n])) {
        file_.fail(path, "holds a value that is not a number");
      }
    }
  }

  NeedleModel read_model(const Hdf5Object& group) {
    NeedleModel model;
    model.info = file_.read_info(group);
    if (model.info.layers < 1 || model.info.heads < 1) {
      file_.fail(group, fmt::format("has {} layers of {} heads", model.info.layers, model.info.heads));
    }
    model.haystack_tokens = file_.count(group, "haystack_tokens");
    for (const NeedleArray& array : kArrays) {
      std::visit(
          [&]<typename T>(std::vector<T> NeedleModel::*numbers) {
            model.*numbers = file_.values<T>(group, array.name, extents(result_, model.info, array.axes));
            if constexpr (std::is_same_v<T, float>) {
              check_numbers(group.path() + "/" + array.name, array, model.info, model.*numbers);
            }
          },
          array.numbers);
    }
    model.continuation = Hdf5Dataset(group.child("continuation")).texts(file_.heap());
    if (model.continuation.size() != model.found.size()) {
      file_.fail(group.path() + "/continuation", "does not have one text for each cell");
    }
    for (std::size_t cell = 0; cell < model.found.size(); ++cell) check_cell(group, model, cell);
    model.info.length = *std::max_element(model.position.begin(), model.position.end()) + 1;
    return model;
  }

  void check_cell(const Hdf5Object& group, const NeedleModel& model, std::size_t cell) const {
    const auto fail = [&](const char* what) { file_.fail(group, fmt::format("cell {} {}", cell, what)); };
    if (model.found[cell] != 0 && model.found[cell] != 1) fail("is neither found nor not found");
    const bool inside = model.needle_begin[cell] >= 0 && model.needle_begin[cell] < model.needle_end[cell] &&
                        model.needle_end[cell] <= model.position[cell / result_.depths.size()];
    if (!inside) fail("has its needle outside the prompt");
    if (find_invalid_utf8(model.continuation[cell])) fail("has a continuation that is not UTF-8");
  }

  EvaluationFile file_;
  NeedleEvaluation result_;
};

/// A model's group, in which its arrays stand beside their scales.
void write_model(EvaluationWriter& file, const NeedleEvaluation& evaluation, std::size_t index) {
  const NeedleModel& model = evaluation.models[index];
  const TraceInfo& info = model.info;
  const std::string root = "/models/" + info.name;
  file.hdf5().group(root);
  file.plottable(root, "gain", {"length", "depth"});
  file.attribute(root, "title", fmt::format("gain of the answer's mean log-probability, {}", info.name));
  file.attribute(root, "haystack_tokens", model.haystack_tokens);
  file.info(root, index, info);
  file.hdf5().link("/length", root + "/length");
  file.hdf5().link("/depth", root + "/depth");
  file.index(root + "/layer", info.layers);
  file.index(root + "/head", info.heads);
  const auto write = [&]<typename T>(const NeedleArray& array, const std::vector<T>& numbers) {
    const std::string path = root + "/" + array.name;
    std::vector<std::string> axes = {"length", "depth", "layer", "head"};
    axes.resize(array.axes);
    file.piece(path, extents(evaluation, info, array.axes), std::span(numbers));
    file.describe(path, array.units, axes);
  };
  write({"gain", "nats", 2, {}}, model.gain());
  for (const NeedleArray& array : kArrays) {
    std::visit([&](auto numbers) { write(array, model.*numbers); }, array.numbers);
  }
  file.hdf5().strings(root + "/continuation", model.continuation);
}

}  // namespace

std::vector<float> NeedleModel::gain() const {
  const std::size_t depths = answer_log_probability.size() / baseline_log_probability.size();
  std::vector<float> result;
  for (std::size_t cell = 0; cell < answer_log_probability.size(); ++cell) {
    result.push_back(answer_log_probability[cell] - baseline_log_probability[cell / depths]);
  }
  return result;
}

std::string NeedleEvaluation::csv(CsvHeader header) const {
  std::string text;
  if (header == CsvHeader::names) {
    text =
        "model,haystack,length,depth,gain,answer_log_probability,baseline_log_probability,found,position,needle_begin,"
        "needle_end\n";
  }
  for (const NeedleModel& model : models) {
    const std::vector<float> gain = model.gain();
    for (std::size_t at = 0; at < cells(); ++at) {
      const std::size_t length = at / depths.size();
      text += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", csv_field(model.info.name), csv_field(haystack),
                          lengths[length], depths[at % depths.size()], gain[at], model.answer_log_probability[at],
                          model.baseline_log_probability[length], model.found[at] != 0 ? 1 : 0, model.position[length],
                          model.needle_begin[at], model.needle_end[at]);
    }
  }
  return text;
}

NeedleEvaluation NeedleEvaluation::open(const std::filesystem::path& path) { return NeedleFileReader(path).read(); }

void write_needle_file(const std::filesystem::path& path, const NeedleEvaluation& evaluation,
                       const Provenance& provenance, Overwrite overwrite) {
  EvaluationWriter file(path, provenance, overwrite, kNeedleContent, "models/" + evaluation.models.front().info.name);
  file.attribute("/", "haystack", evaluation.haystack);
  file.attribute("/", "mode", to_string(evaluation.mode));
  file.attribute("/", "template", evaluation.words.json());
  file.attribute("/", "reserved_tokens", kReservedTokens);
  file.scale("/length", evaluation.lengths);
  file.scale("/depth", evaluation.depths);
  file.attribute("/length", "units", "tokens");
  for (std::size_t n = 0; n < evaluation.models.size(); ++n) write_model(file, evaluation, n);
  file.finish();
}

}  // namespace foxscope
