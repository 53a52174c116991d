#include "backend/eval/loss/loss_file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/eval/evaluation_file.h"

namespace foxscope {
namespace {

/// Sum of the losses of each window.
std::vector<double> window_nats(const LossTable& losses) {
  std::vector<double> nats;
  nats.reserve(static_cast<std::size_t>(losses.windows));
  for (std::int64_t window = 0; window < losses.windows; ++window) {
    double sum = 0;
    const auto row = losses.row(window);
    for (std::int64_t p = 0; p < losses.tokens[index_of(window)]; ++p) {
      sum += static_cast<double>(row[index_of(p)]);
    }
    nats.push_back(sum);
  }
  return nats;
}

std::vector<double> as_reals(const std::vector<std::int64_t>& values) { return {values.begin(), values.end()}; }

/// Bytes of each window; empty without a corpus.
std::vector<double> window_bytes(const EvaluatedWindows& windows) {
  std::vector<double> bytes;
  for (std::size_t n = 0; n < windows.byte_start.size(); ++n) {
    bytes.push_back(static_cast<double>(windows.byte_end[n] - windows.byte_start[n]));
  }
  return bytes;
}

Estimate in_bits(const Estimate& nats) {
  return {nats.value / std::numbers::ln2, nats.error / std::numbers::ln2, nats.over};
}

class LossFileReader {
 public:
  explicit LossFileReader(const std::filesystem::path& path)
      : file_(path, {{kLossContent}, "losses of windows", "`foxscope eval loss`"}) {}

  LossEvaluation read() {
    LossEvaluation result;
    file_.read_origin(result);
    result.corpus = file_.read_corpus();
    documents_ = result.corpus.documents.size();
    for (const Hdf5Object& group : file_.models()) {
      EvaluatedModel model = read_model(group);
      if (!result.models.empty() && model.windows->document != result.models.front().windows->document) {
        file_.fail(group, "has other windows than the first model");
      }
      result.models.push_back(std::move(model));
    }
    return result;
  }

 private:
  std::shared_ptr<const EvaluatedWindows> read_windows(const Hdf5Object& model,
                                                       const std::vector<std::uint64_t>& dims) {
    const Hdf5Object group = model.child("windows");
    std::shared_ptr<const EvaluatedWindows>& known = windows_[group.address()];
    if (known) return known;
    auto windows = std::make_shared<EvaluatedWindows>(file_.read_windows(group, documents_));
    windows->length = static_cast<std::int64_t>(dims[1]);
    if (group.find("token_id")) {
      windows->token_id = file_.values<std::int32_t>(group, "token_id", dims);
    }
    check_windows(group, *windows);
    known = windows;
    return known;
  }

  void check_windows(const Hdf5Object& group, const EvaluatedWindows& windows) const {
    double bytes = 0;
    std::int64_t most = 0;
    for (std::size_t n = 0; n < windows.document.size(); ++n) {
      most = std::max(most, windows.tokens[n]);
      if (!windows.byte_start.empty()) bytes += static_cast<double>(windows.byte_end[n] - windows.byte_start[n]);
      if (windows.tokens[n] > windows.length) {
        file_.fail(group, fmt::format("window {} has more tokens than losses", n));
      }
    }
    if (most == 0) file_.fail(group, "holds no tokens");
    if (!windows.byte_start.empty() && bytes == 0) file_.fail(group, "holds no bytes");
  }

  /// Every loss of a window is a number, and nothing is behind its end.
  void check_losses(const Hdf5Object& object, const LossTable& losses) const {
    for (std::int64_t window = 0; window < losses.windows; ++window) {
      const auto row = losses.row(window);
      const std::int64_t tokens = losses.tokens[index_of(window)];
      for (std::int64_t p = 0; p < losses.length; ++p) {
        const float loss = row[index_of(p)];
        if (p < tokens ? std::isfinite(loss) : std::isnan(loss)) continue;
        file_.fail(object, fmt::format("the loss of window {} at position {} is {}", window, p, loss));
      }
    }
  }

