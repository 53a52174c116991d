#include "backend/train/recipe.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "backend/agent/remote_path.h"
#include "backend/base/error.h"
#include "backend/base/sha256.h"
#include "backend/model/spec/model_config.h"
#include "backend/text/file_bytes.h"
#include "backend/text/json_reading.h"
#include "backend/text/tokenizer.h"
#include "backend/train/training_data.h"

namespace foxscope {
namespace {

using nlohmann::json;

constexpr std::size_t kLargestRecipe = std::size_t{1} << 20;
constexpr double kWarmUpShare = 0.01;  // of max_tokens, where nothing is said

// clang-format off
constexpr RecipeKey kKeys[] = {
    {"config", RecipeValue::config, "FILE|DIR", "Model to begin anew: its config.json, or the folder that holds it"},
    {"init", RecipeValue::text, "DIR", "Checkpoint to begin with, instead of --config"},
    {"tokenizer", RecipeValue::text, "DIR", "Folder with tokenizer.json; goes into every checkpoint"},
    {"data", RecipeValue::texts, "PATH", "Texts (.txt, .jsonl, .xz, .gz, a folder) or tokens (.safetensors, .npy, zarr); repeatable"},
    {"tensor", RecipeValue::text, "NAME", "Name of the tensor in .safetensors files that hold several"},
    {"order", RecipeValue::text, "shuffled|sequential", "Order of the rows; sequential takes one after the other, and from the start again (default: shuffled)"},
    {"length", RecipeValue::count, "N", "Tokens of a row, each read after BOS on its own (default: L of token arrays [N, L], else 2048)"},
    {"batch_tokens", RecipeValue::count, "N", "Tokens of a step (default: 65536)"},
    {"micro_batch_tokens", RecipeValue::count, "N", "Tokens whose gradients are made together (default: as many as memory holds)"},
    {"max_tokens", RecipeValue::count, "N", "Tokens of the whole training, its warm-up with them"},
    {"warmup_tokens", RecipeValue::number, "N", "Tokens until the rate is highest (default: a hundredth of the training)"},
    {"lr", RecipeValue::number, "RATE", "Highest learning rate"},
    {"init_lr", RecipeValue::number, "RATE", "Rate of the first step (default: 0)"},
    {"end_lr", RecipeValue::number, "RATE", "Rate at the end (default: 0)"},
    {"schedule", RecipeValue::text, "cosine|linear|constant", "Schedule from the highest rate to the last (default: cosine)"},
    {"optimizer", RecipeValue::text, "adamw", "Optimizer; adamw is the only one"},
    {"betas", RecipeValue::numbers, "B1 B2", "Both decay rates of AdamW's moments (default: 0.9 0.95)"},
    {"eps", RecipeValue::number, "EPS", "Epsilon of AdamW (default: 1e-8)"},
    {"weight_decay", RecipeValue::number, "DECAY", "Weight decay of matrices, embeddings and the head (default: 0.1)"},
    {"clip", RecipeValue::number, "NORM", "Norm that a longer gradient is cut to; 0: none (default: 1)"},
    {"eval", RecipeValue::text, "PATH", "Held-out data, in the same formats as --data"},
    {"eval_every", RecipeValue::count, "N", "Evaluate after every N steps (default: with every checkpoint of --save-every, and at the end)"},
    {"save_every", RecipeValue::count, "N", "Save after every N steps (default: by the clock, at most ten minutes apart and for 2 % of the time)"},
    {"keep", RecipeValue::text, "last|all|N", "Checkpoints that stay; N is how many of the newest (default: last)"},
    {"dtype", RecipeValue::text, "DTYPE", "Data type of the matrices: auto, float32 or bfloat16 (default: bfloat16 on a GPU)"},
    {"pruning", RecipeValue::number, "TOLERANCE", "Share of a row's attention that may be skipped (default: 2^-24; 0: none)"},
    {"deterministic", RecipeValue::flag, "", "The same bits each time on a GPU as well, more slowly"},
    {"recompute", RecipeValue::text, "none|mlp|layers", "What the backward pass computes again to save memory (default: none)"},
    {"device", RecipeValue::text, "DEVICE", "auto, cpu, cuda or cuda:N (default: auto)"},
    {"seed", RecipeValue::number, "S", "Seed of the first weights and of the order (default: 0)"},
    {"gate_decay_times", RecipeValue::numbers, "T1 T2", "Decay times, in tokens, that gates which depend on data begin with, from T1 of a layer's first head to T2 of its last (default: f begins near a half)"},
};
// clang-format on

const RecipeKey* find_key(std::string_view name) {
  const auto* const found =
      std::ranges::find(kKeys, name, [](const RecipeKey& key) { return std::string_view(key.name); });
  return found == std::end(kKeys) ? nullptr : found;
}

bool is_number(RecipeValue value) { return value == RecipeValue::count || value == RecipeValue::number; }

/// Values of a recipe with what they are called where they were said.
class Values {
 public:
  explicit Values(const std::filesystem::path& file) : file_(file.string()) {
    if (file.empty()) return;
    content_ = read_input_bytes(file.string(), "recipe", kLargestRecipe);
    check_json_bounds(content_, file_);
    refuse_repeated_keys(content_, file_);
    try {
      values_ = json::parse(content_);
    } catch (const json::exception&) {
      throw Error(fmt::format("{}: is not JSON: a recipe is an object such as {{\"lr\": 0.002}}", file_));
    }
    if (!values_.is_object()) throw Error(fmt::format("{}: a recipe is a JSON object", file_));
    for (const auto& [name, value] : values_.items()) {
      if (find_key(name) != nullptr) continue;
      throw Error(
          fmt::format("{}: {}: there is no such key of a recipe: foxscope train --help lists them", file_, name));
    }
  }

