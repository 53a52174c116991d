#pragma once

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kFox;          ///< the paper's (forgetting_transformer-project_fox)
extern const ModelFamily kTransformer;  ///< its baseline (transformer-project_fox)
extern const ModelFamily kFlaFox;
extern const ModelFamily kPath;  ///< the FLA library's forgetting_transformer

}  // namespace foxscope::family