  EvaluatedModel read_model(const Hdf5Object& group) {
    EvaluatedModel model;
    model.info = file_.read_info(group);
    model.averaged = group.integer_attribute("averaged").value_or(0) != 0;
    const Hdf5Object object = group.child("loss").child("per_token_loss");
    const Hdf5Dataset dataset(object);
    if (dataset.dims().size() != 2 || dataset.count() == 0) file_.fail(object, "holds no losses");
    dataset.require(Element::float32, dataset.dims());
    model.windows = read_windows(group, dataset.dims());
    if (model.windows->length != static_cast<std::int64_t>(dataset.dims()[1]) ||
        model.windows->document.size() != dataset.dims()[0]) {
      file_.fail(object, "has not the shape of the model's windows");
    }
    model.losses = {static_cast<std::int64_t>(dataset.dims()[0]), model.windows->length, file_.values<float>(dataset),
                    model.windows->tokens};
    check_losses(object, model.losses);
    return model;
  }

  EvaluationFile file_;
  std::size_t documents_ = 0;
  /// Windows by the address of their group: models with equal tokens share them.
  std::map<std::uint64_t, std::shared_ptr<const EvaluatedWindows>> windows_;
};

class LossFileWriter {
 public:
  LossFileWriter(EvaluationWriter& file, const LossEvaluation& evaluation) : file_(file), evaluation_(evaluation) {}

  void write() {
    file_.corpus(evaluation_.corpus);
    for (std::size_t n = 0; n < evaluation_.models.size(); ++n) write_model(n);
    if (evaluation_.models.size() > 1) write_differences();
  }

 private:
  void write_tokens(const std::string& group, const EvaluatedWindows& windows) {
    file_.windows(group, windows);
    if (windows.token_id.empty()) return;
    file_.hdf5().array(group + "/token_id", Element::int32,
                       {windows.document.size(), static_cast<std::uint64_t>(windows.length)}, windows.token_id.data(),
                       nullptr);
  }

  /// Once for all models with the same tokens.
  void write_windows_of(std::size_t index, const std::string& root) {
    for (std::size_t before = 0; before < index; ++before) {
      if (!same_tokens(evaluation_.models[before], evaluation_.models[index])) continue;
      file_.hdf5().link("/models/" + evaluation_.models[before].info.name + "/windows", root + "/windows");
      return;
    }
    if (index > 0) {
      write_tokens(root + "/windows", *evaluation_.models[index].windows);
      return;
    }
    write_tokens("/windows", *evaluation_.models[index].windows);
    file_.hdf5().link("/windows", root + "/windows");
  }

  void write_estimate(const std::string& path, const std::string& name, const std::optional<Estimate>& estimate) {
    if (!estimate) return;
    file_.attribute(path, name.c_str(), estimate->value);
    file_.attribute(path, (name + "_error").c_str(), estimate->error);
  }

  void write_curve(const std::string& group, const std::string& signal, const PositionCurve& curve) {
    file_.column(group + "/" + signal, curve.value);
    file_.column(group + "/" + signal + "_errors", curve.error);
  }

  void finish_curve(const std::string& group, const std::string& signal, const std::string& axis) {
    file_.plottable(group, signal, {axis});
    file_.describe(group + "/" + signal, {}, {axis});
  }

  void write_model(std::size_t index) {
    const EvaluatedModel& model = evaluation_.models[index];
    const std::string root = "/models/" + model.info.name;
    file_.hdf5().group(root);
    file_.attribute(root, "NX_class", "NXentry");
    file_.attribute(root, "default", "loss");
    file_.attribute(root, "averaged", std::int64_t{model.averaged});
    file_.attribute(root, "documents", model.document_count());
    file_.attribute(root, "effective_documents", model.nats_per_token().over.effective);
    file_.info(root, index, model.info);
    write_estimate(root, "nats_per_token", model.nats_per_token());
    write_estimate(root, "bits_per_byte", model.bits_per_byte());
    write_estimate(root, "perplexity", model.perplexity());
    write_windows_of(index, root);

    const std::int64_t length = model.losses.length;
    write_curve(root + "/loss", "loss", loss_curve(model.losses, model.documents(), 1));
    file_.attribute(root + "/loss/loss", "units", "nats");
    file_.index(root + "/loss/position", length);
    finish_curve(root + "/loss", "loss", "position");
    write_curve(root + "/perplexity", "perplexity", perplexity_curve(model.losses, model.documents()));
    file_.index(root + "/perplexity/context_length", length, 1);
    finish_curve(root + "/perplexity", "perplexity", "context_length");

    file_.hdf5().array(root + "/loss/per_token_loss", Element::float32,
                       {static_cast<std::uint64_t>(model.losses.windows), static_cast<std::uint64_t>(length)},
                       model.losses.loss.data(), nullptr);
    file_.attribute(root + "/loss/per_token_loss", "units", "nats");
    file_.index(root + "/loss/window", model.losses.windows);
    file_.hdf5().attach_scale(root + "/loss/per_token_loss", 0, root + "/loss/window");
    file_.hdf5().attach_scale(root + "/loss/per_token_loss", 1, root + "/loss/position");
  }

