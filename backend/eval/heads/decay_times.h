#pragma once

#include "backend/eval/heads/heads_evaluation.h"

namespace foxscope {

/// The decay times -1 / mean log f of heads, tokens; their errors by the delta method.
HeadArray decay_times(const HeadArray& mean_log_gate);

}  // namespace foxscope
