#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/map/map.h"

namespace foxscope {

// Saliency: g_t = d loss / d log f_t of one head (Trace::log_forget_gradient), loss being the mean over the positions
// of saliency_target. A head without a gate has it too: what a gate at t would change, at f = 1.

/// A position whose gate a loss hangs on, and how much, with its sign.
struct SaliencyEvent {
  std::int64_t position = 0;
  double saliency = 0;  ///< nats per nat
};

/// The positions of largest size, the earlier of two as large; none where a gradient is 0.
/// @param gradient  [L] nats per nat, all of them numbers
std::vector<SaliencyEvent> largest_events(std::span<const float> gradient, int count);

/// How a loss depends on a head's gates. NaN where a gradient is not a number, and then without events. scale and
/// absolute are NaN as well where the run did not keep gates, and 0 for a head without a gate, whose log f is 0.
struct HeadSaliency {
  /// sum_t g_t log f_t, nats: d loss / d s where every log f of the head is multiplied by s (`--intervene
  /// L:H:scale=s`), at s = 1. The gate raised to 0.9 of its log f changes the loss by -0.1 of it.
  double scale = 0;
  /// sum_t |g_t log f_t|, nats: the same with each position's sign left out, so that positions at which forgetting
  /// helps and those at which it harms do not cancel. Heads are ordered by it.
  double absolute = 0;
  double per_nat = 0;                 ///< mean over all positions of |g_t|, nats per nat of log f
  std::vector<SaliencyEvent> events;  ///< the largest |g_t| first, the earlier of two as large
};

/// The numbers of HeadSaliency, as tables, files and figures call them: saliency_scale, saliency_absolute and
/// saliency_per_nat. A unit is "nats" or "nats per nat".
enum class SaliencyNumber { scale, absolute, per_nat };
inline constexpr SaliencyNumber kSaliencyNumbers[] = {SaliencyNumber::scale, SaliencyNumber::absolute,
                                                      SaliencyNumber::per_nat};
const char* to_string(SaliencyNumber number);
const char* unit_of(SaliencyNumber number);
double value_of(const HeadSaliency& saliency, SaliencyNumber number);
/// The one that orders the heads of a run: absolute, and per_nat where log f is 0 or was not kept.
SaliencyNumber ordering_number(const Trace& trace);

/// @param events  how many at most; positions with g_t = 0 are none
/// @returns nothing where saliency was not kept
/// @throws UsageError for a head that does not exist; Error where its file cannot be read
std::optional<HeadSaliency> head_saliency(const HeadOf& head, int events);

/// How a loss changes, to first order, where a gate is raised by 1 %: 0.01 g_t.
/// @param saliency  nats per nat, of one gate or a sum of several
/// @returns nats, below 0 where the loss falls
double change_by_one_percent(double saliency);

/// The gradient of the same loss by a number that is added to key t's logit in every row: g_{t+1} - g_t, with 0 behind
/// the last. That g_t is the sum of dS_ij over the pairs i >= t > j, and every row of dS sums to 0.
/// @param saliency  g, [L] nats per nat
/// @returns [L], nats per nat
std::vector<float> key_logit_gradient(std::span<const float> saliency);

/// Positions [begin, end) whose mean loss the gradients are of; nothing where saliency was not kept, or is of another
/// kind of target.
std::optional<Range> saliency_range(const TraceInfo& info);
/// It in words: "the mean loss", "the mean loss of positions 40 to 49" or "the loss of position 40"; of another kind of
/// target what its file calls it.
std::string saliency_target_words(const TraceInfo& info);

}  // namespace foxscope
