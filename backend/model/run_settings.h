#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/model/checkpoint.h"
#include "backend/model/run.h"
#include "backend/text/tokenizer.h"

namespace foxscope {

/// The matrices' format for the word of --dtype: "auto" is bfloat16 on a GPU, else float32.
/// @throws UsageError for another word
DType choose_dtype(const std::string& name, const Device& device);

/// The share of a row's attention that may be skipped: the option overrides the checkpoint, which overrides 2^-24.
/// @throws UsageError for an option outside [0, 1); Error naming config.json and its key for a share of 1 or more there
double choose_pruning(const RunRequest& request, const Checkpoint& checkpoint);

/// The token that begins a sequence: the option, else config.json's, else the tokenizer's.
/// @param tokenizer  null: the checkpoint has none
/// @throws UsageError if none is named, or an option outside the vocabulary; Error for such a token of the tokenizer
std::int32_t choose_bos(const RunRequest& request, const Checkpoint& checkpoint, const Tokenizer* tokenizer);

/// Of whose mean loss the gradients of a run are; none where saliency is not kept.
/// @throws UsageError for a range outside the text, or one without saliency in --keep
std::optional<LossRange> saliency_target(const RunRequest& request, std::int64_t length);

/// What a run of `length` positions is, for a recorder and for files. The request's input is not looked at. Reads the
/// weights for their checksum.
/// @returns nothing if the job was stopped
/// @throws as saliency_target does
std::optional<TraceInfo> describe_run(const RunRequest& request, const Checkpoint& checkpoint, const Device& device,
                                      DType dtype, std::int64_t length, const Job& job);

}  // namespace foxscope
