#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/model/layer/cpu/cpu_pass.h"
#include "backend/model/spec/parameters.h"
#include "kernels/cpu/forgetting_attention.h"

namespace foxscope {

/// Passes keys of attention on (PathDirections) on the CPU: a position does it by e = w and b = -beta w.
class PathCpu {
 public:
  explicit PathCpu(CpuPass& pass);

  /// Rows before a row that its convolution reads.
  [[nodiscard]] std::int64_t rows_before() const { return std::max(0, path_.taps - 1); }
  /// Numbers of Scratch::wide that a row takes.
  [[nodiscard]] std::int64_t wide() const { return size_; }
  /// Makes e and b of some rows.
  /// @param first      row of `projected`
  /// @param projected  [rows.end - first, columns] of ProjectionColumns
  /// @param memory     [rows.end - first, wide()]
  void split(int layer, const CpuPass::Rows& rows, std::int64_t first, const float* projected, float* memory);
  /// Attends whole texts, and hands e and b to the probes.
  /// @param first  sequence, of those of `arguments`
  /// @returns false if the job was stopped
  bool attend(int layer, std::int64_t first, const kernels::cpu::ForgettingAttention& arguments);
  /// Keys of a whole text as its state holds them, [H_kv, n, d].
  /// @returns empty if the job was stopped
  FloatArray keys_at_end(std::int64_t sequence, const float* keys);
  /// Passes the keys that the states hold over the position at hand.
  void pass_cached(int layer);

 private:
  [[nodiscard]] std::int64_t at(std::int64_t sequence) const { return sequence * size_ * length_; }

  CpuPass& pass_;
  const ModelConfig& config_;
  const PathDirections& path_;
  ProjectionColumns columns_;
  std::int64_t length_;                  ///< n
  std::int64_t size_;                    ///< H_kv d
  FloatArray erase_read_, erase_write_;  ///< [B, H_kv, n, d] e and b
  FloatArray zeros_;                     ///< w before the first position
};

}  // namespace foxscope
