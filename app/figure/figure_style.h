#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/figure/colour_map.h"
#include "app/figure/curves/curve_geometry.h"
#include "app/figure/curves/curve_palette.h"
#include "app/figure/curves/curve_plot.h"
#include "app/figure/figure_format.h"

namespace foxscope::figure {

enum class PanelLetters { whereSeveral, none };

struct PagePart;

/// The choices by hand that any figure takes.
struct FigureStyle {
  FigureFormat format;
  std::string title;  ///< above everything; empty: none
  PanelLetters letters = PanelLetters::whereSeveral;
  LegendPlace legend = LegendPlace::automatic;
  std::vector<std::pair<std::string, std::string>> labels;  ///< what is written for a model, or a sweep's text
  std::vector<std::pair<std::string, CurveLook>> looks;     ///< of models by name; others by their place
  std::string command;                                      ///< how to make the figure again, for the file's metadata
  double* height = nullptr;  ///< where the height of a picture's page goes, points; null: nowhere
  PagePart* part = nullptr;  ///< where the page goes that is a part of another (figure_parts.h); null: into a file

  /// The label of a model, or of the text of a sweep, of this name.
  [[nodiscard]] std::string label(const std::string& name) const;
  /// @param names  that the figure knows
  /// @throws UsageError naming them, for a label of another
  void requireLabels(std::span<const std::string> names) const;
  /// How the curve of a model of this name looks, which is in this place among those of the figure.
  [[nodiscard]] CurveLook look(const std::string& name, std::size_t place) const;
};

/// @throws UsageError "--label fix: the figure has fox, base: did you mean fox?" for a name that is not known
void requireName(const char* option, const std::string& name, std::span<const std::string> known);

/// The choices by hand that a figure of curves takes.
struct CurveChoice {
  std::optional<AxisLimits> xLimits;
  std::optional<AxisLimits> yLimits;
  std::vector<double> xTicks;                        ///< empty: by the limits
  std::vector<double> yTicks;                        ///< likewise
  std::vector<std::string> order;                    ///< names of curves, first to last in the legend; others follow
  std::vector<std::pair<std::string, Rgb>> colours;  ///< of curves by name; others from the palette
};

/// A finished figure.
struct DrawnFigure {
  std::string file;                ///< its bytes
  std::vector<std::string> notes;  ///< what was chosen where nothing was asked for, one line each
};

}  // namespace foxscope::figure