  /// A path of a recipe file is meant from the file's folder, one that was typed from where it was typed.
  [[nodiscard]] std::string path(const char* key, const std::string& path) const {
    if (agent::is_remote(path)) fail(key, fmt::format("{}: a training works on files of its own machine", path));
    if (typed_.contains(key)) return path;
    return (std::filesystem::path(file_).parent_path() / path).lexically_normal().string();
  }
  void take_path(const char* key, std::string& into) const {
    take(key, into);
    if (has(key)) into = path(key, into);
  }

  void set(const RecipeSetting& setting) {
    const RecipeKey& key = *find_key(setting.key);
    typed_.insert(setting.key);
    json list = json::array();
    for (const std::string& word : setting.words) list.push_back(value_of(key, word));
    if (key.value == RecipeValue::flag) {
      values_[key.name] = true;
    } else {
      const bool many = key.value == RecipeValue::texts || key.value == RecipeValue::numbers;
      values_[key.name] = many ? list : list.back();
    }
  }

  /// Removes, of two keys that exclude each other, the file's where the other was typed.
  void let_typed_win(const std::string& one, const std::string& other) {
    if (typed_.contains(one) && !typed_.contains(other)) values_.erase(other);
    if (typed_.contains(other) && !typed_.contains(one)) values_.erase(one);
  }

  [[nodiscard]] bool has(const char* key) const { return values_.contains(key) && !values_[key].is_null(); }
  [[nodiscard]] const json& at(const char* key) const { return values_[key]; }
  [[nodiscard]] const std::string& content() const { return content_; }

  [[noreturn]] void fail(const char* key, const std::string& what) const {
    if (typed_.contains(key) || !values_.contains(key)) {
      throw UsageError(fmt::format("{}{}: {}", option_name(key), shown(key), what));
    }
    throw Error(fmt::format("{}: {}{}: {}", file_, key, shown(key), what));
  }

