#include "backend/file/file_trace.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/file/run_check.h"
#include "backend/trace/decay_time.h"
#include "backend/trace/row_source.h"

namespace foxscope {
namespace {

/// Numbers of gates come to a quarter of their size at best; zeros, which a model without gates has for c, to a
/// thousandth. Gates that are shorter than this in the file must be zeros.
constexpr std::uint64_t kMostCompression = 32;
constexpr std::uint64_t kShortRows = std::uint64_t{64} << 10U;
/// All rows together hold at most so many times the bytes of the file; zeros of one layer as many, for 64 heads where
/// of a token nothing but its loss was kept.
constexpr std::uint64_t kMostInflation = 64;
/// Experts that a position may have read.
constexpr std::uint64_t kMostExperts = 1 << 16;

bool is_far_compressed(const Hdf5Dataset& rows) {
  return rows.bytes() > kShortRows && rows.bytes() / kMostCompression > rows.stored_bytes();
}

using ArrayDatasets = std::map<std::pair<TraceArray, int>, Hdf5Dataset>;
/// Mean log gates that the file holds, [H] by layer, nats per token.
using StoredMeans = std::map<int, std::vector<double>>;

class FileTraceSource final : public RowSource {
 public:
  /// @param checked  false: c may rise
  FileTraceSource(std::shared_ptr<const Hdf5File> file, ArrayDatasets datasets, StoredMeans means, bool checked)
      : file_(std::move(file)), datasets_(std::move(datasets)), means_(std::move(means)), checked_(checked) {}

  [[nodiscard]] bool has(TraceArray array, int index) const override { return datasets_.contains({array, index}); }

