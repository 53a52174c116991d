#pragma once

#include <cstdint>
#include <optional>

#include "backend/map/map.h"

namespace foxscope {

/// The reading of one head at one query and one key at or before it.
struct PairReading {
  double log_forget = 0;  ///< c_query - c_key, nats; where each channel decays the mean of P_query - P_key
  /// F(query, key), what the gates in between let through, as maps have it: where each channel decays the mean over
  /// channels, which is more than exp(log_forget).
  double forget = 1;
  /// Tokens after the key at which F(., key) falls to 1/e, log F interpolated linearly between tokens; where it never
  /// does, the distance to the end of the text.
  double forward_survival = 0;
  bool survives_text = true;   ///< F(., key) is at 1/e or above to the end of the text
  bool in_window = true;       ///< false: the query does not see the key, and its attention is 0
  bool has_attention = false;  ///< false: the run did not keep queries and keys, or row normalisers; of a linear mixer
                               ///< also: the sums of its rows are not known yet
  double logit = 0;            ///< q.k / sqrt(d), without the gate
  double attention = 0;        ///< A(query, key)
  std::optional<double> sink_share;  ///< of the query's row, what its head's sink takes; where it has one
  bool has_mixing = false;  ///< true of a linear mixer whose queries and keys were kept; then there is no logit
  double mixing = 0;        ///< M(query, key) of a linear mixer
};

/// Reads one entry of every quantity from a trace, in O(d + log L); of the delta rule in O(d (query - key)).
/// @throws UsageError for a head or positions that do not exist or a key after the query, Error for gates that were not
///         kept and for a file that cannot be read
PairReading pair_reading(const HeadOf& head, std::int64_t query, std::int64_t key);

}  // namespace foxscope
