#include "backend/eval/atlas/atlas_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/eval/atlas/atlas_reader.h"
#include "backend/eval/atlas/atlas_strings.h"
#include "backend/eval/evaluation_file.h"
#include "backend/map/statistics/distance_bins.h"
#include "backend/trace/decay_time.h"
#include "backend/trace/dtype.h"
#include "kernels/executor.h"

namespace foxscope {
namespace {

using Dims = std::vector<std::uint64_t>;

constexpr std::int64_t kMostPassages = 10'000;
constexpr std::int64_t kMostFirstHeads = 1'000'000;
/// Attributes of the sums: bits below the point of the units that sums by token are in.
constexpr std::array<std::pair<const char*, std::int64_t>, 2> kUnitBits = {
    {{"token_log_gate_bits", kTokenLogGateBits}, {"token_received_bits", kMassBits}}};

bool has_limbs(AtlasSum sum) { return spec_of(sum).axes.back() == AtlasAxis::limb; }

/// Columns of a matrix [rows, values.size() / rows], one behind the other: the file has the first limbs of all numbers,
/// then the second, which compress better.
std::vector<std::int64_t> transposed(std::span<const std::int64_t> values, std::size_t rows) {
  std::vector<std::int64_t> columns(values.size());
  const std::size_t count = values.size() / rows;
  for (std::size_t n = 0; n < values.size(); ++n) columns[n % count * rows + n / count] = values[n];
  return columns;
}

/// Axes of an array of sums in the file, which has the tokens that were read alone.
Dims dims_of(AtlasSum sum, const AtlasShape& shape, std::uint64_t tokens) {
  Dims dims;
  for (const AtlasAxis axis : spec_of(sum).axes) {
    if (axis == AtlasAxis::head) {
      dims.insert(dims.end(), {static_cast<std::uint64_t>(shape.layers), static_cast<std::uint64_t>(shape.heads)});
    } else {
      dims.push_back(axis == AtlasAxis::token ? tokens : size_of(axis, shape));
    }
  }
  if (has_limbs(sum)) std::rotate(dims.begin(), dims.end() - 1, dims.end());
  return dims;
}

/// A sum by token that goes into the file as what a mean in float32 leaves of it: both take the place of one.
struct MeanOfTokens {
  AtlasSum sum;
  const char* mean;  ///< of the group of tokens
  double unit;       ///< of the sum
};
constexpr std::array<MeanOfTokens, 3> kMeansOfTokens = {{
    {AtlasSum::token_log_gate, "mean_log_gate", kTokenLogGateUnit},
    {AtlasSum::token_below_half, "share_below_half", 1},
    {AtlasSum::token_received, "received", kMassUnit},
}};

/// The sum that a mean stands for, as far as its digits go.
std::int64_t sum_of_mean(float mean, std::int64_t count, double unit) {
  return std::isnan(mean) ? 0 : std::llround(static_cast<double>(mean) * (static_cast<double>(count) / unit));
}

/// The rest that a mean leaves of its sum, as a number that is not negative: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
/// The upper bytes of small ones are 0, whatever their sign, and compress to nothing.
std::int64_t folded(std::int64_t rest) { return rest < 0 ? -2 * rest - 1 : 2 * rest; }
std::int64_t unfolded(std::int64_t folded) { return (folded & 1) != 0 ? -(folded / 2) - 1 : folded / 2; }

bool has_mean(AtlasSum sum) {
  return std::ranges::find(kMeansOfTokens, sum, &MeanOfTokens::sum) != kMeansOfTokens.end();
}

/// Exact sums whose numbers are carried.
std::vector<std::int64_t> carried(std::span<const std::int64_t> values) {
  std::vector<std::int64_t> sums(values.begin(), values.end());
  for (std::size_t at = 0; at < sums.size(); at += kExactLimbs) carry(std::span(sums).subspan(at).first<kExactLimbs>());
  return sums;
}

/// A sum that stands elsewhere in a model's group too, and is in the file once.
struct SharedSum {
  AtlasSum sum;
  const char* path;  ///< below the model's group
};
constexpr std::array<SharedSum, 2> kSharedSums = {
    {{AtlasSum::log_gate_histogram, "histogram/positions"}, {AtlasSum::reset_gap, "resets/gaps"}}};

Dims number_dims(const AtlasShape& shape, std::size_t classes) {
  return {classes, shape.entries(), static_cast<std::uint64_t>(shape.layers), static_cast<std::uint64_t>(shape.heads)};
}

Dims with_limbs(Dims dims) {
  dims.push_back(kExactLimbs);
  return dims;
}

std::vector<std::string> names_of(const std::vector<AtlasNumber>& numbers) {
  std::vector<std::string> names;
  for (const AtlasNumber& number : numbers) names.push_back(number.name);
  return names;
}

/// The file while it is read.
class AtlasFileReader {
 public:
  explicit AtlasFileReader(const std::filesystem::path& path)
      : name_(path.string()), file_(path, {{kAtlasContent}, "atlas of heads", "`foxscope eval atlas`"}) {}