  [[nodiscard]] std::shared_ptr<const ArrayValues> read(TraceArray array, int index) const override {
    const auto found = datasets_.find({array, index});
    if (found == datasets_.end()) return nullptr;
    const Hdf5Dataset& dataset = found->second;
    if (array == TraceArray::cumulative_log_gate) return read_gates(dataset);
    if (array == TraceArray::cumulative_log_decay) return read_decays(dataset);
    if (array == TraceArray::decay_rate) return read_rates(dataset);
    if (spec_of(array).number == ArrayNumber::float64) return std::make_shared<ArrayValues>(dataset.values<double>());
    if (spec_of(array).number == ArrayNumber::float16) {
      return std::make_shared<ArrayValues>(dataset.values<std::uint16_t>());
    }
    if (spec_of(array).number == ArrayNumber::int32)
      return std::make_shared<ArrayValues>(dataset.values<std::int32_t>());
    std::vector<float> numbers = dataset.values<float>();
    // A beta or an erased part that is no number would spoil all entries behind it.
    if (spec_of(array).keep == Keep::query_key &&
        !std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); })) {
      file_->fail_damaged(dataset.path(), "is not finite");
    }
    return std::make_shared<ArrayValues>(std::move(numbers));
  }

  [[nodiscard]] bool is_zero(TraceArray array, int index) const override {
    const Hdf5Dataset& dataset = datasets_.at({array, index});
    // Reading such rows gives zeros or an error.
    if (array == TraceArray::cumulative_log_gate && is_far_compressed(dataset)) return true;
    try {
      return dataset.is_zero();
    } catch (const Error&) {
      return false;
    }
  }

  [[nodiscard]] bool has_rows(TraceArray array, int index) const override {
    if (array != TraceArray::cumulative_log_gate) return false;
    const Hdf5Dataset& dataset = datasets_.at({array, index});
    return dataset.has_rows() && !is_far_compressed(dataset);
  }

  /// c of a head, checked as read() checks it.
  [[nodiscard]] const ArrayValues& row(TraceArray array, int index, std::int64_t row) const override {
    const std::pair key{index, row};
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = rows_.find(key); found != rows_.end()) return *found->second;
    }
    const Hdf5Dataset& gates = datasets_.at({array, index});
    const std::uint64_t length = gates.dims()[1];
    std::vector<double> c = gates.values<double>(index_of(row) * length, length);
    require_finite(gates, c);
    if (checked_) require_falling(gates, c, index_of(row));
    const std::lock_guard lock(mutex_);
    auto& held = rows_[key];
    if (!held) held = std::make_unique<const ArrayValues>(std::move(c));
    return *held;
  }

  [[nodiscard]] std::optional<double> known_mean_log_gate(int layer, int head) const override {
    const auto stored = means_.find(layer);
    return stored != means_.end() ? stored->second[index_of(head)] : mean_by_ends(layer, head);
  }

 private:
  void require_finite(const Hdf5Dataset& gates, std::span<const double> c) const {
    if (std::ranges::all_of(c, [](double value) { return std::isfinite(value); })) return;
    file_->fail_damaged(gates.path(), "is not finite");
  }

  /// Sums of decays that are not positive never rise along positions.
  [[nodiscard]] std::shared_ptr<const ArrayValues> read_decays(const Hdf5Dataset& decays) const {
    std::vector<double> sums = decays.values<double>();
    const std::uint64_t channels = decays.dims()[2];
    const std::uint64_t head = decays.dims()[1] * channels;
    std::vector<double> lowest_of(channels);
    for (std::size_t n = 0; n < sums.size(); ++n) {
      const std::size_t channel = n % channels;
      double& lowest = lowest_of[channel];
      if (n % head < channels) lowest = 0;
      if (!std::isfinite(sums[n])) file_->fail_damaged(decays.path(), "is not finite");
      if (checked_) {
        require_fall(decays, sums[n], lowest,
                     [&] { return fmt::format("{} of head {}, channel {}", n % head / channels, n / head, channel); });
      }
      lowest = std::min(lowest, sums[n]);
    }
    return std::make_shared<const ArrayValues>(std::move(sums));
  }

  /// With rates that are not negative no channel's sum rises where c does not.
  [[nodiscard]] std::shared_ptr<const ArrayValues> read_rates(const Hdf5Dataset& dataset) const {
    std::vector<double> rates = dataset.values<double>();
    if (!std::ranges::all_of(rates, [](double rate) { return std::isfinite(rate) && rate >= 0; })) {
      file_->fail_damaged(dataset.path(), "has a rate that is negative or not finite");
    }
    return std::make_shared<const ArrayValues>(std::move(rates));
  }

  [[nodiscard]] std::shared_ptr<const ArrayValues> read_gates(const Hdf5Dataset& gates) const {
    std::vector<double> c = gates.values<double>();
    require_finite(gates, c);
    if (checked_) require_falling(gates, c, 0);
    const bool zeros = is_far_compressed(gates);
    if (zeros && !std::ranges::all_of(c, [](double value) { return value == 0; })) {
      file_->fail_damaged(gates.path(), "repeats itself more than gates can");
    }
    auto values = std::make_shared<const ArrayValues>(std::move(c));
    return zeros ? share_zeros(std::move(values)) : values;
  }

  /// The mean from the ends of c alone, where they are all that is needed; nothing where they are not.
  [[nodiscard]] std::optional<double> mean_by_ends(int layer, int head) const {
    if (!has(TraceArray::cumulative_log_gate, layer) || !has_rows(TraceArray::cumulative_log_gate, layer)) return {};
    const Hdf5Dataset& gates = datasets_.at({TraceArray::cumulative_log_gate, layer});
    const std::uint64_t length = gates.dims()[1];
    if (length < 2) return {};
    const std::uint64_t begin = index_of(head) * length;
    const double ends[] = {gates.values<double>(begin, 1).front(), gates.values<double>(begin + length - 1, 1).front()};
    // Where all gates together come to less than one that is cut, none is.
    const bool cut = ends[0] - ends[1] >= -kLowestLogGate / 2;
    if (cut || !std::isfinite(ends[0]) || !std::isfinite(ends[1])) return {};
    return mean_log_gate(ends) / static_cast<double>(length - 1);
  }

  /// c is a sum of log f, and no f is above 1: the closed form of F's pools holds for nothing else.
  /// @param first  the head that c begins with
  void require_falling(const Hdf5Dataset& gates, const std::vector<double>& c, std::size_t first) const {
    const std::size_t length = gates.dims()[1];
    for (std::size_t begin = 0; begin < c.size(); begin += length) {
      double lowest = 0;
      for (std::size_t n = 0; n < length; ++n) {
        const double sum = c[begin + n];
        if (sum > lowest) {
          require_fall(gates, sum, lowest, [&] { return fmt::format("{} of head {}", n, first + begin / length); });
        }
        lowest = std::min(lowest, sum);
      }
    }
  }

  /// Whether a sum is no higher than the lowest before it, but for rounding: against the one just before it, rises that
  /// are each as small as rounding would add up.
  /// @param place  "20 of head 2"
  template <typename Place>
  void require_fall(const Hdf5Dataset& sums, double sum, double lowest, const Place& place) const {
    if (!rises(sum, lowest)) return;
    throw Error(
        fmt::format("{}: {}: rises by {:.6g} above an earlier sum at position {}, so that a gate is above 1, and none "
                    "is: it is the sum of log f up to and including a position: {}",
                    file_->name(), sums.path(), sum - lowest, place(), kUncheckedRemedy));
  }

  /// Layers of zeros, which take next to nothing in the file, take the memory of one.
  std::shared_ptr<const ArrayValues> share_zeros(std::shared_ptr<const ArrayValues> values) const {
    const std::lock_guard lock(mutex_);
    if (std::shared_ptr<const ArrayValues> known = zeros_.lock()) return known;
    zeros_ = values;
    return values;
  }

  std::shared_ptr<const Hdf5File> file_;
  ArrayDatasets datasets_;
  StoredMeans means_;
  bool checked_;
  mutable std::mutex mutex_;
  mutable std::weak_ptr<const ArrayValues> zeros_;
  mutable std::map<std::pair<int, std::int64_t>, std::unique_ptr<const ArrayValues>> rows_;  ///< c, by layer and head
};

