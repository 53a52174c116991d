#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/model/spec/model_config.h"
#include "backend/trace/recorder.h"

namespace foxscope::cli {

/// The share of a run file that one word of `--keep` adds.
struct KeptPart {
  std::string word;  ///< as in --keep
  std::int64_t bytes = 0;
};

/// Sizes of the parts that a run of `length` tokens keeps, largest first. The little beside them (tokens, text,
/// attributes) is left out.
std::vector<KeptPart> keptParts(const ModelConfig& config, std::int64_t length, const KeepSet& keep, DType dtype);

std::int64_t totalBytes(const std::vector<KeptPart>& parts);

/// Files larger than this are announced before they are made.
inline constexpr std::int64_t kAnnouncedBytes = 1'000'000'000;

/// "run.h5 will take about 4.9 GB, 4.3 GB of it for logits: leave logits out of --keep for a smaller file, or read less
/// by --limit (37 kB a token)".
/// @param tokens  of the longest run in the file
std::string largeFileNote(const std::string& output, const std::vector<KeptPart>& parts, std::int64_t tokens);

}  // namespace foxscope::cli
