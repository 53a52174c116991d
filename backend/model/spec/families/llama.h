#pragma once

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kLlama;
extern const ModelFamily kMistral;
extern const ModelFamily kQwen2;
extern const ModelFamily kQwen3;
extern const ModelFamily kQwen3_5;
extern const ModelFamily kQwen3Next;

}  // namespace foxscope::family