/// Whether no number has all bits of its exponent set, as infinities and what is no number have.
bool are_finite(std::span<const std::byte> numbers, DType dtype) {
  const auto all = [&]<typename Bits>(Bits exponent) {
    for (std::size_t n = 0; n < numbers.size(); n += sizeof(Bits)) {
      Bits bits{};
      std::memcpy(&bits, numbers.data() + n, sizeof(Bits));
      if ((bits & exponent) == exponent) return false;
    }
    return true;
  };
  return dtype == DType::float32 ? all(std::uint32_t{0x7f800000}) : all(std::uint16_t{0x7f80});
}

/// Queries, keys and values read straight from their places in the file.
class FileQueryKeyStore final : public QueryKeyStore {
 public:
  /// The offsets of each part, by layer.
  using Offsets = std::map<Part, std::vector<std::uint64_t>>;

  FileQueryKeyStore(std::shared_ptr<const Hdf5File> file, const std::string& model, const TraceInfo& info,
                    const Offsets& offsets)
      : QueryKeyStore(info, info.dtype, keys_of(offsets)),
        file_(std::move(file)),
        model_(model),
        object_(model + " " + words_of(parts()).title),
        offsets_(offsets) {}

  [[nodiscard]] const char* where() const override { return "run file"; }

  [[nodiscard]] std::span<const std::byte> raw_rows(Part part, int layer, int head, std::int64_t begin,
                                                    std::int64_t end, std::vector<std::byte>& scratch) const override {
    const std::uint64_t row_bytes = static_cast<std::uint64_t>(channels(part, layer)) * size_of(dtype());
    const auto row = static_cast<std::uint64_t>(head * shape().length + begin);
    scratch.resize(static_cast<std::size_t>(end - begin) * row_bytes);
    file_->read(offsets_.at(part)[index_of(layer)] + row * row_bytes, scratch, object_);
    // One key that is no number would spoil all entries of a linear mixer behind it.
    if (!shape().mixer(layer).has_softmax() && !are_finite(scratch, dtype())) {
      file_->fail_damaged(model_ + "/" + path_of(spec_of(part), layer), "is not finite");
    }
    return scratch;
  }

 private:
  static Parts keys_of(const Offsets& offsets) {
    Parts parts;
    for (const auto& [part, places] : offsets) parts.push_back(part);
    return parts;
  }

  std::shared_ptr<const Hdf5File> file_;
  std::string model_;   ///< path of its group
  std::string object_;  ///< in errors
  Offsets offsets_;
};

/// Finds the arrays of one model.
class ArraySearch {
 public:
  ArraySearch(TraceInfo& info, Hdf5Account& account) : info_(info), account_(account) {}

  /// Searches the arrays that are not a layer's.
  void search_model(const Hdf5Object& model) {
    for (const ArraySpec& spec : kTraceArrays) {
      if (spec.repeat == Repeat::layers) continue;
      for (int index = 0; index < count_of(spec, info_.layers); ++index) {
        const std::optional<Hdf5Object> object = find_array(model, spec, index);
        if (!object) break;
        take(spec, index, *object);
      }
    }
  }

  void search_layer(const Hdf5Object& group, int layer) {
    account_.take(group);
    for (const ArraySpec& spec : kTraceArrays) {
      if (spec.repeat != Repeat::layers || !belongs_to(spec, info_.mixer(layer))) continue;
      if (const std::optional<Hdf5Object> object = group.find(name_of(spec))) take(spec, layer, *object);
    }
    for (const ArraySpec& spec : kTraceArrays) {
      if (spec.storage != Storage::store || !is_stored(spec.keep)) continue;
      if (is_whole(spec, layer)) continue;
      group.file().fail_damaged(group.path(), fmt::format("lacks some of its {}", word_of(spec.keep).title));
    }
  }

  [[nodiscard]] const FileQueryKeyStore::Offsets& offsets() const { return offsets_; }
  ArrayDatasets datasets() && { return std::move(datasets_); }
  StoredMeans means() && { return std::move(means_); }

 private:
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

