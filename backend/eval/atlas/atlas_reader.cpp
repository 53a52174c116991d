#include "backend/eval/atlas/atlas_reader.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "backend/base/index.h"
#include "backend/eval/atlas/atlas_file.h"
#include "backend/eval/atlas/atlas_strings.h"
#include "backend/eval/evaluation_file.h"
#include "backend/trace/dtype.h"

namespace foxscope {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr const char* kErrors = "_errors";
constexpr double kMassRounding = 1e-6;  ///< of masses

}  // namespace

struct AtlasReader::Tables {
  /// An array whose first axes are layer and head, of which one head's part is read at a time.
  class HeadTable {
   public:
    HeadTable() = default;
    HeadTable(const Hdf5Object& object, Element element, const Shape& dims)
        : dataset_(Hdf5Dataset(object)), row_(hdf5_product({dims.begin() + 2, dims.end()}, 1)) {
      dataset_->require(element, dims);
    }
    explicit operator bool() const { return dataset_.has_value(); }
    [[nodiscard]] std::uint64_t row() const { return row_; }
    template <typename T>
    [[nodiscard]] std::vector<T> of(std::size_t place) const {
      return dataset_->values<T>(place * row_, row_);
    }

   private:
    std::optional<Hdf5Dataset> dataset_;
    std::uint64_t row_ = 0;
  };
  struct PassageTables {
    std::vector<std::vector<AtlasPassage>> places;  ///< [N]
    HeadTable log_gate;
  };

  HeadTable mean_log_gate, share_below_half, error, discovered_tokens;
  HeadTable positions;
  std::vector<double> minus_log_gate;
  std::vector<std::int64_t> count, gap;
  HeadTable gaps;
  std::vector<std::string> token_class;
  std::vector<std::int64_t> class_tokens;
  HeadTable share, chance, chance_spread, p_value, discovered;
  std::vector<PassageTables> passages;
  std::map<std::string, Hdf5Dataset> similarities;
  std::vector<std::int64_t> order;
  std::optional<Hdf5Dataset> token_ids;  ///< [windows, L]
  std::shared_ptr<const EvaluationFile> file;
};

AtlasReader::AtlasReader() = default;
AtlasReader::~AtlasReader() = default;

std::optional<std::size_t> AtlasFacts::place_of(std::int32_t id) const {
  const auto found = std::ranges::lower_bound(token_id, id);
  if (found == token_id.end() || *found != id) return std::nullopt;
  return index_of(found - token_id.begin());
}

/// The file while it is opened.
class AtlasReader::Opening {
  using HeadTable = Tables::HeadTable;

 public:
  explicit Opening(const std::filesystem::path& path)
      : file_(std::make_shared<EvaluationFile>(
            path, EvaluationFile::Kind{{kAtlasContent}, "atlas of heads", "`foxscope eval atlas`"})) {}

  std::shared_ptr<const AtlasReader> open() {
    std::shared_ptr<AtlasReader> reader(new AtlasReader);
    reader->corpus_ = file_->read_corpus();
    for (const Hdf5Object& group : file_->models()) {
      read_model(group, reader->corpus_.documents.size(), reader->models_);
      reader->models_.push_back(std::move(facts_));
      reader->tables_.push_back(std::move(tables_));
    }
    return reader;
  }

 private:
  void read_model(const Hdf5Object& group, std::size_t documents, const std::vector<AtlasFacts>& before) {
    facts_ = {};
    tables_ = {};
    tables_.file = file_;
    facts_.info = file_->read_info(group);
    facts_.vocabulary = file_->count(group, "vocabulary");
    facts_.positions = file_->count(group, "positions");
    facts_.documents = file_->count(group, "documents");
    const TraceInfo& info = facts_.info;
    if (info.layers < 1 || info.heads < 1 || info.length < 1 || facts_.vocabulary < 1) {
      file_->fail(group, "does not have the sizes of an atlas");
    }
    heads_ = {static_cast<std::uint64_t>(info.layers), static_cast<std::uint64_t>(info.heads)};
    read_windows(group.child("windows"), documents);
    read_tokens(group.child("tokens"));
    if (const auto numbers = group.find("numbers")) read_numbers(*numbers);
    if (const auto distances = group.find("by_distance")) check_masses(*distances);
    if (const auto histogram = group.find("histogram")) read_histogram(*histogram);
    if (const auto resets = group.find("resets")) read_resets(*resets);
    if (const auto passages = group.find("passages")) read_passages(*passages);
    if (const auto similarity = group.find("similarity")) read_similarities(*similarity, before);
  }

