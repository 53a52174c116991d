#include "app/cli/figure_map_options.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope::cli {

void addColourMapOption(CLI::App& command, std::string& name) {
  command.add_option("--colours,--colors", name, "viridis, cividis, magma or grey (default: viridis)")
      ->type_name("MAP");
}

const figure::ColourMap* parseColourMap(const std::string& name) {
  if (name.empty()) return nullptr;
  if (name == "viridis") return &figure::viridis();
  if (name == "cividis") return &figure::cividis();
  if (name == "magma") return &figure::magma();
  if (name == "grey") return &figure::grey();
  throw UsageError(fmt::format("--colours {}: use viridis, cividis, magma or grey", name));
}

}  // namespace foxscope::cli
