#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/running_options.h"

namespace foxscope::cli {

/// `foxscope run`, as typed.
struct RunOptions : RunningOptions {
  std::vector<std::string> models;  ///< [NAME=]DIR
  std::string text;                 ///< file, "-" for standard input; empty: ids
  std::string ids;
  std::optional<std::int64_t> limit;
  std::string keep = "loss,gates,rows,qk";
  std::string saliency;  ///< A:B
  std::string invalidUtf8 = "refuse";
  std::string output;
  bool force = false;
  bool json = false;
};

/// Runs the models one after the other and writes one run file.
int runModels(const RunOptions& options, const CommandContext& context);

/// `foxscope info` on a checkpoint folder or hub id: its description as a table or JSON.
std::string describeCheckpoint(const std::string& path, bool json);

}  // namespace foxscope::cli