  /// An array of the group by head, and by as many entries of each; none where the file has none.
  HeadTable table(const Hdf5Object& group, const std::string& name, Element element, std::uint64_t entries) const {
    const auto object = group.find(name);
    return object ? HeadTable(*object, element, {heads_[0], heads_[1], entries}) : HeadTable();
  }

  void read_windows(const Hdf5Object& group, std::size_t documents) {
    std::shared_ptr<const EvaluatedWindows>& known = windows_[group.address()];
    const auto length = static_cast<std::uint64_t>(facts_.info.length);
    if (!known) {
      auto windows = std::make_shared<EvaluatedWindows>(file_->read_windows(group, documents));
      windows->length = facts_.info.length;
      for (std::size_t n = 0; n < windows->tokens.size(); ++n) {
        if (windows->tokens[n] > windows->length)
          file_->fail(group, fmt::format("window {} has {} tokens of {}", n, windows->tokens[n], windows->length));
      }
      known = windows;
    }
    facts_.windows = known;
    tables_.token_ids = Hdf5Dataset(group.child("token_id"));
    tables_.token_ids->require(Element::int32, {known->tokens.size(), length});
  }

  void read_tokens(const Hdf5Object& group) {
    const std::uint64_t count = Hdf5Dataset(group.child("id")).count();
    facts_.token_id = file_->values<std::int32_t>(group, "id", {count});
    facts_.token_count = file_->values<std::int64_t>(group, "count", {count});
    for (std::size_t n = 0; n < count; ++n) {
      const std::int32_t id = facts_.token_id[n];
      if (id < 0 || id >= facts_.vocabulary || (n > 0 && id <= facts_.token_id[n - 1]) || facts_.token_count[n] < 1) {
        file_->fail(group, fmt::format("names token {} where one of {} that was read is to be, in their order", id,
                                       facts_.vocabulary));
      }
    }
    facts_.token_string = read_atlas_strings(*file_, group, facts_.token_id);
    tables_.mean_log_gate = table(group, "mean_log_gate", Element::float32, count);
    tables_.share_below_half = table(group, "share_below_half", Element::float32, count);
    tables_.error = table(group, std::string("mean_log_gate") + kErrors, Element::float32, count);
    tables_.discovered_tokens = table(group, "discovered", Element::int32, count);
    facts_.has_tokens = tables_.mean_log_gate && tables_.share_below_half;
  }

  void read_numbers(const Hdf5Object& group) {
    const std::vector<std::string> names = group.names();
    for (const std::string& name : names) {
      const Hdf5Object object = group.child(name);
      if (name.ends_with(kErrors) || !object.is_dataset()) continue;
      const Hdf5Dataset dataset(object);
      if (dataset.dims() != heads_) continue;  // a scale
      HeadArray& array = facts_.numbers.emplace_back();
      array.name = name;
      array.unit = file_->text(object, "units");
      array.value = file_->values<double>(group, name, heads_);
      if (std::ranges::find(names, name + kErrors) != names.end()) {
        array.error = file_->values<double>(group, name + kErrors, heads_);
      }
    }
  }

  /// Nothing here shows them, and others read them from the file.
  void check_masses(const Hdf5Object& group) const {
    for (const std::string& name : group.names()) {
      if (!name.starts_with("mass") || !group.child(name).is_dataset()) continue;
      const Hdf5Dataset dataset(group.child(name));
      if (dataset.type().element != Element::float64) continue;
      const std::vector<double> values = dataset.values<double>();
      const auto negative = std::ranges::find_if(values, [](double value) { return value < -kMassRounding; });
      if (negative != values.end()) file_->fail(group.child(name), fmt::format("holds the mass {}", *negative));
    }
  }

  /// Every position of a head with a gate is in one bin; a head has a gate where it has a mean log f.
  void check_positions(const Hdf5Object& group) const {
    const auto mean = std::ranges::find(facts_.numbers, "mean_log_gate", &HeadArray::name);
    if (mean == facts_.numbers.end()) return;
    for (std::size_t place = 0; place < facts_.head_count(); ++place) {
      std::int64_t sum = 0;
      for (const std::int64_t count : tables_.positions.of<std::int64_t>(place)) {
        if (count < 0 || count > facts_.positions - sum) {
          sum = -1;
          break;
        }
        sum += count;
      }
      const std::int64_t expected = std::isnan(mean->value[place]) ? 0 : facts_.positions;
      if (sum == expected) continue;
      const auto heads = static_cast<std::size_t>(facts_.info.heads);
      file_->fail(group.child("positions"),
                  fmt::format("does not add up to {} positions of layer {}, head {}, as its mean log f says", expected,
                              place / heads, place % heads));
    }
  }

