#include "backend/model/weights/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/base/sha256.h"
#include "backend/model/spec/model_family.h"
#include "backend/model/spec/parameters.h"
#include "backend/model/weights/hub_cache.h"
#include "backend/model/weights/mapped_experts.h"
#include "backend/text/file_bytes.h"
#include "backend/text/json_reading.h"
#include "backend/trace/dtype.h"

namespace foxscope {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";
constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;
/// The largest that are published are dictionaries of labels, of less than one.
constexpr std::size_t kMaxConfigBytes = std::size_t{4} << 20;
constexpr std::size_t kNamesShown = 5;
/// Bytes of a weight file that are read at a time; between two the job may be stopped.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

/// "a, b, c and 12 more"
std::string list_names(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kNamesShown);
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(shown);
  std::string text = fmt::format("{}", fmt::join(names.begin(), end, ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

/// "12 of F32, 75 of BF16"
std::string describe_dtypes(const SafetensorsFile& file) {
  std::map<TensorDType, std::size_t> counts;
  for (const auto& [name, view] : file.tensors()) ++counts[view.dtype];
  std::vector<std::string> words;
  words.reserve(counts.size());
  for (const auto& [dtype, count] : counts) words.push_back(fmt::format("{} of {}", count, to_string(dtype)));
  return fmt::format("{}", fmt::join(words, ", "));
}

[[noreturn]] void refuse_pickle(const fs::path& folder) {
  throw Error(fmt::format(
      "{}: pytorch_model.bin is a pickle, which can run code and is not read; convert it: python3 -c \"import "
      "sys, glob, torch; from safetensors.torch import save_file; d = sys.argv[1]; save_file({{k: v.clone() for f in "
      "glob.glob(d + '/pytorch_model*.bin') for k, v in torch.load(f, map_location='cpu', "
      "weights_only=True).items()}}, d + '/model.safetensors')\" '{}'",
      folder.string(), folder.string()));
}

[[noreturn]] void fail_without_weights(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("pytorch_model") && name.ends_with(".bin")) refuse_pickle(folder);
  }
  throw Error(fmt::format("{}: holds config.json but no weights: put {}, or {} with its shards, beside it",
                          folder.string(), kSingleName, kIndexName));
}

/// Tensor name to shard name.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const std::string content = read_file_bytes(path, "index", kMaxIndexBytes);
  check_json_bounds(content, path.string());
  const json index = json::parse(content, nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw Error(fmt::format("{}: has no weight_map: copy or download it again", path.string()));
  }
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    const std::string name = shard.is_string() ? shard.get<std::string>() : "";
    if (!name.ends_with(".safetensors") || name.find_first_of("/\\") != std::string::npos || name.front() == '.') {
      throw Error(
          fmt::format("{}: tensor {} is said to be in {}: a shard must be a .safetensors file in the same folder",
                      path.string(), tensor, shard.dump(-1, ' ', true)));
    }
    shards[tensor] = name;
  }
  return shards;
}

template <typename Stored, typename Convert>
void convert_each(std::span<const std::byte> bytes, std::span<float> values, Convert to_float) {
  for (std::size_t n = 0; n < values.size(); ++n) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + n * sizeof(Stored), sizeof(Stored));
    values[n] = to_float(stored);
  }
}

void convert(TensorDType dtype, std::span<const std::byte> bytes, std::span<float> values) {
  if (dtype == TensorDType::f32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else if (dtype == TensorDType::f16) {
    convert_each<std::uint16_t>(bytes, values, from_float16);
  } else {
    convert_each<std::uint16_t>(bytes, values, from_bfloat16);
  }
}

/// The newest checkpoint of the folder that a training writes, whose names end with the step; empty where there is
/// none.
fs::path newest_of_training(const fs::path& folder) {
  std::error_code failed;
  fs::path newest;
  const auto order = [](const fs::path& path) {
    const std::string name = path.filename().string();
    return std::pair(name.size(), name);
  };
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "checkpoints", failed)) {
    const fs::path& path = entry.path();
    const bool whole = path.filename().string().starts_with("step-") && fs::exists(path / "config.json", failed);
    if (whole && (newest.empty() || order(newest) < order(path))) newest = path;
  }
  return newest;
}

