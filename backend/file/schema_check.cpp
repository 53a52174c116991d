#include "backend/file/schema_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/sha256.h"
#include "backend/file/file_trace.h"
#include "backend/file/hdf5/hdf5_dataset.h"
#include "backend/file/layer_mixers.h"
#include "backend/file/provenance.h"
#include "backend/file/run_file.h"
#include "backend/file/run_sizes.h"
#include "backend/text/json_reading.h"
#include "backend/text/tokenizer.h"
#include "backend/trace/decay_time.h"

namespace foxscope {
namespace {

using Kind = SchemaFinding::Kind;

/// Members of one group that are told of, though nothing reads them.
constexpr std::size_t kMostUnknown = 20;
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20U;
constexpr const char* kAbsent = "nothing";

using MemberNames = std::set<std::string, std::less<>>;

/// Whether a name is that of a dimension scale: "head", "head_16".
bool is_scale_name(const std::string& name) {
  for (int axis = 0; axis <= static_cast<int>(Axis::choice); ++axis) {
    const std::string_view scale = to_string(static_cast<Axis>(axis));
    if (name == scale) return true;
    if (name.starts_with(scale) && name.size() > scale.size() + 1 && name[scale.size()] == '_' &&
        name.find_first_not_of("0123456789", scale.size() + 1) == std::string::npos) {
      return true;
    }
  }
  return false;
}

/// "[2, 17, 3]", the place of the n-th number of an array.
std::string place_in(const std::vector<std::uint64_t>& dims, std::uint64_t n) {
  std::vector<std::uint64_t> place(dims.size());
  for (std::size_t axis = dims.size(); axis-- > 0; n /= std::max<std::uint64_t>(dims[axis], 1)) {
    place[axis] = n % std::max<std::uint64_t>(dims[axis], 1);
  }
  return fmt::format("[{}]", fmt::join(place, ", "));
}

/// Whether one of some numbers has all bits of its exponent set, as infinities and what is no number have.
template <typename Bits>
std::optional<std::uint64_t> first_not_finite(std::span<const std::byte> numbers, Bits exponent) {
  for (std::size_t n = 0; n < numbers.size() / sizeof(Bits); ++n) {
    Bits bits{};
    std::memcpy(&bits, numbers.data() + n * sizeof(Bits), sizeof(Bits));
    if ((bits & exponent) == exponent) return n;
  }
  return std::nullopt;
}

/// A row of sums that rises.
struct RisingSums {
  std::uint64_t rows = 0;    ///< of heads or channels
  std::uint64_t steps = 0;   ///< from a position to the next, in such rows
  std::uint64_t rising = 0;  ///< of these
  std::uint64_t first = 0;   ///< where the first number above an earlier one is
  double by = 0;
};

/// Looks along the positions of [heads, L, channels].
std::optional<RisingSums> rising_sums(std::span<const double> sums, std::uint64_t length, std::uint64_t channels) {
  RisingSums found;
  const std::uint64_t rows = sums.size() / std::max<std::uint64_t>(length, 1);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint64_t begin = row / channels * length * channels + row % channels;
    double lowest = 0;
    double before = 0;
    std::uint64_t rising = 0;
    bool rose = false;
    for (std::uint64_t position = 0; position < length; ++position) {
      const std::uint64_t at = begin + position * channels;
      const double sum = sums[at];
      if (!rose && rises(sum, lowest)) {
        rose = true;
        if (found.rows == 0) found.first = at;
        if (found.rows == 0) found.by = sum - lowest;
      }
      if (sum > before) ++rising;
      before = sum;
      lowest = std::min(lowest, sum);
    }
    if (!rose) continue;
    ++found.rows;
    found.steps += length;
    found.rising += rising;
  }
  return found.rows > 0 ? std::optional(found) : std::nullopt;
}

class SchemaWalk {
 public:
  SchemaWalk(const std::filesystem::path& path, const Job& job)
      : path_(path), job_(job), file_(Hdf5File::open(path)), heap_(file_), account_(*file_) {}

  std::optional<SchemaReport> walk() {
    std::optional<Hdf5Object> root;
    attempt("/", "a group", [&] { root.emplace(file_, file_->root(), "/"); });
    if (root && walk_root(*root) && !job_.stopped() && report_.broken == 0) check_sums();
    if (job_.stopped()) return std::nullopt;
    return std::move(report_);
  }

 private:
  void add(Kind kind, std::string path, std::string expected, std::string found) {
    std::uint64_t& count = kind == Kind::broken ? report_.broken : report_.notes;
    if (++count > SchemaReport::kMostFindings) return;
    report_.findings.push_back({kind, std::move(path), std::move(expected), std::move(found)});
  }

  /// Does some work, and adds the Error that it ends in. @returns whether there was none
  bool attempt(const std::string& path, const std::string& expected, const std::function<void()>& work) {
    try {
      work();
      return true;
    } catch (const Error& error) {
      add(Kind::broken, path, expected, reason_of(error, path));
      return false;
    }
  }

