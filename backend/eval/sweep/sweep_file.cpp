#include "backend/eval/sweep/sweep_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/eval/evaluation_file.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

constexpr const char* kBlockEstimator =
    "batch means of paired differences, each of G blocks left out in turn: se^2 = (G-1)/G sum_g (mean without g - "
    "mean)^2; NaN below 8 blocks";

/// The group of the model.
void write_model(EvaluationWriter& file, const SweepEvaluation& evaluation) {
  const TraceInfo& info = evaluation.info;
  const std::string root = "/models/" + info.name;
  const std::vector<std::uint64_t> heads = {static_cast<std::uint64_t>(info.layers),
                                            static_cast<std::uint64_t>(info.heads)};
  file.hdf5().group(root);
  file.plottable(root, "change", {"layer", "head"});
  file.attribute(root, "title",
                 fmt::format("change of the loss by one head, {}: {}", evaluation.change.kind_words(), info.name));
  file.info(root, 0, info);
  file.index(root + "/layer", info.layers);
  file.index(root + "/head", info.heads);
  file.index(root + "/position", info.length);

  std::vector<double> value(evaluation.changed_loss.size(), std::numeric_limits<double>::quiet_NaN());
  std::vector<double> error = value;
  for (const HeadChange& head : evaluation.changes(0)) {
    const std::size_t place = evaluation.place_of(head.layer, head.head);
    value[place] = head.change.mean.value;
    error[place] = head.change.mean.error;
  }
  for (const auto& [name, values] : {std::pair{"/change", &value}, std::pair{"/change_errors", &error}}) {
    file.piece(root + name, heads, std::span(std::as_const(*values)));
    file.describe(root + name, "nats", {"layer", "head"});
  }
  file.column(root + "/unchanged_loss", evaluation.unchanged_loss);
  file.describe(root + "/unchanged_loss", "nats", {"position"});
  std::uint64_t offset = file.hdf5().reserve(root + "/changed_loss", Element::float32,
                                             {heads[0], heads[1], static_cast<std::uint64_t>(info.length)});
  const std::vector<float> no_head(evaluation.unchanged_loss.size(), std::numeric_limits<float>::quiet_NaN());
  for (const std::vector<float>& known : evaluation.changed_loss) {
    const std::span<const float> losses = known.empty() ? no_head : known;
    file.write_at(offset, losses);
    offset += losses.size_bytes();
  }
  file.describe(root + "/changed_loss", "nats", {"layer", "head", "position"});
  file.column(root + "/token_id", evaluation.token_id);
  if (!evaluation.token.empty()) file.hdf5().strings(root + "/token", evaluation.token);
}

class SweepFileReader {
 public:
  explicit SweepFileReader(const std::filesystem::path& path)
      : file_(path, {{kSweepContent}, "sweep over heads", "`foxscope eval sweep`"}) {}

  SweepEvaluation read() {
    SweepEvaluation result;
    file_.read_origin(result);
    result.source = without_folder(file_.text(file_.root(), "source"));
    result.text_sha256 = file_.text(file_.root(), "text_sha256");
    result.change = read_change();
    const std::vector<Hdf5Object> models = file_.models();
    if (models.size() != 1) file_.fail("/models", fmt::format("holds {} models, not one", models.size()));
    const Hdf5Object& group = models.front();
    result.info = file_.read_info(group);
    const TraceInfo& info = result.info;
    if (info.layers < 1 || info.heads < 1) {
      file_.fail(group, fmt::format("has {} layers of {} heads", info.layers, info.heads));
    }
    const std::uint64_t length = Hdf5Dataset(group.child("token_id")).count();
    if (length == 0) file_.fail(group, "is of no tokens");
    result.token_id = file_.values<std::int32_t>(group, "token_id", {length});
    result.unchanged_loss = losses(group, "unchanged_loss", {length});
    read_changed(group, length, result);
    read_strings(group, result);
    result.info.length = static_cast<std::int64_t>(length);
    return result;
  }

 private:
  Intervention read_change() {
    const std::string kind = file_.text(file_.root(), "change");
    try {
      return Intervention::parse_change(kind);
    } catch (const UsageError&) {
      file_.fail("/@change", fmt::format("is '{}', which is no change of heads", kind));
    }
  }

  std::vector<float> losses(const Hdf5Object& group, const char* name, const std::vector<std::uint64_t>& dims) {
    std::vector<float> result = file_.values<float>(group, name, dims);
    require_numbers(group, name, result);
    return result;
  }

  void require_numbers(const Hdf5Object& group, const char* name, std::span<const float> numbers) const {
    if (std::ranges::all_of(numbers, [](float value) { return std::isfinite(value); })) return;
    file_.fail(group.path() + "/" + name, "holds a value that is not a number");
  }