[[noreturn]] void fail_without_config(const fs::path& folder) {
  if (const fs::path newest = newest_of_training(folder); !newest.empty()) {
    throw Error(fmt::format("{}: is the folder of a training: give one of its checkpoints, of which {} is the newest",
                            folder.string(), newest.string()));
  }
  throw Error(fmt::format("{}: holds no config.json: give a checkpoint folder with config.json, weights and tokenizer",
                          folder.string()));
}

/// @throws Error where that cannot be seen
bool is_there(const fs::path& path) {
  std::error_code failed;
  const bool there = fs::exists(path, failed);
  if (!failed) return there;
  throw Error(
      fmt::format("{}: cannot be opened ({}): check the path and its permissions", path.string(), failed.message()));
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.folder_ = resolve_checkpoint_folder(path);
  const fs::path config = checkpoint.folder_ / "config.json";
  if (!is_there(config)) fail_without_config(checkpoint.folder_);
  checkpoint.config_ =
      ModelConfig::from_json(read_file_bytes(config, "configuration", kMaxConfigBytes), config.string());
  checkpoint.open_weights();
  checkpoint.check_tensors();
  return checkpoint;
}

void Checkpoint::open_weights() {
  const fs::path index = folder_ / kIndexName;
  std::map<std::string, std::string> shard_of;
  std::set<std::string> names;
  if (is_there(index)) {
    shard_of = read_index(index);
    for (const auto& [tensor, shard] : shard_of) names.insert(shard);
  } else if (is_there(folder_ / kSingleName)) {
    names.insert(kSingleName);
  } else {
    fail_without_weights(folder_);
  }
  for (const std::string& name : names) {
    if (!is_there(folder_ / name)) {
      throw Error(fmt::format("{}: lists the shard {}, which is not in the folder: copy or download it again",
                              index.string(), name));
    }
  }
  for (const std::string& name : names) {
    const fs::path path = folder_ / name;
    files_.push_back(std::make_shared<const SafetensorsFile>(path));
    weight_files_.push_back(path);
    log_line(LogCategory::model, [&] {
      const SafetensorsFile& file = *files_.back();
      return fmt::format("{}: {} tensors in {} bytes: {}", path.string(), file.tensors().size(), file.bytes().size(),
                         describe_dtypes(file));
    });
    for (const auto& [tensor, view] : files_.back()->tensors()) {
      if (!shard_of.empty() && (!shard_of.contains(tensor) || shard_of[tensor] != name)) {
        throw Error(
            fmt::format("{}: tensor {} is in {}, but {} does not list it there: copy or download the folder again",
                        folder_.string(), tensor, name, kIndexName));
      }
      tensors_[tensor] = view;
    }
  }
}

/// Finds out from the tensors how names begin and whether the head is the embedding, where the config leaves it open:
/// language models lie deeper in the files of models of text and pictures.
void Checkpoint::choose_names() {
  const std::string family_prefix = config_.name_prefix;
  const std::string first = parameters(config_).front().name.substr(family_prefix.size());
  config_.name_prefix.clear();
  if (std::ranges::any_of(tensors_, [&](const auto& tensor) { return tensor.first.starts_with(family_prefix); })) {
    config_.name_prefix = family_prefix;
  }
  for (const std::string& prefix :
       {family_prefix, std::string("model.language_model."), "language_model." + family_prefix, std::string()}) {
    if (!tensors_.contains(prefix + first)) continue;
    config_.name_prefix = prefix;
    break;
  }
  for (const char* const before : {"language_model.", "model."}) {
    if (!tensors_.contains(config_.head_name) && tensors_.contains(before + config_.head_name)) {
      config_.head_name = before + config_.head_name;
    }
  }
  if (config_.tied_by_tensor) config_.tie_word_embeddings = !tensors_.contains(config_.head_name);
}

