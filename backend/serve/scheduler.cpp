#include "backend/serve/scheduler.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <span>

#include "backend/model/layer/score.h"

namespace foxscope {
namespace {

/// How often a waiting caller looks whether its client is still there.
constexpr std::chrono::milliseconds kLook{50};
constexpr std::chrono::seconds kIdle{5};  ///< after which freed memory goes back to the system
constexpr std::size_t kMostLive = 64;
/// A text's share of padding in a pass, as one part in so many (score_batches).
constexpr std::int64_t kPassPadding = 8;

bool only_scored(const CompletionRequest& request) {
  return request.max_tokens == 0 || (request.max_tokens == 1 && request.temperature == 0);
}

/// Where a text is cut: before the earliest of its stop strings.
std::size_t earliest_stop(const std::string& text, std::size_t from, const std::vector<std::string>& stop) {
  std::size_t earliest = std::string::npos;
  for (const std::string& one : stop) {
    const std::size_t start = from > one.size() ? from - one.size() : 0;
    earliest = std::min(earliest, text.find(one, start));
  }
  return earliest;
}

}  // namespace

/// One request.
struct Scheduler::Ticket {
  const CompletionRequest* request = nullptr;
  std::vector<Completion> completions;
  std::size_t left = 0;  ///< prompts that are not done
  int live = 0;          ///< prompts that are being continued
  bool cancelled = false;
  std::exception_ptr error;
  std::condition_variable changed;
};

/// One prompt.
struct Scheduler::Work {
  std::shared_ptr<Ticket> ticket;
  std::size_t index = 0;
  std::vector<std::int32_t> read;    ///< BOS and the prompt
  std::int64_t first = 0;            ///< positions [first, end) are scored
  std::int64_t end = 0;              ///< first: none are
  std::vector<std::int32_t> labels;  ///< [m] of the first m of these
  std::uint64_t age = 0;
  bool live = false;  ///< whether it is being continued

  [[nodiscard]] const CompletionRequest& request() const { return *ticket->request; }
  [[nodiscard]] Completion& completion() const { return ticket->completions[index]; }
};

/// A text that is being continued.
struct Scheduler::Live {
  Live(std::unique_ptr<DecodeState> begun, const Sampling& sampling, const ServedModel& served)
      : decode_state(std::move(begun)), sampler(sampling) {
    if (served.tokenizer != nullptr) stream.emplace(*served.tokenizer);
  }

  WorkPointer work;
  std::unique_ptr<DecodeState> decode_state;
  Sampler sampler;
  std::optional<TextStream> stream;
  std::int64_t bytes = 0;  ///< that it may come to

  /// Takes one token up; looks for the end and for stop strings.
  /// @returns whether the text goes on
  static bool take(std::int32_t id, const CompletionRequest& request, const ServedModel& served, TextStream* stream,
                   Completion& completion) {
    completion.ids.push_back(id);
    const bool last = std::ssize(completion.ids) == request.max_tokens;
    const bool ends = std::ranges::find(served.ends, id) != served.ends.end();
    if (stream != nullptr) {
      const std::size_t known = completion.text.size();
      if (!ends) completion.text += stream->add(id);
      if (ends || last) completion.text += stream->finish();
      const std::size_t cut = earliest_stop(completion.text, known, request.stop);
      if (cut != std::string::npos) {
        completion.text.resize(cut);
        completion.stopped = true;
        return false;
      }
    }
    completion.stopped = ends;
    return !ends && !last;
  }
};

Scheduler::Scheduler(CausalLM& model, const ServedModel& served, const SchedulerLimits& limits)
    : model_(model), served_(served), limits_(limits), thread_([this] { run(); }) {}

Scheduler::~Scheduler() {
  stop();
  thread_.join();
}

void Scheduler::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  pass_.request_stop();
  work_came_.notify_all();
}

std::vector<Scheduler::WorkPointer> Scheduler::work_of(const std::shared_ptr<Ticket>& ticket) {
  const CompletionRequest& request = *ticket->request;
  std::vector<WorkPointer> all;
  for (std::size_t n = 0; n < request.prompts.size(); ++n) {
    const std::vector<std::int32_t>& prompt = request.prompts[n];
    auto work = std::make_unique<Work>();
    work->ticket = ticket;
    work->index = n;
    if (adds_bos(prompt, served_)) work->read.push_back(served_.bos);
    work->read.insert(work->read.end(), prompt.begin(), prompt.end());
    const std::int64_t length = std::ssize(work->read);
    if (request.echo && request.logprobs) work->labels.assign(work->read.begin() + 1, work->read.end());
    work->end = std::ssize(work->labels);
    if (only_scored(request) && request.max_tokens == 1) {
      work->first = request.echo && request.logprobs ? 0 : length - 1;
      work->end = length;
    }
    // The last token of a prompt that is only scored need not be read.
    if (request.max_tokens == 0 && work->end > work->first) work->read.pop_back();
    all.push_back(std::move(work));
  }
  return all;
}