  /// Cuts the names of the file and of the object, and the advice about a damaged file of ours, off an Error.
  [[nodiscard]] std::string reason_of(const Error& error, const std::string& path) const {
    std::string_view text = error.what();
    for (const std::string& before : {file_->name() + ": ", path + ": ", path.substr(0, path.find('@')) + ": "}) {
      if (text.starts_with(before)) text.remove_prefix(before.size());
    }
    const std::string damaged = fmt::format(": {}", kHdf5Damaged);
    if (text.ends_with(damaged)) text.remove_suffix(damaged.size());
    return std::string(text);
  }

  /// An object that a group holds, if any; what cannot be read is told of.
  std::optional<Hdf5Object> find(const Hdf5Object& group, const std::string& name) {
    std::optional<Hdf5Object> object;
    attempt(path_of_member(group, name), "an object that a hard link names", [&] { object = group.find(name); });
    return object;
  }

  static std::string path_of_member(const Hdf5Object& group, const std::string& name) {
    return group.path() == "/" ? "/" + name : group.path() + "/" + name;
  }

  std::vector<std::string> names_of(const Hdf5Object& group) {
    std::vector<std::string> names;
    attempt(group.path(), "a group", [&] { names = group.names(); });
    return names;
  }

  /// Tells of members that nothing reads.
  void note_unknown(const Hdf5Object& group, const MemberNames& known) {
    std::size_t unknown = 0;
    for (const std::string& name : names_of(group)) {
      if (known.contains(name) || is_scale_name(name)) continue;
      if (++unknown <= kMostUnknown)
        add(Kind::note, path_of_member(group, name), kAbsent, "an object that nothing reads");
    }
    if (unknown > kMostUnknown) {
      add(Kind::note, group.path(), kAbsent, fmt::format("{} more objects that nothing reads", unknown - kMostUnknown));
    }
  }

  std::optional<std::string> text_attribute(const Hdf5Object& object, const char* name, bool json = false) {
    std::optional<std::string> value;
    const std::string path = object.path() + "@" + name;
    if (!attempt(path, "a string", [&] { value = object.text_attribute(name, heap_); }) || !value) return value;
    if (find_invalid_utf8(*value)) {
      add(Kind::broken, path, "UTF-8", "other bytes");
    } else if (json && !value->empty()) {
      attempt(path, "JSON", [&] {
        check_json_bounds(*value, path);
        if (!nlohmann::json::accept(*value)) throw Error("other text");
      });
    }
    return value;
  }

  std::optional<std::int64_t> integer_attribute(const Hdf5Object& object, const char* name, std::int64_t least,
                                                std::int64_t most) {
    std::optional<std::int64_t> value;
    const std::string path = object.path() + "@" + name;
    const std::string expected = fmt::format("a whole number from {} to {}", least, most);
    if (!attempt(path, expected, [&] { value = object.integer_attribute(name); }) || !value) return std::nullopt;
    if (*value >= least && *value <= most) return value;
    add(Kind::broken, path, expected, fmt::format("{}", *value));
    return std::nullopt;
  }

  std::optional<double> real_attribute(const Hdf5Object& object, const char* name) {
    std::optional<double> value;
    const std::string path = object.path() + "@" + name;
    constexpr const char* kExpected = "a number, 0 or above";
    if (!attempt(path, kExpected, [&] { value = object.real_attribute(name); }) || !value) return std::nullopt;
    if (std::isfinite(*value) && *value >= 0) return value;
    add(Kind::broken, path, kExpected, fmt::format("{}", *value));
    return std::nullopt;
  }

  /// @returns whether there are models to look at
  bool walk_root(const Hdf5Object& root) {
    schema_ = integer_attribute(root, "foxscope_schema", kSchema, kAttentionSchema).value_or(kSchema);
    for (const char* name : {"program", "program_version", "command_line", "created", "default"}) {
      text_attribute(root, name);
    }
    if (const std::string content = text_attribute(root, "content").value_or(""); !content.empty()) {
      add(Kind::broken, "/@content", "nothing, as in run files", content_words(content));
      return false;
    }
    note_unknown(root, {"text", "models", "maps"});
    if (const auto text = find(root, "text")) walk_text(*text);
    const std::optional<Hdf5Object> models = find(root, "models");
    if (!models) {
      add(Kind::broken, "/models", "a group with a group for each model", kAbsent);
      return false;
    }
    const std::vector<std::string> names = names_of(*models);
    if (names.empty()) add(Kind::broken, "/models", "a group for each model", kAbsent);
    for (const std::string& name : names) {
      if (job_.stopped()) return false;
      const std::string path = "/models/" + name;
      if (!is_model_name(name)) {
        add(Kind::broken, path, "a name of letters, digits, '.', '_' and '-'", "another");
        continue;
      }
      const std::optional<Hdf5Object> model = find(*models, name);
      if (!model || !attempt(path, "a group of its own", [&] { account_.take(*model); })) continue;
      report_.models.emplace_back();
      report_.models.back().info.name = name;
      walk_model(*model, report_.models.back());
    }
    return true;
  }

