#include "backend/train/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <future>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/measures.h"
#include "backend/base/sha256.h"
#include "backend/model/forward_library.h"
#include "backend/model/layer/checks.h"
#include "backend/model/session/run_memory.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/model/weights/initial_weights.h"
#include "backend/text/tokenizer.h"
#include "backend/trace/decay_time.h"
#include "backend/train/batch_reader.h"
#include "backend/train/row_documents.h"
#include "backend/train/save_pace.h"
#include "backend/train/training_data.h"
#include "backend/train/training_folder.h"

namespace foxscope {
namespace {

using Clock = std::chrono::steady_clock;

/// More tokens at once make no step faster.
constexpr std::int64_t kMostMicroBatch = 65536;
constexpr std::int64_t kMostCpuMicroBatch = 8192;
/// Held-out rows of an evaluation, spread evenly over the data.
constexpr std::int64_t kEvaluationRows = 96;
/// A loss so far above the mean of the steps before is told of, nats.
constexpr double kLeap = 1.0;
constexpr std::size_t kStepsBefore = 16;
/// Bytes of each parameter in a checkpoint: the weight and its two moments.
constexpr std::int64_t kBytesOfParameter = 12;

/// Lists what several processes must have alike. The contents of files are compared by themselves: their paths may
/// differ.
std::string shared_recipe(const Recipe& recipe) {
  Recipe shared = recipe;
  for (std::string* path : {&shared.init, &shared.tokenizer, &shared.eval}) {
    if (!path->empty()) *path = "/";
  }
  shared.data.clear();
  shared.keep = {};
  shared.device = {};
  shared.micro_batch_tokens.reset();
  shared.recompute = {};
  return recipe_text(shared);
}

/// The model to be trained, and what its tokens mean.
struct Model {
  ModelConfig config;
  std::optional<Checkpoint> checkpoint;  ///< whose weights it begins with; none: they are drawn
  std::filesystem::path tokenizer;       ///< folder; empty: none
  TokenizerFiles tokenizer_files;        ///< what is in it: the folder may be that of a checkpoint that does not stay
  std::int32_t bos = 0;
};

Model open_model(const Recipe& recipe) {
  Model model;
  if (recipe.init.empty()) {
    model.config = ModelConfig::from_json(recipe.config, "config", UnknownKeys::refused);
  } else {
    model.checkpoint = Checkpoint::open(recipe.init);
    model.config = model.checkpoint->config();
  }
  if (model.config.mixture) {
    throw Error(fmt::format("model_type {}: mixtures of experts are not trained", model.config.model_type));
  }
  if (!model.config.is_trained()) {
    throw Error(
        fmt::format("model_type {}: its layers are of several kinds, and of such models only Samba can be trained",
                    model.config.model_type));
  }
  model.tokenizer = recipe.tokenizer;
  if (model.tokenizer.empty() && model.checkpoint && Tokenizer::is_in(model.checkpoint->folder())) {
    model.tokenizer = model.checkpoint->folder();
  }
  std::optional<std::int32_t> bos = model.config.bos_token_id;
  if (!model.tokenizer.empty()) {
    const Tokenizer tokenizer = Tokenizer::load(model.tokenizer);
    if (tokenizer.vocabulary_size() > model.config.vocabulary_size) {
      throw Error(
          fmt::format("{}: has {} tokens, and the model's vocab_size is {}: use the tokenizer that belongs to "
                      "it, or a larger vocab_size",
                      model.tokenizer.string(), tokenizer.vocabulary_size(), model.config.vocabulary_size));
    }
    if (!bos) bos = tokenizer.bos_id();
    model.tokenizer_files = TokenizerFiles::read(model.tokenizer);
  }
  if (!bos || *bos < 0 || *bos >= model.config.vocabulary_size) {
    throw Error(
        "every row is read after a BOS token, and none of the vocabulary is named: set bos_token_id in "
        "config.json");
  }
  model.bos = *bos;
  return model;
}

/// The checkpoint that a training goes on from, and the tokenizer in it, stand for what the training began with.
Recipe to_go_on(Recipe recipe, const TrainingCheckpoint& from) {
  recipe.init = from.folder.string();
  recipe.config.clear();
  if (Tokenizer::is_in(from.folder)) recipe.tokenizer.clear();
  return recipe;
}

std::shared_ptr<const TokenRows> open_rows(const Recipe& recipe, const Model& model,
                                           const std::vector<std::string>& paths, const Job& job) {
  TrainingDataOptions options;
  options.length = recipe.length;
  options.vocabulary = model.config.vocabulary_size;
  if (!recipe.tensor.empty()) options.tensor = recipe.tensor;
  options.texts.tokenizer = model.tokenizer;
  options.texts.bos = model.bos;
  return open_training_data({paths.begin(), paths.end()}, options, job);
}

/// Whether a path is one of these, or lies in a folder that is.
bool lies_in(const std::filesystem::path& path, const std::vector<std::string>& places) {
  std::error_code failed;
  const std::filesystem::path inner = std::filesystem::weakly_canonical(path, failed);
  return std::ranges::any_of(places, [&](const std::string& place) {
    const std::filesystem::path outer = std::filesystem::weakly_canonical(place, failed);
    return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
  });
}

/// Largest number of rows that divides a step, up to a limit; 0: none.
std::int64_t rows_that_divide(std::int64_t rows, std::int64_t most) {
  for (std::int64_t n = std::min(rows, most); n > 0; --n) {
    if (rows % n == 0) return n;
  }
  return 0;
}

/// Rows whose gradients are made together.
/// @throws Error where the memory that is left does not do, with what would
/// @param rows  of a step, of this process
/// @param kept  what was chosen when the training began, 0 where that is not known: another choice would end with other
///              digits
/// @param model  that is trained, which has its weights and moments
std::int64_t choose_micro_rows(const Recipe& recipe, std::int64_t rows, std::int64_t kept, const TrainableModel& model,
                               const Device& device, DType dtype) {
  const ModelConfig& config = model.config();
  const RunNeeds needs = estimate_needs(config, 0, {Keep::saliency}, dtype, device, recipe.recompute);
  const RunMemory& memory = needs.gpu ? *needs.gpu : needs.host;
  const FreeMemory left = free_memory(device);
  const std::int64_t free = std::max<std::int64_t>(0, (device.cuda ? left.gpu : left.host) - model.gradient_bytes());
  const std::int64_t fitting = std::max<std::int64_t>(0, free - memory.fixed) / memory.per_token;
  const std::int64_t best = rows_that_divide(rows, fitting / recipe.length);
  const std::int64_t wanted = std::min(recipe.micro_batch_tokens.value_or(recipe.length), rows * recipe.length);
  if (wanted > fitting) {
    const char* const kind = device.cuda ? "GPU memory" : "memory";
    const std::string remedy = best > 0 ? fmt::format("use --micro-batch-tokens {}", best * recipe.length)
                                        : fmt::format("use rows of --length {} or less, or a smaller model",
                                                      std::max<std::int64_t>(1, fitting));
    throw Error(
        fmt::format("--micro-batch-tokens {}: needs about {:.1f} GiB of {} beside the weights, and {:.1f} GiB are "
                    "free: {}",
                    wanted, gibibytes(memory.fixed + memory.per_token * wanted), kind, gibibytes(free), remedy));
  }
  if (recipe.micro_batch_tokens) return wanted / recipe.length;
  if (kept > 0 && rows % kept == 0 && kept <= fitting / recipe.length) return kept;
  const std::int64_t most = device.cuda ? kMostMicroBatch : kMostCpuMicroBatch;
  return std::min(best, rows_that_divide(rows, std::max<std::int64_t>(1, most / recipe.length)));
}

/// The input ids of rows: BOS, then all labels but the last.
void shift_right(std::span<const std::int32_t> labels, std::int64_t length, std::int32_t bos,
                 std::vector<std::int32_t>& ids) {
  ids.resize(labels.size());
  const auto step = static_cast<std::size_t>(length);
  for (std::size_t row = 0; row < labels.size(); row += step) {
    ids[row] = bos;
    std::copy_n(labels.begin() + static_cast<std::ptrdiff_t>(row), step - 1,
                ids.begin() + static_cast<std::ptrdiff_t>(row) + 1);
  }
}

/// The floating-point operations that a model's training is defined by, of a token: six for every number of a matrix
/// that it passes, for every pair of positions of each head twelve times d, over the causal half, and for every number
/// of a linear mixer's state twelve: it is written and read.
struct TrainingFlops {
  double matrices = 0;
  double attention = 0;