  Atlas read() {
    Atlas atlas;
    file_.read_origin(atlas);
    atlas.corpus = file_.read_corpus();
    for (const Hdf5Object& group : file_.models()) {
      atlas.models.push_back(read_model(group, atlas.corpus.documents.size()));
    }
    return atlas;
  }

 private:
  std::shared_ptr<const EvaluatedWindows> read_windows(const Hdf5Object& group, std::int64_t length,
                                                       std::size_t documents) {
    std::shared_ptr<const EvaluatedWindows>& known = windows_[group.address()];
    if (known) return known;
    auto windows = std::make_shared<EvaluatedWindows>(file_.read_windows(group, documents));
    windows->length = length;
    windows->token_id =
        file_.values<std::int32_t>(group, "token_id", {windows->document.size(), static_cast<std::uint64_t>(length)});
    known = windows;
    return known;
  }

  /// @param group  null: the model has no such places
  void read_places(const std::optional<Hdf5Object>& group, const AtlasModel& model, AtlasList list, AtlasSums& sums) {
    if (!group) return;
    const AtlasShape& shape = sums.shape();
    const std::size_t most = sums.most(list);
    Dims dims = {static_cast<std::uint64_t>(shape.layers), static_cast<std::uint64_t>(shape.heads), most};
    const auto window = file_.values<std::int64_t>(*group, "window", dims);
    const auto position = file_.values<std::int64_t>(*group, "position", dims);
    const auto value = file_.values<float>(*group, "value", dims);
    const auto priority = list == AtlasList::samples ? file_.values<std::int64_t>(*group, "priority", dims)
                                                     : std::vector<std::int64_t>(window.size());
    dims.push_back(kSurrounding);
    const Hdf5Dataset surroundings(group->child("log_gate"));
    surroundings.require(Element::float16, dims);
    const auto log_gate = file_.values<std::uint16_t>(surroundings);
    for (std::size_t n = 0; n < window.size(); ++n) {
      if (window[n] < 0) continue;
      if (window[n] >= std::ssize(model.windows->tokens) || position[n] < 1 ||
          position[n] >= model.windows->tokens[index_of(window[n])]) {
        file_.fail(*group, fmt::format("names position {} of window {}", position[n], window[n]));
      }
      AtlasPlace place{value[n], window[n], position[n], std::bit_cast<std::uint64_t>(priority[n]), {}};
      std::copy_n(log_gate.begin() + static_cast<std::ptrdiff_t>(n * kSurrounding), kSurrounding,
                  place.log_gate.begin());
      sums.add_place(list, n / most, place);
    }
  }

  /// @param held  windows of the model
  void read_documents(const Hdf5Object& group, std::int64_t held, AtlasSums& sums) {
    const std::uint64_t sizes = Hdf5Dataset(group.child("document_windows")).count();
    const auto windows = file_.values<std::int64_t>(group, "document_windows", {sizes});
    const auto count = file_.values<std::int64_t>(group, "documents", {sizes});
    std::int64_t left = held;
    for (std::size_t n = 0; n < sizes; ++n) {
      if (windows[n] < 1 || count[n] < 1) file_.fail(group, "holds documents without windows");
      if (count[n] > left / windows[n]) file_.fail(group, "holds documents with more windows than there are");
      left -= windows[n] * count[n];
      sums.add_documents(windows[n], count[n]);
    }
    if (left != 0) file_.fail(group, "holds documents with fewer windows than there are");
    if (!group.find("number_windows")) return;
    const std::uint64_t classes = Hdf5Dataset(group.child("number_windows")).count();
    const Dims dims = number_dims(sums.shape(), classes);
    const auto of_each = file_.values<std::int64_t>(group, "number_windows", {classes});
    const auto documents = file_.values<std::int64_t>(group, "number_documents", dims);
    const auto sum = file_.values<std::int64_t>(group, "number_sum", with_limbs(dims));
    const auto square = file_.values<std::int64_t>(group, "number_square", with_limbs(dims));
    const auto part = [classes](const std::vector<std::int64_t>& values, std::size_t n) {
      const std::size_t size = values.size() / classes;
      return std::vector<std::int64_t>(values.begin() + static_cast<std::ptrdiff_t>(n * size),
                                       values.begin() + static_cast<std::ptrdiff_t>((n + 1) * size));
    };
    for (std::size_t n = 0; n < classes; ++n) {
      if (of_each[n] < 1) file_.fail(group, "holds documents without windows");
      sums.add_class(of_each[n], {part(documents, n), part(sum, n), part(square, n)});
    }
  }

