#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/model/session/run.h"

namespace foxscope::cli {

/// The summary that `foxscope run` prints of one model.
struct ModelSummary {
  std::string name;
  std::int64_t tokens = 0;
  std::optional<double> meanLoss;  ///< nats; absent when losses were not kept
  double loadSeconds = 0;
  double forwardSeconds = 0;
  double writeSeconds = 0;           ///< its share of writing the file, the flush to disk left out
  std::int64_t peakMemoryBytes = 0;  ///< of the process, while this model was loaded and ran
  std::int64_t fileBytes = 0;        ///< what it adds to the file, estimated
  std::string device;
  std::string dtype;
  std::string attentionKernel;
  std::int64_t attentionBlocks = 0;
  std::int64_t skippedBlocks = 0;
};

ModelSummary summarize(const RunResult& result);

/// The summary of `--json`.
std::string summaryJson(const std::string& output, const std::vector<ModelSummary>& models);

/// The summary for people: one line a model, columns aligned, units in the header.
std::string summaryTable(const std::string& output, const std::vector<ModelSummary>& models);

/// Mean of per-token losses, nats, summed in float64; absent when there are none.
std::optional<double> meanLoss(std::span<const float> perTokenLoss);

}  // namespace foxscope::cli
