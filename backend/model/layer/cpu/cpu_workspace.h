#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/model/spec/parameters.h"

namespace foxscope {

/// Memory that CpuForward computes in. Arrays are as large as they have been needed so far, and what is in them is left
/// over.
struct CpuWorkspace {
  /// Memory of one thread for one chunk of rows.
  struct Scratch {
    FloatArray normed;  ///< [rows + 1, D]
    FloatArray wide;    ///< [rows + 1, the widest product]
  };
  std::vector<Scratch> scratch;      ///< one a thread
  std::array<FloatArray, 2> packed;  ///< matrices in panels, for all rows of a step
  FloatArray residual;               ///< [B, n, D]
  FloatArray entered;                ///< [B, n, D] what the mixer of a layer reads that reads with the one before it
  FloatArray embedded;               ///< [B, n, D] the embedding, where layers beside the stream read it
  FloatArray query, key, value;      ///< [B, H, n, d], [B, H_kv, n, d]; where no probe lends memory
  FloatArray attended;               ///< [B, n, H d]; in the end [B, n, D] behind the final norm

  static void grow(FloatArray& array, std::size_t size) {
    if (array.size() < size) array.resize(size);
  }
};

/// The memory of a pass for the next one, so that a model which runs pass after pass asks the system once. From any
/// thread: a pass beside another has memory of its own.
class WorkspaceCache {
 public:
  [[nodiscard]] std::unique_ptr<CpuWorkspace> take();
  void keep(std::unique_ptr<CpuWorkspace> memory);

 private:
  std::mutex mutex_;
  std::unique_ptr<CpuWorkspace> kept_;
};

}  // namespace foxscope
