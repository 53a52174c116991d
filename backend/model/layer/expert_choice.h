#pragma once

#include <cstdint>
#include <span>

#include "backend/model/spec/expert_mixture.h"

namespace foxscope {

/// An expert that a position reads, and what its output is multiplied by.
struct ChosenExpert {
  std::int32_t expert = 0;
  float weight = 0;
};

/// The experts that a position reads (ExpertMixture), those with the largest s_e + b_e first; of equal ones the lower
/// number first.
/// @param logits          [E] of the router, with its bias; scratch: they are overwritten
/// @param selection_bias  [E] b_e; empty: 0
/// @param chosen          [k]
void choose_experts(const ExpertMixture& mixture, std::span<float> logits, std::span<const float> selection_bias,
                    std::span<ChosenExpert> chosen);

}  // namespace foxscope