  void walk_text(const Hdf5Object& group) {
    note_unknown(group, {"content"});
    const std::optional<Hdf5Object> object = find(group, "content");
    if (!object) return add(Kind::broken, "/text/content", "a string", kAbsent);
    std::string content;
    const bool read = attempt(object->path(), "one string", [&] {
      const Hdf5Dataset dataset(*object);
      if (dataset.count() != 1) throw Error(dataset.form());
      content = dataset.texts(heap_).front();
    });
    if (!read) return;
    text_bytes_ = std::ssize(content);
    if (find_invalid_utf8(content)) add(Kind::broken, object->path(), "UTF-8", "other bytes");
    const std::string named = text_attribute(*object, "sha256").value_or("");
    if (!named.empty() && named != sha256(content)) {
      add(Kind::broken, object->path() + "@sha256", sha256(content), named);
    }
    integer_attribute(*object, "unread_bytes", 0, std::numeric_limits<std::int64_t>::max() / 2);
    integer_attribute(*object, "cut_word", 0, 1);
  }

  void walk_model(const Hdf5Object& model, SchemaModel& into) {
    walk_attributes(model, into.info);
    walk_tokens(model, into);
    const std::optional<Hdf5Object> layers = find(model, "layers");
    if (into.info.length == 0 || !read_sizes(model, layers, into)) return;
    into.looked_at = true;
    std::map<std::string, MemberNames> groups = {{"", {"tokens", "axes", "layers"}}};
    for (const ArraySpec& spec : kTraceArrays) {
      if (spec.repeat == Repeat::layers) continue;
      const std::string path = spec.path;
      const std::size_t slash = path.find('/');
      groups[""].insert(path.substr(0, slash));
      if (slash == std::string::npos) continue;
      MemberNames& members = groups[path.substr(0, slash)];
      for (int index = 0; index < count_of(spec, into.info.layers); ++index) {
        members.insert(path_of(spec, index).substr(slash + 1));
      }
    }
    for (const auto& [name, members] : groups) {
      if (name.empty()) {
        note_unknown(model, members);
      } else if (const auto group = find(model, name)) {
        note_unknown(*group, members);
      }
    }
    for (const ArraySpec& spec : kTraceArrays) {
      if (spec.repeat != Repeat::layers) walk_once(spec, model, into);
    }
    walk_layers(model, layers, into);
    note_scale(model, into);
  }

  void walk_attributes(const Hdf5Object& model, TraceInfo& info) {
    for (const char* name : {"model_type", "weights_sha256", "device", "attention_kernel"}) text_attribute(model, name);
    info.config = text_attribute(model, "config", /*json=*/true).value_or("");
    info.intervention = text_attribute(model, "intervention", /*json=*/true).value_or("");
    const std::string dtype = text_attribute(model, "dtype").value_or("");
    if (dtype == "float32" || dtype == "bfloat16") {
      info.dtype = dtype_from_string(dtype);
    } else {
      add(Kind::broken, model.path() + "@dtype", "float32 or bfloat16, of queries and keys",
          dtype.empty() ? kAbsent : dtype);
    }
    info.window_size = integer_attribute(model, "window_size", 0, kMostWindow).value_or(0);
    integer_attribute(model, "gated", 0, 1);
    integer_attribute(model, "order", 0, std::numeric_limits<std::int32_t>::max());
    if (const auto tolerance = real_attribute(model, "pruning_tolerance"); tolerance && *tolerance >= 1) {
      add(Kind::broken, model.path() + "@pruning_tolerance", "a share below 1", fmt::format("{}", *tolerance));
    }
  }

