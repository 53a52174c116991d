#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend/map/map.h"

namespace foxscope::figure {

/// Where a figure comes from, for its file's metadata: enough to make it again and to check that it is the same.
struct FigureOrigin {
  std::string title;
  std::string command;                                     ///< how to make the figure again; may be empty
  std::vector<std::pair<std::string, std::string>> facts;  ///< name and value, in the order to be read
  std::string mark;  ///< a sentence in red below the page: why not to trust what it shows; empty: none

  /// "name: value" of every fact, with this between them.
  [[nodiscard]] std::string factsText(const std::string& separator) const;
};

/// "fox-pro-12m, layer 2, head 1"
std::string headText(const HeadOf& head);

/// "first 160 of 1000 positions", of the beginning of a text that is shown alone since more would show nothing.
std::string firstPositions(const Range& positions, std::int64_t length);

/// Adds a fact that is not there yet.
void addOnce(FigureOrigin& origin, std::pair<std::string, std::string> fact);

/// Adds a model with its weights' SHA-256, and the mark of a run file that was not checked.
void addModel(FigureOrigin& origin, const TraceInfo& info);

/// Adds the run's model with its weights' SHA-256, and its text's.
void addRun(FigureOrigin& origin, const Trace& run);

}  // namespace foxscope::figure
