#include "app/figure/kinds/map_scale.h"

#include <algorithm>

#include <fmt/format.h>

#include "app/figure/quantity_text.h"
#include "app/figure/token_text.h"
#include "backend/base/error.h"
#include "backend/trace/run_origin.h"

namespace foxscope::figure {

ScaledColours sharedColours(const MapRequest& request, std::span<const Image> images, const ColourChoice& choice) {
  MapFigure all;
  all.request = request;
  all.scale = defaultScale(request);
  all.colours = choice;
  for (const Image& image : images) {
    all.image.value.insert(all.image.value.end(), image.value.begin(), image.value.end());
  }
  return chooseColours(all);
}

ColourChoice colourChoice(Quantity quantity, const ColourMap* map, std::span<const ColourLimits> limits) {
  ColourChoice choice;
  choice.map = map;
  for (const ColourLimits& one : limits) {
    if (one.quantity != quantity) continue;
    choice.lower = one.lower;
    choice.upper = one.upper;
  }
  return choice;
}

std::optional<std::string> requireSameTokens(const Trace& first, const Trace& second) {
  const std::vector<std::int32_t>& read = first.tokens()->input_id;
  const std::vector<std::int32_t>& other = second.tokens()->input_id;
  const NamedTrace a{first, first.info().name};
  const NamedTrace b{second, second.info().name};
  const std::string names = fmt::format("{} and {}", a.name, b.name);
  const bool ofText = first.text() && second.text();
  const bool ofTwoTexts = ofText && !same_text(*first.text(), *second.text());
  if (!ofTwoTexts && read.size() == other.size() && std::equal(read.begin() + 1, read.end(), other.begin() + 1)) {
    if (read.front() == other.front()) return std::nullopt;
    return fmt::format(
        "{} read the same from position 1 on, behind BOS {} and {}: run both with --bos for one that they share", names,
        read.front(), other.front());
  }
  if (const std::string why = one_token_more(a, b); !why.empty()) {
    throw UsageError(fmt::format("{} did not read the same tokens: {}: {}", names, why, same_text_remedy(a, b)));
  }
  if (ofTwoTexts) throw UsageError(fmt::format("{} did not read the same text: {}", names, same_text_remedy(a, b)));
  if (ofText && read.size() == other.size()) {
    throw UsageError(names +
                     " did not read the same tokens, their tokenizers differ: draw each in a figure of its own");
  }
  throw UsageError(fmt::format("{} did not read the same tokens: {}", names, same_text_remedy(a, b)));
}

void requireShown(std::span<const ColourLimits> limits, std::span<const Quantity> shown) {
  for (const ColourLimits& one : limits) {
    if (std::find(shown.begin(), shown.end(), one.quantity) != shown.end()) continue;
    throw UsageError(
        fmt::format("--limits {0}: the figure does not show it: add --quantity {0}", to_string(one.quantity)));
  }
}

void addMapFacts(FigureOrigin& origin, const MapRequest& request, const ScaledColours& colours) {
  const std::string blank = colours.blankBelow ? fmt::format(", white below {:g}", *colours.blankBelow) : "";
  const std::string channels = channelText(request);
  origin.facts.emplace_back(
      request.minus ? "difference" : "map",
      fmt::format("{}{}{}, queries {}:{}, {} {}:{}, {} x {} pixels by {}, colours {} from {:g} to {:g}{}",
                  to_string(request.quantity), channels.empty() ? "" : ", ", channels, request.rows.begin,
                  request.rows.end, request.by_distance() ? "distances" : "keys", request.columns.begin,
                  request.columns.end, request.pixel_rows, request.pixel_columns, to_string(request.reduction),
                  colours.scale == ColourScale::linear ? "linear" : "logarithmic", colours.lower, colours.upper,
                  blank));
}

double mapProportion(const Range& rows, const Range& columns) {
  constexpr double kMostOblong = 2.5;
  return std::clamp(static_cast<double>(rows.size()) / static_cast<double>(columns.size()), 1 / kMostOblong,
                    kMostOblong);
}

std::vector<std::string> tokenLabels(const Trace& trace, const Range& range, std::int64_t most) {
  std::vector<std::string> labels;
  if (range.size() > most) return labels;
  for (std::int64_t position = range.begin; position < range.end; ++position) {
    labels.push_back(readText(*trace.tokens(), position, Whitespace::visible).toStdString());
  }
  return labels;
}

}  // namespace foxscope::figure
