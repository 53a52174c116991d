#pragma once

namespace foxscope::figure {

/// Room around a rectangle for axes, colour bar and texts, points.
struct Margins {
  double left = 0;
  double right = 0;
  double top = 0;
  double bottom = 0;
};

}  // namespace foxscope::figure

/// Sizes of a figure's parts, in font sizes.
namespace foxscope::figure::em {

inline constexpr double kBorder = 0.4;  ///< white at the edge of the page
inline constexpr double kTick = 0.35;
inline constexpr double kMinorTick = 0.2;
inline constexpr double kPad = 0.3;    ///< between ticks, their labels, and the axis' label
inline constexpr double kLine = 1.25;  ///< from one line of text to the next
inline constexpr double kStroke = 0.06;
inline constexpr double kDigit = 0.64;  ///< width of a digit of DejaVu Sans
inline constexpr double kDigitHeight = 0.73;
inline constexpr double kTitleFont = 1.1;  ///< relative to the figure's font
inline constexpr double kSmallFont = 0.9;  ///< of notes, relative to the figure's font
inline constexpr double kBarGap = 0.9;     ///< between a map and its colour bar
inline constexpr double kBarWidth = 1.1;
inline constexpr double kBarLabels = 2.5;        ///< width of a colour bar's labels: "5000", "10⁻¹⁰"
inline constexpr double kSignedBarLabels = 3.4;  ///< likewise where there is a sign: "−5000"

/// Depth of an axis beside its rectangle, of which `labels` are its tick labels.
constexpr double axisDepth(double labels) { return labels + kTick + 2 * kPad + kLine; }

}  // namespace foxscope::figure::em