  void take(const char* key, std::string& into) const {
    if (!has(key)) return;
    if (!at(key).is_string() || at(key).get<std::string>().empty()) fail(key, "use a text");
    into = at(key).get<std::string>();
  }
  void take(const char* key, double& into) const {
    if (has(key)) into = number(key, at(key));
  }
  void take(const char* key, std::int64_t& into) const {
    if (!has(key)) return;
    const double value = number(key, at(key));
    const bool from_one = find_key(key)->value == RecipeValue::count;
    if (value != std::floor(value) || value > 0x1p53 || value < (from_one ? 1 : 0)) {
      fail(key, fmt::format("use a whole number from {}", from_one ? 1 : 0));
    }
    into = static_cast<std::int64_t>(value);
  }
  void take(const char* key, bool& into) const {
    if (!has(key)) return;
    if (!at(key).is_boolean()) fail(key, "use true or false");
    into = at(key).get<bool>();
  }
  [[nodiscard]] double number(const char* key, const json& value) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0) {
      fail(key, "use a number from 0");
    }
    return value.get<double>();
  }

 private:
  json value_of(const RecipeKey& key, const std::string& word) const {
    if (!is_number(key.value) && key.value != RecipeValue::numbers) return word;
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) {
      throw UsageError(fmt::format("{} {}: use a number", option_name(key.name), word));
    }
    return value;
  }

  [[nodiscard]] std::string shown(const char* key) const {
    if (!has(key) || at(key).is_structured()) return "";
    const json& value = at(key);
    if (value.is_string()) return " " + value.get<std::string>();
    // Numbers are read as reals: 1000 as it was typed, not as 1000.0.
    const double number = value.is_number_float() ? value.get<double>() : 0.5;
    if (number == std::floor(number) && std::abs(number) < 0x1p53) return fmt::format(" {:.0f}", number);
    return " " + value.dump(-1, ' ', true, json::error_handler_t::replace);
  }

  std::string file_;
  json values_ = json::object();
  std::string content_;
  std::set<std::string, std::less<>> typed_;
};

/// One of some words.
template <typename T>
void take_word(const Values& values, const char* key, std::initializer_list<std::pair<const char*, T>> words, T& into) {
  if (!values.has(key)) return;
  std::string word;
  values.take(key, word);
  std::vector<std::string> allowed;
  for (const auto& [name, value] : words) {
    if (word == name) {
      into = value;
      return;
    }
    allowed.emplace_back(name);
  }
  values.fail(key, fmt::format("use {}", fmt::join(allowed, " or ")));
}

std::string read_config(const Values& values) {
  if (!values.has("config")) return {};
  const json& value = values.at("config");
  if (value.is_object()) return value.dump();
  std::string path;
  values.take_path("config", path);
  std::filesystem::path file = path;
  std::error_code failed;
  if (std::filesystem::is_directory(file, failed)) file /= "config.json";
  return sorted_config(read_input_bytes(file.string(), "config.json", kLargestRecipe), file.string());
}

KeptCheckpoints read_keep(const Values& values) {
  KeptCheckpoints keep;
  if (!values.has("keep")) return keep;
  const json& value = values.at("keep");
  const std::string word = value.is_string() ? value.get<std::string>() : value.dump();
  if (word == "all") return {0};
  if (word == "last") return {1};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), keep.newest);
  if (error != std::errc() || end != word.data() + word.size() || keep.newest < 1) {
    values.fail("keep", "use last, all or a number of checkpoints from 1");
  }
  return keep;
}

