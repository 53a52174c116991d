#pragma once

#include <string>

#include "backend/trace/trace.h"

namespace foxscope {

/// Says how a run gets the losses that it does not keep, by who made its file: "run again with --keep loss", of a run
/// that was recorded from Python the call that takes them, of another program's tensors and run files the tensor or
/// array that holds them.
inline std::string losses_remedy(const TraceInfo& info) {
  // foxscope.record says so there, and only runs of this program know the checksum of their weights.
  if (info.attention_kernel.starts_with("recorded")) return "record it again, and call rec.logits(...) in the block";
  if (info.weights_sha256.empty()) return "import it again with a tensor named loss, or write loss/per_token_loss";
  return "run again with --keep loss";
}

}  // namespace foxscope
