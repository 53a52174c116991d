#pragma once

#include <string>

#include "app/cli/command.h"
#include "app/figure/colour_map.h"

namespace foxscope::cli {

/// --colours of figures with maps.
void addColourMapOption(CLI::App& command, std::string& name);

/// Null for an empty name: by quantity.
/// @throws UsageError naming those that exist
const figure::ColourMap* parseColourMap(const std::string& name);

}  // namespace foxscope::cli
