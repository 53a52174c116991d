#pragma once

#include <cstdint>
#include <vector>

#include "backend/model/layer/cpu/cpu_pass.h"
#include "backend/model/layer/expert_choice.h"

namespace foxscope {

/// A layer's mixture of experts (ExpertMixture) on the CPU. The router chooses for all rows first; then each chosen
/// expert is read once, from where it lies in the checkpoint's file, for all rows that chose it.
class MixtureCpu {
 public:
  explicit MixtureCpu(CpuPass& pass);

  /// Makes sum_T w_e expert_e(n) of all rows, and keeps what was chosen.
  /// @returns false if the job was stopped
  bool mix(int layer);
  /// Rows [B n, D] of norm(x) and of what the experts made of the layer at hand.
  [[nodiscard]] const float* normed(std::int64_t row) const { return normed_.data() + row * pass_.hidden(); }
  [[nodiscard]] float* made(std::int64_t row) { return made_.data() + row * pass_.hidden(); }

  /// Bytes of memory beside the pass's own: for each token, and whatever the text.
  static PassBytes bytes(const ModelConfig& config);

 private:
  /// Rows that read one expert, as many as are computed at a time.
  struct Piece {
    std::int64_t expert = 0;
    std::int64_t begin = 0;  ///< of pairs_
    std::int64_t end = 0;
    [[nodiscard]] std::int64_t count() const { return end - begin; }
  };
  /// A row that reads an expert.
  struct Pair {
    std::int64_t row = 0;
    float weight = 0;
  };
  bool choose(int layer);
  bool raise_sums(int layer);
  void choose_rows(int layer, const CpuPass::Rows& rows);
  void drop_experts(int layer);
  void keep_choice(int layer);
  void sort_pairs();
  void check_made(int layer) const;
  bool multiply_pieces(int layer, std::int64_t first, std::int64_t last);
  void read_in(int layer, const Piece& piece, std::int64_t place, std::int64_t unit, std::int64_t count, int thread);
  void add_out(int layer, const Piece& piece, std::int64_t place, std::int64_t column, std::int64_t count, int thread);
  /// in W^T for the rows of a piece, with the digits that one row has alone.
  void multiply(const Piece& piece, const float* in, std::int64_t in_stride, const float* weight, std::int64_t columns,
                std::int64_t depth, float* out, std::int64_t out_stride) const;

  CpuPass& pass_;
  const ExpertMixture& mixture_;
  std::int64_t width_;  ///< numbers that an expert reads and makes
  std::int64_t wide_;   ///< columns of an expert's first product
  FloatArray normed_, made_;
  FloatArray read_, sums_;            ///< [B n, width_] what latent experts read, and what they make together
  std::vector<ChosenExpert> chosen_;  ///< [B n, k]
  std::vector<Pair> pairs_;           ///< of all rows, by expert and row
  std::vector<Piece> pieces_;
  FloatArray gathered_, units_;                ///< [pairs of the pieces at hand, width_] and [.., 2 I]
  std::vector<FloatArray> weights_, product_;  ///< of each thread: rows of a matrix, and what they make
};

}  // namespace foxscope
