#include "backend/eval/needle/needle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/eval/needle/needle_plan.h"
#include "backend/eval/planned_model.h"
#include "backend/eval/shared_work.h"
#include "backend/map/map.h"
#include "backend/model/session/decode_state.h"

namespace foxscope {
namespace {

/// The result of one cell, as a row of numbers: found, log-probability, mass and gate of every head, ids.
struct Cell {
  bool found = false;
  float log_probability = 0;
  std::vector<float> mass;  ///< [layers * H]; NaN for a head that its layer does not have
  std::vector<float> gate;
  std::vector<std::int32_t> ids;  ///< of the continuation

  [[nodiscard]] std::vector<float> numbers() const {
    std::vector<float> row = {found ? 1.0F : 0.0F, log_probability};
    row.insert(row.end(), mass.begin(), mass.end());
    row.insert(row.end(), gate.begin(), gate.end());
    // Ids stay below 2^24, where float32 still counts one by one.
    for (const std::int32_t id : ids) row.push_back(static_cast<float>(id));
    return row;
  }

  /// @param heads  layers * H
  static Cell from_numbers(std::span<const float> row, std::size_t heads) {
    Cell cell{row[0] != 0, row[1], {}, {}, {}};
    cell.mass.assign(row.begin() + 2, row.begin() + static_cast<std::ptrdiff_t>(2 + heads));
    cell.gate.assign(row.begin() + static_cast<std::ptrdiff_t>(2 + heads),
                     row.begin() + static_cast<std::ptrdiff_t>(2 + 2 * heads));
    for (const float id : row.subspan(2 + 2 * heads)) cell.ids.push_back(static_cast<std::int32_t>(id));
    return cell;
  }
};

std::string text_of(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  std::vector<std::int32_t> known;
  for (const std::int32_t id : ids) {
    if (id < tokenizer.vocabulary_size()) known.push_back(id);
  }
  std::string text = replace_invalid_utf8(tokenizer.decode_within(known));
  // A variable-length string of HDF5 ends at NUL.
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

std::size_t head_count(const PlannedNeedle& model) {
  return static_cast<std::size_t>(model.result.info.layers) * static_cast<std::size_t>(model.result.info.heads);
}

std::size_t record_size(const PlannedNeedle& model) {
  return 2 + 2 * head_count(model) + model.parts.answer.size() + static_cast<std::size_t>(kContinuationSlack);
}

void put(PlannedNeedle& model, std::size_t index, const Cell& cell) {
  NeedleModel& result = model.result;
  const std::size_t first = index * head_count(model);
  result.found[index] = cell.found ? 1 : 0;
  result.answer_log_probability[index] = cell.log_probability;
  std::copy(cell.mass.begin(), cell.mass.end(), result.needle_mass.begin() + static_cast<std::ptrdiff_t>(first));
  std::copy(cell.gate.begin(), cell.gate.end(), result.needle_gate.begin() + static_cast<std::ptrdiff_t>(first));
  result.continuation[index] = text_of(model.tokenizer(), cell.ids);
  model.cell_done[index] = true;
}

/// The work on one model.
class NeedleWork {
 public:
  NeedleWork(const NeedleRequest& request, PlannedNeedle& model, std::uint32_t index, SharedWork& work, const Job& job)
      : request_(request), model_(model), index_(index), work_(work), job_(job) {}

  /// @returns false if the job was stopped
  bool run() {
    work_.agree_on(model_.cell_done);
    work_.agree_on(model_.baseline_done);
    plan_pieces(work_.least(static_cast<std::size_t>(model_.tokens_at_once)));
    if (pieces_.empty()) return true;
    lm_ = model_.load(job_);
    if (!lm_) return false;
    for (std::size_t piece = work_.next(index_); piece < pieces_.size(); piece = work_.next(index_)) {
      if (!run_prompts(pieces_[piece].length, pieces_[piece].depths)) return false;
    }
    return work_.collect([this] { return is_done(); }, job_);
  }

 private:
  /// Prompts of one length that are read together.
  struct Piece {
    std::size_t length = 0;  ///< p
    std::vector<std::optional<std::size_t>> depths;
  };

  [[nodiscard]] bool is_done() const {
    const auto all = [](const std::vector<bool>& done) { return std::ranges::find(done, false) == done.end(); };
    return all(model_.cell_done) && all(model_.baseline_done);
  }

  void plan_pieces(std::size_t tokens_at_once) {
    for (std::size_t p = 0; p < request_.lengths.size(); ++p) {
      const std::vector<std::optional<std::size_t>> left = prompts_left(p);
      const auto length = static_cast<std::size_t>(model_.result.position[p] + 1);
      const std::size_t most = std::max<std::size_t>(1, tokens_at_once / length);
      total_ += static_cast<std::int64_t>(left.size() * length);
      for (std::size_t first = 0; first < left.size(); first += most) {
        const auto part = std::span(left).subspan(first, std::min(most, left.size() - first));
        pieces_.push_back({p, {part.begin(), part.end()}});
      }
    }
  }

  /// A prompt that is being read.
  struct Reading {
    std::optional<std::size_t> depth;  ///< none: the baseline, without the needle
    NeedlePrompt prompt;
    std::vector<std::int32_t> labels;
    std::unique_ptr<Recorder> recorder;
  };

  /// Depths whose prompts of one length are not done.
  [[nodiscard]] std::vector<std::optional<std::size_t>> prompts_left(std::size_t p) const {
    std::vector<std::optional<std::size_t>> left;
    if (!model_.baseline_done[p]) left.emplace_back();
    for (std::size_t q = 0; q < request_.depths.size(); ++q) {
      if (!model_.cell_done[p * request_.depths.size() + q]) left.emplace_back(q);
    }
    return left;
  }

  [[nodiscard]] Reading prepare(std::size_t p, std::optional<std::size_t> depth) const {
    const std::int64_t length = request_.lengths[p];
    if (!depth) return {depth, plain_prompt(model_.parts, model_.bos_id, length), {}, nullptr};
    Reading reading{depth, needle_prompt(model_.parts, model_.bos_id, length, request_.depths[*depth]), {}, nullptr};
    reading.labels.assign(reading.prompt.input_ids.begin() + 1, reading.prompt.input_ids.end());
    reading.labels.push_back(model_.parts.answer.front());
    TraceInfo info = model_.result.info;
    info.length = std::ssize(reading.labels);
    reading.recorder = std::make_unique<Recorder>(info, kNeedleKept, model_.place.make_store(info, kNeedleKept));
    return reading;
  }

  /// Prompts of one length in one pass.
  bool run_prompts(std::size_t p, std::span<const std::optional<std::size_t>> depths) {
    std::vector<Reading> readings;
    for (const auto& depth : depths) readings.push_back(prepare(p, depth));
    std::vector<PromptRequest> prompts;
    prompts.reserve(readings.size());
    for (const Reading& reading : readings) {
      prompts.push_back({model_.options, reading.prompt.input_ids, reading.recorder.get(), reading.labels});
    }
    const std::int64_t tokens = std::ssize(readings) * std::ssize(readings.front().prompt.input_ids);
    Job job = job_;
    job.report = [this, tokens](const Progress& progress) {
      const std::int64_t inside = progress.total > 0 ? tokens * progress.done / progress.total : 0;
      job_.tell({done_ + inside, total_, "tokens", "needle"});
    };
    const auto decode_states = lm_->prefill(prompts, job);
    if (decode_states.empty()) return false;
    done_ += tokens;
    for (std::size_t n = 0; n < readings.size(); ++n) {
      if (!finish(p, readings[n], *decode_states[n])) return false;
    }
    return true;
  }

  /// @param continuation  of the prompt, which has been read
  bool finish(std::size_t p, Reading& reading, DecodeState& decode_state) {
    const auto cells = static_cast<std::uint32_t>(model_.cell_done.size());
    if (!reading.depth) {
      const float mean = score(decode_state);
      work_.add(index_, cells + static_cast<std::uint32_t>(p), {&mean, 1});
      return true;
    }
    Cell cell;
    if (!measure_heads(reading.recorder->finish(nullptr, nullptr, model_.place.gpu()), reading.prompt, cell))
      return false;
    reading.recorder.reset();
    cell.log_probability = score(*decode_state.copy());
    if (!continue_greedily(decode_state, cell)) return false;
    const std::size_t index = p * request_.depths.size() + *reading.depth;
    work_.add(index_, static_cast<std::uint32_t>(index), cell.numbers());
    return true;
  }

  /// Mean log-probability of the answer's tokens.
  [[nodiscard]] float score(DecodeState& decode_state) const {
    double sum = 0;
    const TextScores scores = score_ending(decode_state, model_.parts.answer);
    for (const ScoredPosition& token : scores) sum += static_cast<double>(token.log_probability);
    const auto mean = static_cast<float>(sum / static_cast<double>(scores.size()));
    if (!std::isfinite(mean)) {
      throw Error(fmt::format("{}: the answer's log-probability is {}: check the weights and --dtype",
                              model_.request.name, mean));
    }
    return mean;
  }

  /// Attention of the last position on the needle, and the gate to the needle's last token.
  bool measure_heads(const std::shared_ptr<const Trace>& trace, const NeedlePrompt& prompt, Cell& cell) const {
    const TraceInfo& info = trace->info();
    const std::int64_t last = info.length - 1;
    MapRequest map;
    map.rows = {last, info.length};
    map.columns = {prompt.needle_begin, prompt.needle_end};
    map.pixel_rows = 1;
    map.pixel_columns = map.columns.size();
    const std::size_t places = head_count(model_);
    cell.mass.assign(places, std::numeric_limits<float>::quiet_NaN());
    cell.gate.assign(places, std::numeric_limits<float>::quiet_NaN());
    for (int layer = 0; layer < info.layers; ++layer) {
      for (int head = 0; head < info.mixer(layer).heads; ++head) {
        map.head = {trace, layer, head};
        const auto row = compute_map(map, Job{job_.stop, {}, job_.executor});
        if (!row) return false;
        double mass = 0;
        // Keys outside the window have no entry.
        for (const float value : row->value) mass += std::isnan(value) ? 0.0 : static_cast<double>(value);
        const auto place = static_cast<std::size_t>(layer * info.heads + head);
        cell.mass[place] = static_cast<float>(mass);
        const auto c = trace->cumulative_log_gate(layer, head);
        const auto needle = static_cast<std::size_t>(prompt.needle_end - 1);
        cell.gate[place] = static_cast<float>(std::exp(c[index_of(last)] - c[needle]));
      }
    }
    return true;
  }

  bool continue_greedily(DecodeState& decode_state, Cell& cell) const {
    const std::size_t tokens = model_.parts.answer.size() + static_cast<std::size_t>(kContinuationSlack);
    while (cell.ids.size() < tokens) {
      if (job_.stopped()) return false;
      cell.ids.push_back(decode_state.next().likeliest());
      if (cell.ids.size() < tokens) decode_state.read(cell.ids.back());
    }
    cell.found = text_of(model_.tokenizer(), cell.ids).find(request_.words.answer) != std::string::npos;
    return true;
  }

  const NeedleRequest& request_;
  PlannedNeedle& model_;
  std::uint32_t index_;
  SharedWork& work_;
  const Job& job_;
  std::shared_ptr<CausalLM> lm_;
  std::vector<Piece> pieces_;
  std::int64_t done_ = 0;  ///< tokens of prompts, of this process
  std::int64_t total_ = 0;
};

/// Takes a row of numbers, of this or an earlier work.
void take(std::vector<PlannedNeedle>& models, std::uint32_t index, std::uint32_t cell, std::span<const float> numbers) {
  if (index >= models.size()) return;
  PlannedNeedle& model = models[index];
  if (cell < model.cell_done.size()) {
    if (numbers.size() == record_size(model)) put(model, cell, Cell::from_numbers(numbers, head_count(model)));
  } else if (cell - model.cell_done.size() < model.baseline_done.size() && numbers.size() == 1) {
    model.result.baseline_log_probability[cell - model.cell_done.size()] = numbers.front();
    model.baseline_done[cell - model.cell_done.size()] = true;
  }
}

void tell_notes(const NeedleRequest& request, const PlannedNeedle& model, const NeedleEvents& events) {
  if (!events.note) return;
  for (const std::string& note : model.config.notes) events.note(fmt::format("{}: {}", model.request.name, note));
  const std::int64_t needed = haystack_needed(request, model.parts);
  if (model.parts.haystack_tokens < needed) {
    events.note(fmt::format("{}: {} holds {} tokens, and is repeated to fill {}", model.request.name,
                            request.haystack.string(), model.parts.haystack_tokens, needed));
  }
  const auto done = std::count(model.cell_done.begin(), model.cell_done.end(), true);
  if (done > 0) {
    events.note(
        fmt::format("{}: {} of {} cells were computed before", model.request.name, done, model.cell_done.size()));
  }
}

}  // namespace

std::optional<NeedleEvaluation> evaluate_needle(const NeedleRequest& request, const NeedleEvents& events,
                                                const Job& job, Processes* processes) {
  auto planned = plan_needle(request, job);
  if (!planned) return std::nullopt;
  std::vector<PlannedNeedle>& models = *planned;
  std::string facts = "eval needle\n" + needle_facts(request, models);
  for (const PlannedNeedle& model : models) facts += model_facts(model.result.info, model.bos_id);
  require_same(processes, facts);
  SharedWork work(processes, {request.output, needle_fingerprint(request, models), request.start_anew, events.note},
                  [&](std::uint32_t model, std::uint32_t cell, std::span<const float> numbers) {
                    take(models, model, cell, numbers);
                  });
  if (events.partial && work.kept()) events.partial(*work.kept());
  NeedleEvaluation evaluation{without_folder(request.haystack.string()),
                              request.mode,
                              request.words,
                              request.lengths,
                              request.depths,
                              {},
                              {},
                              {},
                              {}};
  for (std::size_t n = 0; n < models.size(); ++n) {
    if (events.model) events.model(models[n].request.name);
    tell_notes(request, models[n], events);
    if (!NeedleWork(request, models[n], static_cast<std::uint32_t>(n), work, job).run()) return std::nullopt;
  }
  for (PlannedNeedle& model : models) evaluation.models.push_back(std::move(model.result));
  return evaluation;
}

void finish_needle(const NeedleRequest& request) {
  std::error_code failed;
  std::filesystem::remove(partial_path(request.output), failed);
}

}  // namespace foxscope
