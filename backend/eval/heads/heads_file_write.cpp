#include <algorithm>
#include <numeric>

#include "backend/base/atomic_file.h"
#include "backend/eval/evaluation_file.h"
#include "backend/eval/heads/heads_file.h"
#include "backend/file/hdf5/hdf5_writer.h"
#include "backend/file/provenance.h"

namespace foxscope {
namespace {

class HeadsFileWriter {
 public:
  HeadsFileWriter(Hdf5Writer& writer, const AtomicFile& file, const HeadsEvaluation& evaluation)
      : writer_(writer), file_(file), evaluation_(evaluation) {}

  void write() {
    if (evaluation_.content == HeadsContent::evaluation) {
      write_corpus(writer_, evaluation_.corpus);
    } else {
      writer_.attribute("/", "source", evaluation_.corpus.source);
    }
    for (std::size_t n = 0; n < evaluation_.models.size(); ++n) write_model(n);
  }

 private:
  template <typename T>
  void column(const std::string& path, Element element, const std::vector<T>& values) {
    if (!values.empty()) writer_.array(path, element, {values.size()}, values.data(), nullptr);
  }

  void scale(const std::string& path, const char* name, const std::vector<std::int64_t>& values) {
    column(path, Element::int64, values);
    writer_.make_scale(path, name);
  }

  /// A group of arrays whose first two axes are layer and head.
  /// @param last  dataset of the group that belongs to the third axis; empty: there is none, or it has no scale
  void write_arrays(const std::string& group, const EvaluatedHeads& model, const std::vector<HeadArray>& arrays,
                    const std::string& last) {
    const TraceInfo& info = model.info;
    std::vector<std::int64_t> index(static_cast<std::size_t>(std::max(info.layers, info.heads)));
    std::iota(index.begin(), index.end(), 0);
    scale(group + "/layer", "layer", {index.begin(), index.begin() + info.layers});
    scale(group + "/head", "head", {index.begin(), index.begin() + info.heads});
    std::vector<std::string> axes = {"layer", "head"};
    if (!last.empty()) axes.push_back(last);
    for (const HeadArray& array : arrays) {
      write_array(group, model, array, axes);
      if (evaluation_.content == HeadsContent::run) continue;
      write_array(group, model, {array.name + "_errors", array.unit, array.error, {}}, axes);
    }
    writer_.attribute(group, "NX_class", "NXdata");
    writer_.attribute(group, "signal", arrays.front().name);
    if (arrays.front().value.size() > model.head_count() && last.empty()) axes.emplace_back(".");
    writer_.attribute(group, "axes", axes);
  }

  void write_array(const std::string& group, const EvaluatedHeads& model, const HeadArray& array,
                   const std::vector<std::string>& axes) {
    const std::string path = group + "/" + array.name;
    std::vector<std::uint64_t> dims = {static_cast<std::uint64_t>(model.info.layers),
                                       static_cast<std::uint64_t>(model.info.heads)};
    if (!group.ends_with("/numbers")) dims.push_back(array.value.size() / model.head_count());
    // Small, and of more axes than the writer takes apart into chunks: in one piece.
    const std::uint64_t offset = writer_.reserve(path, Element::float64, dims);
    const int error = file_.try_write_at(offset, array.value.data(), array.value.size() * sizeof(double));
    if (error != 0) file_.throw_write_error(error);
    writer_.attribute(path, "units", array.unit);
    writer_.attribute(path, "interpretation", dims.size() == 2 ? "image" : "spectrum");
    for (unsigned dimension = 0; dimension < axes.size(); ++dimension) {
      writer_.attach_scale(path, dimension, group + "/" + axes[dimension]);
    }
  }

  void write_distances(const std::string& group, const EvaluatedHeads& model) {
    std::vector<std::int64_t> begin, end;
    for (const DistanceBin& bin : model.distances) {
      begin.push_back(bin.from);
      end.push_back(bin.to);
    }
    scale(group + "/distance", "distance", begin);
    column(group + "/distance_end", Element::int64, end);
    writer_.attribute(group + "/distance", "units", "tokens");
    writer_.attribute(group + "/distance_end", "units", "tokens");
    write_arrays(group, model, model.by_distance, "distance");
  }

  void write_channels(const std::string& group, const EvaluatedHeads& model) {
    std::vector<std::int64_t> index(model.by_channel.front().value.size() / model.head_count());
    std::iota(index.begin(), index.end(), 0);
    scale(group + "/channel", "channel", index);
    write_arrays(group, model, model.by_channel, "channel");
  }

  void write_classes(const std::string& group, const EvaluatedHeads& model) {
    std::vector<std::string> names;
    for (std::size_t n = 0; n < kTokenClasses; ++n) names.emplace_back(to_string(static_cast<TokenClass>(n)));
    writer_.strings(group + "/token_class", names);
    column(group + "/tokens", Element::int64, model.class_tokens);
    write_arrays(group, model, model.by_class, "");
  }

  void write_model(std::size_t index) {
    const EvaluatedHeads& model = evaluation_.models[index];
    const std::string root = "/models/" + model.info.name;
    writer_.group(root);
    writer_.attribute(root, "NX_class", "NXentry");
    writer_.attribute(root, "default", "numbers");
    write_info(writer_, root, index, model.info);
    if (model.windows) {
      write_windows(writer_, root + "/windows", *model.windows);
      const ErrorGroups documents = model.documents();
      writer_.attribute(root, "documents", documents.count);
      writer_.attribute(root, "effective_documents", documents.effective);
    }
    write_arrays(root + "/numbers", model, model.numbers, "");
    if (!model.by_distance.empty()) write_distances(root + "/by_distance", model);
    if (!model.by_channel.empty()) write_channels(root + "/by_channel", model);
    if (!model.by_class.empty()) write_classes(root + "/by_class", model);
  }

  Hdf5Writer& writer_;
  const AtomicFile& file_;
  const HeadsEvaluation& evaluation_;
};

}  // namespace

void write_heads_file(const std::filesystem::path& path, const HeadsEvaluation& evaluation,
                      const Provenance& provenance, Overwrite overwrite) {
  AtomicFile file(path, overwrite == Overwrite::force);
  Hdf5Writer writer(file);
  write_root(writer, provenance);
  writer.attribute("/", "content", evaluation.content == HeadsContent::run ? kHeadsContent : kEvalHeadsContent);
  writer.attribute("/", "default", "models/" + evaluation.models.front().info.name);
  HeadsFileWriter(writer, file, evaluation).write();
  writer.close();
  file.commit();
}

}  // namespace foxscope