  void walk_tokens(const Hdf5Object& model, SchemaModel& into) {
    const std::optional<Hdf5Object> group = find(model, "tokens");
    if (!group) return add(Kind::broken, model.path() + "/tokens", "a group with id and input_id", kAbsent);
    note_unknown(*group, {"id", "input_id", "byte_start", "byte_end", "string"});
    std::vector<std::int32_t> ids;
    if (const std::optional<Hdf5Object> id = find(*group, "id")) {
      attempt(id->path(), "int32 [L]", [&] {
        const Hdf5Dataset dataset(*id);
        if (dataset.type().element != Element::int32 || dataset.dims().size() != 1 || dataset.count() == 0) {
          throw Error(dataset.form());
        }
        dataset.require_list();
        ids = dataset.values<std::int32_t>();
      });
    } else {
      add(Kind::broken, group->path() + "/id", "int32 [L]", kAbsent);
    }
    into.info.length = count_tokens(*group);
    if (into.info.length == 0) return;
    const auto input =
        read_column<std::int32_t>(*group, "input_id", Element::int32, into.info.length, /*required=*/true);
    check_ids(group->path() + "/input_id", input, 0, into.info);
    check_ids(group->path() + "/id", ids, -1, into.info);
    const auto starts = read_column<std::int64_t>(*group, "byte_start", Element::int64, into.info.length);
    const auto ends = read_column<std::int64_t>(*group, "byte_end", Element::int64, into.info.length);
    if (starts.empty() != ends.empty()) {
      add(Kind::broken, group->path() + (starts.empty() ? "/byte_start" : "/byte_end"),
          "int64 [L], as the other end has", kAbsent);
    } else if (!starts.empty()) {
      into.has_text = text_bytes_.has_value();
      check_places(group->path(), starts, ends);
    }
    const std::optional<Hdf5Object> strings = find(*group, "string");
    if (!strings) return;
    into.has_words = attempt(strings->path(), fmt::format("strings [{}]", into.info.length), [&] {
      const Hdf5Dataset dataset(*strings);
      if (dataset.dims() != std::vector{static_cast<std::uint64_t>(into.info.length)}) throw Error(dataset.form());
      for (const std::string& word : dataset.texts(heap_)) {
        if (find_invalid_utf8(word)) throw Error("bytes that are not UTF-8");
      }
    });
  }

  /// Ids are of the vocabulary, whose size the model's configuration may say. Readers refuse negative ones.
  /// @param first  the smallest that may be there: -1 of a label that nothing follows
  void check_ids(const std::string& path, std::span<const std::int32_t> ids, std::int32_t first,
                 const TraceInfo& info) {
    const auto config = nlohmann::json::parse(info.config, nullptr, /*allow_exceptions=*/false);
    std::int64_t end = std::int64_t{1} << 31U;
    if (config.is_object()) {
      const auto size = config.find("vocab_size");
      if (size != config.end() && size->is_number_integer() && *size > 0) end = size->get<std::int64_t>();
    }
    const auto found = std::ranges::find_if(ids, [&](std::int32_t id) { return id < first || id >= end; });
    if (found == ids.end()) return;
    const bool negative = std::ranges::any_of(ids, [&](std::int32_t id) { return id < first; });
    add(negative ? Kind::broken : Kind::note, path, fmt::format("ids of tokens, from 0 to {}", end - 1),
        fmt::format("{} at [{}]", *found, found - ids.begin()));
  }

  template <typename T>
  std::vector<T> read_column(const Hdf5Object& group, const char* name, Element element, std::int64_t length,
                             bool required = false) {
    std::vector<T> values;
    const std::vector<std::uint64_t> dims{static_cast<std::uint64_t>(length)};
    const std::string expected = Hdf5Dataset::form(element, dims) + ", one for each of tokens/id";
    const std::optional<Hdf5Object> object = find(group, name);
    if (!object) {
      if (required) add(Kind::broken, path_of_member(group, name), expected, kAbsent);
      return values;
    }
    attempt(object->path(), expected, [&] {
      const Hdf5Dataset dataset(*object);
      if (dataset.type().element != element || dataset.dims() != dims) throw Error(dataset.form());
      values = dataset.values<T>();
    });
    return values;
  }

  void check_places(const std::string& group, std::span<const std::int64_t> starts,
                    std::span<const std::int64_t> ends) {
    if (!text_bytes_)
      return add(Kind::broken, group + "/byte_start", "nothing, as there is no /text", "places in a text");
    for (std::size_t n = 0; n < starts.size(); ++n) {
      const bool inside = starts[n] >= 0 && starts[n] <= ends[n] && ends[n] <= *text_bytes_;
      const bool behind = n == 0 || (starts[n] >= starts[n - 1] && ends[n] >= ends[n - 1]);
      if (inside && behind) continue;
      return add(Kind::broken, group + "/byte_start",
                 fmt::format("places in {} bytes of text that never go back", *text_bytes_),
                 fmt::format("{} to {} of token {}", starts[n], ends[n], n));
    }
  }