  TrainingFlops(const ModelConfig& config, std::int64_t length) {
    std::int64_t numbers =
        config.vocabulary_size * config.hidden_size;  // the head; rows of the embedding are looked up
    for (const Parameter& parameter : parameters(config)) {
      if (parameter.layer >= 0 && parameter.shape.size() > 1) numbers += parameter.elements();
    }
    for (int layer = 0; layer < config.layers; ++layer) numbers += 2 * config.state_size(layer);
    matrices = 6.0 * static_cast<double>(numbers);
    for (int layer = 0; layer < config.layers; ++layer) {
      if (!config.is_attention(layer)) continue;
      const std::int64_t window = config.attention[index_of(layer)].window_size;
      const std::int64_t seen = window > 0 ? std::min(2 * window, length) : length;
      attention += 12.0 * static_cast<double>(config.query_size()) * static_cast<double>(seen) / 2;
    }
  }
};

class Training {
 public:
  Training(const Recipe& recipe, const std::filesystem::path& output, bool resume, const TrainingEvents& events,
           const Job& job, Processes* processes)
      : recipe_(recipe),
        folder_(output),
        resume_(resume),
        events_(events),
        job_(job),
        processes_(processes),
        from_(resume ? take_up() : std::nullopt),
        model_(open_model(from_ ? to_go_on(recipe, *from_) : recipe)) {}