  AtlasShape read_shape(const Hdf5Object& group, const TraceInfo& info, const AtlasNumbers& numbers) {
    AtlasShape shape{info.layers, info.heads, file_.count(group, "vocabulary"), file_.count(group, "passages")};
    shape.rows = group.integer_attribute("rows").value_or(0);
    shape.numbers = std::ssize(numbers.numbers);
    shape.profiles = std::ssize(numbers.profiles);
    shape.bins = std::ssize(distance_bins(info.length));
    shape.first_heads = file_.count(group, "first_heads");
    if (info.layers < 1 || info.heads < 1 || info.length < 1 || shape.passages < 1 || shape.passages > kMostPassages ||
        shape.vocabulary > std::numeric_limits<std::int32_t>::max() || shape.first_heads > kMostFirstHeads ||
        shape.rows < AtlasShape::kAllRows) {
      file_.fail(group, "does not have the sizes of an atlas");
    }
    return shape;
  }

  /// Adds to a sum what its mean says of it.
  void add_means(const Hdf5Object& tokens, const MeanOfTokens& of, const std::vector<std::int32_t>& ids,
                 AtlasSums& sums) {
    if (!tokens.find(of.mean) || size_of(of.sum, sums.shape()) == 0) return;
    const Dims dims = {static_cast<std::uint64_t>(sums.shape().layers), static_cast<std::uint64_t>(sums.shape().heads),
                       ids.size()};
    const auto means = file_.values<float>(tokens, of.mean, dims);
    const auto counts = sums.at(AtlasSum::token_count);
    for (std::size_t at = 0; at < means.size(); ++at) {
      const auto id = index_of(ids[at % ids.size()]);
      const std::int64_t one[] = {sum_of_mean(means[at], counts[id], of.unit)};
      add_whole(one, sums.at(of.sum).subspan(at / ids.size() * index_of(sums.shape().vocabulary) + id, 1));
    }
  }

  /// Sums that no gates could have are found before anything is made of them.
  void check_sums(const Hdf5Object& group, const Hdf5Object& tokens, const std::vector<std::int32_t>& ids,
                  const AtlasModel& model) const {
    const AtlasShape& shape = model.sums.shape();
    for (const std::int32_t id : model.windows->token_id) {
      if (id >= shape.vocabulary)
        file_.fail(tokens, fmt::format("are of {}, and windows read {}", shape.vocabulary, id));
    }
    const auto counts = model.sums.at(AtlasSum::token_count);
    std::int64_t left = 0;
    for (const std::int64_t read : model.windows->tokens) left += read - 1;
    for (const std::int32_t id : ids) {
      left = counts[index_of(id)] > left ? -1 : left - counts[index_of(id)];
      if (left < 0) break;
    }
    if (left != 0) file_.fail(group, "does not count every position by its token once");
    const std::int64_t all_positions = model.positions();
    for (std::size_t place = 0; place < shape.head_count(); ++place) {
      if (!model.has_gate(place)) continue;
      std::int64_t positions = 0;
      for (const std::int64_t bin : model.sums.row(AtlasSum::log_gate_histogram, place)) {
        if (bin < 0 || bin > all_positions) file_.fail(group, "has a histogram of other positions than there are");
        positions += bin;
      }
      if (positions != all_positions) file_.fail(group, "has a histogram of other positions than there are");
      const auto log_gates = model.sums.row(AtlasSum::token_log_gate, place);
      for (const std::int32_t id : ids) {
        const double mean = static_cast<double>(log_gates[index_of(id)]) * kTokenLogGateUnit /
                            static_cast<double>(counts[index_of(id)]);
        if (mean > kTokenLogGateUnit || mean < kLowestLogGate) {
          file_.fail(group, fmt::format("has a mean log f of {:.6g} at token {}", mean, id));
        }
      }
    }
  }

