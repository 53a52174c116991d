#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/base/job.h"
#include "backend/model/layer/mixer_steps.h"
#include "backend/model/layer/pass_options.h"
#include "backend/model/layer/probe.h"
#include "backend/model/layer/score.h"
#include "backend/model/spec/model_config.h"

namespace foxscope {

/// What a model carries from position to position of one sequence, for the positions to come.
class ForwardState {
 public:
  virtual ~ForwardState() = default;
  /// The same state, to be continued in another way; what both hold is shared.
  [[nodiscard]] virtual std::unique_ptr<ForwardState> copy() const = 0;
  /// Keys that each layer and head may still see, [layers * H].
  [[nodiscard]] virtual std::vector<std::int64_t> held_keys() const = 0;

  /// Positions read so far.
  [[nodiscard]] std::int64_t length() const { return length_; }
  void advance(std::int64_t positions) { length_ += positions; }

 private:
  std::int64_t length_ = 0;
};

/// The forward pass: which steps make a layer, and in which order, for whole texts and for the next position of one, on
/// every device. What computes the steps, and in which memory, is a subclass's: CpuForward, TorchForward, CudaForward.
/// B sequences of n positions go together; x is the residual stream [B, n, D], which begins as the embedding.
class Forward : protected MixerSteps {
 public:
  struct Input {
    std::int64_t batch = 1;
    std::span<const std::int32_t> ids;     ///< [B, n]
    std::span<const std::int32_t> labels;  ///< [B, n]; empty where neither losses nor logits are kept
    int first_layer = 0;                   ///< those before it are not run
    std::span<const float> hidden;         ///< [B, n, D] what enters that layer; empty: the embedding
    double pruning_tolerance = 0;          ///< of whole texts; a state has its own
    /// [B] positions of each text, behind which its row is filled up; empty: n. Where they are given, what a text
    /// gives does not depend on those beside it: on a GPU to the last digit, which takes some time.
    std::span<const std::int64_t> lengths;
  };

  ~Forward() override = default;
  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;

  /// @param probes  [B] what keeps and changes what passes
  /// @param states  [B] what lies before each sequence; takes its positions up. Empty: nothing does, and nothing is to
  ///                follow. Those that hold positions, each as many as it likes, are continued by one position at a
  ///                time: alone, or together where the subclass says that it can; null where a row is of no use then
  /// @returns false if the job was stopped: the states are of no use then
  bool run(const Input& input, std::span<const Probe> probes, std::span<ForwardState* const> states, const Job& job,
           ForwardReport& report);

  /// log p of each token of the vocabulary after the last position of each sequence that was read.
  /// @param log_probabilities  [B, or fewer: the first] of [V] nats
  virtual void predict_next(std::span<const std::span<float>> log_probabilities) = 0;

  /// A row of [B n] that was read last, and what is asked of it.
  struct ScoredRow {
    std::int64_t row = 0;
    std::int32_t label = -1;  ///< -1: none
    ScoredPosition* score = nullptr;
    bool distribution = false;                  ///< whether entropy and rank are asked for, of all rows or of none
    std::span<const std::uint8_t> marked = {};  ///< of ScoreRequest, the same of all rows
  };
  /// Scores rows of the last run, in chunks: no logits of others are made, and no [rows, V].
  /// @param top  k of ScoredPosition::top
  /// @returns false if the job was stopped
  virtual bool score(std::span<const ScoredRow> scored, int top, const Job& job) = 0;

 protected:
  /// @param config  must outlive it
  Forward(const ModelConfig& config, std::int64_t batch, std::int64_t length)
      : config_(config), batch_(batch), length_(length) {}

  /// All layers that the input asks for, in their order.
  virtual bool run_layers();
  /// The steps of a layer, in their order.
  bool run_layer(int layer);
  /// What mixes the positions of a layer.
  virtual MixerSteps& mixer(int /*layer*/) { return *this; }

  /// x = embedding of the ids and their positions, or what is given to enter the first layer.
  virtual void begin() = 0;
  /// n = norm(x); q, k, v = n W_q, n W_k, n W_v; k and v shifted, k_t <- a_t k_(t-1) + (1 - a_t) k_t with
  /// a = sigmoid(n W_a); q and k normed and turned by their positions; logits of f = n W_f + b_f. Of a linear mixer
  /// (linear_mixer.h) q, k, v behind its convolution, log alpha, beta, and the gate of what comes out.
  bool project(int layer) override = 0;
  /// c_i = sum_{l <= i} log f_l, as the probes change log f; likewise of log alpha.
  void sum_gates(int layer) override = 0;
  /// o = softmax(q k^T / sqrt(d) + D) v with D_ij = c_i - c_j; the state takes k, v and c up. Of a linear mixer
  /// o_t = S_t^T q_t; the state is S.
  bool attend(int layer) override = 0;
  /// x += act(n W_g) * norm(o) W_o, without the heads that a probe cuts; a linear mixer has its own gate and norm.
  bool project_output(int layer) override = 0;
  /// x += down(silu(g) * u) of norm(x), or down(gelu(u)); not called where there is no MLP.
  virtual bool feed_forward(int layer) = 0;
  /// Logits and losses of norm(x), as far as the probes keep them.
  virtual bool predict() = 0;
  /// Waits for what is under way, and hands over what the probes keep.
  virtual bool finish() { return true; }
  /// What the probes keep of x as it enters a layer.
  virtual void keep_hidden(int layer) = 0;
  virtual void end_layer(int /*layer*/) {}
  /// Layers that are known to be done once `begun` have been begun.
  [[nodiscard]] virtual int layers_done(int begun) const { return begun; }

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] std::int64_t length() const { return length_; }  ///< n
  [[nodiscard]] std::int64_t rows() const { return batch_ * length_; }
  [[nodiscard]] const Input& input() const { return pass_.input; }
  [[nodiscard]] std::span<const Probe> probes() const { return pass_.probes; }
  [[nodiscard]] bool has_states() const { return !pass_.states.empty(); }
  [[nodiscard]] bool has_state(std::int64_t sequence) const {
    return has_states() && pass_.states[static_cast<std::size_t>(sequence)] != nullptr;
  }
  [[nodiscard]] ForwardState& state(std::int64_t sequence) const {
    return *pass_.states[static_cast<std::size_t>(sequence)];
  }
  [[nodiscard]] const Job& job() const { return pass_.job; }
  [[nodiscard]] ForwardReport& report() const { return *pass_.report; }
  /// Of the first row of a sequence.
  [[nodiscard]] std::int64_t first_position(std::int64_t sequence = 0) const {
    return has_states() ? state(sequence).length() : 0;
  }
  [[nodiscard]] bool continues() const { return first_position() > 0; }
  /// Whether any probe keeps a part.
  [[nodiscard]] bool keeps(Keep part) const;
  /// Whether the layer has gates, of its own or given by an intervention.
  [[nodiscard]] bool gated(int layer) const;

 private:
  void tell(int done) const;

  /// What the last run was about, as a way back reads it too. What its spans and pointers name is the caller's.
  struct Pass {
    Input input;
    std::span<const Probe> probes;
    std::span<ForwardState* const> states;
    Job job;
    ForwardReport* report = nullptr;
  };
  const ModelConfig& config_;
  std::int64_t batch_;
  std::int64_t length_;
  Pass pass_;
};

}  // namespace foxscope
