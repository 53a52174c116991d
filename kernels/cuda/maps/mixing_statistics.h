#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/maps/attention_statistics.h"
#include "kernels/cuda/maps/mixing_map.h"
#include "kernels/cuda/stream.h"
#include "kernels/status.h"

namespace foxscope::kernels::cuda {

/// Statistics of attention of one head of a linear mixer, A_ij = |M_ij| / sum over j of |M_ij|.
struct MixingStatistics {
  PreparedMixer mixer;
  const double* gate = nullptr;         ///< [L] c, nats, of AttentionSums::log_decay; null: that is 0
  const std::int32_t* token = nullptr;  ///< [L] that each position reads, 0 and above; null: nothing is a repeat
  AttentionSums* sums = nullptr;        ///< [1]
  double* mass = nullptr;               ///< [L] as AttentionStatistics::mass
  double* mass_without_first = nullptr;
  void* workspace = nullptr;  ///< [mixing_statistics_workspace_bytes], aligned to 16 bytes
};

/// At most some 1 GiB, or 256 rows.
std::size_t mixing_statistics_workspace_bytes(const MixingHead& head);

/// Strips of whole rows are written to memory (mixing_strip) and read twice, for the rows' sums and for all else. A row
/// whose entries are all 0 has no attention. Sums are in fixed point and the same in every run. Asynchronous; all
/// pointers are to memory of the device. @returns as mixing_map
Status mixing_statistics(const MixingStatistics& statistics, Stream stream);

}  // namespace foxscope::kernels::cuda
