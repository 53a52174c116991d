#pragma once

#include <string>

#include "backend/trace/recorded.h"

namespace foxscope {

/// Says how a run gets the losses that it does not keep, by who made its file: "run again with --keep loss", of a run
/// that was recorded from Python the call that takes them, of another program's tensors and run files the tensor or
/// array that holds them.
inline std::string losses_remedy(const TraceInfo& info) {
  if (is_recorded(info)) return "record it again, and call rec.logits(...) in the block";
  // Only runs of this program know the checksum of their weights.
  if (info.weights_sha256.empty()) return "import it again with a tensor named loss, or write loss/per_token_loss";
  return "run again with --keep loss";
}

}  // namespace foxscope
