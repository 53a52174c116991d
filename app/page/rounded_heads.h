#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/map/map.h"

namespace foxscope::page {

/// The largest error of an entry of A, and in parts of the head's largest entry of M, that the rounding of queries and
/// keys may make.
inline constexpr double kLargestError = 5e-4;

/// Queries or keys of a head as whole numbers, each channel with a step of its own: x = number * step, in float32.
struct RoundedVectors {
  std::vector<std::int32_t> numbers;  ///< [d, L], channel by channel
  std::vector<float> steps;           ///< [d]; 0 for a channel that no entry depends on
  /// Bytes that the largest number takes, 2 or 3.
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] std::vector<float> values() const;
};

/// Heads that read the same keys.
struct HeadGroup {
  RunOnDevice trace;
  int layer = 0;
  int key_head = 0;
  std::vector<int> heads;
};

/// Rows of a head whose entries are compared with the program's at most.
inline constexpr std::int64_t kComparedRows = 2048;

/// The vectors and normalisers that the page needs for A or M.
struct RoundedGroup {
  RoundedVectors keys;
  std::vector<RoundedVectors> queries;          ///< [heads of the group], equal ones too
  std::vector<std::vector<float>> normalizers;  ///< [heads][L] nats; empty for a linear mixer
  std::vector<double> errors;  ///< [heads] the largest error of an entry of the rows that were compared
};

/// Rounds queries and keys as coarsely as the entries allow. With a step of e / |k_a| for queries and e / |q_a| for
/// keys (root mean squares of a channel a) all channels add the same error to q.k. e becomes smaller until no entry of
/// the rows that are compared, kComparedRows or all, is off by more than kLargestError. Of a softmax the normaliser of
/// each row is moved by what rounding moved it, so that rows sum to what they summed to.
/// @returns nothing if the job was stopped
/// @throws Error for arrays that the trace did not keep
std::optional<RoundedGroup> round_group(const HeadGroup& group, const Job& job);

}  // namespace foxscope::page
