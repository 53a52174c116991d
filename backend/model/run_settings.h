#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/model/checkpoint.h"
#include "backend/model/run.h"
#include "backend/text/tokenizer.h"

namespace foxscope {

/// What a request comes to with a checkpoint.
struct ModelSettings {
  Device device;
  DType dtype = DType::float32;
  double pruning_tolerance = 0;  ///< the option's, else the checkpoint's, else 2^-24
};

/// Checks all of a request that can be wrong before its input is read: limit, BOS, device, dtype, pruning, saliency,
/// layers and heads of interventions. Whoever runs a model goes through here.
/// @throws UsageError, Error naming the option, or config.json and its key
ModelSettings validate(const RunRequest& request, const Checkpoint& checkpoint);

/// The token that begins a sequence: the option of a valid request, else config.json's, else the tokenizer's.
/// @param tokenizer  null: the checkpoint has none
/// @throws UsageError if none is named; Error for one outside the vocabulary
std::int32_t choose_bos(const RunRequest& request, const Checkpoint& checkpoint, const Tokenizer* tokenizer);

/// Of whose mean loss the gradients of a run are; none where saliency is not kept.
/// @throws UsageError for a range outside the text
std::optional<LossRange> saliency_target(const RunRequest& request, std::int64_t length);

/// What a run of `length` positions is, for a recorder and for files. The request's input is not looked at. Reads the
/// weights for their checksum.
/// @returns nothing if the job was stopped
/// @throws as saliency_target does
std::optional<TraceInfo> describe_run(const RunRequest& request, const Checkpoint& checkpoint,
                                      const ModelSettings& settings, std::int64_t length, const Job& job);

}  // namespace foxscope