  AtlasModel read_model(const Hdf5Object& group, std::size_t documents) {
    TraceInfo info = file_.read_info(group);
    const Hdf5Object sums = group.child("sums");
    for (const auto& [name, bits] : kUnitBits) {
      if (sums.integer_attribute(name) == bits) continue;
      throw Error(fmt::format("{}: its sums are those of another version of Foxscope: make the atlas again", name_));
    }
    const auto names = [&](const char* of) {
      return sums.find(of) ? Hdf5Dataset(sums.child(of)).texts(file_.heap()) : std::vector<std::string>();
    };
    const AtlasNumbers numbers(names("number"), names("profile"));
    const AtlasShape shape = read_shape(group, info, numbers);
    const Hdf5Object tokens = group.child("tokens");
    const std::uint64_t count = Hdf5Dataset(tokens.child("id")).count();
    const auto ids = file_.values<std::int32_t>(tokens, "id", {count});
    for (std::size_t n = 0; n < ids.size(); ++n) {
      if (ids[n] < 0 || ids[n] >= shape.vocabulary || (n > 0 && ids[n] <= ids[n - 1])) {
        file_.fail(tokens,
                   fmt::format("names token {} where one of {} is to be, in their order", ids[n], shape.vocabulary));
      }
    }
    for (std::size_t n = 0; n < kAtlasSums; ++n) {
      // Nothing is allocated for what the file does not hold.
      const auto sum = static_cast<AtlasSum>(n);
      if (size_of(sum, shape) != 0) {
        Hdf5Dataset(sums.child(spec_of(sum).name)).require(Element::int64, dims_of(sum, shape, count));
      }
    }
    AtlasModel model{std::move(info), nullptr,          static_cast<std::int32_t>(file_.count(group, "bos_id")),
                     numbers,         AtlasSums(shape), {}};
    model.windows = read_windows(group.child("windows"), model.info.length, documents);
    model.token_strings = read_atlas_strings(file_, tokens, ids);
    model.tokenizer_sha256 = file_.text(group, "tokenizer_sha256");
    for (std::size_t n = 0; n < kAtlasSums; ++n) {
      const auto sum = static_cast<AtlasSum>(n);
      if (size_of(sum, shape) == 0) continue;
      const auto values = file_.values<std::int64_t>(sums, spec_of(sum).name, dims_of(sum, shape, count));
      const auto to = model.sums.at(sum);
      if (!spec_of(sum).by_token()) {
        std::ranges::copy(has_limbs(sum) ? transposed(values, kExactLimbs) : values, to.begin());
        continue;
      }
      for (std::size_t at = 0; at < values.size(); ++at) {
        to[at / count * index_of(shape.vocabulary) + index_of(ids[at % count])] =
            has_mean(sum) ? unfolded(values[at]) : values[at];
      }
    }
    for (const MeanOfTokens& of : kMeansOfTokens) add_means(tokens, of, ids, model.sums);
    for (const std::int32_t id : ids) {
      if (model.sums.at(AtlasSum::token_count)[index_of(id)] < 1) file_.fail(sums, "holds a token that nothing read");
    }
    check_sums(sums, tokens, ids, model);
    read_documents(sums, std::ssize(model.windows->tokens), model.sums);
    const auto passages = group.find("passages");
    for (const AtlasList list : {AtlasList::resets, AtlasList::reach, AtlasList::gain}) {
      read_places(passages ? passages->find(to_string(list)) : std::nullopt, model, list, model.sums);
    }
    read_places(sums.find("samples"), model, AtlasList::samples, model.sums);
    for (std::int64_t n = 0; n < std::ssize(model.windows->tokens); ++n) model.sums.windows.push_back(n);
    return model;
  }

  std::string name_;
  EvaluationFile file_;
  std::map<std::uint64_t, std::shared_ptr<const EvaluatedWindows>> windows_;
};

class AtlasFileWriter {
 public:
  AtlasFileWriter(EvaluationWriter& file, const Atlas& atlas) : file_(file), atlas_(atlas) {}

  void write() {
    file_.corpus(atlas_.corpus);
    for (std::size_t n = 0; n < atlas_.models.size(); ++n) {
      write_windows_of(n);
      write_model(n);
    }
  }

 private:
  static std::string root_of(const AtlasModel& model) { return "/models/" + model.info.name; }

  template <typename T>
  void array(const std::string& path, const Dims& dims, std::span<const T> values) {
    for (const std::uint64_t size : dims) {
      if (size == 0) return;
    }
    file_.hdf5().array(path, kElementOf<T>, dims, values.data(), &team_);
  }

