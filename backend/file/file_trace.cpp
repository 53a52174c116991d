#include "backend/file/file_trace.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <mutex>
#include <utility>

#include <fmt/format.h>

namespace foxscope {
namespace {

using Part = QueryKeyStore::Part;

/// Numbers of gates come to a quarter of their size at best; zeros, which a model without gates has for c, to a
/// thousandth. Gates that are shorter than this in the file must be zeros.
constexpr std::uint64_t kMostCompression = 32;
constexpr std::uint64_t kShortRows = std::uint64_t{64} << 10U;
/// All rows together hold at most so many times the bytes of the file; zeros of one layer as many, for 64 heads where
/// of a token nothing but its loss was kept.
constexpr std::uint64_t kMostInflation = 64;

/// The arrays of one layer that are small enough to be read whole.
struct LayerDatasets {
  std::optional<Hdf5Dataset> cumulative_log_gate;
  std::optional<Hdf5Dataset> log_normalizer;
  std::optional<Hdf5Dataset> log_normalizer_without_gate;
};

bool is_far_compressed(const Hdf5Dataset& rows) {
  return rows.bytes() > kShortRows && rows.bytes() / kMostCompression > rows.stored_bytes();
}

class FileTraceSource final : public TraceSource {
 public:
  FileTraceSource(std::shared_ptr<const Hdf5File> file, std::vector<LayerDatasets> layers,
                  std::optional<Hdf5Dataset> logits, std::vector<Hdf5Dataset> hidden_states)
      : file_(std::move(file)),
        layers_(std::move(layers)),
        logits_(std::move(logits)),
        hidden_states_(std::move(hidden_states)) {}

  [[nodiscard]] std::shared_ptr<const LayerRows> rows(int layer) const override {
    const LayerDatasets& datasets = layers_[static_cast<std::size_t>(layer)];
    auto rows = std::make_shared<LayerRows>();
    if (const auto& gates = datasets.cumulative_log_gate) {
      rows->cumulative_log_gate = gates->values<double>();
      const std::vector<double>& c = rows->cumulative_log_gate;
      if (!std::all_of(c.begin(), c.end(), [](double value) { return std::isfinite(value); })) {
        file_->fail_damaged(gates->path(), "is not finite");
      }
      if (is_far_compressed(*gates)) {
        if (!std::all_of(c.begin(), c.end(), [](double value) { return value == 0; })) {
          file_->fail_damaged(gates->path(), "repeats itself as no gates do");
        }
        if (!datasets.log_normalizer && !datasets.log_normalizer_without_gate) return share_zeros(std::move(rows));
      }
    }
    if (datasets.log_normalizer) rows->log_normalizer = datasets.log_normalizer->values<float>();
    if (datasets.log_normalizer_without_gate) {
      rows->log_normalizer_without_gate = datasets.log_normalizer_without_gate->values<float>();
    }
    return rows;
  }

  [[nodiscard]] bool has_logits() const override { return logits_.has_value(); }
  [[nodiscard]] bool has_hidden_states() const override { return !hidden_states_.empty(); }
  [[nodiscard]] std::vector<float> logits() const override {
    return logits_ ? logits_->values<float>() : std::vector<float>{};
  }

  [[nodiscard]] std::vector<float> hidden_states(int index) const override {
    return hidden_states_.empty() ? std::vector<float>{}
                                  : hidden_states_[static_cast<std::size_t>(index)].values<float>();
  }

 private:
  /// Layers of zeros, which take next to nothing in the file, take the memory of one.
  std::shared_ptr<const LayerRows> share_zeros(std::shared_ptr<const LayerRows> rows) const {
    const std::lock_guard lock(mutex_);
    if (const std::shared_ptr<const LayerRows> known = zeros_.lock()) return known;
    zeros_ = rows;
    return rows;
  }

  std::shared_ptr<const Hdf5File> file_;
  std::vector<LayerDatasets> layers_;
  std::optional<Hdf5Dataset> logits_;
  std::vector<Hdf5Dataset> hidden_states_;
  mutable std::mutex mutex_;
  mutable std::weak_ptr<const LayerRows> zeros_;
};

/// Queries and keys read straight from their places in the file.
class FileQueryKeyStore final : public QueryKeyStore {
 public:
  struct LayerOffsets {
    std::uint64_t query, key;
  };

  FileQueryKeyStore(std::shared_ptr<const Hdf5File> file, std::string model, const Shape& shape, DType dtype,
                    std::vector<LayerOffsets> offsets)
      : QueryKeyStore(shape, dtype),
        file_(std::move(file)),
        object_(std::move(model) + " queries and keys"),
        offsets_(std::move(offsets)) {}

  [[nodiscard]] const char* where() const override { return "run file"; }

