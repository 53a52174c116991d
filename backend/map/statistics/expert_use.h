#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "backend/trace/trace.h"

namespace foxscope {

/// Whether a trace holds the experts that positions of a layer chose.
bool has_experts(const Trace& trace, int layer);

/// The layer whose experts come next behind the heads of a layer: its own, or those of a later layer without heads that
/// stands before the next layer with heads. None: neither has experts, or they were not kept.
std::optional<int> expert_layer(const Trace& trace, int layer);

/// An expert that a position reads, and what its output is multiplied by.
struct ReadExpert {
  int expert = 0;
  double weight = 0;
};

/// The experts that a position of a layer reads, the heaviest first; of equal weights in the router's order.
/// @throws Error with the remedy where experts were not kept, UsageError for a layer that does not exist
std::vector<ReadExpert> experts_read(const Trace& trace, int layer, std::int64_t position);

/// The heaviest expert of each position, [L]; expert -1 where a position reads none. @throws likewise
std::vector<ReadExpert> heaviest_experts(const Trace& trace, int layer);

/// How the positions of a layer use one of its experts.
struct ExpertUse {
  /// A token that positions with the expert read.
  struct Token {
    std::int32_t id = 0;
    std::int64_t position = 0;  ///< the first of them
    std::int64_t count = 0;
  };
  int expert = 0;
  std::int64_t positions = 0;  ///< that read it
  std::int64_t heaviest = 0;   ///< of these, where it is the heaviest
  /// Mean of what its output is multiplied by, over the positions that read it; NaN where none does.
  double mean_weight = std::numeric_limits<double>::quiet_NaN();
  std::vector<Token> tokens;  ///< those read most often, the most frequent first, of equal counts the earlier
};

/// How the positions of a layer use its experts, by number of the expert.
/// @param experts  of the layer, so that those which no position reads are listed too; 0: not known
/// @param tokens   most that are listed of an expert
/// @throws Error with the remedy where experts were not kept, UsageError for a layer that does not exist
std::vector<ExpertUse> expert_use(const Trace& trace, int layer, int experts, std::size_t tokens);

}  // namespace foxscope
