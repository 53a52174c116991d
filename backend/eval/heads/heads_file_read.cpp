#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "backend/eval/evaluation_file.h"
#include "backend/eval/heads/heads_file.h"

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
        array.error = file_.values<double>(group, (name + "_errors").c_str(), Element::float64, dims);
      } else {
        array.error.assign(array.value.size(), std::numeric_limits<double>::quiet_NaN());
      }
      arrays.push_back(std::move(array));
    }
    return arrays;
  }

  void read_distances(const Hdf5Object& group, std::vector<std::uint64_t> dims, EvaluatedHeads& model) {
    const std::uint64_t bins = Hdf5Dataset(group.child("distance")).count();
    const auto begin = file_.values<std::int64_t>(group, "distance", Element::int64, {bins});
    const auto end = file_.values<std::int64_t>(group, "distance_end", Element::int64, {bins});
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
    model.class_tokens = file_.values<std::int64_t>(group, "tokens", Element::int64, {kTokenClasses});
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

}  // namespace

HeadsEvaluation HeadsEvaluation::open(const std::filesystem::path& path) { return HeadsFileReader(path).read(); }

}  // namespace foxscope
