#include "app/figure/colour_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figure/page/axis_ticks.h"
#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

constexpr double kDecades = 4;
// A few extreme entries must not turn a whole difference white, or all other attention dark.
constexpr double kSignedShare = 0.995;
constexpr double kLogarithmicShare = 0.999;

struct Extremes {
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -std::numeric_limits<double>::infinity();
  [[nodiscard]] bool empty() const { return lowest > highest; }
};

template <typename Values>
Extremes extremesOf(const Values& values) {
  Extremes extremes;
  for (const auto value : values) {
    if (!std::isfinite(value)) continue;
    extremes.lowest = std::min(extremes.lowest, static_cast<double>(value));
    extremes.highest = std::max(extremes.highest, static_cast<double>(value));
  }
  return extremes;
}

bool hasSigns(const MapRequest& request) {
  return request.minus.has_value() || request.quantity == Quantity::gate_effect || request.quantity == Quantity::mixing;
}

std::string quantityOf(const MapRequest& request) {
  const std::string difference = request.minus ? "difference of " : "";
  switch (request.quantity) {
    case Quantity::forget:
      return difference + (request.minus ? "F" : "F, share that is retained");
    case Quantity::log_forget:
      return difference + "log F (nats)";
    case Quantity::logits:
      return difference + "logit q·k/√d (nats)";
    case Quantity::attention:
      return difference + (request.minus ? "A" : "attention A");
    case Quantity::attention_without_gate:
      return difference + "A without the gate";
    case Quantity::gate_effect:
      return difference + "A − A without the gate";
    case Quantity::mixing:
      return difference + (request.minus ? "M" : "mixing M");
  }
  return "";
}

std::string labelOf(const MapRequest& request) {
  return quantityOf(request) + (request.first_key == FirstKey::left_out ? ", key 0 left out" : "");
}

void setSigned(const Image& image, const Extremes& extremes, ScaledColours& colours) {
  double limit = sizeOfMost(image, kSignedShare);
  if (limit <= 0) limit = std::max(std::abs(extremes.lowest), std::abs(extremes.highest));
  if (limit <= 0) limit = 1;
  colours.map = &diverging();
  colours.lower = -limit;
  colours.upper = limit;
}

// The next of 1, 2, 5, 10, 20, ... that is not below the value.
double roundUp(double value) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (value <= step * decade * (1 + 1e-9)) return step * decade;
  }
  return 10 * decade;
}

void setLogarithmic(const Image& image, ScaledColours& colours) {
  const double most = sizeOfMost(image, kLogarithmicShare);
  colours.upper = most > 0 ? roundUp(most) : 1;
  colours.lower = colours.upper * std::pow(10, -kDecades);
}

void setLinear(const MapRequest& request, const Extremes& extremes, ScaledColours& colours) {
  const bool share = request.quantity == Quantity::forget;
  const bool fromZero =
      request.quantity == Quantity::attention || request.quantity == Quantity::attention_without_gate || share;
  colours.lower = fromZero ? 0 : extremes.lowest;
  colours.upper = share ? 1 : extremes.highest;
  if (!(colours.upper > colours.lower)) colours.upper = colours.lower + 1;
  if (!fromZero) colours.map = &magma();
}

void applyChoice(const ColourChoice& choice, ScaledColours& colours) {
  if (choice.map != nullptr) colours.map = choice.map;
  colours.blankBelow = choice.blankBelow;
  if (choice.upper) {
    colours.upper = *choice.upper;
    if (colours.hasSigns) colours.lower = -colours.upper;
    if (colours.scale == ColourScale::logarithmic) colours.lower = colours.upper * std::pow(10, -kDecades);
  }
  if (choice.lower) {
    colours.lower = *choice.lower;
    if (colours.hasSigns && !choice.upper) colours.upper = -colours.lower;
  }
  if (!std::isfinite(colours.lower) || !std::isfinite(colours.upper) || colours.lower >= colours.upper) {
    throw UsageError(
        fmt::format("colour limits {:g} to {:g}: the lower must be below the upper", colours.lower, colours.upper));
  }
  if (colours.scale == ColourScale::logarithmic && colours.lower <= 0) {
    throw UsageError(
        fmt::format("colour limits {:g} to {:g}: a logarithmic scale begins above 0: give a lower limit above 0, leave "
                    "the lower one out, or choose the linear scale",
                    colours.lower, colours.upper));
  }
}

