#include "backend/train/training_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/model/weights/safetensors_writer.h"
#include "backend/text/file_bytes.h"
#include "backend/text/json_reading.h"
#include "backend/text/tokenizer.h"
#include "backend/train/log_lines.h"

namespace foxscope {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-";
constexpr std::string_view kUnfinished = ".unfinished-";
constexpr std::size_t kLargestState = std::size_t{1} << 27;  // sums of curves: 20 bytes a position and process
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "training.json";
constexpr const char* kRecipeFile = "recipe.json";
constexpr const char* kCheckpointFolder = "checkpoints";

const char* prefix_of(TrainingPart part) { return part == TrainingPart::first_moment ? "exp_avg." : "exp_avg_sq."; }

void write_file(const fs::path& path, const std::string& content) {
  AtomicFile file(path, /*overwrite=*/false);
  file.write(content.data(), content.size());
  file.commit();
}

/// Puts the names of a folder's files on the disk.
void flush_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

std::optional<std::int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kStep)) return std::nullopt;
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data() + kStep.size(), end, step);
  if (error != std::errc() || last != end || step < 0) return std::nullopt;
  return step;
}

void write_weights(const fs::path& folder, const ModelConfig& config, const TrainingSnapshot& snapshot) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const Parameter& parameter : parameters(config)) tensors.push_back({parameter.name, parameter.shape});
  SafetensorsWriter writer(folder / "model.safetensors", tensors, {{"format", "pt"}});
  snapshot.read(TrainingPart::weights, [&](const Parameter&, std::span<const float> values) {
    writer.write(values);
    return true;
  });
  writer.commit();
}

void write_optimizer(const fs::path& folder, const ModelConfig& config, const TrainingSnapshot& snapshot) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const TrainingPart part : {TrainingPart::first_moment, TrainingPart::second_moment}) {
    for (const Parameter& parameter : parameters(config)) {
      tensors.push_back({prefix_of(part) + parameter.name, parameter.shape});
    }
  }
  SafetensorsWriter writer(folder / kOptimizerFile, tensors, {{"optimizer", "adamw"}});
  for (const TrainingPart part : {TrainingPart::first_moment, TrainingPart::second_moment}) {
    snapshot.read(part, [&](const Parameter&, std::span<const float> values) {
      writer.write(values);
      return true;
    });
  }
  writer.commit();
}

nlohmann::ordered_json state_json(const TrainingState& state) {
  nlohmann::ordered_json object = {
      {"step", state.step}, {"tokens", state.tokens}, {"data", state.data}, {"recipe", state.recipe}};
  if (state.micro_batch_tokens > 0) object["micro_batch_tokens"] = state.micro_batch_tokens;
  for (const CurveSums& sums : state.curves) {
    object["curves"].push_back({{"sequences", sums.sequences}, {"loss", sums.loss}, {"log_gate", sums.log_gate}});
  }
  return object;
}

[[noreturn]] void throw_damaged_state(const fs::path& path) {
  throw Error(
      fmt::format("{}: is damaged: delete the folder it is in to go on from an earlier checkpoint", path.string()));
}

}  // namespace

TokenizerFiles TokenizerFiles::read(const fs::path& folder) {
  TokenizerFiles tokenizer;
  if (folder.empty()) return tokenizer;
  for (const char* const name : kTokenizerFiles) {
    std::error_code failed;
    if (!fs::exists(folder / name, failed)) continue;
    tokenizer.files.emplace_back(name, read_file_bytes(folder / name, "tokenizer", largest_vocabulary_file));
  }
  return tokenizer;
}

void TrainingFolder::create(const Recipe& recipe) {
  const std::string text = recipe_text(recipe);  // refuses names that it cannot hold before there is a folder
  const auto require_free = [this] {
    if (is_free(path_)) return;
    if (is(path_)) lock();  // refuses, with its name, a process that trains there
    const char* const remedy = is(path_) ? "go on with --resume, or choose another folder" : "choose another folder";
    throw Error(fmt::format("{}: exists: {}", path_.string(), remedy));
  };
  require_free();
  std::error_code failed;
  fs::create_directories(path_ / kCheckpointFolder, failed);
  if (failed) {
    throw Error(fmt::format("{}: cannot be made: {}: choose another folder", path_.string(), failed.message()));
  }
  lock();
  require_free();  // another process may have made it meanwhile
  write_file(this->recipe(), text);
}

