#include "backend/eval/heads/heads_file.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "backend/eval/evaluation_file.h"

namespace foxscope {
namespace {

/// The file while it is read.
class HeadsFileReader {
 public:
  explicit HeadsFileReader(const std::filesystem::path& path)
      : file_(path, {{kEvalHeadsContent, kHeadsContent},
                     "statistics of heads",
                     "`foxscope eval heads` or `foxscope heads -o`"}) {}

  HeadsEvaluation read() {
    HeadsEvaluation evaluation;
    evaluation.content = file_.content() == kHeadsContent ? HeadsContent::run : HeadsContent::evaluation;
    file_.read_origin(evaluation);
    evaluation.corpus = file_.read_corpus();
    for (const Hdf5Object& group : file_.models()) {
      evaluation.models.push_back(read_model(group, evaluation.corpus.documents.size()));
    }
    return evaluation;
  }

 private:
  /// All arrays of a group that begin with [layers, H].
  std::vector<HeadArray> read_arrays(const Hdf5Object& group, const std::vector<std::uint64_t>& dims) {
    std::vector<HeadArray> arrays;
    for (const std::string& name : group.names()) {
      const Hdf5Object object = group.child(name);
      if (!object.is_dataset() || name.ends_with("_errors")) continue;
      const Hdf5Dataset dataset(object);
      if (dataset.type().element != Element::float64) continue;
      dataset.require(Element::float64, dims);
      HeadArray array{name, file_.text(object, "units"), file_.values<double>(dataset), {}};
      if (group.find(name + "_errors")) {
        array.error = file_.values<double>(group, name + "_errors", dims);
      } else {
        array.error.assign(array.value.size(), std::numeric_limits<double>::quiet_NaN());
      }
      arrays.push_back(std::move(array));
    }
    return arrays;
  }

  void read_distances(const Hdf5Object& group, std::vector<std::uint64_t> dims, EvaluatedHeads& model) {
    const std::uint64_t bins = Hdf5Dataset(group.child("distance")).count();
    const auto begin = file_.values<std::int64_t>(group, "distance", {bins});
    const auto end = file_.values<std::int64_t>(group, "distance_end", {bins});
    for (std::size_t n = 0; n < begin.size(); ++n) model.distances.push_back({begin[n], end[n]});
    if (model.distances != distance_bins(model.info.length)) {
      file_.fail(group.path() + "/distance", "does not hold the bins of the windows' length");
    }
    dims.push_back(bins);
    model.by_distance = read_arrays(group, dims);
  }

  void read_channels(const Hdf5Object& group, std::vector<std::uint64_t> dims, EvaluatedHeads& model) {
    dims.push_back(Hdf5Dataset(group.child("channel")).count());
    model.by_channel = read_arrays(group, dims);
  }

  void read_classes(const Hdf5Object& group, std::vector<std::uint64_t> dims, EvaluatedHeads& model) {
    const std::vector<std::string> names = Hdf5Dataset(group.child("token_class")).texts(file_.heap());
    bool known = names.size() == kTokenClasses;
    for (std::size_t n = 0; known && n < names.size(); ++n) known = names[n] == to_string(static_cast<TokenClass>(n));
    if (!known) file_.fail(group.path() + "/token_class", "names other classes than this program knows");
    model.class_tokens = file_.values<std::int64_t>(group, "tokens", {kTokenClasses});
    dims.push_back(kTokenClasses);
    model.by_class = read_arrays(group, dims);
  }

  EvaluatedHeads read_model(const Hdf5Object& group, std::size_t documents) {
    EvaluatedHeads model;
    model.info = file_.read_info(group);
    if (model.info.layers < 1 || model.info.heads < 1 || model.info.length < 1) {
      file_.fail(group, fmt::format("has {} layers of {} heads over {} tokens", model.info.layers, model.info.heads,
                                    model.info.length));
    }
    const std::vector<std::uint64_t> dims = {static_cast<std::uint64_t>(model.info.layers),
                                             static_cast<std::uint64_t>(model.info.heads)};
    if (const auto windows = group.find("windows")) {
      model.windows = std::make_shared<EvaluatedWindows>(file_.read_windows(*windows, documents));
    }
    model.numbers = read_arrays(group.child("numbers"), dims);
    set_forgetting(model);
    if (const auto distances = group.find("by_distance")) {
      read_distances(*distances, dims, model);
    } else {
      model.distances = distance_bins(model.info.length);
    }
    if (const auto channels = group.find("by_channel")) read_channels(*channels, dims, model);
    if (const auto classes = group.find("by_class")) read_classes(*classes, dims, model);
    if (model.windows && !model.documents().suffice()) {
      for (auto* arrays : {&model.numbers, &model.by_distance, &model.by_channel, &model.by_class}) {
        for (HeadArray& array : *arrays) std::ranges::fill(array.error, std::numeric_limits<double>::quiet_NaN());
      }
    }
    return model;
  }