std::optional<std::vector<Completion>> Scheduler::complete(const CompletionRequest& request,
                                                           const std::function<bool()>& gone) {
  const auto ticket = std::make_shared<Ticket>();
  ticket->request = &request;
  ticket->completions.resize(request.prompts.size());
  std::vector<WorkPointer> all = work_of(ticket);
  std::unique_lock lock(mutex_);
  if (stopped_) return std::nullopt;
  for (WorkPointer& work : all) {
    const bool scored = work->end > work->first;
    if (!scored && only_scored(request)) continue;  // nothing is asked of it
    ++ticket->left;
    work->age = next_age_++;
    if (scored) {
      oldest_[work->age] = std::ssize(work->read);
      scored_.emplace(std::pair(std::ssize(work->read), work->age), std::move(work));
    } else {
      prompts_.push_back(std::move(work));
    }
  }
  all.clear();
  work_came_.notify_all();
  while (ticket->left > 0 && !ticket->error && !stopped_) {
    if (ticket->changed.wait_for(lock, kLook) == std::cv_status::no_timeout) continue;
    lock.unlock();
    const bool left = gone();
    lock.lock();
    if (left) break;
  }
  if (ticket->left == 0 && !ticket->error) return std::move(ticket->completions);
  // The request goes away with its caller: whatever is under way for it has to end first.
  ticket->cancelled = true;
  any_cancelled_ = true;
  if (!in_pass_.empty() && std::ranges::all_of(in_pass_, &Ticket::cancelled)) pass_.request_stop();
  work_came_.notify_all();
  ticket->changed.wait(lock, [&] { return ticket.use_count() == 1; });
  if (ticket->error) std::rethrow_exception(ticket->error);
  return std::nullopt;
}

void Scheduler::drop_cancelled() {
  if (!any_cancelled_ && !stopped_) return;
  any_cancelled_ = false;
  std::vector<std::shared_ptr<Ticket>> dropped;
  const auto drops = [&](const WorkPointer& work) {
    const bool drop = stopped_ || work->ticket->cancelled;
    if (drop) dropped.push_back(work->ticket);
    return drop;
  };
  std::erase_if(scored_, [&](const auto& entry) {
    const bool drop = drops(entry.second);
    if (drop) oldest_.erase(entry.first.second);
    return drop;
  });
  std::erase_if(prompts_, drops);
  live_.remove_if([&](const std::unique_ptr<Live>& live) {
    const bool drop = drops(live->work);
    if (drop) held_ -= live->bytes;
    return drop;
  });
  while (!dropped.empty()) {
    const std::shared_ptr<Ticket> ticket = std::move(dropped.back());
    dropped.pop_back();
    ticket->changed.notify_all();
  }
}

void Scheduler::run() {
  const auto has_work = [&] {
    return stopped_ || any_cancelled_ || !scored_.empty() || !prompts_.empty() || !live_.empty();
  };
  std::unique_lock lock(mutex_);
  while (true) {
    if (!work_came_.wait_for(lock, kIdle, has_work)) {
      lock.unlock();
      malloc_trim(0);
      lock.lock();
      work_came_.wait(lock, has_work);
    }
    drop_cancelled();
    if (stopped_) return;
    auto start = Clock::now();
    run_passes(lock);
    begin_prompts(lock, std::max(turn_time_, Clock::now() - start));
    lock.unlock();
    start = Clock::now();
    turn();
    turn_time_ = Clock::now() - start;
    lock.lock();
  }
}

void Scheduler::run_passes(std::unique_lock<std::mutex>& lock) {
  const auto start = Clock::now();
  do {
    std::vector<WorkPointer> pass = take_pass();
    if (pass.empty()) return;
    lock.unlock();
    score(std::move(pass));
    lock.lock();
    drop_cancelled();
  } while (Clock::now() - start < turn_time_);
}

