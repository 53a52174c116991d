#pragma once

#include <optional>
#include <vector>

#include "backend/map/map.h"
#include "kernels/status.h"

namespace foxscope {

/// The GPU that computes a request's map: the GPU of its head, else the GPU of the head that is subtracted.
std::optional<int> gpu_of(const MapRequest& request);

/// Whether the kernels take a head: softmax attention of products of queries and keys that are not capped, with
/// dimensions up to 256 and a positive scale.
bool device_takes(const HeadOf& head);

/// Whether a linear mixer's kernels take a head: M, its shares of rows, or the mean over channels of F.
bool device_mixes(const HeadOf& head, Quantity quantity);

/// The map on a GPU, to what compute_map gives on the CPU within float32's rounding (of bfloat16's products). The
/// request is valid.
/// Heads of linear mixers are taken with dimensions up to 256: their mixing, attention and forget.
/// @returns ok; cancelled; or unsupported for what is left to the CPU: other heads than these, F without a gate, F of
///          one channel, differences of the gate's effect, and what is too large for the kernels
/// @throws Error naming the GPU where it fails, and the figure where it has too little memory
kernels::Status device_map(const MapRequest& request, int gpu, const Job& job, Image& image);

/// Row log-normalisers of softmax(S) without the gate on a GPU, [L]. @returns and throws likewise
kernels::Status device_log_normalizer_without_gate(const HeadOf& head, const Range& rows, int gpu,
                                                   std::vector<float>& normalizer);

/// Sum over j of |M_ij| of some rows of a linear mixer on a GPU, [L], NaN for other rows. @returns and throws likewise
kernels::Status device_row_sizes(const HeadOf& head, const Range& rows, int gpu, std::vector<float>& sizes);

/// @throws Error where the GPU failed
void require_device(kernels::Status status, int gpu);

}  // namespace foxscope
