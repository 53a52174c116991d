#pragma once

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kRwkv7;  ///< FLA's

}  // namespace foxscope::family
