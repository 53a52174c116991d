#pragma once

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kGlm;
extern const ModelFamily kGlm4;

}  // namespace foxscope::family