  std::optional<TrainingResult> run() {
    if (!prepare()) return std::nullopt;
    BatchReader batches(rows_, schedule(),
                        {.first_step = trained_->steps() + 1,
                         .rank = processes_ == nullptr ? 0 : processes_->distributed().rank,
                         .processes = process_count()});
    // Wrong data is reported before anything is written.
    std::optional<TrainingBatch> batch = batches.next(stop_between_steps());
    if (!batch) return std::nullopt;
    if (first()) begin();
    bool stopped = owed_ && !write_measures(saved_);
    for (std::int64_t step = trained_->steps() + 1; !stopped && step <= recipe_.steps(); ++step) {
      if (batch->step != step) batch = read_on([&] { return batches.next(stop_between_steps()); });
      StepRequests asked;
      if (!batch || !take_step(*batch, asked)) break;
      if (saving_.valid() && saving_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish_saving();
      stopped = asked.stop;
      if (has_measures(step)) {
        // Held-out rows are not read once a stop is asked for: they are when the training goes on.
        owed_ = stopped && evaluates(step);
        if (!owed_ && !write_measures(step)) stopped = true;
      }
      if (stopped || asked.save || ends_or_saves(step)) save(step);
    }
    if (trained_->steps() > saved_) save(trained_->steps());
    finish_saving();
    if (trained_->steps() == 0) return std::nullopt;
    const std::vector<TrainingCheckpoint> checkpoints =
        first() ? folder_.checkpoints() : std::vector<TrainingCheckpoint>();
    return TrainingResult{checkpoints.empty() ? folder_.path() : checkpoints.back().folder, trained_->steps(),
                          trained_->steps() == recipe_.steps() && !owed_};
  }

 private:
  [[nodiscard]] bool first() const { return processes_ == nullptr || processes_->first(); }
  [[nodiscard]] int process_count() const { return processes_ == nullptr ? 1 : processes_->distributed().world_size; }

  // The content of evaluation.jsonl depends on the recipe alone, not on when a training was stopped or saved by the
  // clock.
  [[nodiscard]] bool ends_or_saves(std::int64_t step) const {
    return step == recipe_.steps() || (recipe_.save_every > 0 && step % recipe_.save_every == 0);
  }
  [[nodiscard]] bool has_measures(std::int64_t step) const {
    return ends_or_saves(step) || (recipe_.eval_every > 0 && step % recipe_.eval_every == 0);
  }
  [[nodiscard]] bool evaluates(std::int64_t step) const {
    if (!held_out_) return false;
    return recipe_.eval_every == 0 || step == recipe_.steps() || step % recipe_.eval_every == 0;
  }

  /// One of several processes stops where all do: after a step.
  [[nodiscard]] std::stop_token stop_between_steps() const {
    return processes_ == nullptr ? job_.stop : std::stop_token();
  }

  /// Reads data, and saves the steps that are made where it cannot. One of several processes does not: saving is work
  /// of all of them.
  template <typename Read>
  std::invoke_result_t<const Read&> read_on(const Read& read) {
    try {
      return read();
    } catch (const Error& error) {
      if (processes_ != nullptr) throw;
      if (trained_->steps() > saved_) save(trained_->steps());
      throw Error(fmt::format("{}; {}, from which --resume goes on", error.what(), what_stays()));
    }
  }

  void check_divides() const {
    const std::int64_t unit = recipe_.length * process_count();
    if (recipe_.batch_tokens % unit != 0) {
      throw UsageError(
          fmt::format("--batch-tokens {}: {} processes do not get an equal number of rows of {} tokens: "
                      "use a multiple of {}",
                      recipe_.batch_tokens, process_count(), recipe_.length, unit));
    }
    const std::int64_t tokens = recipe_.batch_tokens / process_count();
    if (recipe_.micro_batch_tokens && tokens % std::min(tokens, *recipe_.micro_batch_tokens) != 0) {
      throw UsageError(
          fmt::format("--micro-batch-tokens {}: does not divide the {} tokens of a step that each of {} "
                      "processes reads",
                      *recipe_.micro_batch_tokens, tokens, process_count()));
    }
  }

  /// Processes that go on from different checkpoints, or read other data, would train nobody's model.
  /// @param step  of the checkpoint; 0: none
  void check_same_start(std::int64_t step) const {
    if (processes_ == nullptr) return;
    const std::vector<std::string> steps = processes_->gather(std::to_string(step));
    for (std::size_t rank = 1; rank < steps.size(); ++rank) {
      if (steps[rank] == steps[0]) continue;
      throw Error(
          fmt::format("{}: process {} goes on from step {}, process 0 from step {}: the folder must be the same "
                      "on all nodes",
                      folder_.path().string(), rank, steps[rank], steps[0]));
    }
    require_same(processes_,
                 fmt::format("data {}\nheld-out data {}\nconfig.json {}\nBOS token {}", rows_->fingerprint(),
                             held_out_ ? held_out_->fingerprint() : "none", sha256(model_.config.json), model_.bos));
  }

  bool prepare() {
    require_same(processes_, (resume_ ? "train --resume\n" : "train\n") + shared_recipe(recipe_));
    const Device device = processes_ == nullptr ? Device::of(recipe_.device) : processes_->device();
    const DType dtype = recipe_.dtype.value_or(device.cuda ? DType::bfloat16 : DType::float32);
    check_dtype(dtype, device);
    if (recipe_.length > 0) check_length(recipe_.length, model_.config);
    // One process of a node cuts texts into tokens, the others find them in the cache.
    after_first_of_node(processes_, [&] {
      rows_ = open_rows(recipe_, model_, recipe_.data, job_);
      if (rows_ && !recipe_.eval.empty()) held_out_ = open_rows(recipe_, model_, {recipe_.eval}, job_);
    });
    if (!rows_ || (!recipe_.eval.empty() && !held_out_)) return false;
    static_cast<void>(schedule());  // refuses what does not divide
    check_divides();
    TrainableOptions options;
    options.device = device;
    options.dtype = dtype;
    options.optimizer = recipe_.optimizer;
    options.pruning_tolerance = recipe_.pruning.value_or(TrainableOptions().pruning_tolerance);
    options.deterministic = recipe_.deterministic;
    options.recompute = recipe_.recompute;
    options.processes = processes_;
    const TrainingState state = from_ ? state_of(*from_) : TrainingState();
    check_same_start(from_ ? from_->step : 0);
    if (!load(state, options)) return false;
    const std::int64_t kept = state.micro_batch_tokens / recipe_.length;
    const std::int64_t rows = recipe_.rows_per_step() / process_count();
    micro_rows_ = choose_micro_rows(recipe_, rows, kept, *trained_, device, dtype);
    if (kept > micro_rows_ && rows % kept == 0 && !recipe_.micro_batch_tokens) {
      note(
          fmt::format("micro-batches of {} tokens, not of {} as before: no more memory is free; from here on digits "
                      "may differ",
                      micro_rows_ * recipe_.length, kept * recipe_.length));
    }
    device_ = device;
    dtype_ = dtype;
    return true;
  }

  void begin() {
    if (!resume_) {
      folder_.create(recipe_);
      hold_folder();
    }
    log_ = open_log(folder_.log(), saved_);
    if (log_->kept() < saved_) {
      note(fmt::format("{}: {} of the {} steps before have no line: figures of the training will lack them",
                       folder_.log().string(), saved_ - log_->kept(), saved_));
    }
    if (held_out_ && (lies_in(recipe_.eval, recipe_.data) || held_out_->fingerprint() == rows_->fingerprint())) {
      note(fmt::format("--eval {}: is part of --data, so it is trained on too: its loss says nothing about other texts",
                       recipe_.eval));
    }
    measures_ = open_log(folder_.evaluation(), owed_ ? saved_ - 1 : saved_);
    pace_.emplace(trained_->trained_parameters() * kBytesOfParameter, Clock::now());
    if (events_.start) {
      const auto readings = static_cast<double>(recipe_.steps()) * static_cast<double>(recipe_.rows_per_step());
      events_.start({.data = rows_->description(),
                     .held_out = held_out_ ? held_out_->description() : "",
                     .readings = readings / static_cast<double>(rows_->rows()),
                     .parameters = trained_->trained_parameters(),
                     .steps = recipe_.steps(),
                     .first_step = saved_ + 1,
                     .micro_batch_tokens = micro_rows_ * recipe_.length,
                     .device = device_,
                     .dtype = dtype_,
                     .processes = process_count()});
    }
  }

  [[nodiscard]] RowSchedule schedule() const {
    return RowSchedule({.rows = rows_->rows(),
                        .columns = rows_->columns(),
                        .rows_per_step = recipe_.rows_per_step(),
                        .order = recipe_.order,
                        .seed = recipe_.seed});
  }

  void note(const std::string& text) const {
    if (first() && events_.note) events_.note(text);
  }

  std::unique_ptr<TrainingLog> open_log(const std::filesystem::path& path, std::int64_t last_step) const {
    auto log = std::make_unique<TrainingLog>(path, last_step);
    if (!log->damaged().empty()) {
      note(fmt::format("{}: a line is damaged: this line and all after it are moved to {}", path.string(),
                       log->damaged().filename().string()));
    }
    return log;
  }

  void hold_folder() {
    if (folder_.lock()) return;
    note(fmt::format("{}: its file system has no locks: make sure that no other process trains there",
                     folder_.path().string()));
  }

  /// The checkpoint to go on from, if any. The first process holds the folder before any looks into it: who held it
  /// before may just have saved and removed one.
  std::optional<TrainingCheckpoint> take_up() {
    if (first()) {
      hold_folder();
      folder_.remove_unfinished();
    }
    if (processes_ != nullptr) processes_->gather("");
    const std::vector<TrainingCheckpoint> checkpoints = folder_.checkpoints();
    return checkpoints.empty() ? std::nullopt : std::optional(checkpoints.back());
  }

  [[nodiscard]] TrainingState state_of(const TrainingCheckpoint& last) const {
    TrainingState state = read_training_state(last.folder);
    if (state.step != last.step || state.tokens != state.step * recipe_.batch_tokens) {
      throw Error(fmt::format("{}: training.json names another step: delete the folder to go on from an earlier one",
                              last.folder.string()));
    }
    if (!has_identity(recipe_, state.recipe)) {
      throw Error(
          fmt::format("{}: was changed since {} was written: put it back, or begin a training of its own with "
                      "--init",
                      folder_.recipe().string(), last.folder.filename().string()));
    }
    if (state.data != rows_->fingerprint()) {
      throw Error(fmt::format("{}: are not the data that {} was trained on: go on with the same data",
                              fmt::join(recipe_.data, ", "), last.folder.filename().string()));
    }
    const bool gated = model_.config.gated();
    const auto gates = static_cast<std::size_t>(std::int64_t{model_.config.layers} * model_.config.heads);
    for (const CurveSums& sums : state.curves) {
      if (sums.loss.size() == static_cast<std::size_t>(recipe_.length) && sums.log_gate.size() == (gated ? gates : 0) &&
          sums.sequences >= 0) {
        continue;
      }
      throw Error(
          fmt::format("{}: training.json has curves of another model: delete the folder to go on from an "
                      "earlier one",
                      last.folder.string()));
    }
    return state;
  }

  /// @param state  of the checkpoint that the model was opened from, if it goes on
  bool load(const TrainingState& state, const TrainableOptions& options) {
    if (!model_.checkpoint) {
      trained_ = TrainableModel::make(
          model_.config, InitialWeights(model_.config, recipe_.seed, recipe_.gate_decay_times), options, job_);
      return trained_ != nullptr;
    }
    trained_ = TrainableModel::make(model_.config, CheckpointSource(*model_.checkpoint), options, job_);
    model_.checkpoint.reset();  // its files may be removed from here on
    if (!trained_ || !from_) return trained_ != nullptr;
    saved_ = state.step;
    owed_ = has_measures(saved_) && !state.curves.empty();
    const MomentSource first(from_->folder, model_.config, TrainingPart::first_moment);
    const MomentSource second(from_->folder, model_.config, TrainingPart::second_moment);
    if (!trained_->restore(state.step, first, second, job_)) return false;
    trained_->restore_curves(state.curves);
    return true;
  }

  /// @returns false if the job was stopped within it: the step was not made
  /// @param asked  set to what this or another process wants after it
  bool take_step(const TrainingBatch& batch, StepRequests& asked) {
    const auto start = Clock::now();
    const std::int64_t micro_tokens = micro_rows_ * recipe_.length;
    shift_right(batch.labels, recipe_.length, model_.bos, ids_);
    const auto tokens = static_cast<std::int64_t>(batch.labels.size());
    for (std::int64_t first = 0; first < tokens; first += micro_tokens) {
      const auto part = [&](std::span<const std::int32_t> all) {
        return all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(micro_tokens));
      };
      if (!trained_->add_gradients({.batch = micro_rows_,
                                    .length = recipe_.length,
                                    .input_ids = part(ids_),
                                    .labels = part(batch.labels),
                                    .loss_weight = 1.0 / static_cast<double>(recipe_.batch_tokens),
                                    .last = first + micro_tokens == tokens},
                                   Job{{}, {}, job_.executor})) {
        return false;
      }
    }
    TrainingStep line;
    line.step = batch.step;
    line.tokens = batch.step * recipe_.batch_tokens;
    line.learning_rate = recipe_.learning_rate(batch.step);
    // When it is time to be saved the first process says: the clocks of others may differ.
    const bool save = first() && recipe_.save_every == 0 && !saving_.valid() && pace_->due(Clock::now());
    const TrainableModel::StepReport report = trained_->step(line.learning_rate, {job_.stopped(), save});
    asked = report.asked;
    line.loss = report.loss;
    line.gradient_norm = report.gradient_norm;
    if (!report.stepped) fail_not_finite(batch.step, report);
    if (!first()) return true;
    tell_leap(line);
    line.seconds = seconds_since(start);
    line.tokens_per_second = static_cast<double>(recipe_.batch_tokens) / line.seconds;
    set_utilisation(report, line);
    folder_.require_lock();
    log_->add(line);
    if (events_.step) events_.step(line, recipe_.steps(), trained_->peak_device_memory());
    return true;
  }

