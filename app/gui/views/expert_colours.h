#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include <QColor>
#include <QPalette>

namespace foxscope::gui {

/// Colours of the experts of a layer, to stand behind text: a hue for each of those that are the heaviest of a token
/// most often, grey for all others. At full strength text still reads well on them (contrast of at least 4.5), and
/// every two differ by 10 in CIEDE2000 and more, to normal sight and without red, green or blue cones (Machado,
/// Oliveira and Fernandes 2009).
class ExpertColours {
 public:
  static constexpr int kHues = 6;

  explicit ExpertColours(const QPalette& palette);

  /// @param hue       0 to kHues - 1; kHues: the other experts
  /// @param strength  from 0, where the hue is still told from the ground, to 1
  [[nodiscard]] QColor at(int hue, double strength) const;

  /// The experts that have a hue, by number: the n-th has hue n.
  /// @param heaviest  expert and how often it is the heaviest; those that never are have no hue
  [[nodiscard]] static std::vector<int> coloured(const std::map<int, std::int64_t>& heaviest);
  /// The hue of an expert among those that have one.
  [[nodiscard]] static int hueOf(int expert, const std::vector<int>& coloured);

 private:
  QColor m_ground;
  std::array<QColor, kHues + 1> m_hue;
};

}  // namespace foxscope::gui