bool TrainingFolder::is(const fs::path& path) {
  std::error_code failed;
  return fs::is_regular_file(path / kRecipeFile, failed) && fs::is_directory(path / kCheckpointFolder, failed);
}

void TrainingFolder::require(const fs::path& path) {
  if (is(path)) return;
  std::error_code failed;
  if (!fs::exists(path, failed)) throw Error(fmt::format("{}: there is no such folder", path.string()));
  if (!fs::is_directory(path, failed)) {
    throw Error(fmt::format("{}: is a file: name the folder that `foxscope train` wrote", path.string()));
  }
  if (fs::is_regular_file(path / kRecipeFile, failed)) {
    throw Error(
        fmt::format("{}: holds a training's {}, and no folder {}: copy that one too, or make an empty one to "
                    "see the curves alone",
                    path.string(), kRecipeFile, kCheckpointFolder));
  }
  throw Error(fmt::format("{}: is no training: name the folder that `foxscope train` wrote, with {} in it",
                          path.string(), kRecipeFile));
}

bool TrainingFolder::is_free(const fs::path& path) {
  std::error_code failed;
  if (!fs::exists(fs::symlink_status(path, failed))) return true;
  if (!fs::is_directory(path, failed)) return false;
  for (const auto& entry : fs::directory_iterator(path, failed)) {
    const std::string name = entry.path().filename().string();
    const bool unfinished_recipe = name.starts_with(fmt::format(".{}.", kRecipeFile));
    if (name == FolderLock::kFile || unfinished_recipe) continue;
    if (name == kCheckpointFolder && fs::is_empty(entry.path(), failed)) continue;
    return false;
  }
  return !failed;
}

bool TrainingFolder::lock() {
  if (!lock_) lock_ = std::make_unique<FolderLock>(path_);
  return lock_->held();
}

std::int64_t TrainingFolder::planned_steps() const {
  constexpr std::size_t kLargestRecipe = std::size_t{1} << 24;
  try {
    const std::string content = read_file_bytes(recipe(), "recipe", kLargestRecipe);
    const nlohmann::json members = parse_plain_members(content, recipe().string());
    const auto count = [&members](const char* key) {
      const nlohmann::json* const value = member(members, key);
      const bool whole = value != nullptr && value->is_number_unsigned();
      const auto number = whole ? value->get<std::uint64_t>() : 0;
      return number <= std::numeric_limits<std::int64_t>::max() ? static_cast<std::int64_t>(number) : 0;
    };
    const std::int64_t step = count("batch_tokens");
    return step == 0 ? 0 : count("max_tokens") / step;
  } catch (const Error&) {
    return 0;  // its logs are read all the same
  }
}

std::vector<TrainingCheckpoint> TrainingFolder::checkpoints() const {
  std::vector<TrainingCheckpoint> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(path_ / kCheckpointFolder, failed)) {
    if (const auto step = step_of(entry.path())) found.push_back({*step, entry.path()});
  }
  std::ranges::sort(found, {}, &TrainingCheckpoint::step);
  return found;
}

void TrainingFolder::remove_unfinished() const {
  std::error_code failed;
  std::vector<fs::path> unfinished;
  for (const auto& entry : fs::directory_iterator(path_ / kCheckpointFolder, failed)) {
    if (entry.path().filename().string().starts_with(kUnfinished)) unfinished.push_back(entry.path());
  }
  for (const fs::path& folder : unfinished) fs::remove_all(folder, failed);
}