void read_numbers(const Values& values, Recipe& recipe) {
  values.take("length", recipe.length);
  values.take("batch_tokens", recipe.batch_tokens);
  if (values.has("micro_batch_tokens")) values.take("micro_batch_tokens", recipe.micro_batch_tokens.emplace());
  values.take("max_tokens", recipe.max_tokens);
  values.take("lr", recipe.lr);
  values.take("init_lr", recipe.init_lr);
  values.take("end_lr", recipe.end_lr);
  values.take("eps", recipe.optimizer.epsilon);
  values.take("weight_decay", recipe.optimizer.weight_decay);
  values.take("clip", recipe.optimizer.clip);
  values.take("eval_every", recipe.eval_every);
  values.take("save_every", recipe.save_every);
  values.take("deterministic", recipe.deterministic);
  if (values.has("pruning")) values.take("pruning", recipe.pruning.emplace());
  std::int64_t seed = 0;
  values.take("seed", seed);
  recipe.seed = static_cast<std::uint64_t>(seed);
  if (values.has("gate_decay_times")) {
    const json& times = values.at("gate_decay_times");
    if (!times.is_array() || times.size() != 2) values.fail("gate_decay_times", "use two numbers of tokens");
    recipe.gate_decay_times =
        DecayTimes{values.number("gate_decay_times", times[0]), values.number("gate_decay_times", times[1])};
  }
  if (values.has("betas")) {
    const json& betas = values.at("betas");
    if (!betas.is_array() || betas.size() != 2) values.fail("betas", "use two numbers from 0 to below 1");
    recipe.optimizer.beta1 = values.number("betas", betas[0]);
    recipe.optimizer.beta2 = values.number("betas", betas[1]);
  }
}

/// Checks keys against one another.
/// @param missing  what is lacking beside
void check(const Values& values, Recipe& recipe, std::vector<std::string> missing) {
  if (recipe.config.empty() == recipe.init.empty()) {
    missing.emplace_back("a model: give either --config FILE|DIR, to begin anew, or --init CHECKPOINT");
  }
  if (recipe.data.empty()) missing.emplace_back("data: give --data PATH");
  if (recipe.max_tokens == 0) missing.emplace_back("an end: give --max-tokens N");
  if (!values.has("lr")) missing.emplace_back("a learning rate: give --lr RATE, 0.001 for instance");
  if (!missing.empty()) throw UsageError(fmt::format("train needs {}", fmt::join(missing, "; ")));
  if (recipe.lr == 0) values.fail("lr", "use a rate above 0");
  if (recipe.batch_tokens % recipe.length != 0) {
    values.fail("batch_tokens",
                fmt::format("a step is made of whole rows: use a multiple of the length, {}", recipe.length));
  }
  if (recipe.max_tokens % recipe.batch_tokens != 0) {
    const std::int64_t steps = std::max<std::int64_t>(1, recipe.max_tokens / recipe.batch_tokens);
    values.fail("max_tokens",
                fmt::format("a training is made of whole steps of {} tokens: use {} or {}", recipe.batch_tokens,
                            steps * recipe.batch_tokens, (steps + 1) * recipe.batch_tokens));
  }
  if (recipe.micro_batch_tokens) {
    const std::int64_t micro = *recipe.micro_batch_tokens;
    if (micro % recipe.length != 0 || recipe.batch_tokens % micro != 0) {
      values.fail("micro_batch_tokens", fmt::format("use a multiple of the length, {}, that divides a step, {}",
                                                    recipe.length, recipe.batch_tokens));
    }
  }
  if (!values.has("warmup_tokens")) {
    recipe.warmup_tokens = static_cast<std::int64_t>(kWarmUpShare * static_cast<double>(recipe.max_tokens));
  }
  if (recipe.warmup_tokens >= recipe.max_tokens) {
    values.fail("warmup_tokens",
                fmt::format("the warm-up is longer than the training: use less than {}", recipe.max_tokens));
  }
  for (const double beta : {recipe.optimizer.beta1, recipe.optimizer.beta2}) {
    if (!(beta >= 0 && beta < 1)) values.fail("betas", "use two numbers from 0 to below 1");
  }
  // The optimiser's numbers are float32.
  if (!(recipe.optimizer.epsilon >= std::numeric_limits<float>::min())) {
    values.fail("eps", "use a number from 1.2e-38, the least that float32 holds");
  }
  if (recipe.pruning && !(*recipe.pruning < 1)) {
    values.fail("pruning", "use a share from 0 (nothing is skipped) to below 1");
  }
  if (recipe.gate_decay_times && !recipe.gate_decay_times->valid()) {
    values.fail("gate_decay_times", fmt::format("use two numbers of tokens from 0.001 to {:g}, the shorter one first",
                                                DecayTimes::kLongest));
  }
  if (recipe.gate_decay_times && !recipe.init.empty()) {
    values.fail("gate_decay_times", "the gates of --init are trained: leave the option out");
  }
  if (recipe.eval.empty() && recipe.eval_every > 0) values.fail("eval_every", "goes with --eval PATH only");
}