  /// Takes sizes of attributes, and where these are missing or wrong those of most arrays.
  /// @returns whether arrays can be held against the sizes
  bool read_sizes(const Hdf5Object& model, const std::optional<Hdf5Object>& layers, SchemaModel& into) {
    TraceInfo& info = into.info;
    const std::string& path = model.path();
    if (layers) {
      info.layers = static_cast<int>(std::min<std::size_t>(names_of(*layers).size(), kMostLayers));
    } else {
      attempt(path, "arrays that give sizes", [&] { fill_sizes(model, layers, info); });
    }
    info.layers = static_cast<int>(integer_attribute(model, "layers", 1, kMostLayers).value_or(info.layers));
    read_mixers_of(model, layers, into);
    const ExtentCounts counts = layers && info.mixers.empty() ? count_extents(*layers, info) : ExtentCounts();
    const int heads = size_of_attribute(model, "heads", 1, counts.heads, info.heads);
    const int key_heads = std::max(1, size_of_attribute(model, "key_heads", 1, counts.key_heads, info.key_heads));
    const int head_dim = size_of_attribute(model, "head_dim", 0, counts.head_dim, info.head_dim);
    if (info.mixers.empty()) {
      info.heads = heads;
      info.key_heads = key_heads;
      info.head_dim = head_dim;
    }
    attempt(path, "windows and a cap of logits", [&] { read_attention(model, info); });
    if (info.layers < 1 || info.heads < 1) {
      add(Kind::broken, path + "@heads", "the number of heads, of the model or of its arrays", kAbsent);
      return false;
    }
    if (info.mixers.empty() && info.heads % info.key_heads != 0) {
      add(Kind::broken, path + "@key_heads", fmt::format("a divisor of {} heads", info.heads),
          fmt::format("{}", info.key_heads));
      info.key_heads = info.heads;
    }
    if (!fits_heads(*file_, info.layers, info.heads)) {
      add(Kind::broken, path, fmt::format("as many heads as a file of {} bytes can have", file_->size()),
          fmt::format("{} layers of {}", info.layers, info.heads));
      return false;
    }
    for (int layer = 0; schema_ < kMixerSchema && layer < info.layers; ++layer) {
      if (info.mixer(layer).has_softmax()) continue;
      add(Kind::broken, "/@foxscope_schema", fmt::format("{}, as there are linear mixers", kMixerSchema),
          fmt::format("{}", schema_));
      break;
    }
    const std::optional<double> scale = real_attribute(model, "softmax_scale");
    info.softmax_scale = static_cast<float>(scale.value_or(usual_scale(info)));
    return true;
  }

  /// Mixers of layers. Layers without a word about theirs, if all are, are held against softmax attention; others whose
  /// mixer is not known may have any arrays.
  void read_mixers_of(const Hdf5Object& model, const std::optional<Hdf5Object>& layers, SchemaModel& into) {
    constexpr const char* kExpected = "a mixer with its sizes for each layer";
    std::vector<int> faulty;
    attempt(model.path() + "@mixers", kExpected, [&] {
      read_mixers(model, heap_, into.info, [&](int layer, const Error& error) {
        if (faulty.empty()) add(Kind::broken, model.path() + "@mixers", kExpected, reason_of(error, model.path()));
        faulty.push_back(layer);
      });
    });
    const bool none = std::ssize(faulty) == into.info.layers;
    for (const int layer : faulty) {
      if (!none || names_mixer(layers, layer)) into.not_looked_at.push_back(layer);
    }
  }

  static bool names_mixer(const std::optional<Hdf5Object>& layers, int layer) {
    try {
      const auto group = layers ? layers->find(fmt::format("{:02}", layer)) : std::nullopt;
      return group && group->has_attribute("mixer");
    } catch (const Error&) {
      return true;
    }
  }

  /// A size by its attribute, if an array has it or no array says otherwise; else the size of most arrays.
  int size_of_attribute(const Hdf5Object& model, const char* name, std::int64_t least, const std::map<int, int>& counts,
                        int otherwise) {
    const auto most = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
    const int found = most == counts.end() ? otherwise : most->first;
    const std::optional<std::int64_t> value = integer_attribute(model, name, least, kMostHeads);
    if (!value) return found;
    const int size = static_cast<int>(*value);
    if (counts.empty() || counts.contains(size)) return size;
    add(Kind::broken, fmt::format("{}@{}", model.path(), name), fmt::format("{}, as its arrays have", found),
        fmt::format("{}", size));
    return found;
  }

  void note_scale(const Hdf5Object& model, const SchemaModel& into) {
    bool has = true;
    attempt(model.path() + "@softmax_scale", "a number", [&] { has = model.has_attribute("softmax_scale"); });
    const auto is_query = [](const auto& array) { return array.first == TraceArray::query; };
    if (has || !into.info.has_softmax() || std::ranges::none_of(into.present, is_query)) return;
    add(Kind::note, model.path() + "@softmax_scale", "what q.k is multiplied by",
        fmt::format("nothing: 1/sqrt(d) = {:.6g} is taken", usual_scale(into.info)));
  }

  /// An array that is not one of a layer, or those of a list of hidden states.
  void walk_once(const ArraySpec& spec, const Hdf5Object& model, SchemaModel& into) {
    const std::string first = std::string(spec.path).substr(0, std::string_view(spec.path).find('/'));
    const std::optional<Hdf5Object> group = find(model, first);
    if (!group) return;
    for (int index = 0; index < count_of(spec, into.info.layers); ++index) {
      const std::string path = path_of(spec, index);
      const bool own = path == first;
      const std::optional<Hdf5Object> object = own ? group : find(*group, path.substr(first.size() + 1));
      if (object) {
        walk_array(spec, index, *object, into);
      } else {
        add(Kind::broken, model.path() + "/" + path, "an array, as its group is there", kAbsent);
      }
    }
  }

