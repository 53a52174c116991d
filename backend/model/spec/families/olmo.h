#pragma once

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kOlmo2;
extern const ModelFamily kOlmo3;
extern const ModelFamily kOlmoHybrid;
extern const ModelFamily kOlmoe;

}  // namespace foxscope::family