  /// Scales and arrays [layers, H] or [layers, H, last].
  /// @param last  dataset of the group that belongs to the third axis; ".": it has no scale; empty: there is none
  template <typename T>
  void by_head(const std::string& path, const AtlasModel& model, std::span<const T> values, const std::string& units,
               const std::string& last = {}) {
    Dims dims = {static_cast<std::uint64_t>(model.info.layers), static_cast<std::uint64_t>(model.info.heads)};
    std::vector<std::string> axes = {"layer", "head"};
    if (!last.empty()) {
      dims.push_back(values.size() / (dims[0] * dims[1]));
      axes.push_back(last);
    }
    array(path, dims, values);
    if (!values.empty()) file_.describe(path, units, axes);
  }

  void head_scales(const std::string& group, const AtlasModel& model) {
    file_.index(group + "/layer", model.info.layers);
    file_.index(group + "/head", model.info.heads);
  }

  void write_windows_of(std::size_t index) {
    const AtlasModel& model = atlas_.models[index];
    const std::string path = root_of(model) + "/windows";
    file_.hdf5().group(root_of(model));
    for (std::size_t before = 0; before < index; ++before) {
      if (*atlas_.models[before].windows != *model.windows) continue;
      file_.hdf5().link(root_of(atlas_.models[before]) + "/windows", path);
      return;
    }
    const std::string group = index == 0 ? "/windows" : path;
    file_.windows(group, *model.windows);
    array(group + "/token_id", {model.windows->document.size(), static_cast<std::uint64_t>(model.windows->length)},
          std::span<const std::int32_t>(model.windows->token_id));
    if (index == 0) file_.hdf5().link(group, path);
  }

  void write_tokens(const std::string& group, const AtlasModel& model, const std::vector<std::int32_t>& tokens) {
    head_scales(group, model);
    file_.scale(group + "/id", tokens);
    write_atlas_strings(file_, group, tokens, model.token_strings);
    std::vector<std::int64_t> count;
    for (const std::int32_t id : tokens) count.push_back(model.sums.at(AtlasSum::token_count)[index_of(id)]);
    array(group + "/count", {count.size()}, std::span<const std::int64_t>(count));
    std::vector<std::int32_t> few;
    for (const std::int64_t readings : count) few.push_back(readings < kFewestReadings ? 1 : 0);
    array(group + "/few", {few.size()}, std::span<const std::int32_t>(few));
    file_.attribute(group, "fewest_readings", kFewestReadings);
    std::vector<float> means, errors, shares, received;
    for (std::size_t place = 0; place < model.sums.shape().head_count(); ++place) {
      const HeadTokens head = tokens_of_head(model, place, tokens);
      means.insert(means.end(), head.mean_log_gate.begin(), head.mean_log_gate.end());
      errors.insert(errors.end(), head.error.begin(), head.error.end());
      shares.insert(shares.end(), head.share_below_half.begin(), head.share_below_half.end());
      received.insert(received.end(), head.received.begin(), head.received.end());
    }
    if (model.forgets()) {
      by_head<float>(group + "/mean_log_gate", model, means, "nats", "id");
      by_head<float>(group + "/mean_log_gate_errors", model, errors, "nats", "id");
      by_head<float>(group + "/share_below_half", model, shares, "1", "id");
      by_head<std::int32_t>(group + "/discovered", model, atlas_token_discoveries(model, tokens), "1", "id");
      file_.attribute(group, "false_discovery_rate", kChance);
      file_.plottable(group, "mean_log_gate", {"layer", "head", "id"});
    }
    if (model.has_attention()) by_head<float>(group + "/received", model, received, "1", "id");
  }

  void write_numbers(const std::string& group, const AtlasModel& model) {
    const std::vector<HeadArray> numbers = atlas_head_numbers(model);
    if (numbers.empty()) return;
    head_scales(group, model);
    for (const HeadArray& number : numbers) {
      by_head<double>(group + "/" + number.name, model, number.value, number.unit);
      by_head<double>(group + "/" + number.name + "_errors", model, number.error, number.unit);
      const std::vector<double> of_rows = row_errors(model, number.name);
      if (!of_rows.empty()) by_head<double>(group + "/" + number.name + "_row_errors", model, of_rows, number.unit);
    }
    file_.plottable(group, numbers.front().name, {"layer", "head"});
  }

  void write_distances(const std::string& group, const AtlasModel& model) {
    const std::vector<HeadArray> profiles = atlas_profiles(model);
    if (profiles.empty()) return;
    head_scales(group, model);
    file_.distances(group, distance_bins(model.info.length));
    for (const HeadArray& profile : profiles) {
      by_head<double>(group + "/" + profile.name, model, profile.value, profile.unit, "distance");
      by_head<double>(group + "/" + profile.name + "_errors", model, profile.error, profile.unit, "distance");
      const std::vector<double> of_rows = row_errors(model, profile.name);
      if (of_rows.empty()) continue;
      by_head<double>(group + "/" + profile.name + "_row_errors", model, of_rows, profile.unit, "distance");
    }
    file_.plottable(group, profiles.front().name, {"layer", "head", "distance"});
  }

