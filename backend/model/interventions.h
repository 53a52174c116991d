#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/model/causal_lm.h"

namespace foxscope {

/// Lowest log f that is summed: below it the past is cut exactly, and no difference of sums is ever inf - inf.
inline constexpr double kLowestLogGate = -1000.0;

/// @throws UsageError for a layer, head or position that the model or the text does not have
void check_interventions(std::span<const Intervention> interventions, const ModelConfig& config, std::int64_t length);

/// Whether any of them acts on the gates of this layer.
bool changes_gates(std::span<const Intervention> interventions, int layer);

/// Whether the output of this head is 0 before o_proj.
bool cuts_head(std::span<const Intervention> interventions, int layer, int head);

/// Applies what acts on gates, in the order given.
/// @param log_gate  [H, L] log f, nats, changed in place
void change_gates(std::span<const Intervention> interventions, int layer, int heads, std::int64_t length,
                  double* log_gate);

/// Those that concern a text of this length: without zero@p of later positions.
std::vector<Intervention> interventions_before(std::span<const Intervention> interventions, std::int64_t length);

/// log f of one head at one position after what acts on gates, in the order given; `mean` needs the whole text and is
/// not among them.
double changed_gate(std::span<const Intervention> interventions, int layer, int head, std::int64_t position,
                    double log_gate);

}  // namespace foxscope
