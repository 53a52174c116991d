#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/model_names.h"
#include "backend/model/session/engine.h"

namespace CLI {
class App;
}

namespace foxscope::cli {

/// How models run, as typed.
struct RunningOptions {
  std::optional<std::int64_t> bos;
  std::string device = "auto";
  std::string dtype = "auto";
  std::optional<double> pruning;
  std::vector<std::string> interventions;
};

/// --bos, --device, --dtype and --pruning.
/// @param begun    what BOS begins, "the sequence"
/// @param skipped  what --pruning is a share of
void addRunningOptions(CLI::App& command, RunningOptions& options, const std::string& begun,
                       const std::string& skipped = "Share of a row's attention that may be skipped");
void addInterventions(CLI::App& command, RunningOptions& options, const std::string& help);

/// A model that is to run so.
/// @param named  what it is called, and its folder or hub id
/// @throws UsageError for words that are none
ModelRequest modelRequest(const RunningOptions& options, const NamedModel& named);

}  // namespace foxscope::cli
