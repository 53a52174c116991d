#pragma once

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kGemma2;
extern const ModelFamily kGemma3;

}  // namespace foxscope::family