void TrainingFolder::save(const ModelConfig& config, const TrainingSnapshot& snapshot, const TrainingState& state,
                          const TokenizerFiles& tokenizer, const KeptCheckpoints& keep) const {
  const fs::path folder = path_ / kCheckpointFolder;
  const std::string name = fmt::format("{}{:06}", kStep, state.step);
  const fs::path unfinished = folder / (std::string(kUnfinished) + name);
  std::error_code failed;
  fs::remove_all(unfinished, failed);
  fs::create_directories(unfinished, failed);
  if (failed) throw Error(fmt::format("{}: cannot be made: {}", unfinished.string(), failed.message()));
  try {
    write_file(unfinished / "config.json", config.json + (config.json.ends_with('\n') ? "" : "\n"));
    write_weights(unfinished, config, snapshot);
    write_optimizer(unfinished, config, snapshot);
    for (const auto& [file, content] : tokenizer.files) write_file(unfinished / file, content);
    write_file(unfinished / kStateFile, state_json(state).dump(state.curves.empty() ? 1 : -1) + "\n");
    flush_folder(unfinished);
    fs::rename(unfinished, folder / name);
  } catch (...) {
    fs::remove_all(unfinished, failed);
    throw;
  }
  flush_folder(folder);
  if (keep.newest == 0) return;
  const std::vector<TrainingCheckpoint> all = checkpoints();
  for (std::size_t n = 0; n + static_cast<std::size_t>(keep.newest) < all.size(); ++n) {
    // The rest of one that is being removed must not be taken for a whole one.
    const fs::path leaving = folder / (std::string(kUnfinished) + all[n].folder.filename().string());
    fs::rename(all[n].folder, leaving, failed);
    fs::remove_all(leaving, failed);
  }
}

TrainingState read_training_state(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kStateFile;
  const std::string content = read_file_bytes(path, "training's state", kLargestState);
  TrainingState state;
  try {
    check_json_bounds(content, path.string());
    const auto json = nlohmann::json::parse(content);
    state.step = whole_number_of(json, "step", 0);
    state.tokens = whole_number_of(json, "tokens", 0);
    json.at("data").get_to(state.data);
    json.at("recipe").get_to(state.recipe);
    state.micro_batch_tokens = json.value("micro_batch_tokens", std::int64_t{0});
    for (const auto& sums : json.value("curves", nlohmann::json::array())) {
      state.curves.push_back({sums.at("sequences").get<std::int64_t>(), sums.at("loss").get<std::vector<double>>(),
                              sums.at("log_gate").get<std::vector<double>>()});
    }
  } catch (const nlohmann::json::exception&) {
    throw_damaged_state(path);
  } catch (const std::domain_error&) {
    throw_damaged_state(path);
  }
  return state;
}

MomentSource::MomentSource(const fs::path& checkpoint, const ModelConfig& config, TrainingPart part)
    : file_(checkpoint / kOptimizerFile), prefix_(prefix_of(part)) {
  for (const Parameter& parameter : parameters(config)) {
    const auto found = file_.tensors().find(prefix_ + parameter.name);
    if (found != file_.tensors().end() && found->second.shape == parameter.shape &&
        found->second.dtype == TensorDType::f32) {
      continue;
    }
    throw Error(fmt::format("{}: {}{} is missing or of another shape: the state is not of this model",
                            (checkpoint / kOptimizerFile).string(), prefix_, parameter.name));
  }
}

const TensorView& MomentSource::view(const Parameter& parameter) const {
  return file_.tensors().at(prefix_ + parameter.name);
}

std::int64_t MomentSource::bytes(const Parameter& parameter) const {
  return static_cast<std::int64_t>(view(parameter).bytes.size());
}

void MomentSource::read(const Parameter& parameter,
                        const std::function<bool(std::span<const float> piece)>& take) const {
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  std::span<const std::byte> rest = view(parameter).bytes;
  std::vector<float> piece;
  while (!rest.empty()) {
    piece.resize(std::min(kPiece, rest.size() / sizeof(float)));
    std::memcpy(piece.data(), rest.data(), piece.size() * sizeof(float));
    rest = rest.subspan(piece.size() * sizeof(float));
    if (!take(piece)) return;
  }
}

}  // namespace foxscope
