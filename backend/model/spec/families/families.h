#pragma once

#include "backend/model/spec/model_family.h"

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
extern const ModelFamily kQwen3_5;
extern const ModelFamily kQwen3Next;
extern const ModelFamily kMamba2Baseline;    ///< the FoX paper's (mamba2-project_fox)
extern const ModelFamily kMamba2;            ///< FLA's and Hugging Face's
extern const ModelFamily kSambaBaseline;     ///< samba-project_fox
extern const ModelFamily kMamba;             ///< FLA's and Hugging Face's
extern const ModelFamily kHgrn2Baseline;     ///< hgrn2-project_fox
extern const ModelFamily kHgrn2;             ///< FLA's
extern const ModelFamily kGla;               ///< FLA's
extern const ModelFamily kDeltaNetBaseline;  ///< delta_net-project_fox
extern const ModelFamily kDeltaNet;          ///< FLA's
extern const ModelFamily kGatedDeltaNet;     ///< FLA's

}  // namespace foxscope::family