  void walk_layers(const Hdf5Object& model, const std::optional<Hdf5Object>& layers, SchemaModel& into) {
    if (!layers) return;
    MemberNames known;
    for (int layer = 0; layer < into.info.layers; ++layer) known.insert(fmt::format("{:02}", layer));
    note_unknown(*layers, known);
    MemberNames arrays;
    for (const ArraySpec& spec : kTraceArrays) {
      if (spec.repeat == Repeat::layers) arrays.insert(name_of(spec));
    }
    for (int layer = 0; layer < into.info.layers; ++layer) {
      if (job_.stopped()) return;
      job_.tell({layer, into.info.layers, "layers", "checking"});
      const std::string path = fmt::format("{}/layers/{:02}", model.path(), layer);
      const std::optional<Hdf5Object> group = find(*layers, fmt::format("{:02}", layer));
      if (!group) {
        add(Kind::broken, path, fmt::format("a group, as there are {} layers", into.info.layers), kAbsent);
        continue;
      }
      if (!attempt(path, "a group of its own", [&] { account_.take(*group); }) || is_passed_over(into, layer)) continue;
      note_unknown(*group, arrays);
      for (const ArraySpec& spec : kTraceArrays) {
        if (spec.repeat != Repeat::layers) continue;
        if (const auto object = find(*group, name_of(spec))) walk_array(spec, layer, *object, into);
      }
    }
    check_stored(model, into);
  }

  static bool is_passed_over(const SchemaModel& model, int layer) {
    return std::ranges::binary_search(model.not_looked_at, layer);
  }

  /// Queries and keys, and values, are there for every layer or for none.
  void check_stored(const Hdf5Object& model, const SchemaModel& into) {
    for (const std::vector<TraceArray>& together :
         {std::vector{TraceArray::query, TraceArray::key}, std::vector{TraceArray::value}}) {
      const bool any = std::ranges::any_of(
          into.present, [&](const auto& array) { return std::ranges::find(together, array.first) != together.end(); });
      for (int layer = 0; any && layer < into.info.layers; ++layer) {
        for (const TraceArray array : together) {
          if (is_passed_over(into, layer)) continue;
          const ArraySpec& spec = spec_of(array);
          if (!belongs_to(spec, into.info.mixer(layer)) || into.present.contains({array, layer})) continue;
          if (seen_.contains(fmt::format("{}/{}", model.path(), path_of(spec, layer)))) continue;
          add(Kind::broken, fmt::format("{}/{}", model.path(), path_of(spec, layer)),
              fmt::format("{}, as other layers or parts have {}",
                          Hdf5Dataset::form(element_of(spec.number, into.info.dtype), shape_of(spec, into.info, layer)),
                          word_of(spec.keep).title),
              kAbsent);
        }
      }
    }
  }

  /// Widths that nothing else says are those of the array.
  static void take_width(const ArraySpec& spec, const Hdf5Dataset& dataset, TraceInfo& info) {
    const std::vector<std::uint64_t>& dims = dataset.dims();
    if (dims.size() != spec.axes.size()) return;
    const auto last = static_cast<std::int64_t>(std::min<std::uint64_t>(dims.back(), std::uint64_t{1} << 32U));
    const Axis axis = spec.axes.begin()[spec.axes.size() - 1];
    if (axis == Axis::vocabulary) info.vocabulary_size = last;
    if (axis == Axis::hidden && info.hidden_size == 0) info.hidden_size = last;
    if (axis == Axis::choice && info.chosen_experts == 0) {
      info.chosen_experts = static_cast<int>(std::min<std::int64_t>(last, kMostHeads));
    }
  }

  void walk_array(const ArraySpec& spec, int index, const Hdf5Object& object, SchemaModel& into) {
    const std::string& path = object.path();
    seen_.insert(path);
    const bool of_layer = spec.repeat == Repeat::layers;
    if (of_layer && !belongs_to(spec, into.info.mixer(index))) {
      return add(Kind::note, path, kAbsent,
                 fmt::format("an array that nothing reads of a layer of {}", mixer_words(into.info.mixer(index))));
    }
    std::optional<Hdf5Dataset> dataset;
    if (!attempt(path, "a dataset", [&] { dataset.emplace(object); })) return;
    take_width(spec, *dataset, into.info);
    const Element element = element_of(spec.number, into.info.dtype);
    const std::vector<std::uint64_t> dims = shape_of(spec, into.info, index);
    if (dataset->type().element != element || dataset->dims() != dims) {
      std::vector<std::string_view> axes;
      for (const Axis axis : spec.axes) axes.push_back(to_string(axis));
      return add(Kind::broken, path, fmt::format("{} ({})", Hdf5Dataset::form(element, dims), fmt::join(axes, ", ")),
                 dataset->form());
    }
    check_units(spec, object);
    const bool sound = attempt(path, "numbers that can be read", [&] {
      account_.take_stored(*dataset);
      if (spec.storage == Storage::store) {
        check_stored_numbers(spec, index, *dataset, into.info);
      } else if (spec.array == TraceArray::log_forget_gradient) {
        check_saliency(*dataset, into.info);
      } else if (spec.repeat == Repeat::layers || spec.array == TraceArray::per_token_loss) {
        check_numbers(spec, index, *dataset, into.info);  // the others may be larger than memory
        if (spec.array == TraceArray::cumulative_log_gate) check_means(object, *dataset);
      }
    });
    if (sound) into.present.emplace(spec.array, index);
  }

