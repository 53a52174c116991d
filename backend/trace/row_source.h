#pragma once

#include <cstdint>

#include "backend/trace/trace.h"

namespace foxscope {

/// A source from which the part of one head costs much less than the whole array, because it lies on another machine.
class RowSource : public TraceSource {
 public:
  /// A part of an array that was kept: where its first axis has heads, of that head; where its first axes are layers
  /// and heads, of the head at `row` of [layers x H]. It stays there as long as the source.
  /// @throws Error if the source cannot be read
  [[nodiscard]] virtual const ArrayValues& row(TraceArray array, int index, std::int64_t row) const = 0;
};

}  // namespace foxscope
