#include "app/gui/views/expert_colours.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr double kWeakest = 0.3;  ///< share of a hue where the weight is 0

// Found by a search for the largest least difference over all kinds of sight.
constexpr std::array<QRgb, ExpertColours::kHues + 1> kHuesOnLight{0x9ac3ed, 0xf9d298, 0xd39c86, 0x5da097,
                                                                  0xd15eff, 0xa0bf00, 0xcdcdcb};
constexpr std::array<QRgb, ExpertColours::kHues + 1> kHuesOnDark{0x6a2af7, 0x6a4907, 0xbc2339, 0x117043,
                                                                 0x7e047b, 0x43310f, 0x4b4d50};

}  // namespace

ExpertColours::ExpertColours(const QPalette& palette) : m_ground(palette.color(QPalette::Base)) {
  const auto& hues = isDark(palette) ? kHuesOnDark : kHuesOnLight;
  std::ranges::transform(hues, m_hue.begin(), [](QRgb hue) { return QColor(hue); });
}

QColor ExpertColours::at(int hue, double strength) const {
  const QColor& full = m_hue[static_cast<std::size_t>(std::clamp(hue, 0, kHues))];
  const double share = kWeakest + (1 - kWeakest) * std::clamp(strength, 0.0, 1.0);
  const auto mix = [share](int from, int to) { return static_cast<int>(std::lround(from + (to - from) * share)); };
  return {mix(m_ground.red(), full.red()), mix(m_ground.green(), full.green()), mix(m_ground.blue(), full.blue())};
}

std::vector<int> ExpertColours::coloured(const std::map<int, std::int64_t>& heaviest) {
  std::vector<std::pair<int, std::int64_t>> order;
  for (const auto& each : heaviest) {
    if (each.second > 0) order.push_back(each);
  }
  std::ranges::stable_sort(order, std::greater<>(), &std::pair<int, std::int64_t>::second);
  if (order.size() > kHues) order.resize(kHues);
  std::vector<int> experts;
  for (const auto& each : order) experts.push_back(each.first);
  std::ranges::sort(experts);
  return experts;
}

int ExpertColours::hueOf(int expert, const std::vector<int>& coloured) {
  const auto found = std::ranges::lower_bound(coloured, expert);
  return found != coloured.end() && *found == expert ? static_cast<int>(found - coloured.begin()) : kHues;
}

}  // namespace foxscope::gui