void Scheduler::begin_prompts(std::unique_lock<std::mutex>& lock, Clock::duration time) {
  const auto start = Clock::now();
  do {
    std::vector<WorkPointer> prompts = take_prompts();
    if (prompts.empty()) return;
    lock.unlock();
    begin(std::move(prompts));
    lock.lock();
    drop_cancelled();
  } while (Clock::now() - start < time);
}

std::vector<Scheduler::WorkPointer> Scheduler::take_pass() {
  std::vector<WorkPointer> pass;
  if (scored_.empty()) return pass;
  const auto& [age, length] = *oldest_.begin();
  auto low = scored_.find({length, age});
  auto high = std::next(low);
  const std::int64_t most_tokens = live_.empty() ? limits_.batch_tokens : limits_.batch_tokens_beside;
  std::int64_t count = 1;
  // Grows to the side that adds less padding.
  while (true) {
    const std::int64_t longest = std::prev(high)->first.first;
    const std::int64_t shortest = low->first.first;
    const auto fits = [&](std::int64_t most, std::int64_t least) {
      return (count + 1) * most <= most_tokens && most - least <= most / kPassPadding;
    };
    const bool up = high != scored_.end() && fits(high->first.first, shortest);
    const bool down = low != scored_.begin() && fits(longest, std::prev(low)->first.first);
    if (!up && !down) break;
    if (down && (!up || longest - std::prev(low)->first.first <= high->first.first - shortest)) {
      --low;
    } else {
      ++high;
    }
    ++count;
  }
  for (auto entry = low; entry != high; ++entry) {
    oldest_.erase(entry->first.second);
    pass.push_back(std::move(entry->second));
  }
  scored_.erase(low, high);
  for (const WorkPointer& work : pass) in_pass_.push_back(work->ticket);
  pass_ = std::stop_source();
  return pass;
}

void Scheduler::score(std::vector<WorkPointer> pass) {
  ScoreRequest request;
  request.pruning_tolerance = limits_.pruning_tolerance;
  for (const WorkPointer& work : pass) {
    const auto labels =
        std::span(work->labels)
            .subspan(0, std::min(work->labels.size(), static_cast<std::size_t>(work->end - work->first)));
    request.texts.push_back({work->read, work->first, work->end, labels});
    request.top = std::max({request.top, 1, work->request().logprobs.value_or(0)});
  }
  std::optional<std::vector<TextScores>> scores;
  std::exception_ptr error;
  try {
    Job job;
    job.stop = pass_.get_token();
    scores = model_.score(request, job);
  } catch (...) {
    error = std::current_exception();
  }
  if (scores) {
    for (std::size_t n = 0; n < pass.size(); ++n) keep_scores(*pass[n], std::move((*scores)[n]));
  }
  const std::scoped_lock lock(mutex_);
  in_pass_.clear();
  for (WorkPointer& work : pass) {
    if (scores && !only_scored(work->request())) {
      prompts_.push_back(std::move(work));
    } else {
      leave(std::move(work), scores ? nullptr : error);
    }
  }
}

void Scheduler::keep_scores(Work& work, TextScores scores) {
  Completion& completion = work.completion();
  if (only_scored(work.request()) && work.request().max_tokens == 1) {
    // The likeliest token is the one that is added.
    ScoredPosition next = std::move(scores.back());
    scores.pop_back();
    const ScoredToken best = next.top.front();
    next.log_probability = best.log_probability;
    next.greedy = true;
    completion.added.push_back(std::move(next));
    std::optional<TextStream> stream;
    if (served_.tokenizer != nullptr) stream.emplace(*served_.tokenizer);
    Live::take(best.id, work.request(), served_, stream ? &*stream : nullptr, completion);
  }
  // A pass takes the likeliest tokens of all its requests: most ask for none.
  if (work.request().logprobs.value_or(0) == 0) {
    for (ScoredPosition& position : scores) position.top = {};
  }
  completion.prompt = std::move(scores);
}

void Scheduler::leave(WorkPointer work, const std::exception_ptr& error) {
  const std::shared_ptr<Ticket> ticket = std::move(work->ticket);
  ticket->live -= work->live ? 1 : 0;
  work.reset();
  if (error) {
    ticket->error = error;
  } else if (!ticket->cancelled && !stopped_) {
    --ticket->left;
  }
  if (ticket->left == 0 || ticket->error || ticket->cancelled) ticket->changed.notify_all();
}

std::int64_t Scheduler::bytes_of(const Work& work) const {
  return limits_.bytes_of_text + limits_.bytes_of_position * (std::ssize(work.read) + work.request().max_tokens);
}

