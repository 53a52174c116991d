#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "backend/base/atomic_file.h"
#include "backend/base/csv_field.h"
#include "backend/eval/evaluation_file.h"
#include "backend/eval/needle/needle_file.h"
#include "backend/file/hdf5/hdf5_writer.h"
#include "backend/file/provenance.h"

namespace foxscope {
namespace {

class NeedleFileWriter {
 public:
  NeedleFileWriter(Hdf5Writer& writer, const AtomicFile& file, const NeedleEvaluation& evaluation)
      : writer_(writer), file_(file), evaluation_(evaluation) {}

  void write() {
    writer_.attribute("/", "haystack", evaluation_.haystack);
    writer_.attribute("/", "mode", to_string(evaluation_.mode));
    writer_.attribute("/", "template", evaluation_.words.json());
    writer_.attribute("/", "reserved_tokens", kReservedTokens);
    scale("/length", "length", Element::int64, evaluation_.lengths);
    scale("/depth", "depth", Element::float64, evaluation_.depths);
    writer_.attribute("/length", "units", "tokens");
    for (std::size_t n = 0; n < evaluation_.models.size(); ++n) write_model(n);
  }

 private:
  template <typename T>
  void scale(const std::string& path, const char* name, Element element, const std::vector<T>& values) {
    writer_.array(path, element, {values.size()}, values.data(), nullptr);
    writer_.make_scale(path, name);
  }

  /// A dataset over the first axes of a model's group. Small, and of up to four axes: in one piece.
  template <typename T>
  void dataset(const std::string& root, const char* name, Element element, const std::vector<T>& values,
               std::size_t axes) {
    constexpr std::array kAxes = {"length", "depth", "layer", "head"};
    const TraceInfo& info = *info_;
    const std::array<std::uint64_t, 4> sizes = {evaluation_.lengths.size(), evaluation_.depths.size(),
                                                static_cast<std::uint64_t>(info.layers),
                                                static_cast<std::uint64_t>(info.heads)};
    const std::string path = root + "/" + name;
    const std::uint64_t offset =
        writer_.reserve(path, element, {sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(axes)});
    const int error = file_.try_write_at(offset, values.data(), values.size() * sizeof(T));
    if (error != 0) file_.throw_write_error(error);
    writer_.attribute(path, "interpretation", axes == 1 ? "spectrum" : "image");
    for (unsigned axis = 0; axis < axes; ++axis) writer_.attach_scale(path, axis, root + "/" + kAxes[axis]);
  }

  void write_scales(const std::string& root) {
    writer_.link("/length", root + "/length");
    writer_.link("/depth", root + "/depth");
    for (const auto& [name, size] : {std::pair{"layer", info_->layers}, std::pair{"head", info_->heads}}) {
      std::vector<std::int64_t> index(static_cast<std::size_t>(size));
      std::iota(index.begin(), index.end(), 0);
      scale(root + "/" + name, name, Element::int64, index);
    }
  }

  void write_model(std::size_t index) {
    const NeedleModel& model = evaluation_.models[index];
    info_ = &model.info;
    const std::string root = "/models/" + model.info.name;
    writer_.group(root);
    write_attributes(root, index, model);
    write_scales(root);
    dataset(root, "gain", Element::float32, model.gain(), 2);
    dataset(root, "found", Element::int32, model.found, 2);
    dataset(root, "answer_log_probability", Element::float32, model.answer_log_probability, 2);
    dataset(root, "baseline_log_probability", Element::float32, model.baseline_log_probability, 1);
    dataset(root, "position", Element::int64, model.position, 1);
    dataset(root, "needle_begin", Element::int64, model.needle_begin, 2);
    dataset(root, "needle_end", Element::int64, model.needle_end, 2);
    dataset(root, "needle_mass", Element::float32, model.needle_mass, 4);
    dataset(root, "needle_gate", Element::float32, model.needle_gate, 4);
    for (const char* name : {"gain", "answer_log_probability", "baseline_log_probability"}) {
      writer_.attribute(root + "/" + name, "units", "nats");
    }
    writer_.strings(root + "/continuation", model.continuation);
  }

  void write_attributes(const std::string& root, std::size_t index, const NeedleModel& model) {
    const TraceInfo& info = model.info;
    const std::vector<std::string> axes = {"length", "depth"};
    writer_.attribute(root, "NX_class", "NXdata");
    writer_.attribute(root, "signal", "gain");
    writer_.attribute(root, "axes", axes);
    writer_.attribute(root, "title", fmt::format("gain of the answer's mean log-probability, {}", info.name));
    writer_.attribute(root, "haystack_tokens", model.haystack_tokens);
    write_info(writer_, root, index, info);
  }

  Hdf5Writer& writer_;
  const AtomicFile& file_;
  const NeedleEvaluation& evaluation_;
  const TraceInfo* info_ = nullptr;  ///< of the model at hand
};

}  // namespace

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

void write_needle_file(const std::filesystem::path& path, const NeedleEvaluation& evaluation,
                       const Provenance& provenance, Overwrite overwrite) {
  AtomicFile file(path, overwrite == Overwrite::force);
  Hdf5Writer writer(file);
  write_root(writer, provenance);
  writer.attribute("/", "content", kNeedleContent);
  writer.attribute("/", "default", "models/" + evaluation.models.front().info.name);
  NeedleFileWriter(writer, file, evaluation).write();
  writer.close();
  file.commit();
}

}  // namespace foxscope