/// Whether one weight of QK norm stands for all heads, where its shape alone says so.
void Checkpoint::choose_norm(std::vector<Parameter>& wanted) {
  const auto norm = std::ranges::find_if(
      wanted, [](const Parameter& parameter) { return parameter.of_layer == &LayerWeights::query_norm; });
  const auto weight = tensors_.find(norm->name);
  const bool shared = weight != tensors_.end() && weight->second.shape == std::vector<std::int64_t>{config_.head_dim};
  if (shared) {
    config_.query_key_norm = QueryKeyNorm::shared;
    wanted = parameters(config_);
  }
  log_line(LogCategory::model, [&] {
    return fmt::format("{}: QK norm is {}, by the shape of its weight", folder_.string(),
                       shared ? "shared by all heads" : "one a head");
  });
}

/// Whether a tensor belongs to a part that is not run; counts it.
bool Checkpoint::take_unread(const std::string& name) {
  const auto part =
      std::ranges::find_if(config_.unread, [&](const UnreadPart& one) { return name.starts_with(one.prefix); });
  if (part == config_.unread.end()) return false;
  auto counted = std::ranges::find(unread_, part->prefix, &Unread::prefix);
  if (counted == unread_.end()) counted = unread_.insert(unread_.end(), {part->prefix, part->words, 0});
  ++counted->tensors;
  return true;
}

/// How many tensors are not there in their shapes.
std::int64_t Checkpoint::count_missing(const std::vector<Parameter>& wanted) const {
  return std::ranges::count_if(wanted, [&](const Parameter& parameter) {
    const auto found = tensors_.find(parameter.name);
    return found == tensors_.end() || found->second.shape != parameter.shape;
  });
}

/// The tensors by the names that transformers saves them by, if more of these are there.
void Checkpoint::choose_form(std::vector<Parameter>& wanted) {
  const std::int64_t missing = count_missing(wanted);
  if (missing == 0) return;
  config_.resaved = true;
  std::vector<Parameter> resaved = parameters(config_);
  config_.resaved = count_missing(resaved) < missing;
  if (!config_.resaved) return;
  wanted = std::move(resaved);
  log_line(LogCategory::model, [&] { return fmt::format("{}: named as transformers saves it", folder_.string()); });
}

/// A head that is another matrix than the embeddings would be left out. Both are read whole where they are the same,
/// and few files hold a matrix twice.
void Checkpoint::check_tied(const TensorView& head, const std::vector<Parameter>& wanted) const {
  const auto embedding = std::ranges::find_if(
      wanted, [](const Parameter& parameter) { return parameter.of_model == &ModelWeights::embedding; });
  const auto found = embedding == wanted.end() ? tensors_.end() : tensors_.find(embedding->name);
  if (found == tensors_.end()) return;
  const TensorView& other = found->second;
  const bool alike = head.dtype == other.dtype && head.shape == other.shape;
  if (alike && std::memcmp(head.bytes.data(), other.bytes.data(), head.bytes.size()) == 0) return;
  throw Error(fmt::format(
      "{}: {} is another matrix than {}, and the model's embeddings are tied: set tie_word_embeddings false "
      "in config.json, or remove {} from the weights",
      folder_.string(), config_.head_name, embedding->name, config_.head_name));
}

