#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <QString>

#include "backend/trace/trace.h"

namespace foxscope::gui {

/// The trace and head whose numbers a read-out gives.
struct ReadoutRequest {
  struct NamedTrace {
    QString name;
    std::shared_ptr<const Trace> trace;
  };
  std::shared_ptr<const Trace> reference;
  std::vector<NamedTrace> runs;
  std::int64_t cell = 0;  ///< of the reference run
  int headRun = -1;       ///< index into runs; -1: no head is chosen
  int layer = 0;
  int head = 0;
  std::optional<std::int64_t> pinnedQuery;  ///< positions of the reference run
  std::optional<std::int64_t> pinnedKey;
};

/// All that is known of a word, as HTML for a tooltip: the position that predicts it and the one that reads it, each
/// with what it reads, what it predicts and its loss in every run; the gate where it is read; F and A to the pin; the
/// experts of the layer. A number that cannot be read from a run is left out. Reads the traces, so it belongs on a
/// job's thread.
QString readoutOf(const ReadoutRequest& request);

}  // namespace foxscope::gui
