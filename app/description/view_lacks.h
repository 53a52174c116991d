#pragma once

#include <string>
#include <vector>

#include "backend/file/schema_check.h"

namespace foxscope {

/// A view lacks these arrays because the file does not have them.
struct ViewLack {
  std::string view;                 ///< "maps of F, gates, decay times"
  std::vector<std::string> arrays;  ///< "layers/NN/cumulative_log_gate (layers 0, 3)"
  bool computed = false;            ///< these are computed when the file is opened, so that nothing is lacking
};

/// Lists what views will lack of a model, by the arrays that are there in their type and shape. A model without tokens
/// lacks all.
std::vector<ViewLack> viewLacks(const SchemaModel& model);

}  // namespace foxscope
