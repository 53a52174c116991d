// Stands in for every .cu file in a build without CUDA.
#include <new>

#include "kernels/cuda/attention/forgetting_attention.h"
#include "kernels/cuda/attention/forgetting_attention_backward.h"
#include "kernels/cuda/attention/next/next_token.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/linear/delta_chunks.h"
#include "kernels/cuda/linear/lagged_products.h"
#include "kernels/cuda/linear/linear_chunks.h"
#include "kernels/cuda/linear/linear_steps.h"
#include "kernels/cuda/maps/attention_statistics.h"
#include "kernels/cuda/maps/forget_map.h"
#include "kernels/cuda/maps/gate_sums.h"
#include "kernels/cuda/maps/mixing_map.h"
#include "kernels/cuda/maps/mixing_statistics.h"
#include "kernels/cuda/maps/pooled_map.h"
#include "kernels/cuda/maps/sampled_rows.h"
#include "kernels/cuda/maps/strip_map.h"
#include "kernels/cuda/steps/gate_scan.h"
#include "kernels/cuda/steps/loss_product.h"
#include "kernels/cuda/steps/step_gradients.h"
#include "kernels/cuda/steps/steps.h"
#include "kernels/cuda/steps/swiglu_product.h"
#include "kernels/cuda/steps/token_loss.h"

namespace foxscope::kernels::cuda {

bool is_built() { return false; }
int device_count() { return 0; }
bool is_available() { return false; }
std::string device_name(int /*device*/) { return {}; }
bool has_context(int /*device*/) { return false; }

DeviceScope::DeviceScope(int device) : former_(device) {}
DeviceScope::~DeviceScope() { former_refused_ = former_ != 0; }

DeviceBuffer::DeviceBuffer(std::size_t /*bytes*/) { throw std::bad_alloc(); }
// Bodies, since the classes are not trivial where there is CUDA.
DeviceBuffer::~DeviceBuffer() { device_ = 0; }
DeviceBuffer::DeviceBuffer(DeviceBuffer&& /*other*/) noexcept {}
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& /*other*/) noexcept { return *this; }
bool DeviceBuffer::upload(std::span<const std::byte> /*host*/) const { return false; }
bool DeviceBuffer::download(std::span<std::byte> /*host*/, std::size_t /*offset*/) const { return false; }
bool DeviceBuffer::fill(std::uint8_t /*value*/) const { return false; }

PinnedBuffer::PinnedBuffer(std::size_t /*bytes*/, int /*device*/) { throw std::bad_alloc(); }
PinnedBuffer::~PinnedBuffer() { bytes_ = 0; }

KeptBuffers::KeptBuffers() {}
KeptBuffers::~KeptBuffers() {}

DeviceStream::DeviceStream() = default;
DeviceStream::~DeviceStream() { device_ = 0; }
bool DeviceStream::wait() const { return stream_ != nullptr; }

std::unique_ptr<DeviceGraph> DeviceGraph::record(Stream /*stream*/, const std::function<void()>& /*launch*/) {
  return nullptr;
}
DeviceGraph::~DeviceGraph() { executable_ = nullptr; }
Status DeviceGraph::launch(Stream /*stream*/) const {
  return device_ < 0 ? Status::invalid_argument : Status::unavailable;
}

bool copy_to_device(void* /*device*/, std::span<const std::byte> /*host*/, Stream /*stream*/) { return false; }
bool copy_to_host(std::span<std::byte> /*host*/, const void* /*device*/, Stream /*stream*/) { return false; }
std::size_t free_memory() { return 0; }

DeviceTimer::DeviceTimer() = default;
DeviceTimer::~DeviceTimer() { begin_ = end_ = nullptr; }
void DeviceTimer::start(Stream /*stream*/) {}
double DeviceTimer::stop(Stream /*stream*/) { return 0; }

bool synchronize() { return false; }

AttentionKernel automatic_kernel(const ForgettingAttention& /*arguments*/) { return AttentionKernel::automatic; }
std::size_t workspace_bytes(const ForgettingAttention& /*arguments*/) { return 0; }
Status forgetting_attention(const ForgettingAttention& /*arguments*/, Stream /*stream*/, AttentionKernel /*kernel*/) {
  return Status::unavailable;
}
Status forgetting_attention_float32(const ForgettingAttention& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}

std::size_t backward_workspace_bytes(const ForgettingAttentionBackward& /*arguments*/) { return 0; }
Status forgetting_attention_backward(const ForgettingAttentionBackward& /*arguments*/, Stream /*stream*/,
                                     AttentionKernel /*kernel*/) {
  return Status::unavailable;
}
Status forgetting_attention_backward_float32(const ForgettingAttentionBackward& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}

