#pragma once

#include <vector>

#include "backend/model/intervention.h"

namespace foxscope {

/// What a pass leaves out, and what it changes.
struct PassOptions {
  double pruning_tolerance = 0x1p-24;       ///< share of a row's attention that may be skipped; 0: nothing is
  std::vector<Intervention> interventions;  ///< in the order in which they act
};

}  // namespace foxscope
