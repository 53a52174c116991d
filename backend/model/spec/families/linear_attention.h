#pragma once

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kHgrn2Baseline;      ///< hgrn2-project_fox
extern const ModelFamily kHgrn2;              ///< FLA's
extern const ModelFamily kGla;                ///< FLA's
extern const ModelFamily kDeltaNetBaseline;   ///< delta_net-project_fox
extern const ModelFamily kDeltaNet;           ///< FLA's
extern const ModelFamily kGatedDeltaNet;      ///< FLA's
extern const ModelFamily kRetNet;             ///< FLA's
extern const ModelFamily kLinearAttention;    ///< FLA's
extern const ModelFamily kKda;                ///< FLA's
extern const ModelFamily kComba;              ///< FLA's
extern const ModelFamily kGatedDeltaProduct;  ///< FLA's

}  // namespace foxscope::family