  [[nodiscard]] std::span<const std::byte> raw_rows(Part part, int layer, int head, std::int64_t begin,
                                                    std::int64_t end, std::vector<std::byte>& scratch) const override {
    const LayerOffsets& offsets = offsets_[static_cast<std::size_t>(layer)];
    const std::uint64_t row_bytes = static_cast<std::uint64_t>(shape().head_dim) * size_of(dtype());
    const auto row = static_cast<std::uint64_t>(head * shape().length + begin);
    scratch.resize(static_cast<std::size_t>(end - begin) * row_bytes);
    file_->read((part == Part::query ? offsets.query : offsets.key) + row * row_bytes, scratch, object_);
    return scratch;
  }

 private:
  std::shared_ptr<const Hdf5File> file_;
  std::string object_;
  std::vector<LayerOffsets> offsets_;
};

/// A dataset of a known shape, if it is there.
std::optional<Hdf5Dataset> locate(const Hdf5Object& group, const char* name, Element element,
                                  const std::vector<std::uint64_t>& dims, Hdf5Account& account) {
  const std::optional<Hdf5Object> object = group.find(name);
  if (!object) return {};
  std::optional<Hdf5Dataset> dataset(*object);
  dataset->require(element, dims);
  account.take_stored(*dataset);
  return dataset;
}

/// Rows of a layer.
std::optional<Hdf5Dataset> locate_rows(const Hdf5Object& group, const char* name, Element element,
                                       const std::vector<std::uint64_t>& dims, Hdf5Account& account) {
  std::optional<Hdf5Dataset> rows = locate(group, name, element, dims, account);
  if (!rows) return rows;
  if (element == Element::float64 && is_far_compressed(*rows)) {
    rows->require_inflation(kMostInflation);  // zeros: the layers share their memory
  } else {
    account.take_values(*rows, kMostInflation);
  }
  return rows;
}

/// A dataset [length, any width].
Hdf5Dataset locate_wide(const Hdf5Object& object, std::uint64_t length, Hdf5Account& account) {
  Hdf5Dataset dataset(object);
  dataset.require(Element::float32, {length, dataset.dims().size() == 2 ? dataset.dims()[1] : 0});
  account.take_stored(dataset);
  return dataset;
}

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

FileTraceParts locate_trace_parts(const std::shared_ptr<const Hdf5File>& file, const Hdf5Object& model,
                                  const std::optional<Hdf5Object>& layers, const TraceInfo& info,
                                  Hdf5Account& account) {
  const auto heads = static_cast<std::uint64_t>(info.heads);
  const auto key_heads = static_cast<std::uint64_t>(info.key_heads);
  const auto dim = static_cast<std::uint64_t>(info.head_dim);
  const auto length = static_cast<std::uint64_t>(info.length);
  const Element element = info.dtype == DType::float32 ? Element::float32 : Element::bfloat16;

  const std::vector<std::uint64_t> row_dims = {heads, length};
  std::vector<LayerDatasets> datasets(static_cast<std::size_t>(info.layers));
  std::vector<FileQueryKeyStore::LayerOffsets> offsets;
  for (int layer = 0; layers && layer < info.layers; ++layer) {
    const Hdf5Object group = layers->child(fmt::format("{:02}", layer));
    account.take(group);
    LayerDatasets& rows = datasets[static_cast<std::size_t>(layer)];
    rows.cumulative_log_gate = locate_rows(group, "cumulative_log_gate", Element::float64, row_dims, account);
    rows.log_normalizer = locate_rows(group, "log_normalizer", Element::float32, row_dims, account);
    rows.log_normalizer_without_gate =
        locate_rows(group, "log_normalizer_without_gate", Element::float32, row_dims, account);
    const std::optional<Hdf5Dataset> query = locate(group, "query", element, {heads, length, dim}, account);
    const std::optional<Hdf5Dataset> key = locate(group, "key", element, {key_heads, length, dim}, account);
    const std::size_t kept_before = query ? static_cast<std::size_t>(layer) : 0;
    if (query.has_value() != key.has_value() || offsets.size() != kept_before) {
      file->fail_damaged(group.path(), "queries or keys are missing");
    }
    if (query) offsets.push_back({query->offset(), key->offset()});
  }

  std::optional<Hdf5Dataset> logits;
  if (const std::optional<Hdf5Object> object = model.find("logits")) logits = locate_wide(*object, length, account);
  std::vector<Hdf5Dataset> hidden_states;
  if (const std::optional<Hdf5Object> group = model.find("hidden_states")) {
    for (int index = 0; index <= info.layers; ++index) {
      hidden_states.push_back(locate_wide(group->child(fmt::format("{:02}", index)), length, account));
    }
  }

  FileTraceParts parts;
  if (!offsets.empty()) {
    if (dim == 0) file->fail_damaged(model.path() + "@head_dim", "is 0");
    const QueryKeyStore::Shape shape{info.layers, info.heads, info.key_heads, info.length, info.head_dim};
    parts.query_key = std::make_shared<FileQueryKeyStore>(file, model.path(), shape, info.dtype, std::move(offsets));
  }
  parts.source =
      std::make_unique<FileTraceSource>(file, std::move(datasets), std::move(logits), std::move(hidden_states));
  return parts;
}

}  // namespace foxscope
