#pragma once

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kSambaBaseline;  ///< samba-project_fox
extern const ModelFamily kFalconMamba;
extern const ModelFamily kMamba;  ///< FLA's and Hugging Face's

}  // namespace foxscope::family
