#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "backend/base/job.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Options say of a run what a file of tensors does not.
struct TensorRunOptions {
  std::string name = {};                 ///< of the model
  bool length_first = false;             ///< tensors are [L, H, d] and [L, H], not [H, L, d] and [H, L]
  std::optional<Mixer> mixer = {};       ///< of layers that are no attention; none: their tensors say it
  std::int64_t window_size = 0;          ///< keys that a query of attention sees; 0: all
  std::filesystem::path tokenizer = {};  ///< folder of the tokenizer that made `ids`; empty: tokens have no words
};

/// Reads the run that a safetensors file describes (docs/files.md): of each layer N
///
///     layers.N.q [H, L, d], layers.N.k [H_k, L, d], layers.N.v [H_v, L, d_v] or none, and one of
///     layers.N.log_f [H, L]                        softmax attention with a forget gate
///     nothing more                                 softmax attention without one
///     layers.N.log_decay [H, L] or [H_k, L, d]     linear attention with decay
///     layers.N.beta [H, L], with log_decay or without   the delta rule
///     layers.N.decay_rate [H, d], log_decay and beta    Mamba
///     layers.N.erase_read, erase_write [H_k, L, d] and log_decay   diagonal plus low rank (RWKV-7, Comba)
///
/// with layers.N.sink [H] and layers.N.window (a number) of softmax attention where it has them; in F64, F32, F16 or
/// BF16, where `mixer` does not say otherwise; `ids` [L], I32 or I64, what each position reads; and `labels` [L], what
/// each predicts, `loss` [L], `scale` and `logit_cap` (numbers) and `text` (U8) if they are there, the last three as a
/// tensor or as metadata. A layer below the last that has no tensors has no mixer. Arrays are converted where they are
/// asked for: the file stays mapped, and memory is O(L) of a layer. c_i = sum over l <= i of log f_l in compensated
/// float64, log f no lower than -1000 (kernels/cpu/gate_scan.h).
/// @returns the trace, without row normalisers (complete_rows); null if the job was stopped
/// @throws Error naming the file and the tensor: missing, not known, another shape, type or length, numbers that are
///         not finite, log gates or log decays above 0, ids that the text does not have
std::shared_ptr<const Trace> read_tensor_run(const std::filesystem::path& path, const TensorRunOptions& options,
                                             const Job& job);

}  // namespace foxscope
