#pragma once

#include <cstdint>
#include <vector>

#include "backend/trace/trace.h"

namespace foxscope::test {

/// How far attention of a run is from float64 on the run's own queries, keys and gates, over all heads.
struct AttentionErrors {
  std::vector<double> entries;      ///< |A / exact - 1| of entries as maps have them; of those that exceed 1e-30
  std::vector<double> normalizers;  ///< |log-normaliser - exact| of the rows, nats
};

/// Looks at two blocks of 64 rows of every head: from a quarter of the text on, and its last.
/// @param trace  with gates, rows, queries and keys; no window; at least 128 positions
AttentionErrors attention_errors(const std::shared_ptr<const Trace>& trace);

/// The value that a share of the values do not exceed. Reorders them.
double quantile_of(std::vector<double>& values, double share);

}  // namespace foxscope::test