  /// Reads the changes of all heads in the file.
  void read_changed(const Hdf5Object& group, std::uint64_t length, SweepEvaluation& result) {
    constexpr const char* kName = "changed_loss";
    const TraceInfo& info = result.info;
    const std::vector<float> all = file_.values<float>(
        group, kName, {static_cast<std::uint64_t>(info.layers), static_cast<std::uint64_t>(info.heads), length});
    result.changed_loss.resize(result.place_of(info.layers, 0));
    for (int layer = 0; layer < info.layers; ++layer) {
      for (int head = 0; head < info.mixer(layer).heads; ++head) {
        const std::size_t place = result.place_of(layer, head);
        const auto losses = std::span(all).subspan(place * length, length);
        require_numbers(group, kName, losses);
        result.changed_loss[place].assign(losses.begin(), losses.end());
      }
    }
  }

  void read_strings(const Hdf5Object& group, SweepEvaluation& result) {
    const std::optional<Hdf5Object> tokens = group.find("token");
    if (!tokens) return;
    result.token = Hdf5Dataset(*tokens).texts(file_.heap());
    if (result.token.size() != result.token_id.size()) file_.fail(*tokens, "does not have one text for each token");
    const auto broken = [](const std::string& text) { return find_invalid_utf8(text).has_value(); };
    if (std::any_of(result.token.begin(), result.token.end(), broken)) file_.fail(*tokens, "is not UTF-8");
  }

  EvaluationFile file_;
};

}  // namespace

bool SweepEvaluation::whole() const {
  if (unchanged_loss.empty()) return false;
  for (int layer = 0; layer < info.layers; ++layer) {
    for (int head = 0; head < info.mixer(layer).heads; ++head) {
      if (!knows(layer, head)) return false;
    }
  }
  return true;
}

LossChange SweepEvaluation::change_of(int layer, int head, std::size_t most) const {
  return loss_change(changed_loss[place_of(layer, head)], unchanged_loss, most);
}

std::vector<HeadChange> SweepEvaluation::changes(std::size_t most) const {
  std::vector<HeadChange> result;
  for (int layer = 0; layer < info.layers; ++layer) {
    for (int head = 0; head < info.mixer(layer).heads; ++head) {
      if (knows(layer, head)) result.push_back({layer, head, change_of(layer, head, most)});
    }
  }
  return result;
}

double SweepEvaluation::mean_loss() const {
  return std::accumulate(unchanged_loss.begin(), unchanged_loss.end(), 0.0) /
         static_cast<double>(unchanged_loss.size());
}

std::vector<bool> SweepEvaluation::discovered(double rate) const {
  std::vector<double> p_values;
  for (const HeadChange& head : changes(0)) {
    const Estimate& mean = head.change.mean;
    p_values.push_back(is_nothing(mean) ? std::numeric_limits<double>::quiet_NaN() : p_value(mean));
  }
  return discoveries(p_values, rate);
}

std::string SweepEvaluation::csv(std::optional<double> rate) const {
  std::string text =
      "layer,head,change,change_error,perplexity_factor,tokens,hurt_position,hurt_change,helped_position,"
      "helped_change,p_value";
  text += rate ? ",discovered\n" : "\n";
  const auto number = [](double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); };
  const auto first_of = [&](const std::vector<TokenChange>& tokens) {
    return tokens.empty() ? "," : fmt::format("{},{}", tokens.front().position, number(tokens.front().change));
  };
  const std::vector<bool> named = rate ? discovered(*rate) : std::vector<bool>();
  std::size_t place = 0;
  for (const HeadChange& head : changes(1)) {
    const LossChange& effect = head.change;
    text += fmt::format("{},{},{},{},{},{},{},{},{}", head.layer, head.head, number(effect.mean.value),
                        number(effect.mean.error), number(effect.perplexity_factor()), effect.tokens,
                        first_of(effect.hurt), first_of(effect.helped), number(p_value(effect.mean)));
    text += rate ? fmt::format(",{}\n", named[place++] ? 1 : 0) : "\n";
  }
  return text;
}

SweepEvaluation SweepEvaluation::open(const std::filesystem::path& path) { return SweepFileReader(path).read(); }

void write_sweep_file(const std::filesystem::path& path, const SweepEvaluation& evaluation,
                      const Provenance& provenance, Overwrite overwrite) {
  EvaluationWriter file(path, provenance, overwrite, kSweepContent, "models/" + evaluation.info.name);
  file.attribute("/", "source", evaluation.source);
  file.attribute("/", "text_sha256", evaluation.text_sha256);
  file.attribute("/", "change", evaluation.change.kind_text());
  file.attribute("/", "error_estimator", kBlockEstimator);
  const ErrorGroups blocks = error_blocks(evaluation.info.length);
  file.attribute("/", "error_block", blocks.tokens);
  file.attribute("/", "error_blocks", blocks.count);
  write_model(file, evaluation);
  file.finish();
}

}  // namespace foxscope
