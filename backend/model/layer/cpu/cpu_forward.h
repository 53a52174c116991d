#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/model/layer/cpu/cpu_linear_mixer.h"
#include "backend/model/layer/cpu/cpu_pass_memory.h"
#include "backend/model/layer/cpu/cpu_rows.h"
#include "backend/model/layer/cpu/cpu_state.h"
#include "backend/model/layer/cpu/cpu_team.h"
#include "backend/model/layer/forward.h"
#include "backend/model/spec/parameters.h"
#include "kernels/cpu/matrix_product.h"
#include "kernels/cpu/row_products.h"

namespace foxscope {

/// The steps on the CPU in float32. Position-wise steps go by chunks of rows that stay in a core's cache from norm to
/// norm; where there is one position of each sequence, threads share the columns of each matrix instead, and a sequence
/// has the same digits whatever others are beside it.
class CpuForward final : public Forward, protected MixerSteps {
 public:
  /// @param weights  of all layers; must outlive it, as config must
  /// @param kept     where memory comes from and goes to, if the pass is neither of many rows nor of one position
  /// (which
  ///                 a continuation holds for as long as it lives); must outlive it
  CpuForward(const ModelConfig& config, const ModelWeights& weights, std::int64_t batch, std::int64_t length,
             KeptPassMemory& kept);
  ~CpuForward() override;
  CpuForward(const CpuForward&) = delete;
  CpuForward& operator=(const CpuForward&) = delete;

  void predict_next(std::span<const std::span<float>> log_probabilities) override;
  bool score(std::span<const ScoredRow> scored, int top, const Job& job) override;

 protected:
  void begin() override;
  MixerSteps& mixer(int /*layer*/) override { return *this; }
  bool project(int layer) override;
  void sum_gates(int layer) override;
  bool attend(int layer) override;
  bool project_output(int layer) override;
  bool feed_forward(int layer) override;
  bool predict() override;
  void keep_hidden(int layer) override;

 private:
  using Scratch = CpuPassMemory::Scratch;
  /// Rows [begin, end) of all B n.
  struct Rows {
    std::int64_t begin;
    std::int64_t end;
    Scratch& scratch;
    [[nodiscard]] std::int64_t count() const { return end - begin; }
  };
  /// Which matrix is in panels, for all rows of a step.
  struct PackedMatrix {
    std::span<const float> of;  ///< empty: none
    std::int64_t depth = 0;     ///< of the products that it is packed for
  };
  void project_rows(int layer, const Rows& rows);
  bool project_linear(int layer);
  void project_linear_rows(int layer, const Rows& rows);
  void select_rows(int layer, const Rows& rows);
  void keep_window(int layer, std::int64_t sequence, const float* last);
  bool mix_linear(int layer);
  /// @param count  sequences from the first on: one, or several that nothing is recorded of
  bool attend_whole(int layer, std::int64_t first, std::int64_t count);
  void start_cache(int layer, std::int64_t sequence);
  void attend_next(int layer);
  void project_output_rows(int layer, const Rows& rows);
  void feed_forward_rows(int layer, const Rows& rows);
  void predict_rows(const Rows& rows);
  void score_rows(std::span<const ScoredRow> scored, int top, Scratch& scratch);
  /// Logits of rows behind the final norm, a block of the vocabulary at a time, and with each the log of the sum of the
  /// exponentials of all of them.
  /// @param normed  [count, D]
  /// @param block   memory of [count, kVocabularyBlock]
  /// @param take    of a row, called with logits [first, first + size)
  /// @returns [count] nats
  [[nodiscard]] std::vector<double> for_logits(
      const float* normed, std::int64_t count, float* block,
      const std::function<void(std::int64_t row, std::int64_t first, std::span<const float> logits)>& take);

  [[nodiscard]] CpuState& state_of(std::int64_t sequence) const;
  [[nodiscard]] CpuState::Layer& cache_of(int layer, std::int64_t sequence) const;
  [[nodiscard]] const LayerWeights& weights_of(int layer) const {
    return weights_.layers[static_cast<std::size_t>(layer)];
  }
  /// Memory for the heads of each sequence, the probes' own where they lend it.
  /// @param own  where they do not
  void find_places(TraceArray array, int layer, std::int64_t numbers, FloatArray& own, std::vector<float*>& places);
  [[nodiscard]] cpu_rows::HeadRows heads_of(std::int64_t row);
  /// Of rows [begin, end) of the residual stream.
  void norm(const FloatArray& weight, const FloatArray& bias, std::int64_t begin, std::int64_t end, float* out) const;
  /// @param bias  as wide as the rows, or empty
  static void add_to_rows(const FloatArray& bias, std::int64_t count, float* rows);
  /// Calls a step for every chunk of rows, on all threads.
  bool for_rows(const std::function<void(const Rows&)>& step);
  /// Calls a body for every task, on all threads where the tasks read enough numbers together.
  void share(std::int64_t tasks, std::int64_t numbers, const std::function<void(std::int64_t task)>& body);
  /// Lays a matrix [columns, depth] out for the products of the step that follows, if it has enough rows.
  /// @param place  of those that the step reads
  /// @param count  rows of the step
  void pack(std::size_t place, std::int64_t count, const FloatArray& weight, std::int64_t depth);
  /// out = in W^T, or out += in W^T, in a step for rows.
  void multiply(kernels::cpu::MatrixProduct product);
  [[nodiscard]] const float* packed_of(const kernels::cpu::MatrixProduct& product) const;
  /// The same outside of tasks: the columns are shared by all threads, and no row's digits depend on the others.
  void multiply_columns(const kernels::cpu::RowProducts& products);

  const ModelWeights& weights_;
  bool by_columns_;  ///< few rows, each of a sequence of its own: columns are shared, rows are not
  std::int64_t hidden_;
  std::int64_t head_dim_;
  ProjectionColumns columns_;
  CpuTeam team_;
  std::optional<CpuLinearMixer> linear_;  ///< of the layers that are no attention
  std::vector<CpuLinearMixer::Heads> linear_heads_;
  std::int64_t rows_before_ = 1;  ///< that a chunk computes once more, for shifts and convolutions
  std::int64_t chunk_ = 1;
  KeptPassMemory* kept_;  ///< null: the memory ends with the pass
  std::unique_ptr<CpuPassMemory> memory_;
  std::array<PackedMatrix, 2> packed_;  ///< for the step at hand
  std::optional<RotaryTable> rotary_;
  std::vector<float*> queries_;  ///< [B] of the layer at hand
  std::vector<float*> keys_, values_;
  std::vector<std::vector<int>> cut_heads_;  ///< [B] likewise
  std::vector<double> log_gate_;             ///< [B, H, n] nats; empty where every f is 1
  std::vector<double> cumulative_;           ///< [B, H, n] c; likewise
  FloatArray log_normalizer_;                ///< [H, n] of a whole text
  FloatArray without_gate_;                  ///< likewise, where the probe keeps it
  std::vector<float> loss_;                  ///< [B, n]
  std::vector<float*> logits_;               ///< [B] where the probes lend memory, else null
  FloatArray zeros_;                         ///< the projection before the first position
};

}  // namespace foxscope
