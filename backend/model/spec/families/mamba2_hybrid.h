#pragma once

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kBamba;
extern const ModelFamily kGraniteHybrid;
extern const ModelFamily kNemotronH;
extern const ModelFamily kFalconH1;

}  // namespace foxscope::family
