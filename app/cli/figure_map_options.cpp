#include "app/cli/figure_map_options.h"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope::cli {

void addFigureMapOptions(CLI::App& command, FigureMapOptions& options, const std::string& quantities) {
  command
      .add_option(
          "--quantity", options.quantities,
          "forget, log_forget, logits, attention, attention_without_gate or gate_effect (default: " + quantities + ")")
      ->type_name("Q,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--rows", options.rows, "Query positions from A up to, not including, B")->type_name("A:B");
  command.add_option("--cols", options.columns, "Key positions likewise")->type_name("A:B");
  command.add_option("--colours,--colors", options.colours, "viridis, cividis, magma or grey (default: viridis)")
      ->type_name("MAP");
}

std::vector<Quantity> parseQuantities(const std::vector<std::string>& names) {
  std::vector<Quantity> quantities;
  for (const std::string& name : names) {
    const Quantity quantity = quantity_from_string(name);
    if (std::find(quantities.begin(), quantities.end(), quantity) != quantities.end()) {
      throw UsageError(fmt::format("--quantity: {} stands there twice: leave one out", name));
    }
    quantities.push_back(quantity);
  }
  return quantities;
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
