#include "app/cli/figure/figure_map_options.h"

#include <algorithm>
#include <charconv>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/figure/figure_options.h"
#include "backend/base/error.h"

namespace foxscope::cli {

void addFigureMapOptions(CLI::App& command, FigureMapOptions& options, const std::string& quantities) {
  command
      .add_option("--quantity", options.quantities,
                  "forget, log_forget, logits, attention, attention_without_gate, gate_effect or mixing (default: " +
                      quantities + ")")
      ->type_name("Q,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--rows", options.rows, "Query positions from A up to, not including, B")->type_name("A:B");
  command.add_option("--cols", options.columns, "Key positions likewise")->type_name("A:B");
  command
      .add_option("--colours,--colors", options.colours,
                  "viridis, cividis, magma or grey, which differences take too (default: viridis)")
      ->type_name("MAP");
  command.add_option("--limits", options.limits, "Ends of a quantity's colour bar; A: and :B leave one to the values")
      ->type_name("Q=A:B")
      ->allow_extra_args(false);
}

std::pair<std::optional<double>, std::optional<double>> parseOpenLimits(const std::string& option,
                                                                        const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto end = [&](std::string_view number) -> std::optional<double> {
    if (number.empty()) return std::nullopt;
    double value = 0;
    const auto [last, failed] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (failed != std::errc() || last != number.data() + number.size()) {
      throw UsageError(fmt::format("{} {}: write A:B, A: or :B, as in 1e-4:1", option, text));
    }
    return value;
  };
  if (colon == std::string::npos)
    throw UsageError(fmt::format("{} {}: write A:B, A: or :B, as in 1e-4:1", option, text));
  return {end(std::string_view(text).substr(0, colon)), end(std::string_view(text).substr(colon + 1))};
}

std::vector<figure::ColourLimits> parseColourLimits(const std::vector<std::string>& texts) {
  std::vector<figure::ColourLimits> limits;
  for (const std::string& text : texts) {
    const auto [quantity, ends] = parsePair("--limits", text);
    const auto [lower, upper] = parseOpenLimits("--limits", ends);
    limits.push_back({quantity_from_string(quantity), lower, upper});
  }
  return limits;
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

const figure::ColourMap* parseColourMap(const std::string& name, Diverging diverging) {
  if (name.empty()) return nullptr;
  for (const figure::NamedColourMap& one : figure::namedColourMaps()) {
    if (name == one.name) return one.map;
  }
  if (diverging == Diverging::offered && name == "diverging") return &figure::diverging();
  throw UsageError(fmt::format("--colours {}: use viridis, cividis, magma{}", name,
                               diverging == Diverging::offered ? ", grey or diverging" : " or grey"));
}

}  // namespace foxscope::cli
