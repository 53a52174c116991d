#pragma once

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kZamba2;

}  // namespace foxscope::family
