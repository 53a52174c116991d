// Stands in for linear_chunks.cu in a build without CUDA.
#include "kernels/cuda/linear/linear_chunks.h"

namespace foxscope::kernels::cuda {

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

Status channel_chunks(const ChannelChunks& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

Status short_convolution(const ShortConvolution& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

std::int64_t short_convolution_parts(const ShortConvolution& /*arguments*/) { return 0; }

Status short_convolution_gradient(const ShortConvolutionGradient& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}

}  // namespace foxscope::kernels::cuda
