#pragma once

#include "backend/model/model_family.h"

namespace foxscope::family {

extern const ModelFamily kFox;          ///< the paper's (forgetting_transformer-project_fox)
extern const ModelFamily kTransformer;  ///< its baseline (transformer-project_fox)
extern const ModelFamily kFlaFox;       ///< the FLA library's forgetting_transformer
extern const ModelFamily kGpt2;
extern const ModelFamily kGptNeox;
extern const ModelFamily kLlama;
extern const ModelFamily kMistral;
extern const ModelFamily kQwen2;
extern const ModelFamily kQwen3;

}  // namespace foxscope::family
