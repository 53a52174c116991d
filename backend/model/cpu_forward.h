#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/model/causal_lm.h"
#include "backend/model/cpu_rows.h"
#include "backend/model/cpu_state.h"
#include "backend/model/cpu_team.h"
#include "backend/model/parameters.h"
#include "backend/model/probe.h"

namespace foxscope {

/// The forward pass on the CPU in float32: a whole text, or the next position of one that a state holds. Position-wise
/// steps go by chunks of rows that stay in a core's cache from norm to norm; where there is one position alone, threads
/// share the columns of each matrix instead.
class CpuForward {
 public:
  /// @param positions  how many are read at a time
  CpuForward(const ModelConfig& config, const ModelWeights& weights, std::int64_t positions);

  struct Input {
    std::span<const std::int32_t> ids;     ///< [n]
    std::span<const std::int32_t> labels;  ///< [n]; empty where neither losses nor logits are kept
    int first_layer = 0;                   ///< those before it are not run
    std::span<const float> hidden;         ///< [n, D] what enters that layer; empty: the embedding
    double pruning_tolerance = 0;          ///< of a whole text; a state has its own
  };
  /// @param state  what lies before; takes the positions up. Null: nothing does, and nothing is to follow. One that
  /// holds
  ///               positions is continued by one position at a time
  /// @returns false if the job was stopped: the state is of no use then
  bool run(const Input& input, const Probe& probe, CpuState* state, const Job& job, ForwardReport& report);

  /// log p of each token of the vocabulary after the last position that was read.
  /// @param log_probabilities  [V] nats
  void predict_next(std::span<float> log_probabilities);

 private:
  /// What one thread needs for one chunk of rows.
  struct Scratch {
    FloatArray normed;  ///< [rows + 1, D]
    FloatArray wide;    ///< [rows + 1, the widest product]
  };
  /// Rows [begin, end) of the positions.
  struct Rows {
    std::int64_t begin;
    std::int64_t end;
    Scratch& scratch;
    [[nodiscard]] std::int64_t count() const { return end - begin; }
  };
  /// What a run is about; null between runs.
  struct Pass {
    const Input* input = nullptr;
    const Probe* probe = nullptr;
    CpuState* state = nullptr;
    const Job* job = nullptr;
    ForwardReport* report = nullptr;
    std::int64_t first = 0;  ///< position of the first row
  };

  bool run_layer(int layer);
  void embed();
  void project(int layer, const Rows& rows);
  void sum_gates(int layer);
  bool attend(int layer);
  bool attend_whole(int layer);
  void attend_next(int layer);
  void project_output(int layer, const Rows& rows);
  void feed_forward(int layer, const Rows& rows);
  bool predict();
  void predict_rows(const Rows& rows, float* kept_logits);

  [[nodiscard]] bool continues() const { return pass_.first > 0; }
  [[nodiscard]] const LayerWeights& weights_of(int layer) const {
    return weights_->layers[static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] cpu_rows::HeadRows heads_of(std::int64_t row);
  /// Of rows [begin, end) of the residual stream.
  void norm(const FloatArray& weight, const FloatArray& bias, std::int64_t begin, std::int64_t end, float* out) const;
  /// @param bias  as wide as the rows, or empty
  static void add_to_rows(const FloatArray& bias, std::int64_t count, float* rows);
  /// Calls a step for every chunk of rows, on all threads.
  bool for_rows(const std::function<void(const Rows&)>& step);
  /// Calls a body for every task, on all threads where the tasks read enough numbers together.
  void share(std::int64_t tasks, std::int64_t numbers, const std::function<void(std::int64_t task)>& body);
  /// linear() in a step for rows; where there is one position alone, as multiply_row does it.
  void multiply(const LinearArguments& product);
  /// linear() of one row, outside a step for rows: the columns are shared by all threads.
  void multiply_row(const LinearArguments& product);

  const ModelConfig* config_;
  const ModelWeights* weights_;
  std::int64_t length_;
  std::int64_t hidden_;
  std::int64_t head_dim_;
  ProjectionColumns columns_;
  LibTorchTeam team_;
  std::int64_t chunk_ = 1;
  std::vector<Scratch> scratch_;
  Pass pass_;
  std::optional<RotaryTable> rotary_;
  FloatArray residual_;             ///< [n, D]
  FloatArray query_, key_, value_;  ///< [H, n, d], [H_kv, n, d]; the first two where the probe lends no memory
  float* queries_ = nullptr;        ///< of the layer at hand
  float* keys_ = nullptr;
  std::vector<int> cut_heads_;      ///< of the layer at hand
  FloatArray attended_;             ///< [n, H d]; in the end [n, D] behind the final norm
  std::vector<double> log_gate_;    ///< [H, n] nats; empty where every f is 1
  std::vector<double> cumulative_;  ///< [H, n] c; likewise
  FloatArray log_normalizer_;       ///< [H, n] of a whole text
  FloatArray without_gate_;         ///< likewise, where the probe keeps it
  std::vector<float> loss_;         ///< [n]
  FloatArray zeros_;                ///< the projection before the first position
};

}  // namespace foxscope