  void write_histogram(const std::string& group, const AtlasModel& model) {
    head_scales(group, model);
    std::vector<double> begin;
    for (std::size_t bin = 0; bin < kLogGateBins; ++bin) begin.push_back(log_gate_bin(bin));
    file_.scale(group + "/minus_log_gate", begin);
    file_.attribute(group + "/minus_log_gate", "units", "nats");
    by_head<std::int64_t>(group + "/positions", model, model.sums.at(AtlasSum::log_gate_histogram), "1",
                          "minus_log_gate");
    file_.plottable(group, "positions", {"layer", "head", "minus_log_gate"});
  }

  void write_class_names(const std::string& group, const AtlasModel& model, std::size_t count) {
    std::vector<std::string> names;
    for (std::size_t n = 0; n < count; ++n) names.emplace_back(to_string(static_cast<BoundaryClass>(n)));
    file_.hdf5().strings(group + "/token_class", names);
    array(group + "/tokens", {count}, model.sums.at(AtlasSum::class_count).first(count));
  }

  void write_classes(const std::string& group, const AtlasModel& model) {
    head_scales(group, model);
    write_class_names(group, model, kBoundaryClasses);
    for (const HeadArray& one : atlas_class_numbers(model)) {
      by_head<double>(group + "/" + one.name, model, one.value, one.unit, ".");
      by_head<double>(group + "/" + one.name + "_errors", model, one.error, one.unit, ".");
    }
    file_.plottable(group, "mean_log_gate", {"layer", "head", "."});
  }

  void write_resets(const std::string& group, const AtlasModel& model, bool text) {
    head_scales(group, model);
    const AtlasResets resets = atlas_resets(model);
    by_head<std::int64_t>(group + "/count", model, resets.count, "1");
    std::vector<std::int64_t> gap;
    for (std::size_t bin = 0; bin < kGapBins; ++bin) gap.push_back(std::int64_t{1} << bin);
    file_.scale(group + "/gap", gap);
    file_.attribute(group + "/gap", "units", "tokens");
    by_head<std::int64_t>(group + "/gaps", model, model.sums.at(AtlasSum::reset_gap), "1", "gap");
    file_.plottable(group, "count", {"layer", "head"});
    if (!text) return;
    write_class_names(group, model, kResetClasses);
    by_head<double>(group + "/share", model, resets.share, "1", ".");
    by_head<double>(group + "/chance", model, resets.chance, "1", ".");
    by_head<double>(group + "/chance_spread", model, resets.chance_spread, "1", ".");
    by_head<double>(group + "/p_value", model, resets.p_value, "1", ".");
    by_head<std::int32_t>(group + "/discovered", model, resets.discovered, "1", ".");
    file_.attribute(group, "shifts", static_cast<std::int64_t>(kShifts));
    file_.attribute(group, "false_discovery_rate", kChance);
  }

  using ListPlaces = std::vector<AtlasPlace> (*)(const AtlasModel&, std::size_t);

  /// Places of all heads, filled up with -1 and NaN.
  void write_places(const std::string& group, const AtlasModel& model, AtlasList kind, const char* units,
                    ListPlaces list) {
    head_scales(group, model);
    const std::size_t most = model.sums.most(kind);
    const std::size_t size = model.sums.shape().head_count() * most;
    std::vector<std::int64_t> window(size, -1);
    std::vector<std::int64_t> position(size, -1);
    std::vector<std::int64_t> priority(size, -1);
    std::vector<float> value(size, std::numeric_limits<float>::quiet_NaN());
    std::vector<std::uint16_t> log_gate(size * kSurrounding, to_float16(std::numeric_limits<float>::quiet_NaN()));
    for (std::size_t head = 0; head < model.sums.shape().head_count(); ++head) {
      std::size_t at = head * most;
      for (const AtlasPlace& place : list(model, head)) {
        window[at] = place.window;
        position[at] = place.position;
        priority[at] = std::bit_cast<std::int64_t>(place.priority);
        std::ranges::copy(place.log_gate, log_gate.begin() + static_cast<std::ptrdiff_t>(at * kSurrounding));
        value[at++] = place.value;
      }
    }
    by_head<std::int64_t>(group + "/window", model, window, "", ".");
    by_head<std::int64_t>(group + "/position", model, position, "tokens", ".");
    by_head<float>(group + "/value", model, value, units, ".");
    const AtlasShape& shape = model.sums.shape();
    file_.hdf5().array(
        group + "/log_gate", Element::float16,
        {static_cast<std::uint64_t>(shape.layers), static_cast<std::uint64_t>(shape.heads), most, kSurrounding},
        log_gate.data(), &team_);
    file_.describe(group + "/log_gate", "nats", {"layer", "head", ".", "."});
    if (kind == AtlasList::samples) by_head<std::int64_t>(group + "/priority", model, priority, "", ".");
  }