  [[nodiscard]] std::string rows_of(std::int64_t step) const {
    constexpr std::int64_t kNamed = 8;
    const RowSchedule order = schedule();
    std::vector<std::int64_t> rows;
    for (std::int64_t place = 0; place < std::min(kNamed, recipe_.rows_per_step()); ++place) {
      rows.push_back(order.row(step, place));
    }
    return fmt::format("rows {}{} of the data", fmt::join(rows, ", "), recipe_.rows_per_step() > kNamed ? ", ..." : "");
  }

  /// Names the last checkpoint, for a message of a training that cannot go on.
  std::string what_stays() {
    finish_saving();
    const std::vector<TrainingCheckpoint> checkpoints = folder_.checkpoints();
    return checkpoints.empty() ? "no checkpoint was saved"
                               : fmt::format("{} stays", checkpoints.back().folder.filename().string());
  }

  [[noreturn]] void fail_not_finite(std::int64_t step, const TrainableModel::StepReport& report) {
    throw Error(
        fmt::format("step {}: the {} is {} ({}): no weight was changed, and {}; try a lower --lr, a longer "
                    "--warmup-tokens or a smaller --clip",
                    step, std::isfinite(report.loss) ? "gradient's norm" : "loss",
                    std::isfinite(report.loss) ? report.gradient_norm : report.loss, rows_of(step), what_stays()));
  }

