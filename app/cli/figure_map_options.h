#pragma once

#include <string>
#include <vector>

#include "app/cli/command.h"
#include "app/figure/colour_map.h"
#include "backend/map/map.h"

namespace foxscope::cli {

/// What figures of maps take on their command line.
struct FigureMapOptions {
  std::vector<std::string> quantities;
  std::string rows;     ///< A:B
  std::string columns;  ///< A:B
  std::string colours;
};

/// @param quantities  the default, for the help text
void addFigureMapOptions(CLI::App& command, FigureMapOptions& options, const std::string& quantities);

/// Null for an empty name: by quantity.
/// @throws UsageError naming those that exist
const figure::ColourMap* parseColourMap(const std::string& name);

/// @throws UsageError naming those that exist, or one that stands there twice
std::vector<Quantity> parseQuantities(const std::vector<std::string>& names);

}  // namespace foxscope::cli
