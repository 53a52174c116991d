#include "backend/eval/atlas/atlas.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <new>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/measures.h"
#include "backend/base/sha256.h"
#include "backend/base/share_of_job.h"
#include "backend/eval/atlas/atlas_window.h"
#include "backend/eval/shared_work.h"
#include "backend/map/statistics/distance_bins.h"
#include "backend/map/team.h"
#include "backend/text/file_bytes.h"
#include "kernels/cuda/device.h"

namespace foxscope {
namespace {

using AtlasClock = std::chrono::steady_clock;

/// The arrays that an atlas needs of a pass.
KeepSet kept_for(std::int64_t rows) {
  if (rows == 0) return {Keep::gates};
  return {Keep::gates, Keep::rows, Keep::query_key, Keep::loss};
}

double seconds_from(AtlasClock::time_point start) {
  return std::chrono::duration<double>(AtlasClock::now() - start).count();
}

/// Packed sums as a row of numbers that is kept.
std::vector<float> row_of(const AtlasSums& sums) {
  const std::vector<std::int64_t> words = sums.packed();
  std::vector<float> numbers(2 * words.size());
  std::memcpy(numbers.data(), words.data(), words.size() * sizeof(words[0]));
  return numbers;
}

/// A model with its sums so far.
struct AtlasWork : PlannedModel {
  AtlasNumbers numbers;
  AtlasSums sums;
  const PlannedModel* first = nullptr;         ///< that this one is compared with
  std::vector<std::int64_t> document_windows;  ///< of each document, those that have a gate
  std::vector<bool> done;                      ///< by window

  [[nodiscard]] bool is_done() const { return std::ranges::find(done, false) == done.end(); }

  /// Adds what a process has made of some windows. A part with a window that is there already is left out.
  void take(std::span<const float> part) {
    std::vector<std::int64_t> words(part.size() / 2);
    std::memcpy(words.data(), part.data(), words.size() * sizeof(words[0]));
    const auto is_new = [this](std::int64_t window) {
      return window >= 0 && window < std::ssize(done) && !done[index_of(window)];
    };
    if (!std::ranges::all_of(AtlasSums::packed_windows(words), is_new)) return;
    sums.add_packed(words);
    for (const std::int64_t window : sums.windows) done.at(index_of(window)) = true;
    sums.close_documents(document_windows);
  }
};

/// Windows of all corpora, one behind the other.
std::optional<WindowSource> choose_sources(const AtlasRequest& request, const AtlasEvents& events, const Job& job) {
  std::optional<WindowSource> all;
  std::set<std::string> known;
  for (const EvaluationInput& input : request.inputs) {
    auto source = choose_source(input, request.models.front(), events.note, job);
    if (!source) return std::nullopt;
    for (const WindowDocument& document : source->windows.documents) {
      if (!all || !known.contains(document.sha256)) continue;
      throw Error(
          fmt::format("{}: holds the document {}, as a corpus before it does, which would count twice: leave "
                      "one of them out",
                      source->name, document.name));
    }
    for (const WindowDocument& document : source->windows.documents) known.insert(document.sha256);
    source->name = without_folder(source->name);
    if (!all) {
      all = std::move(source);
      continue;
    }
    all->name += ", " + source->name;
    Windows& windows = all->windows;
    for (Window& window : source->windows.windows) {
      window.document += static_cast<std::int32_t>(windows.documents.size());
      windows.windows.push_back(std::move(window));
    }
    windows.documents.insert(windows.documents.end(), source->windows.documents.begin(),
                             source->windows.documents.end());
    windows.corpus_documents += source->windows.corpus_documents;
    windows.corpus_tokens += source->windows.corpus_tokens;
    windows.room += source->windows.room;
  }
  return all;
}

/// @returns nothing if the job was stopped
/// @param first  of the models; null: this is it
std::optional<AtlasWork> plan(const OpenedModel& model, const WindowSource& source, const AtlasRequest& request,
                              const PlannedModel* first, const Job& job) {
  auto base = plan_model(model, source, job);
  if (!base) return std::nullopt;
  const AtlasNumbers numbers(base->info, request.rows);
  AtlasShape shape{base->info.layers, base->info.heads, base->config.vocabulary_size, request.passages, request.rows};
  shape.numbers = std::ssize(numbers.numbers);
  shape.profiles = std::ssize(numbers.profiles);
  shape.bins = std::ssize(distance_bins(base->table->length));
  const bool alike = first != nullptr && *first->table == *base->table;
  if (alike) shape.first_heads = std::int64_t{first->info.layers} * first->info.heads;
  // The sums, those of windows that are yet to be added, and what is written.
  const double needed = 3.0 * static_cast<double>(AtlasSums::bytes(shape));
  const auto free = static_cast<double>(free_memory(base->device).host);
  if (needed > free) {
    throw Error(
        fmt::format("{}: an atlas of {} heads and {} tokens of the vocabulary needs about {:.1f} GiB of memory, "
                    "and {:.1f} are free: close other programs, or use another machine",
                    base->request.name, shape.head_count(), shape.vocabulary, needed / (1 << 30), free / (1 << 30)));
  }
  AtlasWork planned{std::move(*base), numbers, AtlasSums(shape), alike ? first : nullptr, {}, {}};
  planned.done.assign(planned.windows.windows.size(), false);
  for (std::size_t n = 0; n < planned.done.size(); ++n) {
    const Window& window = planned.windows.windows[n];
    planned.document_windows.resize(
        std::max(planned.document_windows.size(), static_cast<std::size_t>(window.document) + 1));
    // One token has no gate that F is made of.
    planned.done[n] = window.ids.size() < 2;
    if (!planned.done[n]) ++planned.document_windows[index_of(window.document)];
  }
  if (planned.is_done()) {
    throw Error(fmt::format("{}: {} has windows of one token, whose gate is in no F: use a larger --length",
                            planned.request.name, source.name));
  }
  return planned;
}

/// Bytes that are kept in a second, until it has been measured.
constexpr double kKeptBytesPerSecond = 1e9;

/// The work on one model.
class AtlasModelWork {
 public:
  AtlasModelWork(AtlasWork& model, std::uint32_t index, std::uint64_t seed, SharedWork& work, const AtlasEvents& events,
                 const Job& job)
      : model_(model),
        index_(index),
        seed_(seed),
        work_(work),
        events_(events),
        job_(job),
        keep_(kept_for(model.sums.shape().rows)),
        made_(model.sums.shape()),
        keep_seconds_(static_cast<double>(AtlasSums::bytes(model.sums.shape())) / kKeptBytesPerSecond) {}

