#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "kernels/cpu/forgetting_attention.h"
#include "kernels/executor.h"

namespace foxscope::kernels::testing {

/// How a problem's gates are drawn.
enum class Gate {
  none,        ///< no gate array at all
  near_one,    ///< decay times of thousands of tokens
  mixed,       ///< decay times from 8 to 8192 tokens, another for each head, with jitter on the logit
  near_zero,   ///< log f = -5 at each step
  zero,        ///< f = 0 at each step: a row sees itself only
  cuts,        ///< f near one, exactly 0 at some positions
  far_offset,  ///< mixed, after a past that brought c to -1e8
};

enum class Layout {
  heads_first,      ///< [B, H, L, d]
  positions_first,  ///< [B, L, H, d], as a projection leaves it
  padded,           ///< [B, H, L, d] with gaps between rows and heads
};

struct ProblemOptions {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;
  std::int64_t length = 1;
  std::int64_t head_dim = 16;
  Gate gate = Gate::mixed;
  std::int64_t window_size = 0;
  Layout layout = Layout::heads_first;
  double pruning_tolerance = 0;
  float logit_scale = 1;  ///< standard deviation of the logits
  float logit_cap = 0;
  float sink = 0;  ///< of head 0, of each further head 1 more; 0: there are none
};

/// Random inputs and poisoned outputs of one call. Gaps between rows hold NaN.
struct Problem {
  ProblemOptions options;
  std::vector<float> query, key, value, output;
  cpu::AttentionStrides query_strides, key_strides;  ///< value as key, output as query
  std::vector<double> cumulative_log_gate;           ///< empty: no gate
  std::vector<float> sinks;                          ///< [H]; empty: there are none
  std::vector<float> log_normalizer, log_normalizer_without_gate;

  cpu::ForgettingAttention arguments();  ///< with every output asked for
  [[nodiscard]] std::int64_t query_at(std::int64_t batch, std::int64_t head, std::int64_t row) const;
  [[nodiscard]] std::int64_t key_at(std::int64_t batch, std::int64_t key_head, std::int64_t row) const;
  [[nodiscard]] std::string describe() const;
};

Problem make_problem(const ProblemOptions& options, std::uint64_t seed);

/// One row by the definition, in float64: softmax over all logits of the row, then the weighted sum.
struct ReferenceRow {
  std::vector<double> output;
  double log_normalizer = 0;
  double log_normalizer_without_gate = 0;
};
ReferenceRow reference_row(const Problem& problem, std::int64_t batch, std::int64_t head, std::int64_t row);

/// Largest differences over the rows that were compared: all of a short problem, some of a long one.
struct Differences {
  double output = 0;
  double log_normalizer = 0;
  double log_normalizer_without_gate = 0;
};

/// Infinity where a result is NaN or still poisoned; outputs of all rows have to be finite.
Differences compare_with_reference(const Problem& problem, std::uint64_t seed);

/// Runs the kernel on a pool of its own threads.
cpu::AttentionBlocks run(const cpu::ForgettingAttention& arguments, int threads = 2);

/// Asks for a stop when a given number of tasks have begun.
class StoppingExecutor final : public Executor {
 public:
  explicit StoppingExecutor(std::int64_t after) : after_(after) {}
  [[nodiscard]] int threads() const override { return 1; }
  void run(std::int64_t tasks, const std::function<void(std::int64_t, int)>& body) override {
    for (std::int64_t task = 0; task < tasks; ++task) {
      if (begun_++ == after_) source_.request_stop();
      body(task, 0);
    }
  }
  std::stop_token token() { return source_.get_token(); }
  [[nodiscard]] std::int64_t begun() const { return begun_; }

 private:
  std::stop_source source_;
  std::int64_t after_;
  std::int64_t begun_ = 0;
};

}  // namespace foxscope::kernels::testing