/// A path as recipe.json holds it.
std::string absolute(const std::string& path) {
  if (path.empty()) return path;
  std::string whole = std::filesystem::absolute(path).lexically_normal().string();
  if (!find_invalid_utf8(whole)) return whole;
  throw Error(
      fmt::format("{}: this name is not UTF-8, and recipe.json, by which a training is resumed, cannot hold it: "
                  "rename the file or folder, or give a link to it",
                  whole));
}

constexpr std::pair<const char*, RowOrder> kOrders[] = {{"shuffled", RowOrder::shuffled},
                                                        {"sequential", RowOrder::sequential}};
constexpr std::pair<const char*, RateSchedule> kSchedules[] = {
    {"cosine", RateSchedule::cosine}, {"linear", RateSchedule::linear}, {"constant", RateSchedule::constant}};
constexpr std::pair<const char*, Recompute> kRecomputed[] = {
    {"none", Recompute::none}, {"mlp", Recompute::mlp}, {"layers", Recompute::layers}};

template <typename T, std::size_t N>
const char* word_of(const std::pair<const char*, T> (&words)[N], T value) {
  return std::ranges::find(words, value, [](const auto& word) { return word.second; })->first;
}

/// @param config  null: there is none
std::string text_with(const Recipe& recipe, const nlohmann::ordered_json& config) {
  nlohmann::ordered_json text;
  const auto put = [&text](const char* key, const auto& value) { text[key] = value; };
  if (!config.is_null()) put("config", config);
  if (!recipe.init.empty()) put("init", absolute(recipe.init));
  if (!recipe.tokenizer.empty()) put("tokenizer", absolute(recipe.tokenizer));
  std::vector<std::string> data;
  for (const std::string& path : recipe.data) data.push_back(absolute(path));
  put("data", data);
  if (!recipe.tensor.empty()) put("tensor", recipe.tensor);
  put("order", word_of(kOrders, recipe.order));
  put("length", recipe.length);
  put("batch_tokens", recipe.batch_tokens);
  if (recipe.micro_batch_tokens) put("micro_batch_tokens", *recipe.micro_batch_tokens);
  put("max_tokens", recipe.max_tokens);
  put("warmup_tokens", recipe.warmup_tokens);
  put("lr", recipe.lr);
  put("init_lr", recipe.init_lr);
  put("end_lr", recipe.end_lr);
  put("schedule", word_of(kSchedules, recipe.schedule));
  put("optimizer", "adamw");
  put("betas", std::vector<double>{recipe.optimizer.beta1, recipe.optimizer.beta2});
  put("eps", recipe.optimizer.epsilon);
  put("weight_decay", recipe.optimizer.weight_decay);
  put("clip", recipe.optimizer.clip);
  if (!recipe.eval.empty()) put("eval", absolute(recipe.eval));
  if (recipe.eval_every > 0) put("eval_every", recipe.eval_every);
  if (recipe.save_every > 0) put("save_every", recipe.save_every);
  put("keep", recipe.keep.newest == 0 ? "all" : recipe.keep.newest == 1 ? "last" : std::to_string(recipe.keep.newest));
  put("dtype", recipe.dtype ? to_string(*recipe.dtype) : "auto");
  if (recipe.pruning) put("pruning", *recipe.pruning);
  put("deterministic", recipe.deterministic);
  if (recipe.recompute != Recompute::none) put("recompute", word_of(kRecomputed, recipe.recompute));
  put("device", recipe.device.word());
  put("seed", recipe.seed);
  if (recipe.gate_decay_times) {
    put("gate_decay_times", std::vector<double>{recipe.gate_decay_times->shortest, recipe.gate_decay_times->longest});
  }
  return text.dump(1) + "\n";
}

