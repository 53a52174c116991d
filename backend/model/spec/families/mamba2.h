#pragma once

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kMamba2Baseline;  ///< the FoX paper's (mamba2-project_fox)
extern const ModelFamily kMamba2;          ///< FLA's and Hugging Face's

}  // namespace foxscope::family