  void write_passages(const std::string& group, const AtlasModel& model) {
    if (model.forgets()) {
      write_places(group + "/resets", model, AtlasList::resets, "nats", strongest_resets);
      // As many as there are of the others.
      write_places(group + "/deciles", model, AtlasList::resets, "nats", decile_places);
    }
    if (!model.has_attention()) return;
    write_places(group + "/reach", model, AtlasList::reach, "1", farthest_places);
    write_places(group + "/gain", model, AtlasList::gain, "nats", gaining_places);
  }

  void write_similarity(const std::string& group, const AtlasModel& model) {
    const std::vector<float> gates = model.forgets() ? atlas_similarity(model) : std::vector<float>();
    const std::vector<float> masses = model.has_attention() ? attention_similarity(model) : std::vector<float>();
    const std::vector<float>& whole = gates.empty() ? masses : gates;
    if (whole.empty()) return;
    const std::uint64_t heads = model.sums.shape().head_count();
    const auto write = [&](const char* name, const std::vector<float>& values) {
      if (values.empty()) return;
      array(group + "/" + name, {heads, values.size() / heads}, std::span<const float>(values));
      file_.describe(group + "/" + name, "1", {".", "."});
    };
    write("log_gate", gates);
    write("attention", masses);
    file_.column(group + "/order", similarity_order(whole));
    file_.plottable(group, gates.empty() ? "attention" : "log_gate", {".", "."});
    if (model.sums.shape().first_heads == 0) return;
    const AtlasModel& first = atlas_.models.front();
    file_.attribute(group, "first", first.info.name);
    if (first.forgets() && model.forgets()) write("first_log_gate", similarity_with_first(model, first));
    if (first.has_attention() && model.has_attention()) {
      write("first_attention", attention_similarity_with_first(model, first));
    }
  }

  void write_sums(const std::string& group, const AtlasModel& model, const std::vector<std::int32_t>& tokens) {
    const AtlasShape& shape = model.sums.shape();
    for (std::size_t n = 0; n < kAtlasSums; ++n) {
      const auto sum = static_cast<AtlasSum>(n);
      const auto values = model.sums.at(sum);
      if (values.empty()) continue;
      const std::string path = group + "/" + spec_of(sum).name;
      const auto shared = std::ranges::find(kSharedSums, sum, &SharedSum::sum);
      if (shared != kSharedSums.end() && model.forgets()) {
        file_.hdf5().link(root_of(model) + "/" + shared->path, path);
        continue;
      }
      if (!spec_of(sum).by_token()) {
        const auto columns =
            has_limbs(sum) ? transposed(carried(values), values.size() / kExactLimbs) : std::vector<std::int64_t>();
        array(path, dims_of(sum, shape, 0), columns.empty() ? values : std::span<const std::int64_t>(columns));
        continue;
      }
      std::vector<std::int64_t> read;
      for (std::size_t begin = 0; begin < values.size(); begin += index_of(shape.vocabulary)) {
        for (const std::int32_t id : tokens) read.push_back(values[begin + index_of(id)]);
      }
      if (has_mean(sum)) take_means(model, sum, tokens, read);
      array(path, dims_of(sum, shape, tokens.size()), std::span<const std::int64_t>(read));
    }
    for (const auto& [name, bits] : kUnitBits) file_.attribute(group, name, bits);
    write_documents(group, model);
    if (!model.forgets()) return;
    write_places(group + "/samples", model, AtlasList::samples, "nats",
                 [](const AtlasModel& of, std::size_t head) { return of.sums.places(AtlasList::samples, head); });
  }

