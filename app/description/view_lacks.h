#pragma once

#include <string>
#include <vector>

#include "backend/file/schema_check.h"

namespace foxscope {

/// A view lacks these arrays: the file does not have them, or they are not as the schema has them.
struct ViewLack {
  std::string view;                 ///< "maps of F, gates, decay times"
  std::vector<std::string> arrays;  ///< "layers/NN/cumulative_log_gate (layers 0, 3)"
  bool computed = false;            ///< these are computed when the file is opened, so that nothing is lacking
};

/// Lists what views will lack of a model, by the arrays that are there in their type and shape. Of what was
/// not looked at nothing is said.
std::vector<ViewLack> viewLacks(const SchemaModel& model);

}  // namespace foxscope