  void tell_leap(const TrainingStep& line) {
    if (before_.size() == kStepsBefore && events_.note) {
      double mean = 0;
      for (const double loss : before_) mean += loss / static_cast<double>(kStepsBefore);
      if (line.loss > mean + kLeap) {
        events_.note(fmt::format("step {}: the loss leaps to {:.3f}, from {:.3f} in the {} steps before ({})",
                                 line.step, line.loss, mean, kStepsBefore, rows_of(line.step)));
      }
    }
    before_.push_back(line.loss);
    if (before_.size() > kStepsBefore) before_.pop_front();
  }

  void set_utilisation(const TrainableModel::StepReport& report, TrainingStep& line) const {
    if (report.attention_blocks > 0) {
      line.skipped_blocks = static_cast<double>(report.skipped_blocks) / static_cast<double>(report.attention_blocks);
    }
    const double peak = trained_->peak_flops();
    if (!(peak > 0)) return;
    const TrainingFlops flops(model_.config, recipe_.length);
    line.mfu = line.tokens_per_second * (flops.matrices + flops.attention) / peak;
    line.mfu_pruned =
        line.tokens_per_second * (flops.matrices + flops.attention * (1 - line.skipped_blocks.value_or(0))) / peak;
  }

  /// Writes a step's line of evaluation.jsonl.
  /// @returns false if the job, in any process, was stopped while it evaluated: the line is owed then
  bool write_measures(std::int64_t step) {
    TrainingMeasures measures;
    measures.step = step;
    measures.tokens = step * recipe_.batch_tokens;
    owed_ = evaluates(step) && !evaluate_held_out(measures);
    if (owed_) return false;
    const TrainableModel::Curves curves = trained_->take_curves();
    if (curves.sequences > 0) measures.training = bin_losses(curves.loss);
    measures.layers = model_.config.layers;
    measures.heads = model_.config.heads;
    for (const double mean : curves.mean_log_gate) measures.decay_times.push_back(decay_time(mean));
    if (!first()) return true;
    measures_->add(measures);
    if (events_.measured) events_.measured(measures);
    return true;
  }

