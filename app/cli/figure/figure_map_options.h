#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/command.h"
#include "app/figure/colour_map.h"
#include "app/figure/maps/map_figure.h"
#include "backend/map/map.h"

namespace foxscope::cli {

/// What figures of maps take on their command line.
struct FigureMapOptions {
  std::vector<std::string> quantities;
  std::string rows;     ///< A:B
  std::string columns;  ///< A:B
  std::string colours;
  std::vector<std::string> limits;  ///< Q=A:B
};

/// @param quantities  the default, for the help text
void addFigureMapOptions(CLI::App& command, FigureMapOptions& options, const std::string& quantities);

/// Whether the map of differences may be chosen for any quantity.
enum class Diverging { offered, left };

/// Null for an empty name: by quantity.
/// @throws UsageError naming those that exist
const figure::ColourMap* parseColourMap(const std::string& name, Diverging diverging = Diverging::left);

/// "A:B", "A:" or ":B".
/// @throws UsageError naming the option and what is understood
std::pair<std::optional<double>, std::optional<double>> parseOpenLimits(const std::string& option,
                                                                        const std::string& text);

/// "Q=A:B" each.
/// @throws UsageError likewise, and naming the quantities that exist
std::vector<figure::ColourLimits> parseColourLimits(const std::vector<std::string>& texts);

/// @throws UsageError naming those that exist, or one that stands there twice
std::vector<Quantity> parseQuantities(const std::vector<std::string>& names);

}  // namespace foxscope::cli
