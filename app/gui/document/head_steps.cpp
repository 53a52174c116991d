#include "app/gui/document/head_steps.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "app/gui/document/shown_choices.h"
#include "backend/base/index.h"

namespace foxscope::gui {

std::optional<HeadChoice> headInOrder(const RunList& runs, const HeadChoice& from, int by,
                                      const std::function<double(const HeadChoice&)>& value) {
  const Run* run = runs.run(from.run);
  if (run == nullptr) return std::nullopt;
  std::vector<std::pair<double, HeadChoice>> heads;
  forShownHeads(*run, [&](const HeadChoice& head) { heads.emplace_back(value(head), head); });
  std::ranges::stable_sort(heads, [](const auto& a, const auto& b) {
    if (std::isnan(a.first) || std::isnan(b.first)) return !std::isnan(a.first) && std::isnan(b.first);
    return a.first > b.first;
  });
  const auto here = std::ranges::find(heads, from, [](const auto& entry) { return entry.second; });
  if (here == heads.end()) return std::nullopt;
  const auto there = here - heads.begin() + by;
  if (there < 0 || there >= std::ssize(heads)) return std::nullopt;
  return heads[index_of(there)].second;
}

std::optional<HeadChoice> headOfLayer(const RunList& runs, const HeadChoice& from, int by) {
  const Run* run = runs.run(from.run);
  if (run == nullptr) return std::nullopt;
  const TraceInfo& info = run->trace->info();
  int layer = from.layer + by;
  const auto exists = [&] { return layer >= 0 && layer < info.layers; };
  while (exists() && info.mixer(layer).heads == 0) layer += by < 0 ? -1 : 1;
  if (!exists()) return std::nullopt;
  const LayerMixer mixer = info.mixer(layer);
  const int step = shown_step(mixer);
  const int head = std::min(from.head / step, shown_heads(mixer) - 1) * step;
  return HeadChoice{from.run, layer, head};
}

}  // namespace foxscope::gui
