#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/data/text_stream.h"
#include "backend/generate/sampling.h"
#include "backend/model/session/causal_lm.h"
#include "backend/model/session/decode_state.h"
#include "backend/serve/completion_answer.h"
#include "backend/serve/completion_request.h"
#include "backend/serve/served_model.h"

namespace foxscope {

/// How much goes through the model at once.
struct SchedulerLimits {
  std::int64_t batch_tokens = 2048;                 ///< positions of one pass over whole prompts
  std::int64_t batch_tokens_beside = 1024;          ///< likewise, where texts that are continued wait for it
  std::int64_t held_bytes = std::int64_t{1} << 30;  ///< of all texts that are being continued together
  std::int64_t bytes_of_text = 0;                   ///< of these, for each text
  std::int64_t bytes_of_position = 0;               ///< and for each position that it may come to
  double pruning_tolerance = 0x1p-24;
};

/// Runs the prompts of all connections, on the one thread that runs the model. Waiting prompts that are only scored
/// go in passes of near-equal lengths, whichever requests they belong to; the next pass takes the oldest. Texts
/// that are continued get one token each in a turn. Scoring passes run between two turns, one or as many as take as
/// long as a turn. New texts are admitted in the time of those passes, in passes of several where the model reads
/// prompts of several lengths together. So nobody waits for another client's long answer.
class Scheduler {
 public:
  /// @param model, served  must outlive it
  Scheduler(CausalLM& model, const ServedModel& served, const SchedulerLimits& limits);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Waits until all prompts of a request are done. From any thread.
  /// @param request  must live until it returns
  /// @param gone     asked now and then whether anybody still waits for the answer; its work is dropped if not
  /// @returns of each prompt; nothing if nobody waits or the scheduler was stopped
  /// @throws what the model throws
  std::optional<std::vector<Completion>> complete(const CompletionRequest& request, const std::function<bool()>& gone);

  /// Drops all work; every caller gets nothing.
  void stop();

 private:
  struct Ticket;
  struct Work;
  struct Live;
  using WorkPointer = std::unique_ptr<Work>;
  /// Waiting work by length and age.
  using Waiting = std::map<std::pair<std::int64_t, std::uint64_t>, WorkPointer>;

  using Clock = std::chrono::steady_clock;

  void run();
  /// Runs passes, with the lock held but for the passes themselves.
  void run_passes(std::unique_lock<std::mutex>& lock);
  /// @param time  after which none is begun any more
  void begin_prompts(std::unique_lock<std::mutex>& lock, Clock::duration time);
  std::vector<WorkPointer> take_pass();
  void score(std::vector<WorkPointer> pass);
  void keep_scores(Work& work, TextScores scores);
  /// Reads prompts in one pass. Those that come to nothing have left.
  void begin(std::vector<WorkPointer> prompts);
  void turn();
  /// Adds the next token to a text, which has not read it then.
  /// @returns whether it goes on
  bool step(Live& live);
  /// Ends with a text.
  void end(std::list<std::unique_ptr<Live>>::iterator live, const std::exception_ptr& error);
  /// Bytes that a text may come to.
  [[nodiscard]] std::int64_t bytes_of(const Work& work) const;
  /// Prompts to be read in one pass; none if none waits, or there is no room for its text.
  std::vector<WorkPointer> take_prompts();
  void drop_cancelled();
  /// Ends with a prompt, with the lock held.
  /// @param error  null: it is done, or dropped
  void leave(WorkPointer work, const std::exception_ptr& error);
  std::vector<WorkPointer> work_of(const std::shared_ptr<Ticket>& ticket);

  CausalLM& model_;
  const ServedModel& served_;
  SchedulerLimits limits_;

  std::mutex mutex_;
  std::condition_variable work_came_;
  Waiting scored_;                                ///< prompts that wait for a pass
  std::map<std::uint64_t, std::int64_t> oldest_;  ///< of these, length by age
  std::deque<WorkPointer> prompts_;               ///< those that wait to be continued
  std::vector<std::shared_ptr<Ticket>> in_pass_;
  std::stop_source pass_;
  std::uint64_t next_age_ = 0;
  bool stopped_ = false;
  bool any_cancelled_ = false;

  std::list<std::unique_ptr<Live>> live_;  ///< of the working thread alone
  Clock::duration turn_time_{};            ///< of the last turn
  std::int64_t held_ = 0;                  ///< bytes that they may come to
  std::thread thread_;
};

}  // namespace foxscope