std::string number(double value) { return writtenNumber(value, 2); }

// A limit that is the extreme itself but for float32's rounding leaves nothing out.
bool reaches(double limit, double extreme) { return std::abs(limit - extreme) <= 1e-6 * std::abs(extreme); }

std::string beyondText(const ScaledColours& colours, const Extremes& extremes, const char* values) {
  const bool below = extremes.lowest < colours.lower && !reaches(colours.lower, extremes.lowest);
  const bool above = extremes.highest > colours.upper && !reaches(colours.upper, extremes.highest);
  if (!below && !above) return "";
  return fmt::format("colours from {} to {}, {} from {} to {}", number(colours.lower), number(colours.upper), values,
                     number(extremes.lowest), number(extremes.highest));
}

std::string noteOf(const ScaledColours& colours, const Extremes& extremes) {
  std::vector<std::string> notes;
  if (std::string beyond = beyondText(colours, extremes, "entries"); !beyond.empty())
    notes.push_back(std::move(beyond));
  if (colours.blankBelow) {
    notes.push_back(fmt::format("white: {} below {}", colours.hasSigns ? "size" : "entries",
                                writtenNumber(*colours.blankBelow, 6)));
  }
  return fmt::format("{}", fmt::join(notes, "; "));
}

}  // namespace

double sizeOfMost(const Image& image, double share) {
  std::vector<float> sizes;
  sizes.reserve(image.value.size());
  for (const float value : image.value) {
    if (std::isfinite(value)) sizes.push_back(std::abs(value));
  }
  if (sizes.empty()) return 0;
  const auto place = sizes.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(sizes.size() - 1));
  std::nth_element(sizes.begin(), place, sizes.end());
  return *place;
}

std::string beyondText(const ScaledColours& colours, std::span<const double> values) {
  return beyondText(colours, extremesOf(values), "values");
}

std::string someBeyond(const std::string& label) {
  if (label.ends_with(')')) return label.substr(0, label.size() - 1) + ", some beyond)";
  return label + " (some beyond)";
}

ColourScale defaultScale(const MapRequest& request) {
  const bool attention =
      request.quantity == Quantity::attention || request.quantity == Quantity::attention_without_gate;
  return attention && !request.minus ? ColourScale::logarithmic : ColourScale::linear;
}

void requireLogarithmic(const MapRequest& request) {
  const bool positive = request.quantity == Quantity::forget || request.quantity == Quantity::attention ||
                        request.quantity == Quantity::attention_without_gate;
  if (!positive || request.minus) {
    throw UsageError(fmt::format("--scale log: {}{} has entries below zero: use linear",
                                 request.minus ? "a difference of " : "", to_string(request.quantity)));
  }
}

double ScaledColours::position(double value) const {
  if (scale == ColourScale::linear) return (value - lower) / (upper - lower);
  if (value <= 0) return lower < upper ? 0 : 1;
  return std::log(value / lower) / std::log(upper / lower);
}

double ScaledColours::value(double position) const {
  if (scale == ColourScale::linear) return lower + position * (upper - lower);
  return lower * std::pow(upper / lower, position);
}

Rgb ScaledColours::colour(double value) const {
  if (std::isnan(value)) return kAbsent;
  if (blankBelow && (hasSigns ? std::abs(value) : value) < *blankBelow) return kBlank;
  return colourAt(*map, position(value));
}

ScaledColours chooseColours(const MapFigure& figure) {
  const Extremes extremes = extremesOf(figure.image.value);
  ScaledColours colours;
  colours.map = &viridis();
  colours.scale = figure.scale;
  colours.hasSigns = hasSigns(figure.request);
  colours.label = labelOf(figure.request);
  if (colours.scale == ColourScale::logarithmic) colours.lower = std::pow(10, -kDecades);
  if (!extremes.empty()) {
    if (colours.hasSigns) {
      setSigned(figure.image, extremes, colours);
    } else if (figure.scale == ColourScale::logarithmic) {
      setLogarithmic(figure.image, colours);
    } else {
      setLinear(figure.request, extremes, colours);
    }
  }
  applyChoice(figure.colours, colours);
  colours.note = extremes.empty() ? "no key of this region is before its query" : noteOf(colours, extremes);
  return colours;
}

}  // namespace foxscope::figure