  void read_histogram(const Hdf5Object& group) {
    const std::uint64_t bins = Hdf5Dataset(group.child("minus_log_gate")).count();
    tables_.minus_log_gate = file_->values<double>(group, "minus_log_gate", {bins});
    tables_.positions = HeadTable(group.child("positions"), Element::int64, {heads_[0], heads_[1], bins});
    check_positions(group);
    facts_.has_histogram = true;
  }

  void read_resets(const Hdf5Object& group) {
    tables_.count = file_->values<std::int64_t>(group, "count", heads_);
    const std::uint64_t bins = Hdf5Dataset(group.child("gap")).count();
    tables_.gap = file_->values<std::int64_t>(group, "gap", {bins});
    tables_.gaps = HeadTable(group.child("gaps"), Element::int64, {heads_[0], heads_[1], bins});
    facts_.has_resets = true;
    HeadArray& resets = facts_.numbers.emplace_back(HeadArray{"resets", "1", {}, {}});
    for (const std::int64_t count : tables_.count) resets.value.push_back(static_cast<double>(count));
    const auto classes = group.find("token_class");
    if (!classes) return;
    tables_.token_class = Hdf5Dataset(*classes).texts(file_->heap());
    const std::uint64_t count = tables_.token_class.size();
    tables_.class_tokens = file_->values<std::int64_t>(group, "tokens", {count});
    const auto table_of = [&](const char* name, Element element) {
      return HeadTable(group.child(name), element, {heads_[0], heads_[1], count});
    };
    tables_.share = table_of("share", Element::float64);
    tables_.chance = table_of("chance", Element::float64);
    tables_.chance_spread = table_of("chance_spread", Element::float64);
    tables_.p_value = table_of("p_value", Element::float64);
    tables_.discovered = table_of("discovered", Element::int32);
    facts_.has_classes = true;
    facts_.false_discovery_rate = group.real_attribute("false_discovery_rate").value_or(0);
    facts_.shifts = file_->count(group, "shifts");
  }

  void read_passages(const Hdf5Object& group) {
    for (const std::string& name : group.names()) {
      const Hdf5Object kind = group.child(name);
      if (kind.is_dataset()) continue;
      const std::vector<std::uint64_t> dims = Hdf5Dataset(kind.child("value")).dims();
      const Shape wanted = {heads_[0], heads_[1], dims.empty() ? 0 : dims.back()};
      tables_.passages.push_back({read_places(kind, wanted), {}});
      facts_.passages.push_back({name, file_->text(kind.child("value"), "units"), 0});
      const auto around = kind.find("log_gate");
      if (!around) continue;
      const std::vector<std::uint64_t> shape = Hdf5Dataset(*around).dims();
      const std::uint64_t row = shape.empty() ? 0 : shape.back();
      if (row % 2 == 0) file_->fail(*around, "does not have as many positions on both sides of a place");
      tables_.passages.back().log_gate =
          HeadTable(*around, Element::float16, {heads_[0], heads_[1], wanted.back(), row});
      facts_.passages.back().around = static_cast<std::int64_t>(row / 2);
    }
  }

  std::vector<std::vector<AtlasPassage>> read_places(const Hdf5Object& kind, const Shape& dims) {
    const auto window = file_->values<std::int64_t>(kind, "window", dims);
    const auto position = file_->values<std::int64_t>(kind, "position", dims);
    const auto value = file_->values<float>(kind, "value", dims);
    const std::vector<std::int64_t>& tokens = facts_.windows->tokens;
    std::vector<std::vector<AtlasPassage>> places(facts_.head_count());
    for (std::size_t n = 0; n < window.size(); ++n) {
      if (window[n] < 0) continue;
      if (window[n] >= std::ssize(tokens) || position[n] < 1 || position[n] >= tokens[index_of(window[n])]) {
        file_->fail(kind, fmt::format("names position {} of window {}", position[n], window[n]));
      }
      places[n / dims[2]].push_back({window[n], position[n], value[n], n % dims[2]});
    }
    return places;
  }

