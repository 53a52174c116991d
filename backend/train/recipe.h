#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/base/device_name.h"
#include "backend/model/training/trainable_model.h"
#include "backend/model/weights/initial_weights.h"
#include "backend/train/row_order.h"

namespace foxscope {

/// How the learning rate goes after the warm-up.
enum class RateSchedule { cosine, linear, constant };

/// How many checkpoints of a training stay.
struct KeptCheckpoints {
  std::int64_t newest = 1;  ///< 0: all
};

/// All that a training is made of. A recipe file and the options of `foxscope train` have the same keys (dashes for
/// underscores): one table says what each is (recipe_keys).
struct Recipe {
  std::string config;  ///< content of config.json; empty: that of `init`
  std::string file;    ///< content of the recipe's file; empty: none
  std::string init;    ///< checkpoint to begin with; empty: weights are drawn
  std::string tokenizer;
  std::vector<std::string> data;
  std::string tensor;
  RowOrder order = RowOrder::shuffled;
  std::int64_t length = 2048;                      ///< L, tokens of a row; default of data [N, L]: theirs
  std::int64_t batch_tokens = 65536;               ///< of a step, over all processes
  std::optional<std::int64_t> micro_batch_tokens;  ///< none: by memory
  std::int64_t max_tokens = 0;                     ///< of the training, warm-up and all
  std::int64_t warmup_tokens = 0;
  double lr = 0;  ///< highest
  double init_lr = 0;
  double end_lr = 0;
  RateSchedule schedule = RateSchedule::cosine;
  AdamW optimizer;
  std::string eval;
  std::int64_t eval_every = 0;  ///< steps; 0: with every checkpoint of save_every, and at the end
  std::int64_t save_every = 0;  ///< steps; 0: by the clock (SavePace), and at the end
  KeptCheckpoints keep;
  DeviceChoice device;
  std::optional<DType> dtype;  ///< none: bfloat16 on a GPU, else float32
  std::optional<double> pruning;
  bool deterministic = false;
  Recompute recompute = Recompute::none;
  std::uint64_t seed = 0;
  std::optional<DecayTimes> gate_decay_times;  ///< of gates that depend on data, at the beginning; none: f near a half

  [[nodiscard]] std::int64_t rows_per_step() const { return batch_tokens / length; }
  [[nodiscard]] std::int64_t steps() const { return max_tokens / batch_tokens; }
  /// Learning rate of a step from 1, of n = (step - 1) batch_tokens tokens before it: init_lr + (lr - init_lr) n / w in
  /// a warm-up of w tokens; then with t = n - w and T = max_tokens - w
  ///   cosine: lr ((1 - a) (1 + cos(pi t / T)) / 2 + a), a = end_lr / lr;  linear: end_lr + (lr - end_lr) (1 - t / T).
  [[nodiscard]] double learning_rate(std::int64_t step) const;
};

/// The type of a recipe's key.
enum class RecipeValue {
  text,
  texts,    ///< a string or a list of strings
  count,    ///< a whole number from 1
  number,   ///< a finite number from 0
  numbers,  ///< a list of them
  flag,
  config,  ///< the object of config.json, or a path of one
};

struct RecipeKey {
  const char* name;  ///< as in a file: batch_tokens; the option is --batch-tokens
  RecipeValue value;
  const char* type;  ///< as --help shows it
  const char* help;
};
std::span<const RecipeKey> recipe_keys();
/// "--batch-tokens" of "batch_tokens".
std::string option_name(std::string key);

/// One value of a recipe, and where it was said, for messages.
struct RecipeSetting {
  std::string key;
  std::vector<std::string> words;  ///< as typed on the command line; of a flag none
};

/// Puts a recipe together.
/// @param file      of the recipe, JSON; empty: none
/// @param settings  of the command line, which win
/// @param missing   what the command lacks beside: told with what the recipe lacks
/// @throws UsageError naming the option, or Error naming file and key: unknown keys, values that are none, values that
///         do not go together
Recipe read_recipe(const std::filesystem::path& file, std::span<const RecipeSetting> settings,
                   std::vector<std::string> missing = {});

/// The recipe as a file has it: all that was used, `config` as an object, paths absolute.
std::string recipe_text(const Recipe& recipe);

/// SHA-256 of what a training must not change when it goes on (training.json).
std::string recipe_identity(const Recipe& recipe);
/// Whether a training of this identity goes on by the recipe. Earlier versions hashed the keys of a config.json in the
/// order that they have in the training's recipe.json, and with an `init` the folder that they were started in.
bool has_identity(const Recipe& recipe, const std::string& identity);

}  // namespace foxscope
