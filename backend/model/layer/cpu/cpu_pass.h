#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/base/index.h"
#include "backend/model/layer/cpu/cpu_state.h"
#include "backend/model/layer/cpu/cpu_team.h"
#include "backend/model/layer/cpu/cpu_workspace.h"
#include "backend/model/layer/forward_pass.h"
#include "backend/model/spec/parameters.h"
#include "kernels/cpu/matrix_product.h"
#include "kernels/cpu/row_products.h"

namespace foxscope {

/// The state that the steps of a forward pass on the CPU share: which run they belong to, weights, memory, threads,
/// norms and matrix products in float32. Steps that treat each row alone go by chunks of rows that stay in a core's
/// cache from norm to norm; where there is one position of each sequence, threads share the columns of each matrix
/// instead, and a sequence has the same digits whatever others are beside it.
class CpuPass final : public ForwardPass {
 public:
  using Scratch = CpuWorkspace::Scratch;
  /// Rows [begin, end) of all B n, and memory for them.
  struct Rows {
    std::int64_t begin;
    std::int64_t end;
    Scratch& scratch;
    [[nodiscard]] std::int64_t count() const { return end - begin; }
  };
  /// The memory of a step: numbers for each row of a chunk, and for so many rows more.
  struct Needs {
    std::int64_t normed = 0;  ///< of Scratch::normed
    std::int64_t wide = 0;    ///< of Scratch::wide
    std::int64_t more_normed = 0;
    std::int64_t more_wide = 0;
    std::int64_t output = 0;  ///< of CpuWorkspace::attended, for each of all rows
  };

  /// @param weights  of all layers; must outlive it, as config must
  /// @param kept     where memory comes from and goes to, if the pass is neither of many rows nor of one position
  ///                 (which a continuation holds for as long as it lives); must outlive it
  CpuPass(const ModelConfig& config, const ModelWeights& weights, std::int64_t batch, std::int64_t length,
          WorkspaceCache& kept);
  ~CpuPass();
  CpuPass(const CpuPass&) = delete;
  CpuPass& operator=(const CpuPass&) = delete;

  /// Every part of the pass says what it needs, then the memory is made once.
  void need(const Needs& needs);
  void allocate();
  /// Takes over which run it is from here on.
  void begin_run(const ForwardPass& run);

  [[nodiscard]] const ModelWeights& weights() const { return weights_; }
  [[nodiscard]] const LayerWeights& weights(int layer) const { return weights_.layers[index_of(layer)]; }
  [[nodiscard]] std::int64_t hidden() const { return config().hidden_size; }  ///< D
  /// Few rows, each of a sequence of its own: columns are shared among threads, rows are not.
  [[nodiscard]] bool by_columns() const { return by_columns_; }
  [[nodiscard]] CpuWorkspace& memory() { return *memory_; }
  [[nodiscard]] CpuTeam& team() { return team_; }

  [[nodiscard]] CpuState& cpu_state(std::int64_t sequence) const { return static_cast<CpuState&>(state(sequence)); }
  [[nodiscard]] CpuState::Layer& layer_state(int layer, std::int64_t sequence) const {
    return cpu_state(sequence).layer(layer);
  }

  /// The place of an array of a layer, for each sequence: in the probe if it lends memory, else in the pass's own.
  /// @param numbers  of one sequence
  /// @param own      memory where they do not
  /// @param places   [B]
  void find_places(TraceArray array, int layer, std::int64_t numbers, FloatArray& own, std::vector<float*>& places);
  /// Looks up which heads of a layer the probes cut.
  void find_cut_heads(int layer);
  /// Sets the output of the cut heads of a row to 0.  @param output  [size]
  void cut_heads(std::int64_t row, std::int64_t size, float* output) const;

  /// Norms rows [begin, end) of the residual stream, or copies them where the weight is empty.  @param out  [rows, D]
  void norm(const FloatArray& weight, const FloatArray& bias, std::int64_t begin, std::int64_t end, float* out) const;
  /// The same of what the mixer of a layer reads, as many numbers of a row as config().input_size() says.
  void norm_input(int layer, std::int64_t begin, std::int64_t end, float* out) const;
  /// @param bias  as wide as the rows, or empty
  static void add_to_rows(const FloatArray& bias, std::int64_t count, float* rows);
  /// The first `columns` numbers of each of some rows.
  struct RowsIn {
    const float* first;
    std::int64_t columns;
    std::int64_t stride;
  };
  /// x += r (in W^T + bias) of rows of the residual stream, or x += r norm(in W^T + bias), with r of residual_factor;
  /// but for r = 1 without a norm it takes Scratch::normed.
  /// @param bias       [D], or empty
  /// @param post_norm  likewise
  void add_to_residual(const Rows& rows, const RowsIn& in, const FloatArray& weight, const FloatArray& bias,
                       const FloatArray& post_norm = {});
  /// From here on what is added to x takes its place, or no more so.
  void replace_residual(bool replaces) { replaces_ = replaces; }
  /// x += r made, or x += r norm(made), of rows of the residual stream.  @param made  [rows, D], which is overwritten
  void add_made(const Rows& rows, float* made, const FloatArray& post_norm);

  /// Calls a step for every chunk of rows, on all threads. @returns false if the job was stopped
  bool for_rows(const std::function<void(const Rows&)>& step);
  /// The same for any number of rows, as many at a time as the scratch holds.
  bool for_chunks(std::int64_t count, const Job& job, const std::function<void(const Rows&)>& step);
  /// Calls a body for every task, on all threads where the tasks read enough numbers together.
  void share(std::int64_t tasks, std::int64_t numbers, const std::function<void(std::int64_t task)>& body);
  /// Lays a matrix [columns, depth] out for the products of the step that follows, if it has enough rows.
  /// @param place  of those that the step reads
  /// @param count  rows of the step
  void pack(std::size_t place, std::int64_t count, const FloatArray& weight, std::int64_t depth);
  /// out = in W^T, or out += in W^T, in a step for rows.
  void multiply(kernels::cpu::MatrixProduct product);
  /// The same outside of tasks: the columns are shared by all threads, and no row's digits depend on the others.
  void multiply_columns(const kernels::cpu::RowProducts& products);

 private:
  /// The matrix that is in panels, for all rows of a step.
  struct PackedMatrix {
    std::span<const float> of;  ///< empty: none
    std::int64_t depth = 0;     ///< of the products that it is packed for
  };
  void norm_rows(const FloatArray& rows, const FloatArray& weight, const FloatArray& bias, std::int64_t begin,
                 std::int64_t end, float* out) const;
  void norm_beside(const FloatArray& weight, std::int64_t begin, std::int64_t end, float* out) const;
  [[nodiscard]] const float* packed_of(const kernels::cpu::MatrixProduct& product) const;

  const ModelWeights& weights_;
  bool by_columns_;
  CpuTeam team_;
  std::int64_t chunk_ = 1;
  WorkspaceCache* kept_;  ///< null: the memory ends with the pass
  std::unique_ptr<CpuWorkspace> memory_;
  std::size_t normed_ = 0, wide_ = 0, output_ = 0;  ///< numbers that parts need
  std::array<PackedMatrix, 2> packed_;              ///< for the step at hand
  bool replaces_ = false;
  std::vector<std::vector<int>> cut_heads_;  ///< [B] of the layer at hand
};

}  // namespace foxscope
