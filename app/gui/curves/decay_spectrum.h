#pragma once

#include <optional>
#include <span>
#include <vector>

#include "app/gui/curves/curve_runs.h"

namespace foxscope::gui::curves {

/// How fast one head forgets.
struct HeadDecay {
  HeadChoice head;
  double time = 0;  ///< T = -1 / mean(log f), tokens; infinite for a head that never forgets
  /// Where each channel decays by itself: T of each, tokens, the shortest first; empty elsewhere.
  std::vector<double> channels = {};
};

/// The decay times of all heads of a run; none where it has no gates.
struct DecaySpectrum {
  CurveRun run;
  std::vector<HeadDecay> heads;
};

/// Decay times of all heads of all runs.
/// @returns nothing if the job was stopped
/// @throws Error for gates that were not kept
std::optional<std::vector<DecaySpectrum>> decaySpectra(std::span<const CurveRun> runs, const Job& job);

/// Where dots of one column stand beside each other so that none covers another: for each height (pixels) a shift
/// sideways (pixels), as small as it can be, but never beyond `room`.
/// @param size  diameter of a dot
std::vector<double> swarm(const std::vector<double>& heights, double size, double room);

}  // namespace foxscope::gui::curves