/// The recipe without what may be another when a training goes on.
Recipe without_what_may_change(const Recipe& recipe) {
  Recipe same = recipe;
  same.init = same.init.empty() ? "" : "/init";
  same.tokenizer.clear();
  same.data.clear();
  same.eval.clear();
  same.eval_every = same.save_every = 0;
  same.keep = {};
  same.device = {};
  same.micro_batch_tokens.reset();
  same.recompute = {};
  return same;
}

}  // namespace

double Recipe::learning_rate(std::int64_t step) const {
  const double seen = static_cast<double>((step - 1) * batch_tokens);
  const auto warm_up = static_cast<double>(warmup_tokens);
  if (seen < warm_up) return init_lr + (lr - init_lr) * seen / warm_up;
  const double all = static_cast<double>(max_tokens - warmup_tokens);
  const double t = std::min(seen - warm_up, all);
  if (schedule == RateSchedule::constant) return lr;
  if (schedule == RateSchedule::linear) return end_lr + (lr - end_lr) * (1 - t / all);
  const double floor = end_lr / lr;
  return lr * ((1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * t / all)) + floor);
}

std::span<const RecipeKey> recipe_keys() { return kKeys; }

std::string option_name(std::string key) {
  std::ranges::replace(key, '_', '-');
  return "--" + key;
}

Recipe read_recipe(const std::filesystem::path& file, std::span<const RecipeSetting> settings,
                   std::vector<std::string> missing) {
  Values values(file);
  for (const RecipeSetting& setting : settings) values.set(setting);
  values.let_typed_win("config", "init");
  Recipe recipe;
  recipe.file = values.content();
  recipe.config = read_config(values);
  values.take_path("init", recipe.init);
  values.take_path("tokenizer", recipe.tokenizer);
  if (values.has("data")) {
    const json& data = values.at("data");
    for (const json& path : data.is_array() ? data : json::array({data})) {
      if (!path.is_string() || path.get<std::string>().empty()) values.fail("data", "use a path or a list of paths");
      recipe.data.push_back(values.path("data", path.get<std::string>()));
    }
  }
  values.take("tensor", recipe.tensor);
  take_word(values, "order", {kOrders[0], kOrders[1]}, recipe.order);
  take_word(values, "schedule", {kSchedules[0], kSchedules[1], kSchedules[2]}, recipe.schedule);
  take_word(values, "recompute", {kRecomputed[0], kRecomputed[1], kRecomputed[2]}, recipe.recompute);
  bool adamw = true;
  take_word(values, "optimizer", {std::pair("adamw", true)}, adamw);
  if (!values.has("length")) recipe.length = length_of_arrays(recipe.data, recipe.tensor).value_or(recipe.length);
  read_numbers(values, recipe);
  if (values.has("warmup_tokens")) values.take("warmup_tokens", recipe.warmup_tokens);
  values.take_path("eval", recipe.eval);
  recipe.keep = read_keep(values);
  std::string word = "auto";
  values.take("device", word);
  recipe.device = DeviceChoice::parse(word);
  word = "auto";
  values.take("dtype", word);
  recipe.dtype = parse_dtype(word);
  check(values, recipe, std::move(missing));
  return recipe;
}

std::string recipe_text(const Recipe& recipe) {
  // Sorted whoever wrote it: equal recipes have equal texts.
  return text_with(
      recipe, recipe.config.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(json::parse(recipe.config)));
}

std::string recipe_identity(const Recipe& recipe) { return sha256(recipe_text(without_what_may_change(recipe))); }

bool has_identity(const Recipe& recipe, const std::string& identity) {
  if (recipe_identity(recipe) == identity) return true;
  Recipe older = without_what_may_change(recipe);
  if (!older.init.empty()) {
    older.init = "init";  // in the folder that the program was started in
    return sha256(recipe_text(older)) == identity;
  }
  const auto written = nlohmann::ordered_json::parse(recipe.file, nullptr, false);
  if (!written.is_object() || !written.contains("config")) return false;
  return sha256(text_with(older, written["config"])) == identity;
}

}  // namespace foxscope