Status next_rotations(const HeldSequence* /*sequences*/, std::int64_t /*batch*/, std::int64_t /*half*/,
                      const double* /*frequencies*/, float* /*table*/, Stream /*stream*/) {
  return Status::unavailable;
}
Status project_next_heads(const ProjectedHeads& /*heads*/, const HeldSequence* /*sequences*/, Stream /*stream*/) {
  return Status::unavailable;
}
Status next_attention(const NextAttention& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
std::size_t next_attention_workspace_bytes(std::int64_t /*batch*/, std::int64_t /*heads*/, std::int64_t /*head_dim*/) {
  return 0;
}

Status decayed_scores(const DecayedScores& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status decayed_scores_gradient(const DecayedScoresGradient& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}
Status scaled_rows(const ScaledRows& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status scaled_rows_gradient(const ScaledRowsGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status decayed_mix(const DecayedMix& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status pass_states(const PassedStates& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status pass_states_gradient(const PassedStatesGradient& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}
Status head_decays(const HeadDecays& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status head_decays_gradient(const HeadDecaysGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status carried_gradient(const CarriedGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
std::int64_t decayed_mix_parts(const DecayedMix& /*arguments*/) { return 0; }
Status decayed_mix_gradient(const DecayedMixGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status channel_chunks(const ChannelChunks& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status channel_chunks_gradient(const ChannelChunksGradient& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}
bool channel_chunks_gradient_fits(std::int64_t /*width*/) { return false; }
Status short_convolution(const ShortConvolution& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
std::int64_t short_convolution_parts(const ShortConvolution& /*arguments*/) { return 0; }
Status short_convolution_gradient(const ShortConvolutionGradient& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}

Status delta_chunks(const DeltaChunks& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status delta_states(const DeltaStates& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
std::int64_t delta_state_parts(std::int64_t /*columns*/) { return 0; }
Status delta_states_gradient(const DeltaStatesGradient& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}
bool delta_states_gradient_fits(std::int64_t /*rows*/) { return false; }
Status delta_triangle_gradient(const DeltaTriangleGradient& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}
Status delta_rows_gradient(const DeltaRowsGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

Status unit_heads(const UnitHeads& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status linear_output(const LinearOutput& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status decay_keys(const DecayKeys& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
std::int64_t decay_keys_parts(const DecayKeys& /*arguments*/) { return 0; }
Status decay_keys_gradient(const DecayKeysGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status unit_heads_gradient(const UnitHeadsGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
std::int64_t linear_output_parts(const LinearOutput& /*arguments*/) { return 0; }
Status linear_output_gradient(const LinearOutputGradient& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}

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
Status mixing_strip(const MixingStrip& /*strip*/, Stream /*stream*/) { return Status::unavailable; }
std::size_t mixing_statistics_workspace_bytes(const MixingHead& /*head*/) { return 0; }
Status mixing_statistics(const MixingStatistics& /*statistics*/, Stream /*stream*/) { return Status::unavailable; }
std::size_t strip_map_workspace_bytes(const StripMap& /*map*/) { return 0; }
Status strip_map(const StripMap& /*map*/, Stream /*stream*/) { return Status::unavailable; }
std::size_t forget_map_workspace_bytes(const ForgetMap& /*map*/) { return 0; }
Status forget_map(const ForgetMap& /*map*/, Stream /*stream*/) { return Status::unavailable; }
Status log_normalizer_without_gate(const MapHead& /*head*/, std::int64_t /*row_begin*/, std::int64_t /*row_end*/,
                                   float* /*rows*/, Stream /*stream*/) {
  return Status::unavailable;
}
std::size_t lagged_products_workspace_bytes(const LaggedProducts& /*products*/) { return 0; }
Status lagged_products(const LaggedProducts& /*products*/, Stream /*stream*/) { return Status::unavailable; }
std::size_t sampled_rows_workspace_bytes(std::int64_t /*length*/, int /*rows*/, int /*count*/, bool /*mixing*/) {
  return 0;
}
Status sampled_rows(const SampledRows& /*rows*/, Stream /*stream*/) { return Status::unavailable; }
Status gate_sums(const GateSums& /*sums*/, Stream /*stream*/) { return Status::unavailable; }
Status gate_products(const GateProducts& /*products*/, Stream /*stream*/) { return Status::unavailable; }
std::size_t attention_statistics_workspace_bytes(std::int64_t /*length*/, int /*count*/) { return 0; }
Status attention_statistics(const AttentionStatistics& /*statistics*/, Stream /*stream*/) {
  return Status::unavailable;
}

std::size_t gate_scan_workspace_bytes(std::int64_t /*heads*/, std::int64_t /*length*/) { return 0; }
Status gate_scan(const GateScan& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

Status residual_norm(const ResidualNorm& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status project_heads(const ProjectedHeads& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status rotary_table(std::int64_t /*first_position*/, std::int64_t /*rows*/, std::int64_t /*half*/,
                    const double* /*frequencies*/, float* /*table*/, Stream /*stream*/) {
  return Status::unavailable;
}
Status gate_output(const GatedOutput& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status swiglu(const SwiGlu& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status swiglu_product(const SwiGluProduct& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
std::size_t loss_product_bytes(const LossProduct& /*arguments*/) { return 0; }
Status loss_product(const LossProduct& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

std::size_t workspace_bytes(const ResidualNormGradient& /*arguments*/) { return 0; }
Status residual_norm_gradient(const ResidualNormGradient& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}
std::size_t workspace_bytes(const ProjectedHeadsGradient& /*arguments*/) { return 0; }
Status project_heads_gradient(const ProjectedHeadsGradient& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}
std::size_t workspace_bytes(const GatedOutputGradient& /*arguments*/) { return 0; }
Status gate_output_gradient(const GatedOutputGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status swiglu_gradient(const SwiGluGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status token_loss_gradient(const TokenLossGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
Status forget_gate_gradient(const ForgetGateGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }
std::size_t workspace_bytes(const EmbeddingGradient& /*arguments*/) { return 0; }
Status embedding_gradient(const EmbeddingGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

Status token_loss(const TokenLoss& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

}  // namespace foxscope::kernels::cuda