  /// Whether all layers up to one have a stored array, if they are of a kind that has it.
  [[nodiscard]] bool is_whole(const ArraySpec& spec, int last) {
    std::vector<std::uint64_t>& places = offsets_[spec.array];
    places.resize(index_of(info_.layers), kNowhere);
    for (int layer = 0; layer <= last; ++layer) {
      if (belongs_to(spec, info_.mixer(layer)) && places[index_of(layer)] == kNowhere) return false;
    }
    return true;
  }
  /// Whether one of the arrays that a word keeps was found.
  [[nodiscard]] bool is_stored(Keep keep) const {
    return std::ranges::any_of(offsets_, [keep](const auto& found) { return spec_of(found.first).keep == keep; });
  }

  void take(const ArraySpec& spec, int index, const Hdf5Object& object) {
    const Hdf5Dataset dataset(object);
    const std::vector<std::uint64_t>& found = dataset.dims();
    // Widths that nothing else says are those of the array.
    if (found.size() == 2 && spec.axes.begin()[1] == Axis::vocabulary) {
      info_.vocabulary_size = static_cast<std::int64_t>(found[1]);
    }
    if (found.size() == 2 && spec.axes.begin()[1] == Axis::hidden && info_.hidden_size == 0) {
      info_.hidden_size = static_cast<std::int64_t>(found[1]);
    }
    if (found.size() == 3 && spec.axes.begin()[2] == Axis::choice && info_.chosen_experts == 0) {
      info_.chosen_experts = static_cast<int>(std::min(found[2], kMostExperts));
    }
    dataset.require(element_of(spec.number, info_.dtype), shape_of(spec, info_, index));
    account_.take_stored(dataset);
    if (spec.storage == Storage::store) {
      offsets_[spec.array].resize(index_of(info_.layers), kNowhere);
      offsets_[spec.array][index_of(index)] = dataset.offset();
      return;
    }
    if (spec.array == TraceArray::cumulative_log_gate && is_far_compressed(dataset)) {
      dataset.require_inflation(kMostInflation);  // zeros: the layers share their memory
    } else if (spec.storage == Storage::packed) {
      account_.take_values(dataset, spec.axes.size() == 1 ? Hdf5Dataset::kMostInflation : kMostInflation);
    }
    datasets_.emplace(std::pair(spec.array, index), dataset);
    if (spec.keep != Keep::gates || spec.array == TraceArray::decay_rate) return;
    auto means = object.real_attributes(kMeanLogGate);
    if (means && means->size() != index_of(info_.mixer(index).heads)) {
      object.file().fail_damaged(object.path() + "@" + kMeanLogGate, "has not one number for each head");
    }
    if (means) means_.emplace(index, std::move(*means));
  }

  TraceInfo& info_;
  Hdf5Account& account_;
  ArrayDatasets datasets_;
  StoredMeans means_;
  FileQueryKeyStore::Offsets offsets_;
};

}  // namespace

bool is_model_name(const std::string& name) {
  const auto allowed = [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-');
  };
  return !name.empty() && name != "." && name != ".." && std::all_of(name.begin(), name.end(), allowed);
}

bool fits_heads(const Hdf5File& file, std::int64_t layers, std::int64_t heads) {
  constexpr std::uint64_t kLargestModel = 65'536;
  return static_cast<std::uint64_t>(layers) * static_cast<std::uint64_t>(heads) <= std::max(file.size(), kLargestModel);
}

std::optional<Hdf5Object> find_array(const Hdf5Object& model, const ArraySpec& spec, int index) {
  const std::string path = path_of(spec, index);
  const std::size_t slash = path.find('/');
  std::optional<Hdf5Object> first = model.find(path.substr(0, slash));
  if (!first || slash == std::string::npos) return first;
  return first->child(path.substr(slash + 1));
}

FileTraceParts locate_trace_parts(const std::shared_ptr<const Hdf5File>& file, const Hdf5Object& model,
                                  const std::optional<Hdf5Object>& layers, TraceInfo& info, Hdf5Account& account) {
  ArraySearch search(info, account);
  search.search_model(model);
  for (int layer = 0; layers && layer < info.layers; ++layer) {
    search.search_layer(layers->child(fmt::format("{:02}", layer)), layer);
  }
  FileTraceParts parts;
  if (!search.offsets().empty()) {
    if (info.head_dim == 0) file->fail_damaged(model.path() + "@head_dim", "is 0");
    parts.store = std::make_shared<FileQueryKeyStore>(file, model.path(), info, search.offsets());
  }
  parts.source =
      std::make_unique<FileTraceSource>(file, std::move(search).datasets(), std::move(search).means(), !info.unchecked);
  return parts;
}

}  // namespace foxscope
