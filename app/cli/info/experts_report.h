#pragma once

#include <optional>
#include <string>

#include "backend/file/run_file.h"

namespace foxscope::cli {

/// Experts of a run file that are to be told.
struct ExpertsRequest {
  std::string path;          ///< of the run file
  std::optional<int> layer;  ///< none: all that have experts
};

/// How the runs of a file use the experts of their layers, of all models that kept what they chose.
/// @returns JSON, CSV, or tables for people
/// @throws Error with the remedy where no model kept experts or the layer has none, UsageError for a layer that does
///         not exist
std::string expertsJson(const RunFile& file, const ExpertsRequest& request);
std::string expertsCsv(const RunFile& file, const ExpertsRequest& request);
std::string expertsText(const RunFile& file, const ExpertsRequest& request);

}  // namespace foxscope::cli