  void check_units(const ArraySpec& spec, const Hdf5Object& object) {
    const std::optional<std::string> units = text_attribute(object, "units");
    if (!units || *units == spec.units || (units->empty() && *spec.units == '\0')) return;
    add(Kind::broken, object.path() + "@units", *spec.units == '\0' ? kAbsent : spec.units, *units);
  }

  /// Numbers that are none of softmax attention give rows that are none, and of a linear mixer spoil all behind them.
  void report_not_finite(const ArraySpec& spec, const TraceInfo& info, int index, const std::string& path,
                         const std::vector<std::uint64_t>& dims, std::uint64_t at) {
    const bool gates = spec.keep == Keep::gates;
    const bool linear = spec.repeat == Repeat::layers && !info.mixer(index).has_softmax();
    const bool erases = spec.storage != Storage::store && spec.keep == Keep::query_key;
    add(gates || linear || erases ? Kind::broken : Kind::note, path, "finite numbers",
        fmt::format("one that is not finite at {}", place_in(dims, at)));
  }

  void check_stored_numbers(const ArraySpec& spec, int index, const Hdf5Dataset& dataset, const TraceInfo& info) {
    const std::uint64_t offset = dataset.offset();
    std::vector<std::byte> piece;
    for (std::uint64_t at = 0; at < dataset.bytes() && !job_.stopped(); at += kPieceBytes) {
      piece.resize(std::min(kPieceBytes, dataset.bytes() - at));
      file_->read(offset + at, std::span(piece), dataset.path());
      const bool wide = info.dtype == DType::float32;
      const auto found =
          wide ? first_not_finite(piece, std::uint32_t{0x7f800000}) : first_not_finite(piece, std::uint16_t{0x7f80});
      if (!found) continue;
      return report_not_finite(spec, info, index, dataset.path(), dataset.dims(), at / (wide ? 4 : 2) + *found);
    }
  }

  void check_numbers(const ArraySpec& spec, int index, const Hdf5Dataset& dataset, const TraceInfo& info) {
    if (spec.number != ArrayNumber::float64) {
      const std::vector<float> numbers = dataset.values<float>();
      const auto found = std::ranges::find_if(numbers, [](float number) { return !std::isfinite(number); });
      if (found == numbers.end()) return;
      return report_not_finite(spec, info, index, dataset.path(), dataset.dims(),
                               static_cast<std::uint64_t>(found - numbers.begin()));
    }
    const std::vector<double> numbers = dataset.values<double>();
    const auto found = std::ranges::find_if(numbers, [](double number) { return !std::isfinite(number); });
    if (found != numbers.end()) {
      return report_not_finite(spec, info, index, dataset.path(), dataset.dims(),
                               static_cast<std::uint64_t>(found - numbers.begin()));
    }
    if (spec.array == TraceArray::decay_rate) {
      const auto negative = std::ranges::find_if(numbers, [](double rate) { return rate < 0; });
      if (negative == numbers.end()) return;
      return add(Kind::broken, dataset.path(), "rates of 0 or above",
                 fmt::format("{:.6g} at {}", *negative,
                             place_in(dataset.dims(), static_cast<std::uint64_t>(negative - numbers.begin()))));
    }
    check_falling(dataset, numbers);
  }

  /// Layer by layer, of the heads that forget.
  void check_saliency(const Hdf5Dataset& dataset, const TraceInfo& info) {
    const std::uint64_t row = dataset.dims()[2];
    const std::uint64_t size = dataset.dims()[1] * row;
    for (int layer = 0; layer < info.layers && !job_.stopped(); ++layer) {
      const std::uint64_t begin = index_of(layer) * size;
      const std::vector<float> numbers =
          dataset.values<float>(begin, static_cast<std::uint64_t>(info.mixer(layer).heads) * row);
      const auto found = std::ranges::find_if(numbers, [](float number) { return !std::isfinite(number); });
      if (found == numbers.end()) continue;
      return add(Kind::note, dataset.path(), "finite numbers",
                 fmt::format("one that is not finite at {}",
                             place_in(dataset.dims(), begin + static_cast<std::uint64_t>(found - numbers.begin()))));
    }
  }

