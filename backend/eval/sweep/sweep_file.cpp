#include "backend/eval/sweep/sweep_file.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "backend/base/atomic_file.h"
#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/eval/evaluation_file.h"
#include "backend/file/hdf5/hdf5_writer.h"
#include "backend/file/model_writer.h"
#include "backend/file/provenance.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

constexpr const char* kBlockEstimator =
    "batch means of paired differences, each of G blocks left out in turn: se^2 = (G-1)/G sum_g (mean without g - "
    "mean)^2; NaN below 8 blocks";

/// A dataset in one piece: losses do not compress.
void write_piece(Hdf5Writer& writer, const AtomicFile& file, const std::string& path, Element element,
                 const std::vector<std::uint64_t>& dims, std::span<const std::byte> bytes) {
  const std::uint64_t offset = writer.reserve(path, element, dims);
  const int error = file.try_write_at(offset, bytes.data(), bytes.size());
  if (error != 0) file.throw_write_error(error);
}

class SweepFileWriter {
 public:
  SweepFileWriter(Hdf5Writer& writer, const AtomicFile& file, const SweepEvaluation& evaluation)
      : writer_(writer), file_(file), evaluation_(evaluation), root_("/models/" + evaluation.info.name) {}

  void write() {
    const std::vector<std::string> axes = {"layer", "head"};
    writer_.group(root_);
    writer_.attribute(root_, "NX_class", "NXdata");
    writer_.attribute(root_, "signal", "change");
    writer_.attribute(root_, "axes", axes);
    writer_.attribute(root_, "title",
                      fmt::format("change of the loss by one head, {}: {}", evaluation_.change.kind_words(), name()));
    write_info(writer_, root_, 0, evaluation_.info);
    write_scale("layer", evaluation_.info.layers);
    write_scale("head", evaluation_.info.heads);
    write_scale("position", evaluation_.info.length);
    write_changes();
    write_losses();
    writer_.array(root_ + "/token_id", Element::int32, {length()}, evaluation_.token_id.data(), nullptr);
    if (!evaluation_.token.empty()) writer_.strings(root_ + "/token", evaluation_.token);
  }

 private:
  [[nodiscard]] const std::string& name() const { return evaluation_.info.name; }
  [[nodiscard]] std::uint64_t length() const { return static_cast<std::uint64_t>(evaluation_.info.length); }

  void write_scale(const char* axis, std::int64_t size) {
    std::vector<std::int64_t> index(static_cast<std::size_t>(size));
    std::iota(index.begin(), index.end(), 0);
    const std::string path = root_ + "/" + axis;
    writer_.array(path, Element::int64, {index.size()}, index.data(), nullptr);
    writer_.make_scale(path, axis);
  }

  void finish(const std::string& path, std::initializer_list<const char*> axes) {
    writer_.attribute(path, "units", "nats");
    writer_.attribute(path, "interpretation", axes.size() == 2 ? "image" : "spectrum");
    unsigned dimension = 0;
    for (const char* axis : axes) writer_.attach_scale(path, dimension++, root_ + "/" + axis);
  }

  void write_changes() {
    constexpr double kNoHead = std::numeric_limits<double>::quiet_NaN();
    std::vector<double> value(evaluation_.changed_loss.size(), kNoHead);
    std::vector<double> error(evaluation_.changed_loss.size(), kNoHead);
    for (const HeadChange& head : evaluation_.changes(0)) {
      const std::size_t place = evaluation_.place_of(head.layer, head.head);
      value[place] = head.change.mean.value;
      error[place] = head.change.mean.error;
    }
    const std::vector<std::uint64_t> dims = {static_cast<std::uint64_t>(evaluation_.info.layers),
                                             static_cast<std::uint64_t>(evaluation_.info.heads)};
    for (const auto& [dataset, values] : {std::pair{"change", &value}, std::pair{"change_errors", &error}}) {
      const std::string path = root_ + "/" + dataset;
      write_piece(writer_, file_, path, Element::float64, dims, std::as_bytes(std::span(*values)));
      finish(path, {"layer", "head"});
    }
  }

  void write_losses() {
    const std::string unchanged = root_ + "/unchanged_loss";
    writer_.array(unchanged, Element::float32, {length()}, evaluation_.unchanged_loss.data(), nullptr);
    finish(unchanged, {"position"});
    const std::string changed = root_ + "/changed_loss";
    const TraceInfo& info = evaluation_.info;
    std::uint64_t offset =
        writer_.reserve(changed, Element::float32,
                        {static_cast<std::uint64_t>(info.layers), static_cast<std::uint64_t>(info.heads), length()});
    const std::vector<float> no_head(evaluation_.unchanged_loss.size(), std::numeric_limits<float>::quiet_NaN());
    for (const std::vector<float>& known : evaluation_.changed_loss) {
      const std::vector<float>& losses = known.empty() ? no_head : known;
      const int error = file_.try_write_at(offset, losses.data(), losses.size() * sizeof(float));
      if (error != 0) file_.throw_write_error(error);
      offset += losses.size() * sizeof(float);
    }
    finish(changed, {"layer", "head", "position"});
  }

  Hdf5Writer& writer_;
  const AtomicFile& file_;
  const SweepEvaluation& evaluation_;
  std::string root_;
};

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
    if (models.size() != 1) file_.fail("/models", fmt::format("holds {} models and not one", models.size()));
    const Hdf5Object& group = models.front();
    result.info = file_.read_info(group);
    const TraceInfo& info = result.info;
    if (info.layers < 1 || info.heads < 1) {
      file_.fail(group, fmt::format("has {} layers of {} heads", info.layers, info.heads));
    }
    const std::uint64_t length = Hdf5Dataset(group.child("token_id")).count();
    if (length == 0) file_.fail(group, "is of no tokens");
    result.token_id = file_.values<std::int32_t>(group, "token_id", Element::int32, {length});
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
    std::vector<float> result = file_.values<float>(group, name, Element::float32, dims);
    require_numbers(group, name, result);
    return result;
  }

  void require_numbers(const Hdf5Object& group, const char* name, std::span<const float> numbers) const {
    if (std::ranges::all_of(numbers, [](float value) { return std::isfinite(value); })) return;
    file_.fail(group.path() + "/" + name, "holds what is no number");
  }

  /// Reads the changes of all heads in the file.
  void read_changed(const Hdf5Object& group, std::uint64_t length, SweepEvaluation& result) {
    constexpr const char* kName = "changed_loss";
    const TraceInfo& info = result.info;
    const std::vector<float> all =
        file_.values<float>(group, kName, Element::float32,
                            {static_cast<std::uint64_t>(info.layers), static_cast<std::uint64_t>(info.heads), length});
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
    if (result.token.size() != result.token_id.size()) file_.fail(*tokens, "has not one text for each token");
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
  AtomicFile file(path, overwrite == Overwrite::force);
  Hdf5Writer writer(file);
  write_root(writer, provenance);
  writer.attribute("/", "content", kSweepContent);
  writer.attribute("/", "default", "models/" + evaluation.info.name);
  writer.attribute("/", "source", evaluation.source);
  writer.attribute("/", "text_sha256", evaluation.text_sha256);
  writer.attribute("/", "change", evaluation.change.kind_text());
  writer.attribute("/", "error_estimator", kBlockEstimator);
  const ErrorGroups blocks = error_blocks(evaluation.info.length);
  writer.attribute("/", "error_block", blocks.tokens);
  writer.attribute("/", "error_blocks", blocks.count);
  SweepFileWriter(writer, file, evaluation).write();
  writer.close();
  file.commit();
}

}  // namespace foxscope
