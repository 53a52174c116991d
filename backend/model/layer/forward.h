#pragma once

#include <cstdint>
#include <span>

#include "backend/model/layer/forward_pass.h"
#include "backend/model/layer/mixer_steps.h"
#include "backend/model/layer/next_token.h"
#include "backend/model/layer/score.h"

namespace foxscope {

/// The forward pass: which steps make a layer, and in which order, for whole texts and for the next position of one, on
/// every device. A subclass computes the steps, in memory of its own: CpuForward, TorchForward, CudaForward. B
/// sequences of n positions go together; x is the residual stream [B, n, D], which begins as the embedding.
class Forward : protected ForwardPass {
 public:
  using Input = ForwardInput;

  virtual ~Forward() = default;
  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;

  /// @param probes  [B] what keeps and changes what passes
  /// @param states  [B] what lies before each sequence; takes its positions up. Empty: nothing does, and nothing is to
  ///                follow. Those that hold positions, each as many as it likes, are continued by one position at a
  ///                time: alone, or together where the subclass says that it can; null where a row is of no use then
  /// @returns false if the job was stopped: the states are of no use then
  bool run(const Input& input, std::span<const Probe> probes, std::span<ForwardState* const> states, const Job& job,
           ForwardReport& report);

  /// The prediction behind the last position of each sequence that was read.
  /// @param count  of the B sequences the first so many
  virtual NextTokens predict_next(std::int64_t count) = 0;

  /// A row of the last run's [B n] rows, and the scores that are asked for.
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
  Forward(const ModelConfig& config, std::int64_t batch, std::int64_t length) : ForwardPass(config, batch, length) {}

  /// Runs all layers that the input asks for, in their order.
  virtual bool run_layers();
  /// The steps of a layer, in their order.
  bool run_layer(int layer);
  /// The same of layers whose x goes on normed (NormedResidual).
  bool run_normed_layer(int layer);
  /// The same of layers beside the stream (ModelConfig::side_attention).
  bool run_side_layer(int layer);

  /// x = embedding of the ids and their positions, or what is given to enter the first layer.
  virtual void begin() = 0;
  /// The mixer of a layer's positions. Its steps:
  /// - project: n = norm(x); q, k, v = n W_q, n W_k, n W_v; k and v shifted, k_t <- a_t k_(t-1) + (1 - a_t) k_t with
  ///   a = sigmoid(n W_a); q and k normed and turned by their positions; logits of f = n W_f + b_f. Of a linear mixer
  ///   (linear_mixer.h) q, k, v behind its convolution, log alpha, beta, and the gate of what comes out.
  /// - sum_gates: c_i = sum_{l <= i} log f_l, as the probes change log f; likewise of log alpha.
  /// - attend: o = softmax(q k^T / sqrt(d) + D) v with D_ij = c_i - c_j; the state takes k, v and c up. Of a linear
  ///   mixer o_t = S_t^T q_t; the state is S.
  /// - project_output: x += act(n W_g) * norm(o) W_o, without the heads that a probe cuts; a linear mixer has its own
  ///   gate and norm.
  virtual MixerSteps& mixer(int layer) = 0;
  /// x += down(silu(g) * u) of norm(x), or down(gelu(u)); not called where there is no MLP.
  virtual bool feed_forward(int layer) = 0;
  /// x = norm(x) before a layer's mixer or MLP, and x *= factor behind it (NormedResidual).
  virtual bool norm_residual(int layer, bool mlp) = 0;
  virtual bool scale_residual(double factor) = 0;
  /// Keeps x as it enters the first of two paired layers, for the mixer of the second.
  virtual void hold_input(int layer) = 0;
  /// Keeps x; from here on what a step would add to x takes its place (ModelConfig::side_attention).
  virtual void step_aside() = 0;
  /// t = W x, of which the mixer of the layer behind reads the sum with the x that was kept; x is that x again.
  virtual bool step_back(int layer) = 0;
  /// Logits and losses of norm(x), as far as the probes keep them.
  virtual bool predict() = 0;
  /// Waits for what is under way, and hands over what the probes keep.
  virtual bool finish() { return true; }
  /// Keeps x as it enters a layer, where the probes ask for it.
  virtual void keep_hidden(int layer) = 0;
  virtual void end_layer(int /*layer*/) {}
  /// Layers that are known to be done once `begun` have been begun.
  [[nodiscard]] virtual int layers_done(int begun) const { return begun; }

 private:
  void tell(int done) const;
};

}  // namespace foxscope
