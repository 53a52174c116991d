#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/trace/trace.h"

namespace foxscope {

/// How much of a run is read to hold its arrays against one another.
struct CheckExtent {
  std::uint64_t layer_bytes = 0;  ///< all but queries, keys and values: as many layers as fit, from the first on
  std::uint64_t key_bytes = 0;    ///< keys of all these layers: rows lie as far back as fits, or in the first 256
};
/// A few milliseconds of reading and computing.
inline constexpr CheckExtent kGlance = {std::uint64_t{1} << 20U, std::uint64_t{1} << 20U};
/// Every layer.
inline constexpr CheckExtent kWholeCheck = {std::numeric_limits<std::uint64_t>::max(), std::uint64_t{64} << 20U};

/// The layers, heads and rows that were checked, and found right.
struct RunCheckReport {
  int layers = 0;            ///< of which something was looked at
  std::int64_t gates = 0;    ///< heads whose c falls
  std::int64_t rows = 0;     ///< rows of attention that sum to 1
  std::int64_t unknown = 0;  ///< rows that are no numbers, as those of weights that are none
  double largest_error = 0;  ///< of such a sum
  bool whole = true;         ///< false: the extent was spent before the last layer, or the job was stopped
};

/// By which a sum of log f may rise, in parts of its size: a sum in blocks is rounded anew in each, which in float32
/// (as torch.cumsum sums float32) comes to some units in the last place, 2^-23.
inline constexpr double kMostRise = 8 * 0x1p-23;
/// Whether a sum of log f is above the lowest before it by more than rounding.
inline bool rises(double sum, double lowest) {
  return !(sum - lowest <= kMostRise * std::max(std::abs(sum), std::abs(lowest)));
}

/// A row of attention that does not sum to 1.
struct RowProblem {
  TraceArray normalizer = TraceArray::log_normalizer;  ///< by which
  int layer = 0;
  int head = 0;
  std::int64_t row = 0;
  double sum = 0;
};

/// Holds the arrays of a run against one another: c falls but for rounding, 8 units in float32's last place of its size
/// (it is a sum of log f, and f is at most 1), which the source checks wherever it reads c; and in softmax attention
/// sum_j exp(s q_i.k_j + c_i - c_j - lse_i) = 1 for four rows i of every head, within 1e-5, in bfloat16 1e-3, and
/// float32's rounding of logits, normaliser and c, 1e-2 at most, and the share that pruning may have left out. The same
/// without c where normalisers without the gate were kept. A normaliser is NaN only where the query or a key is no
/// number. Of linear mixers everything that M is made of must be numbers, which the source checks too. Arrays that were
/// not kept are not looked at.
/// @param file      its name, for errors
/// @param problems  if not null: takes the rows that do not sum to 1, which then are no error
/// @throws Error naming file, layer, head, row, and the arrays that do not belong together
RunCheckReport check_run(const Trace& trace, const std::string& file, const CheckExtent& extent,
                         const std::stop_token& stop, std::vector<RowProblem>* problems = nullptr);

/// The end of an error about arrays that contradict one another: what can be done.
inline constexpr const char* kUncheckedRemedy =
    "correct what wrote the file; other commands open it all the same with --unchecked";

}  // namespace foxscope