  /// @param before  models that the file has before this one
  void read_similarities(const Hdf5Object& group, const std::vector<AtlasFacts>& before) {
    const std::uint64_t heads = facts_.head_count();
    for (const std::string& name : group.names()) {
      const Hdf5Object object = group.child(name);
      if (!object.is_dataset()) continue;
      Hdf5Dataset dataset(object);
      std::uint64_t columns = heads;
      if (is_with_first(name)) {
        const auto first = std::ranges::find(before, file_->text(group, "first"),
                                             [](const AtlasFacts& facts) { return facts.info.name; });
        if (first == before.end() || first->similarities.empty()) {
          file_->fail(object, "is a comparison with a model that is not there before it");
        }
        facts_.first = index_of(first - before.begin());
        columns = first->head_count();
      }
      if (dataset.dims() != Shape{heads, columns} || dataset.type().element != Element::float32) continue;
      facts_.similarities.push_back(name);
      tables_.similarities.emplace(name, std::move(dataset));
    }
    if (facts_.similarities.empty()) return;
    std::ranges::stable_sort(facts_.similarities, {}, [](const std::string& name) {
      return name == "log_gate" ? 0 : is_with_first(name) ? 2 : 1;
    });
    tables_.order = file_->values<std::int64_t>(group, "order", {heads});
    std::vector<bool> named(heads);
    for (const std::int64_t head : tables_.order) {
      if (head < 0 || head >= static_cast<std::int64_t>(heads) || named[index_of(head)]) {
        file_->fail(group, "does not name every head once in its order");
      }
      named[index_of(head)] = true;
    }
  }

  std::shared_ptr<EvaluationFile> file_;
  std::map<std::uint64_t, std::shared_ptr<const EvaluatedWindows>> windows_;
  Shape heads_;  ///< layers, H
  AtlasFacts facts_;
  Tables tables_;
};

std::shared_ptr<const AtlasReader> AtlasReader::open(const std::filesystem::path& path) { return Opening(path).open(); }

AtlasHeadTokens AtlasReader::tokens(std::size_t model, std::size_t place) const {
  const Tables& tables = tables_[model];
  AtlasHeadTokens head{tables.mean_log_gate.of<float>(place), tables.share_below_half.of<float>(place), {}, {}};
  if (tables.error) head.error = tables.error.of<float>(place);
  if (tables.discovered_tokens) head.discovered = tables.discovered_tokens.of<std::int32_t>(place);
  return head;
}

AtlasHeadResets AtlasReader::resets(std::size_t model, std::size_t place) const {
  const Tables& tables = tables_[model];
  AtlasHeadResets head;
  head.count = tables.count[place];
  head.gap = tables.gap;
  head.gaps = tables.gaps.of<std::int64_t>(place);
  head.token_class = tables.token_class;
  head.tokens = tables.class_tokens;
  if (!tables.share) return head;
  head.share = tables.share.of<double>(place);
  head.chance = tables.chance.of<double>(place);
  head.chance_spread = tables.chance_spread.of<double>(place);
  head.p_value = tables.p_value.of<double>(place);
  head.discovered = tables.discovered.of<std::int32_t>(place);
  return head;
}

AtlasHistogram AtlasReader::histogram(std::size_t model, std::size_t place) const {
  return {tables_[model].minus_log_gate, tables_[model].positions.of<std::int64_t>(place)};
}

std::vector<AtlasPassage> AtlasReader::passages(std::size_t model, std::size_t kind, std::size_t place) const {
  return tables_[model].passages[kind].places[place];
}

std::vector<float> AtlasReader::log_gates_around(std::size_t model, std::size_t kind, std::size_t place) const {
  const auto bits = tables_[model].passages[kind].log_gate.of<std::uint16_t>(place);
  std::vector<float> values;
  values.reserve(bits.size());
  for (const std::uint16_t one : bits) values.push_back(from_float16(one));
  return values;
}

std::vector<std::vector<std::int32_t>> AtlasReader::windows(std::size_t model, std::int64_t first,
                                                            std::int64_t count) const {
  const AtlasFacts& facts = models_[model];
  const Hdf5Dataset& ids = *tables_[model].token_ids;
  const auto length = facts.info.length;
  const auto values =
      ids.values<std::int32_t>(static_cast<std::uint64_t>(first * length), static_cast<std::uint64_t>(count * length));
  std::vector<std::vector<std::int32_t>> windows;
  for (std::int64_t n = 0; n < count; ++n) {
    const auto begin = values.begin() + n * length;
    windows.emplace_back(begin, begin + facts.windows->tokens[index_of(first + n)]);
    for (const std::int32_t id : windows.back()) {
      if (id < 0 || id >= facts.vocabulary)
        tables_[model].file->fail(ids.path(), fmt::format("names token {} of {}", id, facts.vocabulary));
    }
  }
  return windows;
}

AtlasSimilarity AtlasReader::similarity(std::size_t model, const std::string& name) const {
  const std::size_t columns = is_with_first(name) ? models_[model].first : model;
  return {tables_[model].similarities.at(name).values<float>(), tables_[model].order, tables_[columns].order};
}

}  // namespace foxscope