std::vector<Scheduler::WorkPointer> Scheduler::take_prompts() {
  std::vector<WorkPointer> taken;
  const std::int64_t most_tokens = live_.empty() ? limits_.batch_tokens : limits_.batch_tokens_beside;
  std::int64_t longest = 0;
  std::int64_t held = held_;
  while (!prompts_.empty() && live_.size() + taken.size() < kMostLive) {
    // A prompt of the request that has the fewest under way, the oldest first: many prompts of one do not hold up
    // another.
    const auto chosen =
        std::ranges::min_element(prompts_, std::less<>(), [](const WorkPointer& work) { return work->ticket->live; });
    const bool first = live_.empty() && taken.empty();
    if (!first && held + bytes_of(**chosen) > limits_.held_bytes) break;
    longest = std::max(longest, std::ssize((*chosen)->read));
    if (!taken.empty() && std::ssize(taken) * longest + longest > most_tokens) break;
    held += bytes_of(**chosen);
    taken.push_back(std::move(*chosen));
    prompts_.erase(chosen);
    taken.back()->live = true;
    ++taken.back()->ticket->live;
    in_pass_.push_back(taken.back()->ticket);
    if (!model_.reads_prompts_together()) break;
  }
  if (!taken.empty()) pass_ = std::stop_source();
  return taken;
}

void Scheduler::begin(std::vector<WorkPointer> prompts) {
  std::vector<std::unique_ptr<Live>> begun(prompts.size());
  std::exception_ptr error;
  try {
    std::vector<PromptRequest> requests(prompts.size());
    for (std::size_t n = 0; n < prompts.size(); ++n) {
      requests[n].input_ids = prompts[n]->read;
      requests[n].pruning_tolerance = limits_.pruning_tolerance;
    }
    Job job;
    job.stop = pass_.get_token();
    std::vector<std::unique_ptr<DecodeState>> decode_states = model_.prefill(requests, job);
    for (std::size_t n = 0; n < decode_states.size(); ++n) {
      const CompletionRequest& asked = prompts[n]->request();
      const std::uint64_t seed = asked.seed ? *asked.seed : std::random_device{}();
      const Sampling sampling{asked.temperature, seed, asked.top_p};
      begun[n] = std::make_unique<Live>(std::move(decode_states[n]), sampling, served_);
      begun[n]->bytes = bytes_of(*prompts[n]);
    }
  } catch (...) {
    error = std::current_exception();
  }
  const std::scoped_lock lock(mutex_);
  in_pass_.clear();
  for (std::size_t n = 0; n < prompts.size(); ++n) {
    if (error || !begun[n]) {
      leave(std::move(prompts[n]), error);
      continue;
    }
    held_ += begun[n]->bytes;
    begun[n]->work = std::move(prompts[n]);
    live_.push_back(std::move(begun[n]));
  }
}

bool Scheduler::step(Live& live) {
  const CompletionRequest& request = live.work->request();
  Completion& completion = live.work->completion();
  const std::int32_t id = live.sampler.choose(live.decode_state->next());
  if (request.logprobs) {
    TokenChoice choice(id, *request.logprobs);
    choice.add(0, live.decode_state->log_probabilities());
    completion.added.push_back(choice.finish(0));
  }
  return Live::take(id, request, served_, live.stream ? &*live.stream : nullptr, completion);
}

void Scheduler::turn() {
  std::vector<std::list<std::unique_ptr<Live>>::iterator> going;
  std::vector<DecodeState*> decode_states;
  std::vector<std::int32_t> ids;
  for (auto next = live_.begin(); next != live_.end();) {
    const auto live = next++;
    std::exception_ptr error;
    try {
      if (step(**live)) {
        going.push_back(live);
        decode_states.push_back((*live)->decode_state.get());
        ids.push_back((*live)->work->completion().ids.back());
        continue;
      }
    } catch (...) {
      error = std::current_exception();
    }
    end(live, error);
  }
  if (going.empty()) return;
  try {
    model_.decode_step(decode_states, ids);
  } catch (...) {
    // How far each has come is not known.
    for (const auto& live : going) end(live, std::current_exception());
  }
}

void Scheduler::end(std::list<std::unique_ptr<Live>>::iterator live, const std::exception_ptr& error) {
  held_ -= (*live)->bytes;
  const std::unique_ptr<Live> ended = std::move(*live);
  live_.erase(live);
  const std::scoped_lock lock(mutex_);
  leave(std::move(ended->work), error);
}

}  // namespace foxscope
