#pragma once

#include <cstdint>
#include <optional>

#include "backend/trace/trace.h"

namespace foxscope {

/// A source from which the part of one head costs much less than the whole array, because it lies on another machine,
/// or in chunks of a file.
class RowSource : public TraceSource {
 public:
  /// Whether it does so of an array that was kept.
  [[nodiscard]] virtual bool has_rows(TraceArray array, int index) const = 0;
  /// Whether reading waits for another machine.
  [[nodiscard]] virtual bool waits() const { return false; }
  /// A part of an array that was kept: where its first axis has heads, of that head; where its first axes are layers
  /// and heads, of the head at `row` of [layers x H]. It stays there as long as the source.
  /// @throws Error if the source cannot be read
  [[nodiscard]] virtual const ArrayValues& row(TraceArray array, int index, std::int64_t row) const = 0;
  /// mean_log_gate (decay_time.h) of c of a head, nats per token, where it costs less than c.
  [[nodiscard]] virtual std::optional<double> known_mean_log_gate(int /*layer*/, int /*head*/) const {
    return std::nullopt;
  }
};

}  // namespace foxscope
