#include "app/gui/curves/decay_spectrum.h"

#include <algorithm>
#include <cmath>

#include "backend/map/statistics/gate_mean.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/trace/decay_time.h"
#include "backend/trace/shown_heads.h"

namespace foxscope::gui::curves {

std::optional<std::vector<DecaySpectrum>> decaySpectra(std::span<const CurveRun> runs, const Job& job) {
  std::vector<DecaySpectrum> spectra;
  for (const CurveRun& run : runs) {
    DecaySpectrum spectrum{run, {}};
    const TraceInfo& info = run.trace->info();
    for (int layer = 0; layer < info.layers; ++layer) {
      if (!forgets(info, layer)) continue;
      for (int head = 0; head < info.mixer(layer).heads; head += shown_step(info.mixer(layer))) {
        if (job.stopped()) return std::nullopt;
        const double time = decay_time(mean_log_gate(*run.trace, layer, head));
        HeadDecay decay{{run.id, layer, head}, time};
        if (info.mixer(layer).decays_by_channel()) {
          HeadStatistics channels;
          channels.channel_log_decay = channel_log_decays({run.trace, layer, head});
          decay.channels = channel_decay_times(channels);
        }
        spectrum.heads.push_back(std::move(decay));
      }
    }
    spectra.push_back(std::move(spectrum));
  }
  return spectra;
}

std::vector<double> swarm(const std::vector<double>& heights, double size, double room) {
  std::vector<double> shifts(heights.size(), 0);
  for (std::size_t dot = 0; dot < heights.size(); ++dot) {
    const auto free = [&](double shift) {
      for (std::size_t other = 0; other < dot; ++other) {
        if (std::hypot(heights[dot] - heights[other], shift - shifts[other]) < size) return false;
      }
      return true;
    };
    constexpr double kStep = 0.25;  // of a dot
    double shift = 0;
    for (int step = 1; !free(shift) && std::abs(shift) < room; ++step) {
      const int places = (step + 1) / 2;
      shift = (step % 2 == 0 ? -places : places) * kStep * size;
    }
    shifts[dot] = std::clamp(shift, -room, room);
  }
  return shifts;
}

}  // namespace foxscope::gui::curves
