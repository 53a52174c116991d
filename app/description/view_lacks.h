#pragma once

#include <string>
#include <vector>

#include "backend/file/schema_check.h"

namespace foxscope {

/// What a view of a run lacks because the file does not have it.
struct ViewLack {
  std::string view;                 ///< "maps of F, gates, decay times"
  std::vector<std::string> arrays;  ///< "layers/NN/cumulative_log_gate (layers 0, 3)"
  bool computed = false;            ///< these are computed when the file is opened, so that nothing is lacking
};

/// What the views will lack of a model, as the arrays say that are there in their type and shape. A model without
/// tokens lacks all.
std::vector<ViewLack> viewLacks(const SchemaModel& model);

}  // namespace foxscope