void Checkpoint::check_tensors() {
  const ModelFamily& family = *config_.family;
  choose_names();
  std::vector<Parameter> wanted = parameters(config_);
  if (config_.query_key_norm_by_shape) choose_norm(wanted);
  choose_form(wanted);
  std::vector<std::string> missing;
  std::vector<std::string> wrong;
  std::set<std::string> known;
  for (const Parameter& expected : wanted) {
    if (!known.insert(expected.name).second) continue;  // of two weights
    const auto found = tensors_.find(expected.name);
    if (found == tensors_.end()) {
      missing.push_back(expected.name);
    } else if (found->second.shape != expected.shape) {
      wrong.push_back(fmt::format("{} is {} and should be {}", expected.name, shape_text(found->second.shape),
                                  shape_text(expected.shape)));
    } else if (!is_floating(found->second.dtype)) {
      wrong.push_back(fmt::format("{} has dtype {} and should have F32, F16 or BF16", expected.name,
                                  to_string(found->second.dtype)));
    }
  }
  std::vector<std::string> unexpected;
  for (const auto& [name, view] : tensors_) {
    if (known.contains(name) || take_unread(name)) continue;
    const bool tied = config_.tie_word_embeddings && name == config_.head_name;
    if (tied) check_tied(view, wanted);
    if (!tied && (family.is_buffer == nullptr || !family.is_buffer(name))) {
      unexpected.push_back(name);
      continue;
    }
    log_line(LogCategory::model, [&, name = name] {
      return fmt::format("{}: {} is skipped: {}", folder_.string(), name,
                         tied ? "embeddings are tied" : "it is no weight");
    });
  }
  for (const Unread& part : unread_) {
    log_line(LogCategory::model, [&] {
      return fmt::format("{}: {} tensors under {} are not read: {}", folder_.string(), part.tensors, part.prefix,
                         part.words);
    });
  }
  if (missing.empty() && wrong.empty() && unexpected.empty()) return;
  std::vector<std::string> problems;
  if (!missing.empty()) problems.push_back(fmt::format("missing {}: {}", missing.size(), list_names(missing)));
  if (!unexpected.empty()) {
    problems.push_back(fmt::format("unexpected {}: {}", unexpected.size(), list_names(unexpected)));
  }
  if (!wrong.empty()) problems.push_back(fmt::format("wrong {}: {}", wrong.size(), list_names(wrong)));
  throw Error(fmt::format("{}: the tensors do not fit config.json ({}); {}: use the config.json that belongs to them",
                          folder_.string(), config_.model_type, fmt::join(problems, "; ")));
}

const TensorView& Checkpoint::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw Error(fmt::format("{}: there is no tensor {}", folder_.string(), name));
  return found->second;
}

void Checkpoint::read(const std::string& name, const std::function<bool(std::span<const float> piece)>& take) const {
  const TensorView& view = tensor(name);
  if (!is_floating(view.dtype)) {
    throw Error(fmt::format("{}: tensor {} has dtype {}, weights are F32, F16 or BF16", folder_.string(), name,
                            to_string(view.dtype)));
  }
  const std::size_t size = size_of(view.dtype);
  const auto elements = static_cast<std::size_t>(view.elements());
  std::vector<float> piece(std::min(elements, kPieceBytes / size));
  for (std::size_t first = 0; first < elements; first += piece.size()) {
    piece.resize(std::min(piece.size(), elements - first));
    convert(view.dtype, view.bytes.subspan(first * size, piece.size() * size), piece);
    const auto bad = std::find_if(piece.begin(), piece.end(), [](float value) { return !std::isfinite(value); });
    if (bad != piece.end()) {
      throw Error(fmt::format("{}: tensor {} holds {} at element {}: the training diverged or the file is damaged",
                              folder_.string(), name, std::isnan(*bad) ? "NaN" : "an infinity",
                              first + static_cast<std::size_t>(bad - piece.begin())));
    }
    if (!take(piece)) return;
  }
}

std::optional<std::string> Checkpoint::weights_sha256(const Job& job) const {
  std::int64_t total = 0;
  for (const auto& file : files_) total += static_cast<std::int64_t>(file->bytes().size());
  Sha256 hash;
  std::int64_t done = 0;
  for (const auto& file : files_) {
    for (std::span<const std::byte> rest = file->bytes(); !rest.empty();) {
      if (job.stopped()) return std::nullopt;
      job.tell({done, total, "bytes", "checksum of the weights"});
      const std::span<const std::byte> piece = rest.first(std::min(kPieceBytes, rest.size()));
      hash.update(piece);
      done += static_cast<std::int64_t>(piece.size());
      rest = rest.subspan(piece.size());
    }
  }
  return hash.finish();
}

std::int64_t Checkpoint::count_numbers(bool (*counts)(const Parameter& parameter)) const {
  std::int64_t count = 0;
  std::set<std::string> counted;
  for (const Parameter& parameter : parameters(config_)) {
    if (counts(parameter) && counted.insert(parameter.name).second) count += tensor(parameter.name).elements();
  }
  return count;
}

std::int64_t Checkpoint::parameter_count() const {
  return count_numbers([](const Parameter& /*parameter*/) { return true; });
}

std::int64_t Checkpoint::mapped_parameter_count() const { return count_numbers(is_mapped); }

}  // namespace foxscope