  /// @returns false if the job, in any process, was stopped
  bool evaluate_held_out(TrainingMeasures& measures) {
    const std::int64_t rows = std::min(kEvaluationRows, held_out_->rows());
    const std::int64_t length = recipe_.length;
    // Losses by position, then of each part of a row that is of one document, then how many processes were stopped: one
    // sum over the processes.
    const std::vector<DocumentPart>& parts = held_out_parts(rows);
    std::vector<double> sums(static_cast<std::size_t>(length) + parts.size() + 1);
    const std::span<double> by_position = std::span(sums).first(static_cast<std::size_t>(length));
    const std::span<double> of_parts = std::span(sums).subspan(by_position.size(), parts.size());
    double& stopped = sums.back();
    std::vector<std::int32_t> labels;
    const std::int64_t rank = processes_ == nullptr ? 0 : processes_->distributed().rank;
    const std::int64_t end = rows * (rank + 1) / process_count();
    for (std::int64_t first = rows * rank / process_count(); first < end && stopped == 0; first += micro_rows_) {
      const std::int64_t count = std::min(micro_rows_, end - first);
      labels.resize(static_cast<std::size_t>(count * length));
      for (std::int64_t n = 0; n < count; ++n) {
        const auto row =
            std::span(labels).subspan(static_cast<std::size_t>(n * length), static_cast<std::size_t>(length));
        read_on([&] { held_out_->read(held_out_row(first + n, rows), row); });
      }
      shift_right(labels, length, model_.bos, ids_);
      const std::vector<double> losses = trained_->losses({count, length, ids_, labels, 0}, job_);
      if (losses.empty()) {
        stopped = 1;
        break;
      }
      for (std::size_t part = 0; part < parts.size(); ++part) {
        const DocumentPart& of = parts[part];
        if (of.row < first || of.row >= first + count) continue;
        for (std::int64_t position = of.begin; position < of.end; ++position) {
          const double loss = losses[index_of((of.row - first) * length + position)];
          of_parts[part] += loss;
          by_position[index_of(position)] += loss / static_cast<double>(rows);
        }
      }
      job_.tell({first + count, end, "rows", "evaluation"});
    }
    if (processes_ != nullptr) processes_->add_up(sums);
    if (stopped > 0) return false;
    const Estimate estimate = held_out_estimate(parts, of_parts);
    measures.loss = estimate.value;
    if (std::isfinite(estimate.error)) measures.loss_error = estimate.error;
    measures.error_over = estimate.over;
    measures.rows = rows;
    measures.held_out = bin_losses({by_position.begin(), by_position.end()});
    return true;
  }

