#pragma once

#include "tests/map/dense.h"

namespace foxscope::test {

/// A run of one head over this many positions, made of random numbers.
inline std::shared_ptr<const Trace> random_run(std::int64_t length) {
  RunShape shape;
  shape.length = length;
  return make_run(shape);
}

}  // namespace foxscope::test
