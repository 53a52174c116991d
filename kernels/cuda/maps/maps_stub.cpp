// Stands in for the maps and statistics of a build without CUDA.
#include "kernels/cuda/linear/lagged_products.h"
#include "kernels/cuda/maps/attention_statistics.h"
#include "kernels/cuda/maps/forget_map.h"
#include "kernels/cuda/maps/mixing_map.h"
#include "kernels/cuda/maps/pooled_map.h"

namespace foxscope::kernels::cuda {

std::size_t head_table_bytes(std::int64_t /*length*/) { return 0; }
Status prepare_map_head(const MapHead& /*head*/, void* /*tables*/, Stream /*stream*/) { return Status::unavailable; }
std::size_t pooled_map_workspace_bytes(const PooledMap& /*map*/) { return 0; }
Status pooled_map(const PooledMap& /*map*/, Stream /*stream*/) { return Status::unavailable; }

std::size_t mixing_table_bytes(const MixingHead& /*head*/) { return 0; }
Status prepare_mixing_head(const MixingHead& /*head*/, void* /*tables*/, Stream /*stream*/) {
  return Status::unavailable;
}
std::size_t mixing_map_workspace_bytes(const MixingMap& /*map*/) { return 0; }
Status mixing_map(const MixingMap& /*map*/, Stream /*stream*/) { return Status::unavailable; }

std::size_t forget_map_workspace_bytes(const ForgetMap& /*map*/) { return 0; }
Status forget_map(const ForgetMap& /*map*/, Stream /*stream*/) { return Status::unavailable; }

Status log_normalizer_without_gate(const MapHead& /*head*/, std::int64_t /*row_begin*/, std::int64_t /*row_end*/,
                                   float* /*rows*/, Stream /*stream*/) {
  return Status::unavailable;
}
std::size_t lagged_products_workspace_bytes(const LaggedProducts& /*products*/) { return 0; }
Status lagged_products(const LaggedProducts& /*products*/, Stream /*stream*/) { return Status::unavailable; }

std::size_t attention_statistics_workspace_bytes(std::int64_t /*length*/) { return 0; }
Status attention_statistics(const AttentionStatistics& /*statistics*/, Stream /*stream*/) {
  return Status::unavailable;
}

}  // namespace foxscope::kernels::cuda