  /// The row at a place among `rows` rows that are spread evenly over the held-out data.
  [[nodiscard]] std::int64_t held_out_row(std::int64_t place, std::int64_t rows) const {
    return place * held_out_->rows() / rows;
  }

  /// The documents of the held-out rows, which are found once.
  const std::vector<DocumentPart>& held_out_parts(std::int64_t rows) {
    if (!held_out_parts_.empty()) return held_out_parts_;
    std::vector<std::int64_t> chosen;
    for (std::int64_t place = 0; place < rows; ++place) chosen.push_back(held_out_row(place, rows));
    held_out_parts_ = read_on([&] { return document_parts(*held_out_, chosen, model_.bos); });
    return held_out_parts_;
  }

  /// Copies what is to be saved, and writes it while the training goes on.
  void save(std::int64_t step) {
    const auto start = Clock::now();
    finish_saving();
    if (!trained_->finite()) {
      throw Error(
          fmt::format("step {}: a weight is not a finite number: the step is not saved, and {}; try a lower --lr, a "
                      "longer --warmup-tokens or a larger --eps",
                      step, what_stays()));
    }
    saved_ = step;
    std::shared_ptr<const TrainingSnapshot> snapshot = trained_->snapshot();
    if (!first()) return;
    const TrainingState state{step,
                              step * recipe_.batch_tokens,
                              rows_->fingerprint(),
                              recipe_identity(recipe_),
                              micro_rows_ * recipe_.length,
                              snapshot->curves()};
    const double copied = seconds_since(start);
    saving_ = std::async(std::launch::async, [this, snapshot = std::move(snapshot), state, copied] {
      const auto begin = Clock::now();
      folder_.save(model_.config, *snapshot, state, model_.tokenizer_files, recipe_.keep);
      return copied + seconds_since(begin);
    });
  }

