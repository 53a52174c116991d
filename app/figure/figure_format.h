#pragma once

#include <optional>
#include <string>

namespace foxscope::figure {

inline constexpr double kMillimetresPerInch = 25.4;
inline constexpr double kPointsPerInch = 72;

/// Most dots on a side of a picture: more would take gigabytes.
inline constexpr double kMostDots = 16384;

/// The file that a figure becomes, and its physical size. Fonts and lines have the same physical size in all kinds.
struct FigureFormat {
  enum class Kind { png, svg, pdf, csv };  ///< csv: the numbers that are drawn, a line each
  Kind kind = Kind::png;
  double widthMm = 5.5 * kMillimetresPerInch;       ///< the text's width in ICLR and NeurIPS papers
  std::optional<double> heightMm = std::nullopt;    ///< absent: what the content needs
  int dpi = 300;                                    ///< of the whole PNG, and of rasters inside SVG and PDF
  std::optional<double> fontSizePt = std::nullopt;  ///< absent: what suits the width, `fontSize`
  std::string fontFamily = {};                      ///< empty: DejaVu Sans
  enum class SvgText { outlines, text };
  SvgText svgText = SvgText::outlines;               ///< text can be edited, and needs the font where it is read
  std::optional<double> lineWidthPt = std::nullopt;  ///< of curves; absent: in proportion to the font
};

/// @throws UsageError for a size that is not above 0 and up to 1 m, a resolution outside 36 to 2400, a font outside 4
///         to 48 pt, a line width that is not above 0 and up to 10 pt, and more than kMostDots dots on a side; NaN is
///         refused as well
void requireValid(const FigureFormat& format);

/// Size of the letters, points: as chosen, or else 9, and 7.25 in figures narrower than 4 inches, one column of a
/// paper's two.
double fontSize(const FigureFormat& format);

/// Width in points of 1/72 inch.
double widthInPoints(const FigureFormat& format);

/// The dots of a raster at this format's resolution in a point.
double dotsPerPoint(const FigureFormat& format);

}  // namespace foxscope::figure