  void write_difference(const EvaluatedModel& model, const EvaluatedModel& minus, const std::string& name) {
    const std::string group = "/differences/" + name;
    file_.hdf5().group(group);
    file_.attribute(group, "model", model.info.name);
    file_.attribute(group, "minus", minus.info.name);
    const LossDifference difference = loss_difference(model, minus);
    write_estimate(group, "nats_per_token", difference.nats_per_token);
    write_estimate(group, "bits_per_byte", difference.bits_per_byte);
    if (!same_tokens(model, minus)) return;
    write_curve(group, "loss", difference_curve(model.losses, minus.losses, model.documents(), 1));
    file_.attribute(group + "/loss", "units", "nats");
    file_.hdf5().link("/models/" + model.info.name + "/loss/position", group + "/position");
    finish_curve(group, "loss", "position");
  }

  void write_differences() {
    file_.hdf5().group("/differences");
    file_.attribute("/differences", "NX_class", "NXentry");
    std::string first;
    for (std::size_t a = 0; a < evaluation_.models.size(); ++a) {
      for (std::size_t b = a + 1; b < evaluation_.models.size(); ++b) {
        const EvaluatedModel& model = evaluation_.models[a];
        const EvaluatedModel& minus = evaluation_.models[b];
        const std::string name = fmt::format("{}_minus_{}", model.info.name, minus.info.name);
        write_difference(model, minus, name);
        if (first.empty() && same_tokens(model, minus)) first = name;
      }
    }
    if (!first.empty()) file_.attribute("/differences", "default", first);
  }

  EvaluationWriter& file_;
  const LossEvaluation& evaluation_;
};

}  // namespace

Estimate EvaluatedModel::nats_per_token() const {
  return clustered_ratio(window_nats(losses), as_reals(losses.tokens), documents());
}

std::optional<Estimate> EvaluatedModel::bits_per_byte() const {
  const std::vector<double> bytes = window_bytes(*windows);
  if (bytes.empty()) return std::nullopt;
  return in_bits(clustered_ratio(window_nats(losses), bytes, documents()));
}

Estimate EvaluatedModel::perplexity() const {
  const Estimate nats = nats_per_token();
  const double value = std::exp(nats.value);
  return {value, value * nats.error, nats.over};
}

std::int64_t EvaluatedModel::document_count() const {
  return static_cast<std::int64_t>(std::set(windows->document.begin(), windows->document.end()).size());
}

bool same_tokens(const EvaluatedModel& model, const EvaluatedModel& minus) {
  return model.windows == minus.windows || *model.windows == *minus.windows;
}

LossDifference loss_difference(const EvaluatedModel& model, const EvaluatedModel& minus) {
  if (model.windows->document != minus.windows->document || model.averaged != minus.averaged) {
    throw UsageError(fmt::format("{} and {} were not evaluated on the same windows: there is no difference of theirs",
                                 model.info.name, minus.info.name));
  }
  const std::vector<double> nats = window_nats(model.losses);
  const std::vector<double> other_nats = window_nats(minus.losses);
  LossDifference difference;
  if (same_tokens(model, minus)) {
    const std::vector<double> tokens = as_reals(model.losses.tokens);
    difference.nats_per_token = clustered_ratio_difference({nats, tokens}, {other_nats, tokens}, model.documents());
  }
  const std::vector<double> bytes = window_bytes(*model.windows);
  const std::vector<double> other_bytes = window_bytes(*minus.windows);
  if (!bytes.empty() && !other_bytes.empty()) {
    difference.bits_per_byte =
        in_bits(clustered_ratio_difference({nats, bytes}, {other_nats, other_bytes}, model.documents()));
  }
  return difference;
}

LossEvaluation LossEvaluation::open(const std::filesystem::path& path) { return LossFileReader(path).read(); }

void write_loss_file(const std::filesystem::path& path, const LossEvaluation& evaluation, const Provenance& provenance,
                     Overwrite overwrite) {
  EvaluationWriter file(path, provenance, overwrite, kLossContent, "models/" + evaluation.models.front().info.name);
  LossFileWriter(file, evaluation).write();
  file.finish();
}

}  // namespace foxscope