  /// @returns false if the job was stopped
  bool run() {
    work_.agree_on(model_.done);
    if (model_.is_done()) return true;
    const RunNeeds needs = model_.needs(keep_);
    const FreeMemory free = free_memory(model_.device);
    memory_left(needs, model_.table->length, free, memory_user(model_));
    const std::int64_t at_once = batch_tokens(needs, free);
    batches_ = window_batches(model_, work_.least(static_cast<std::size_t>(at_once)), model_.done);
    if (model_.sums.shape().rows != 0) {
      place_ = QueryKeyPlace(needs, std::max(model_.table->length, at_once), free, memory_user(model_),
                             kernel_gpu(model_.device));
    }
    for (const std::vector<std::size_t>& batch : batches_) tokens_ += tokens_of(batch);
    const auto lm = model_.load(job_);
    if (!lm) return false;
    if (model_.first != nullptr) {
      first_ = model_.first->load(job_);
      if (!first_) return false;
    }
    gates_ = device_gates(needs, free, at_once);
    started_ = kept_ = AtlasClock::now();
    // The heads of a batch are looked at while the GPU reads the next one: batch_tokens leaves room for both.
    const bool beside = model_.device.cuda && model_.table->length <= at_once;
    std::future<bool> before;
    const auto added = [&] { return !before.valid() || before.get(); };
    const auto end_early = [&] {
      keep();
      return false;
    };
    for (std::size_t batch = work_.next(index_); batch < batches_.size(); batch = work_.next(index_)) {
      // Batches go to processes in their order.
      while (given_ < batch) tokens_given_ += tokens_of(batches_[given_++]);
      auto passes = job_.stopped() ? nullptr : read_windows(*lm, batches_[batch]);
      if (!added() || passes == nullptr) return end_early();
      if (is_time()) keep();
      const auto add = [this, beside, read = std::shared_ptr<Passes>(std::move(passes))] {
        return add_windows(*read, beside ? nullptr : job_.executor);
      };
      before = std::async(beside ? std::launch::async : std::launch::deferred, add);
      if (!beside && !added()) return end_early();
    }
    if (!added()) return end_early();
    if (events_.read && done_tokens_ > 0) events_.read(model_.request.name, done_tokens_, seconds_from(started_));
    keep();
    return work_.collect([this] { return model_.is_done(); }, job_);
  }

 private:
  [[nodiscard]] std::int64_t tokens_of(const std::vector<std::size_t>& batch) const {
    return std::ssize(batch) * std::ssize(model_.windows.windows[batch.front()].ids);
  }

