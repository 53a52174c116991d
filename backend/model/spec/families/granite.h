#pragma once

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kGranite;
extern const ModelFamily kGraniteMoe;

}  // namespace foxscope::family
