#pragma once

#include <cstdint>
#include <span>

#include "backend/model/spec/intervention.h"
#include "backend/trace/decay_time.h"

namespace foxscope {

/// Whether any of them acts on the gates of this layer.
bool changes_gates(std::span<const Intervention> interventions, int layer);

/// Whether any head of a layer forgets once its gates were changed.
/// @param forgets  whether the layer's heads do before
bool forgets_changed(std::span<const Intervention> interventions, int layer, int heads, bool forgets);

/// Whether the output of this head is 0 before o_proj.
bool cuts_head(std::span<const Intervention> interventions, int layer, int head);

/// Whether what this expert makes is 0.
bool drops_expert(std::span<const Intervention> interventions, int layer, int expert);
/// Whether what any expert of a layer makes is.
bool drops_experts(std::span<const Intervention> interventions, int layer);

/// The heads and positions whose gates are at hand.
struct GateRange {
  int heads = 0;
  std::int64_t first = 0;  ///< position
  std::int64_t length = 0;
};
/// Applies what acts on gates, in the order given; zero@p of a position outside the range does nothing. `mean` is the
/// mean over the range.
/// @param log_gate  [H, n] log f, nats, changed in place
void change_gates(std::span<const Intervention> interventions, int layer, const GateRange& range, double* log_gate);

/// The gradient of a loss by the gates as change_gates found them, from that by the gates as it left them.
/// @param log_gate  [H, n] log f before the change, nats
/// @param gradient  [H, n], changed in place
void pull_back_gates(std::span<const Intervention> interventions, int layer, const GateRange& range,
                     const double* log_gate, double* gradient);

}  // namespace foxscope