  /// Takes from a sum what its mean, where it is written, says of it, and folds the rest.
  static void take_means(const AtlasModel& model, AtlasSum sum, const std::vector<std::int32_t>& tokens,
                         std::vector<std::int64_t>& values) {
    const auto of = std::ranges::find(kMeansOfTokens, sum, &MeanOfTokens::sum);
    const bool received = sum == AtlasSum::token_received;
    const bool written = received ? model.has_attention() : model.forgets();
    const auto counts = model.sums.at(AtlasSum::token_count);
    for (std::size_t begin = 0; written && begin < values.size(); begin += tokens.size()) {
      const HeadTokens head = tokens_of_head(model, begin / tokens.size(), tokens);
      const std::vector<float>& means = received                          ? head.received
                                        : sum == AtlasSum::token_log_gate ? head.mean_log_gate
                                                                          : head.share_below_half;
      for (std::size_t n = 0; n < tokens.size(); ++n) {
        values[begin + n] -= sum_of_mean(means[n], counts[index_of(tokens[n])], of->unit);
      }
    }
    for (std::int64_t& value : values) value = folded(value);
  }

  void write_documents(const std::string& group, const AtlasModel& model) {
    const AtlasShape& shape = model.sums.shape();
    std::vector<std::int64_t> windows;
    std::vector<std::int64_t> documents;
    for (const auto& [of_each, count] : model.sums.documents()) {
      windows.push_back(of_each);
      documents.push_back(count);
    }
    file_.column(group + "/document_windows", windows);
    file_.column(group + "/documents", documents);
    file_.hdf5().strings(group + "/number", names_of(model.numbers.numbers));
    if (!model.numbers.profiles.empty()) file_.hdf5().strings(group + "/profile", names_of(model.numbers.profiles));
    DocumentClass all;
    windows.clear();
    for (const auto& [of_each, one] : model.sums.classes()) {
      windows.push_back(of_each);
      all.documents.insert(all.documents.end(), one.documents.begin(), one.documents.end());
      all.sum.insert(all.sum.end(), one.sum.begin(), one.sum.end());
      all.square.insert(all.square.end(), one.square.begin(), one.square.end());
    }
    file_.column(group + "/number_windows", windows);
    const Dims dims = number_dims(shape, windows.size());
    array(group + "/number_documents", dims, std::span<const std::int64_t>(all.documents));
    array(group + "/number_sum", with_limbs(dims), std::span<const std::int64_t>(carried(all.sum)));
    array(group + "/number_square", with_limbs(dims), std::span<const std::int64_t>(carried(all.square)));
  }

  void write_model(std::size_t index) {
    const AtlasModel& model = atlas_.models[index];
    const std::string root = root_of(model);
    const bool forgets = model.forgets();
    file_.attribute(root, "NX_class", "NXentry");
    file_.attribute(root, "default", forgets || model.has_attention() ? "numbers" : "tokens");
    file_.info(root, index, model.info);
    file_.attribute(root, "bos_id", std::int64_t{model.bos_id});
    if (!model.tokenizer_sha256.empty()) file_.attribute(root, "tokenizer_sha256", model.tokenizer_sha256);
    file_.attribute(root, "vocabulary", model.sums.shape().vocabulary);
    file_.attribute(root, "passages", model.sums.shape().passages);
    file_.attribute(root, "rows", model.sums.shape().rows);
    if (model.sums.shape().first_heads > 0) file_.attribute(root, "first_heads", model.sums.shape().first_heads);
    file_.attribute(root, "positions", model.positions());
    const ErrorGroups documents = atlas_documents(model.sums);
    file_.attribute(root, "documents", documents.count);
    file_.attribute(root, "effective_documents", documents.effective);
    const std::vector<std::int32_t> tokens = atlas_tokens(model.sums);
    write_tokens(root + "/tokens", model, tokens);
    write_numbers(root + "/numbers", model);
    write_distances(root + "/by_distance", model);
    if (forgets) {
      const bool text = !atlas_.corpus.documents.empty();
      write_histogram(root + "/histogram", model);
      if (text) write_classes(root + "/by_class", model);
      write_resets(root + "/resets", model, text);
    }
    write_passages(root + "/passages", model);
    write_similarity(root + "/similarity", model);
    write_sums(root + "/sums", model, tokens);
  }

  EvaluationWriter& file_;
  const Atlas& atlas_;
  kernels::ThreadPool team_;
};

}  // namespace

Atlas Atlas::open(const std::filesystem::path& path) {
  Atlas atlas = AtlasFileReader(path).read();
  // What follows from the sums is refused here too where other readers, who show it, refuse it.
  AtlasReader::open(path);
  return atlas;
}

void write_atlas_file(const std::filesystem::path& path, const Atlas& atlas, const Provenance& provenance,
                      Overwrite overwrite) {
  EvaluationWriter file(path, provenance, overwrite, kAtlasContent, "models/" + atlas.models.front().info.name);
  AtlasFileWriter(file, atlas).write();
  file.finish();
}

}  // namespace foxscope
