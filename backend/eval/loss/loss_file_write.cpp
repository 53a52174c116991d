#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "backend/base/atomic_file.h"
#include "backend/eval/evaluation_file.h"
#include "backend/eval/loss/loss_file.h"
#include "backend/file/hdf5/hdf5_writer.h"
#include "backend/file/provenance.h"

namespace foxscope {
namespace {

class LossFileWriter {
 public:
  LossFileWriter(Hdf5Writer& writer, const LossEvaluation& evaluation) : writer_(writer), evaluation_(evaluation) {}

  void write() {
    write_corpus(writer_, evaluation_.corpus);
    for (std::size_t n = 0; n < evaluation_.models.size(); ++n) write_model(n);
    if (evaluation_.models.size() > 1) write_differences();
  }

 private:
  void column(const std::string& path, Element element, const void* data, std::size_t size) {
    if (size > 0) writer_.array(path, element, {size}, data, nullptr);
  }

  void scale(const std::string& path, const char* name, std::int64_t first, std::int64_t size) {
    std::vector<std::int64_t> index(static_cast<std::size_t>(size));
    std::iota(index.begin(), index.end(), first);
    column(path, Element::int64, index.data(), index.size());
    writer_.make_scale(path, name);
  }

  void plottable(const std::string& group, const std::string& signal, const std::vector<std::string>& axes) {
    writer_.attribute(group, "NX_class", "NXdata");
    writer_.attribute(group, "signal", signal);
    writer_.attribute(group, "axes", axes);
    writer_.attribute(group + "/" + signal, "interpretation", "spectrum");
    for (unsigned dimension = 0; dimension < axes.size(); ++dimension) {
      writer_.attach_scale(fmt::format("{}/{}", group, signal), dimension,
                           fmt::format("{}/{}", group, axes[dimension]));
    }
  }

  void write_tokens(const std::string& group, const EvaluatedWindows& windows) {
    write_windows(writer_, group, windows);
    if (windows.token_id.empty()) return;
    writer_.array(group + "/token_id", Element::int32,
                  {windows.document.size(), static_cast<std::uint64_t>(windows.length)}, windows.token_id.data(),
                  nullptr);
  }

  /// Once for all models with the same tokens.
  void write_windows_of(std::size_t index, const std::string& root) {
    for (std::size_t before = 0; before < index; ++before) {
      if (!same_tokens(evaluation_.models[before], evaluation_.models[index])) continue;
      writer_.link("/models/" + evaluation_.models[before].info.name + "/windows", root + "/windows");
      return;
    }
    if (index > 0) {
      write_tokens(root + "/windows", *evaluation_.models[index].windows);
      return;
    }
    write_tokens("/windows", *evaluation_.models[index].windows);
    writer_.link("/windows", root + "/windows");
  }

  void write_estimate(const std::string& path, const std::string& name, const std::optional<Estimate>& estimate) {
    if (!estimate) return;
    writer_.attribute(path, name.c_str(), estimate->value);
    writer_.attribute(path, (name + "_error").c_str(), estimate->error);
  }

  void write_curve(const std::string& group, const std::string& signal, const Curve& curve) {
    column(group + "/" + signal, Element::float64, curve.value.data(), curve.value.size());
    column(group + "/" + signal + "_errors", Element::float64, curve.error.data(), curve.error.size());
  }

  void write_model(std::size_t index) {
    const EvaluatedModel& model = evaluation_.models[index];
    const std::string root = "/models/" + model.info.name;
    writer_.group(root);
    writer_.attribute(root, "NX_class", "NXentry");
    writer_.attribute(root, "default", "loss");
    writer_.attribute(root, "averaged", std::int64_t{model.averaged});
    writer_.attribute(root, "documents", model.document_count());
    writer_.attribute(root, "effective_documents", model.nats_per_token().over.effective);
    write_info(writer_, root, index, model.info);
    write_estimate(root, "nats_per_token", model.nats_per_token());
    write_estimate(root, "bits_per_byte", model.bits_per_byte());
    write_estimate(root, "perplexity", model.perplexity());
    write_windows_of(index, root);

    const std::int64_t length = model.losses.length;
    write_curve(root + "/loss", "loss", loss_curve(model.losses, model.documents(), 1));
    writer_.attribute(root + "/loss/loss", "units", "nats");
    scale(root + "/loss/position", "position", 0, length);
    plottable(root + "/loss", "loss", {"position"});
    write_curve(root + "/perplexity", "perplexity", perplexity_curve(model.losses, model.documents()));
    scale(root + "/perplexity/context_length", "context_length", 1, length);
    plottable(root + "/perplexity", "perplexity", {"context_length"});

    writer_.array(root + "/loss/per_token_loss", Element::float32,
                  {static_cast<std::uint64_t>(model.losses.windows), static_cast<std::uint64_t>(length)},
                  model.losses.loss.data(), nullptr);
    writer_.attribute(root + "/loss/per_token_loss", "units", "nats");
    scale(root + "/loss/window", "window", 0, model.losses.windows);
    writer_.attach_scale(root + "/loss/per_token_loss", 0, root + "/loss/window");
    writer_.attach_scale(root + "/loss/per_token_loss", 1, root + "/loss/position");
  }

  void write_difference(const EvaluatedModel& model, const EvaluatedModel& minus, const std::string& name) {
    const std::string group = "/differences/" + name;
    writer_.group(group);
    writer_.attribute(group, "model", model.info.name);
    writer_.attribute(group, "minus", minus.info.name);
    const LossDifference difference = loss_difference(model, minus);
    write_estimate(group, "nats_per_token", difference.nats_per_token);
    write_estimate(group, "bits_per_byte", difference.bits_per_byte);
    if (!same_tokens(model, minus)) return;
    write_curve(group, "loss", difference_curve(model.losses, minus.losses, model.documents(), 1));
    writer_.attribute(group + "/loss", "units", "nats");
    writer_.link("/models/" + model.info.name + "/loss/position", group + "/position");
    plottable(group, "loss", {"position"});
  }

  void write_differences() {
    writer_.group("/differences");
    writer_.attribute("/differences", "NX_class", "NXentry");
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
    if (!first.empty()) writer_.attribute("/differences", "default", first);
  }

  Hdf5Writer& writer_;
  const LossEvaluation& evaluation_;
};

}  // namespace

void write_loss_file(const std::filesystem::path& path, const LossEvaluation& evaluation, const Provenance& provenance,
                     Overwrite overwrite) {
  AtomicFile file(path, overwrite == Overwrite::force);
  Hdf5Writer writer(file);
  write_root(writer, provenance);
  writer.attribute("/", "content", kLossContent);
  writer.attribute("/", "default", "models/" + evaluation.models.front().info.name);
  LossFileWriter(writer, evaluation).write();
  writer.close();
  file.commit();
}

}  // namespace foxscope
