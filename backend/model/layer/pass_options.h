#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/model/spec/intervention.h"

namespace foxscope {

/// The share of a pass that is left out, and the changes to it.
struct PassOptions {
  double pruning_tolerance = 0x1p-24;       ///< share of a row's attention that may be skipped; 0: nothing is
  std::vector<Intervention> interventions;  ///< in the order in which they act
};

/// The report of a forward pass, beside what it recorded.
struct ForwardReport {
  std::string attention_kernel;       ///< which implementation ran
  std::int64_t attention_blocks = 0;  ///< pairs of query and key blocks in the causal (or windowed) half
  std::int64_t skipped_blocks = 0;    ///< of these, skipped because the gate brings them below the tolerance
};

}  // namespace foxscope