  /// A GPU makes the sums of gates where it has room for them beside passes, and what is kept of two of them.
  /// @param at_once  tokens that go through the model together, if one window alone is not longer
  [[nodiscard]] std::unique_ptr<DeviceGates> device_gates(const RunNeeds& needs, const FreeMemory& free,
                                                          std::int64_t at_once) const {
    const std::optional<int> gpu = kernel_gpu(model_.device);
    if (!gpu || !needs.gpu || !forgets(model_.info)) return nullptr;
    const std::int64_t longest = model_.table->length;
    const std::int64_t tokens = std::max(longest, at_once);
    const std::int64_t room = memory_left(needs, tokens, free, memory_user(model_)).gpu;
    if (DeviceGates::bytes(model_.sums.shape(), longest) > room - 2 * tokens * needs.gpu->stored_per_token)
      return nullptr;
    try {
      auto gates = std::make_unique<DeviceGates>(model_.sums.shape(), model_.info,
                                                 model_.first == nullptr ? nullptr : &model_.first->info, gpu);
      gates->reserve(index_of(tokens / longest), longest);
      return gates;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  /// Keeping takes at most a twentieth of the time, and happens when what could be lost is a tenth of the work.
  [[nodiscard]] bool is_time() const {
    if (gates_ && gates_->positions() >= DeviceGates::kMostPositions) return true;
    const double since = seconds_from(kept_);
    return since >= 20 * keep_seconds_ && since >= 0.1 * seconds_from(started_);
  }

  /// Lets the windows since the last time be part of the work so far.
  void keep() {
    if (made_.windows.empty()) return;
    const auto start = AtlasClock::now();
    if (gates_) gates_->take(made_);
    work_.add(index_, parts_++, row_of(made_));
    made_.clear();
    kept_ = AtlasClock::now();
    keep_seconds_ = seconds_from(start);
  }

  /// The passes of the model, and of the one that it is compared with, over some windows.
  struct Passes {
    std::vector<std::size_t> windows;
    WindowPass own;
    std::optional<WindowPass> first;
  };

  /// @returns null if the job was stopped
  std::unique_ptr<Passes> read_windows(CausalLM& lm, const std::vector<std::size_t>& windows) {
    const std::int64_t tokens = tokens_of(windows);
    auto pass = forward_windows(model_, lm, windows, keep_, place_,
                                share_of_job(job_, {tokens_given_, tokens_, "tokens", "reading heads"}, tokens));
    if (!pass) return nullptr;
    auto passes = std::make_unique<Passes>(Passes{windows, std::move(*pass), {}});
    if (first_) {
      passes->first =
          forward_windows(*model_.first, *first_, windows, keep_, place_, Job{job_.stop, {}, job_.executor});
      if (!passes->first) return nullptr;
    }
    done_tokens_ += tokens;
    return passes;
  }

  /// @param executor  of the work; null: threads of its own
  /// @returns false if the job was stopped
  bool add_windows(Passes& passes, kernels::Executor* executor) {
    const Job own{job_.stop, {}, executor};
    Team team(own);
    const Job quiet{job_.stop, {}, team.executor()};
    std::vector<AtlasWindow> windows(passes.windows.size());
    const auto count = std::ssize(windows);
    const auto prepare = [&](std::int64_t task, int /*thread*/) {
      const std::size_t n = index_of(task);
      const Window& window = model_.windows.windows[passes.windows[n]];
      auto read = std::make_shared<TokenTable>();
      read->id.assign(window.ids.begin(), window.ids.end());
      read->input_id = input_ids(window.ids, model_.bos_id);
      AtlasWindow& of = windows[n];
      of.number = static_cast<std::int64_t>(passes.windows[n]);
      of.document = window.document;
      of.key = window_key(seed_, window.ids);
      of.classes = boundary_classes(window);
      of.run = RunOnDevice(passes.own.recorders[n].finish(nullptr, read, place_.gpu()));
      if (passes.first) of.first = RunOnDevice(passes.first->recorders[n].finish(nullptr, read, place_.gpu()));
    };
    try {
      if (team.run({"reading windows", "windows", count}, count, prepare) &&
          foxscope::add_windows(windows, model_.numbers, quiet, gates_.get(), memory_, made_)) {
        return true;
      }
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", model_.request.name, error.what()));
    }
    // Sums with a part of a window are of no use.
    made_.clear();
    gates_.reset();
    return false;
  }

  AtlasWork& model_;
  std::uint32_t index_;
  std::uint64_t seed_;
  SharedWork& work_;
  const AtlasEvents& events_;
  const Job& job_;
  KeepSet keep_;
  kernels::cuda::KeptBuffers buffers_;  ///< of the windows before, for those to come
  QueryKeyPlace place_;
  std::shared_ptr<CausalLM> first_;  ///< the first model; null: this one is not compared with it
  WindowMemory memory_;
  std::unique_ptr<DeviceGates> gates_;  ///< null: processors make the sums of gates
  AtlasSums made_;                      ///< of windows that are not kept yet
  std::uint32_t parts_ = 0;
  std::vector<std::vector<std::size_t>> batches_;  ///< indices of windows
  std::int64_t tokens_ = 0;                        ///< of all of them
  std::size_t given_ = 0;                          ///< batches before this process's, given to any process
  std::int64_t tokens_given_ = 0;                  ///< of these
  std::int64_t done_tokens_ = 0;                   ///< of this process
  AtlasClock::time_point started_;
  AtlasClock::time_point kept_;
  double keep_seconds_;  ///< that keeping took last time
};

/// The digest of the files that cut a text into tokens.
std::string tokenizer_sha256(const std::filesystem::path& folder) {
  Sha256 sum;
  for (const char* name : kTokenizerFiles) {
    const std::filesystem::path file = folder / name;
    // The other two name special tokens.
    if (std::string_view(name) == "tokenizer_config.json") break;
    if (!std::filesystem::exists(file)) continue;
    const std::string bytes = read_file_bytes(file, "tokenizer", largest_vocabulary_file);
    sum.update(std::as_bytes(std::span(bytes)));
    if (std::string_view(name) == "tokenizer.json") break;  // the rest is not read then
  }
  return sum.finish();
}

AtlasModel finished(AtlasWork&& model, bool text) {
  AtlasModel result{model.info, model.table, model.bos_id, std::move(model.numbers), std::move(model.sums), {}};
  if (!text) return result;
  result.tokenizer_sha256 = tokenizer_sha256(model.folder);
  const Tokenizer& tokenizer = model.tokenizer();
  for (const std::int32_t token : atlas_tokens(result.sums)) {
    result.token_strings.emplace_back(tokenizer.token_bytes(token));
  }
  return result;
}

}  // namespace

std::optional<Atlas> evaluate_atlas(const AtlasRequest& request, const AtlasEvents& events, const Job& job,
                                    Processes* processes) {
  const auto source = choose_sources(request, events, job);
  if (!source) return std::nullopt;
  std::vector<AtlasWork> models;
  models.reserve(request.models.size());  // Later ones point at the first.
  for (const OpenedModel& model : request.models) {
    auto planned = plan(model, *source, request, models.empty() ? nullptr : &models.front(), job);
    if (!planned) return std::nullopt;
    models.push_back(std::move(*planned));
  }
  const EvaluationInput& first = request.inputs.front();
  const std::uint64_t seed = first.windows.seed;
  std::string facts = fmt::format("eval atlas, sums of {} and {} bits\nseed {}\n{} passages\n{} rows\n",
                                  kTokenLogGateBits, kMassBits, seed, request.passages, request.rows);
  for (const AtlasWork& model : models) facts += model_facts(model);
  require_same(processes, facts);
  std::string all = facts;
  for (const AtlasWork& model : models) all += fmt::format("device {}\n", model.info.device);
  SharedWork work(
      processes, {request.output, sha256(all), request.start_anew, events.note},
      [&](std::uint32_t model, std::uint32_t /*part*/, std::span<const float> numbers) {
        if (model < models.size()) models[model].take(numbers);
      },
      [&](const LossPartial::Found& add) {
        for (std::size_t n = 0; n < models.size(); ++n) {
          if (!models[n].sums.windows.empty()) add(static_cast<std::uint32_t>(n), 0, row_of(models[n].sums));
        }
      });
  if (events.partial && work.kept()) events.partial(*work.kept());
  Atlas atlas;
  for (std::size_t n = 0; n < models.size(); ++n) {
    AtlasWork& model = models[n];
    if (events.model) events.model(model.request.name);
    for (const std::string& note : model.config.notes) {
      if (events.note) events.note(fmt::format("{}: {}", model.request.name, note));
    }
    if (const std::size_t before = model.sums.windows.size(); before > 0 && events.note) {
      events.note(fmt::format("{}: {} of {} windows were read before", model.request.name, before, model.done.size()));
    }
    if (!AtlasModelWork(model, static_cast<std::uint32_t>(n), seed, work, events, job).run()) return std::nullopt;
  }
  if (!work.first()) return atlas;
  for (AtlasWork& model : models) {
    atlas.models.push_back(finished(std::move(model), !source->windows.documents.empty()));
    if (atlas.models.back().forgets() || !events.note) continue;
    events.note(
        fmt::format("{}: no layer forgets: its atlas has no gates, resets, passages of resets and similarity of gates",
                    atlas.models.back().info.name));
  }
  atlas.corpus = describe_corpus(first, *source);
  atlas.corpus.source = source->name;
  return atlas;
}

void finish_atlas(const AtlasRequest& request) {
  std::error_code failed;
  std::filesystem::remove(partial_path(request.output), failed);
}

}  // namespace foxscope