  /// Means that are kept beside sums are theirs.
  void check_means(const Hdf5Object& object, const Hdf5Dataset& sums) {
    const std::string path = object.path() + "@" + kMeanLogGate;
    std::optional<std::vector<double>> held;
    if (!attempt(path, "float64 numbers", [&] { held = object.real_attributes(kMeanLogGate); }) || !held) return;
    const std::uint64_t heads = sums.dims()[0];
    if (held->size() != heads) {
      return add(Kind::broken, path, fmt::format("{} numbers", heads), fmt::format("{}", held->size()));
    }
    const std::vector<double> c = sums.values<double>();
    const std::size_t length = sums.dims()[1];
    for (std::size_t head = 0; head < heads; ++head) {
      const double mean = mean_log_gate(std::span(c).subspan(head * length, length));
      if (is_mean((*held)[head], mean)) continue;
      return add(Kind::broken, path, fmt::format("{:.6g} of head {}, the mean of its log f", mean, head),
                 fmt::format("{:.6g}", (*held)[head]));
    }
  }

  /// Sums of log f never rise, and begin with log f of position 0.
  void check_falling(const Hdf5Dataset& dataset, std::span<const double> sums) {
    const std::vector<std::uint64_t>& dims = dataset.dims();
    const std::uint64_t channels = dims.size() == 3 ? dims[2] : 1;
    const char* const row = dims.size() == 3 ? "channels" : "heads";
    constexpr const char* kExpected = "sums of log f up to and including a position, which never rise";
    if (const auto rising = rising_sums(sums, dims[1], channels)) {
      // A sum of what is negative falls at every step; log f itself goes up as often as down.
      const bool terms = 4 * rising->rising > rising->steps && 4 * rising->rising < 3 * rising->steps;
      return add(
          Kind::broken, dataset.path(), kExpected,
          fmt::format("one that rises by {:.6g} at {}, in {} of {} {}{}", rising->by, place_in(dims, rising->first),
                      rising->rows, sums.size() / dims[1], row, terms ? ": are these log f, not their sums?" : ""));
    }
    bool begins_with_0 = dims[1] > 1 && !sums.empty();
    for (std::uint64_t head = 0; begins_with_0 && head < dims[0]; ++head) {
      for (std::uint64_t channel = 0; channel < channels; ++channel) {
        begins_with_0 = begins_with_0 && sums[head * dims[1] * channels + channel] == 0;
      }
    }
    const bool forgets_later = std::ranges::any_of(sums, [](double sum) { return sum < 0; });
    if (!begins_with_0 || !forgets_later) return;
    add(Kind::note, dataset.path(), kExpected,
        fmt::format("0 at position 0 of all {}: are these sums up to, not including, a position?", row));
  }

  /// Opens a file in which everything else is as it should be, and adds up rows of attention.
  void check_sums() {
    attempt("/", "a file that opens", [&] {
      const RunFile run = RunFile::open(path_, RunCheck::none);
      for (SchemaModel& model : report_.models) {
        std::vector<RowProblem> problems;
        const Trace& trace = *run.trace(model.info.name);
        model.sums = check_run(trace, file_->name(), kWholeCheck, job_.stop, &problems);
        model.info = trace.info();
        report_rows(trace, problems);
      }
    });
  }

  /// One finding for each array of row normalisers that does not belong to its queries and keys.
  void report_rows(const Trace& trace, std::span<const RowProblem> problems) {
    std::map<std::pair<int, TraceArray>, std::vector<RowProblem>> by_array;
    for (const RowProblem& problem : problems) by_array[{problem.layer, problem.normalizer}].push_back(problem);
    for (const auto& [of, rows] : by_array) {
      const auto& [layer, array] = of;
      std::set<int> heads;
      for (const RowProblem& row : rows) heads.insert(row.head);
      add(Kind::broken, fmt::format("/models/{}/{}", trace.info().name, path_of(spec_of(array), layer)),
          "normalisers of query, key, softmax_scale and cumulative_log_gate, by which rows of attention sum to 1",
          fmt::format("a sum of {:.6g} in row {} of head {}; rows of {} of {} heads do not sum to 1", rows.front().sum,
                      rows.front().row, rows.front().head, heads.size(), trace.info().mixer(layer).heads));
    }
  }

  const std::filesystem::path path_;
  const Job& job_;
  std::shared_ptr<const Hdf5File> file_;
  Hdf5Heap heap_;
  Hdf5Account account_;
  SchemaReport report_;
  std::int64_t schema_ = kSchema;
  std::optional<std::int64_t> text_bytes_;
  std::set<std::string> seen_;  ///< paths of arrays that are there, sound or not
};

}  // namespace

std::optional<SchemaReport> check_schema(const std::filesystem::path& path, const Job& job) {
  return SchemaWalk(path, job).walk();
}

}  // namespace foxscope