  EvaluationFile file_;
};

class HeadsFileWriter {
 public:
  HeadsFileWriter(EvaluationWriter& file, const HeadsEvaluation& evaluation) : file_(file), evaluation_(evaluation) {}

  void write() {
    if (evaluation_.content == HeadsContent::evaluation) {
      file_.corpus(evaluation_.corpus);
    } else {
      file_.attribute("/", "source", evaluation_.corpus.source);
    }
    for (std::size_t n = 0; n < evaluation_.models.size(); ++n) write_model(n);
  }

 private:
  /// A group of arrays whose first two axes are layer and head.
  /// @param last  dataset of the group that belongs to the third axis; ".": it has no scale; empty: there is none
  void write_arrays(const std::string& group, const EvaluatedHeads& model, const std::vector<HeadArray>& arrays,
                    const std::string& last = {}) {
    file_.index(group + "/layer", model.info.layers);
    file_.index(group + "/head", model.info.heads);
    std::vector<std::string> axes = {"layer", "head"};
    std::vector<std::uint64_t> dims = {static_cast<std::uint64_t>(model.info.layers),
                                       static_cast<std::uint64_t>(model.info.heads)};
    if (!last.empty()) {
      axes.push_back(last);
      dims.push_back(arrays.front().value.size() / model.head_count());
    }
    const auto write = [&](const std::string& name, const std::string& unit, const std::vector<double>& values) {
      file_.piece(group + "/" + name, dims, std::span(values));
      file_.describe(group + "/" + name, unit, axes);
    };
    for (const HeadArray& array : arrays) {
      write(array.name, array.unit, array.value);
      if (evaluation_.content == HeadsContent::evaluation) write(array.name + "_errors", array.unit, array.error);
    }
    file_.plottable(group, arrays.front().name, axes);
  }

  void write_distances(const std::string& group, const EvaluatedHeads& model) {
    file_.distances(group, model.distances);
    write_arrays(group, model, model.by_distance, "distance");
  }

  void write_channels(const std::string& group, const EvaluatedHeads& model) {
    file_.index(group + "/channel", static_cast<std::int64_t>(model.by_channel.front().value.size()) /
                                        static_cast<std::int64_t>(model.head_count()));
    write_arrays(group, model, model.by_channel, "channel");
  }

  void write_classes(const std::string& group, const EvaluatedHeads& model) {
    std::vector<std::string> names;
    for (std::size_t n = 0; n < kTokenClasses; ++n) names.emplace_back(to_string(static_cast<TokenClass>(n)));
    file_.hdf5().strings(group + "/token_class", names);
    file_.column(group + "/tokens", model.class_tokens);
    write_arrays(group, model, model.by_class, ".");
  }

  void write_model(std::size_t index) {
    const EvaluatedHeads& model = evaluation_.models[index];
    const std::string root = "/models/" + model.info.name;
    file_.hdf5().group(root);
    file_.attribute(root, "NX_class", "NXentry");
    file_.attribute(root, "default", "numbers");
    file_.info(root, index, model.info);
    if (model.windows) {
      file_.windows(root + "/windows", *model.windows);
      const ErrorGroups documents = model.documents();
      file_.attribute(root, "documents", documents.count);
      file_.attribute(root, "effective_documents", documents.effective);
    }
    write_arrays(root + "/numbers", model, model.numbers);
    if (!model.by_distance.empty()) write_distances(root + "/by_distance", model);
    if (!model.by_channel.empty()) write_channels(root + "/by_channel", model);
    if (!model.by_class.empty()) write_classes(root + "/by_class", model);
  }

  EvaluationWriter& file_;
  const HeadsEvaluation& evaluation_;
};

}  // namespace

HeadsEvaluation HeadsEvaluation::open(const std::filesystem::path& path) { return HeadsFileReader(path).read(); }

void write_heads_file(const std::filesystem::path& path, const HeadsEvaluation& evaluation,
                      const Provenance& provenance, Overwrite overwrite) {
  EvaluationWriter file(path, provenance, overwrite,
                        evaluation.content == HeadsContent::run ? kHeadsContent : kEvalHeadsContent,
                        "models/" + evaluation.models.front().info.name);
  HeadsFileWriter(file, evaluation).write();
  file.finish();
}

}  // namespace foxscope
