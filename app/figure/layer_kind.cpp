#include "app/figure/layer_kind.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "backend/base/index.h"
#include "backend/eval/experts/expert_table.h"
#include "backend/trace/shown_heads.h"

namespace foxscope::figure {

Rgb kindColour(const TraceInfo& info, int layer) {
  constexpr Rgb kBlue{0, 114, 178};
  constexpr Rgb kOrange{230, 159, 0};
  constexpr Rgb kPink{204, 121, 167};
  constexpr Rgb kVermilion{213, 94, 0};
  constexpr Rgb kGreen{0, 158, 115};
  constexpr Rgb kSkyBlue{86, 180, 233};
  constexpr Rgb kBrown{140, 86, 75};
  constexpr Rgb kGrey{153, 153, 153};
  constexpr Rgb kLavender{150, 150, 225};  ///< attention with a window beside attention without one
  // The colours in the order of kMixerKinds.
  constexpr auto kColours = std::to_array<Rgb>({kBlue, kOrange, kPink, kVermilion, kGreen, kSkyBlue, kBrown, kGrey});
  static_assert(kColours.size() == kMixerKinds.size());
  const bool windowed = has_windows_by_layer(info) && window_of(info, layer) > 0;
  return windowed ? kLavender : kColours[index_of(info.mixer(layer).mixer)];
}

std::vector<LayerKind> kindsOf(const TraceInfo& info) {
  std::vector<LayerKind> kinds;
  if (info.mixers.empty() && !has_windows_by_layer(info)) return kinds;
  std::vector<std::string> texts = layer_texts(info);
  for (int layer = 0; layer < info.layers; ++layer) {
    std::string& words = texts[index_of(layer)];
    const LayerMixer mixer = info.mixer(layer);
    if (shown_step(mixer) > 1) words += fmt::format(", {} of {} channels", shown_heads(mixer), mixer.heads);
    if (std::ranges::find(kinds, words, &LayerKind::words) != kinds.end()) continue;
    kinds.push_back({std::move(words), kindColour(info, layer)});
  }
  return kinds;
}

}  // namespace foxscope::figure