  /// @throws what the writing of the last checkpoint met
  void finish_saving() {
    if (!saving_.valid()) return;
    pace_->saved(Clock::now(), SavePace::Seconds(saving_.get()));
    if (events_.saved) events_.saved(folder_.checkpoints().back().folder);
  }

  const Recipe& recipe_;
  TrainingFolder folder_;
  bool resume_;
  const TrainingEvents& events_;
  const Job& job_;
  Processes* processes_;                    ///< null: this one trains alone
  std::optional<TrainingCheckpoint> from_;  ///< that it goes on from
  Model model_;
  std::shared_ptr<const TokenRows> rows_;
  std::shared_ptr<const TokenRows> held_out_;
  std::vector<DocumentPart> held_out_parts_;  ///< empty until they are first asked for
  std::unique_ptr<TrainableModel> trained_;
  std::int64_t micro_rows_ = 1;
  Device device_;
  DType dtype_ = DType::float32;
  std::unique_ptr<TrainingLog> log_;
  std::unique_ptr<TrainingLog> measures_;
  std::vector<std::int32_t> ids_;
  std::deque<double> before_;  ///< losses of the last steps
  std::optional<SavePace> pace_;
  std::int64_t saved_ = 0;      ///< step of the last checkpoint that was begun
  bool owed_ = false;           ///< the line of the last step is not in evaluation.jsonl: a stop came before
  std::future<double> saving_;  ///< seconds that it took; the last member: it ends before the others go
};

}  // namespace

bool is_same_training(const Recipe& one, const Recipe& other) { return recipe_identity(one) == recipe_identity(other); }

std::optional<TrainingResult> train(const Recipe& recipe, const std::filesystem::path& output, bool resume,
                                    const TrainingEvents& events, const Job& job, Processes* processes) {
  return Training(recipe, output, resume, events, job, processes).run();
}

}  // namespace foxscope
