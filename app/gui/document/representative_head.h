#pragma once

#include "backend/trace/trace.h"

namespace foxscope::gui {

/// A head by its numbers.
struct RepresentativeHead {
  int layer = 0;
  int head = 0;
};

/// The head that a map of the whole text shows best: of the longest memory that is still short against the text, by
/// decay time -1 / mean(log f); or else of the shortest. The first head of a model without gates, and where gates were
/// not kept or cannot be read. Reads all gates: work for a job.
RepresentativeHead representativeHead(const Trace& trace);

}  // namespace foxscope::gui
