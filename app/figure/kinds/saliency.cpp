#include "app/figure/kinds/saliency.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figure/colour_scale.h"
#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/kinds/passage_words.h"
#include "app/figure/maps/map_panel.h"
#include "app/figure/page/axis_ticks.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/trace/run_origin.h"

namespace foxscope::figure {
namespace {

constexpr double kRow = 1.75;               ///< height of a head's cell, font sizes
constexpr double kMostOfWidth = 0.9;        ///< how high the grid may be
constexpr double kShareWithinScale = 0.98;  ///< of the values: a few extremes must not bleach a passage
constexpr int kLeastWritten = -1;           ///< decimal exponent that needs no factor

/// A number in words, g being d loss / d log f of a position.
const char* wordsOf(SaliencyNumber number) {
  switch (number) {
    case SaliencyNumber::scale:
      return "saliency_scale: sum of *g* log *f*";
    case SaliencyNumber::absolute:
      return "saliency_absolute: sum of |*g* log *f*|";
    case SaliencyNumber::per_nat:
      break;
  }
  return "saliency_per_nat: mean of |*g*|";
}

/// The number of all heads, layers downwards. Nothing if the job was stopped.
std::optional<Image> numbersOf(const RunOnDevice& trace, SaliencyNumber number, const Job& job) {
  const TraceInfo& info = trace->info();
  Image image{info.layers, info.heads, {}};
  for (int layer = 0; layer < info.layers; ++layer) {
    for (int head = 0; head < info.heads; ++head) {
      if (job.stopped()) return std::nullopt;
      image.value.push_back(static_cast<float>(value_of(*head_saliency({trace, layer, head}, 0), number)));
    }
  }
  return image;
}

HeadIndex strongestHead(const Image& sizes) {
  const auto smaller = [](float a, float b) { return !std::isnan(b) && (std::isnan(a) || std::abs(a) < std::abs(b)); };
  const auto place = std::max_element(sizes.value.begin(), sizes.value.end(), smaller) - sizes.value.begin();
  return {static_cast<int>(place / sizes.columns), static_cast<int>(place % sizes.columns)};
}

/// The positions that the target ends with, where it is a part of the text.
Range shownByItself(const TraceInfo& info) {
  const std::optional<Range> target = saliency_range(info);
  const std::int64_t end =
      !target || target->size() == info.length ? std::min(info.length, kPassageTokens) : target->end;
  return {std::max<std::int64_t>(0, end - kPassageTokens), end};
}

/// g of each position of a range, nats per nat: what the numbers of the heads are sums and means of.
std::vector<double> gradientOf(const HeadOf& head, const Range& range) {
  const auto gradient = head.trace->log_forget_gradient(head.layer, head.head);
  return {gradient.begin() + range.begin, gradient.begin() + range.end};
}

ScaledColours coloursWithSigns(const ColourMap& map) {
  ScaledColours colours;
  colours.map = &map;
  colours.hasSigns = true;
  return colours;
}

ScaledColours coloursOfGradient(const std::vector<double>& gradient) {
  const Image all{1, static_cast<std::int64_t>(gradient.size()), {gradient.begin(), gradient.end()}};
  ScaledColours colours = coloursWithSigns(signedTint());
  double limit = sizeOfMost(all, kShareWithinScale);
  if (!(limit > 0)) limit = sizeOfMost(all, 1);
  colours.upper = limit > 0 ? limit : 1;
  colours.lower = -colours.upper;
  return colours;
}

MapPanel::Content gridOf(const TraceInfo& info, const FigureStyle& style) {
  const double room = widthInPoints(style.format);
  MapPanel::Content content;
  content.rows = numberedAxis("layer", info.layers);
  content.columns = numberedAxis("head", info.heads);
  content.heightOfWidth = std::min(kMostOfWidth, info.layers * kRow * textStyleOf(style.format).size / room);
  content.proportions = Panel::Proportions::free;
  return content;
}

/// The grid of heads with its colour bar. The numbers in its cells have the bar's unit.
struct HeadSizes {
  MapPanel* grid = nullptr;
  ColourBarPanel* bar = nullptr;
  SaliencyNumber number = SaliencyNumber::absolute;
  int exponent = 0;  ///< of the unit, a power of ten

  [[nodiscard]] std::string label() const {
    return fmt::format("{} ({}{})", wordsOf(number), exponent == 0 ? "" : powerOfTen(exponent) + " ", unit_of(number));
  }
};

HeadSizes addSizes(PanelPage& page, const Image& sizes, SaliencyNumber number, const TraceInfo& info,
                   const FigureStyle& style) {
  HeadSizes added;
  added.number = number;
  const double largest = sizeOfMost(sizes, 1);
  if (largest > 0) added.exponent = static_cast<int>(std::floor(std::log10(largest)));
  if (added.exponent >= kLeastWritten) added.exponent = 0;
  added.grid = &page.add(std::make_unique<MapPanel>(style.format, gridOf(info, style)), {0, 0, 1, 3});
  added.bar = &page.add(std::make_unique<ColourBarPanel>(style.format), {1, 0, 1, 3});
  added.bar->expectLabel(added.label());
  return added;
}

void fillSizes(const PanelPage& page, const HeadSizes& added, Image sizes) {
  const double unit = std::pow(10, added.exponent);
  const bool hasSigns = added.number == SaliencyNumber::scale;
  ScaledColours colours = hasSigns ? coloursWithSigns(diverging()) : ScaledColours();
  if (!hasSigns) colours.map = &viridis();
  const double largest = sizeOfMost(sizes, 1) / unit;
  colours.upper = largest > 0 ? largest : 1;
  if (hasSigns) colours.lower = -colours.upper;
  std::vector<std::string> texts;
  for (float& value : sizes.value) {
    value = static_cast<float>(value / unit);
    texts.push_back(std::isnan(value) ? "" : fmt::format("{:.2f}", value));
  }
  colours.label = added.label();
  added.bar->setColours(colours, colours.label, to_string(added.number));
  added.grid->setImage(std::move(sizes), colours);
  if (added.grid->fitsCells(texts, page.inner(*added.grid))) added.grid->setCellTexts(std::move(texts));
}

FigureOrigin originOf(const HeadOf& head, SaliencyNumber number, const Range& range, const ScaledColours& colours,
                      const FigureStyle& style) {
  const TraceInfo& info = head.trace->info();
  FigureOrigin origin;
  origin.title = style.title.empty() ? fmt::format("Gradient of a loss of {} by its gates", info.name) : style.title;
  origin.command = style.command;
  origin.facts = {
      {"target", info.saliency_target},
      {"heads", to_string(number)},
      {"passage", headText(head)},
      {"positions", fmt::format("{}:{}", range.begin, range.end)},
      {"colours", fmt::format("from {:g} to {:g} nats of loss per nat of log f", colours.lower, colours.upper)}};
  addRun(origin, *head.trace);
  return origin;
}

std::optional<SaliencyNumber> parseNumber(const std::string& name) {
  if (name.empty()) return std::nullopt;
  for (const SaliencyNumber number : kSaliencyNumbers) {
    if (name == to_string(number)) return number;
  }
  throw UsageError(fmt::format("--by {}: use saliency_scale, saliency_absolute or saliency_per_nat", name));
}

}  // namespace

std::optional<DrawnFigure> drawSaliency(const RunOnDevice& trace, const SaliencyOptions& options,
                                        const FigureStyle& style, const Job& job) {
  const TraceInfo& info = trace->info();
  if (!trace->has(TraceArray::log_forget_gradient)) {
    throw Error(fmt::format("{}: saliency was not kept: {}", info.name, keep_remedy(info, Keep::saliency)));
  }
  const Range range = options.positions.value_or(shownByItself(info));
  requirePositions(range, info.length);
  const SaliencyNumber number = options.number.value_or(ordering_number(*trace));
  if (number != SaliencyNumber::per_nat && forgets(info) && ordering_number(*trace) == SaliencyNumber::per_nat) {
    throw Error(fmt::format("{}: gates were not kept, and {} is of them: {}", info.name, to_string(number),
                            keep_remedy(info, Keep::gates, "--keep loss,gates,saliency")));
  }
  auto sizes = numbersOf(trace, number, job);
  if (!sizes) return std::nullopt;
  DrawnFigure drawn;
  const HeadIndex chosen = options.head.value_or(strongestHead(*sizes));
  trace->check_head(chosen.layer, chosen.head);
  if (!options.head) {
    drawn.notes.push_back(fmt::format("{}: {}:{} has the largest {}; --head chooses another", info.name, chosen.layer,
                                      chosen.head, to_string(number)));
  }
  const HeadOf head{trace, chosen.layer, chosen.head};
  const std::vector<double> gradient = gradientOf(head, range);
  ScaledColours colours = coloursOfGradient(gradient);
  std::string label = fmt::format("*g* of {}:{}: change of {} per nat of log *f* (nats)", head.layer, head.head,
                                  saliency_target_words(info));
  if (std::string beyond = beyondText(colours, gradient); !beyond.empty()) {
    label = someBeyond(label);
    drawn.notes.push_back(std::move(beyond));
  }

  colours.label = label;

  PanelPage page(style);
  const HeadSizes added = addSizes(page, *sizes, number, info, style);
  PassageWords words{range};
  const std::optional<Range> target = saliency_range(info);
  if (target && target->size() == 1) words.outlined = target->begin;
  page.add(std::make_unique<TextPanel>(style.format, tintedPieces(*trace, words, gradient), colours), {2, 0, 1, 3});
  ColourBarPanel& bar = page.add(std::make_unique<ColourBarPanel>(style.format), {3, 0, 1, 3});
  bar.expectLabel(label);
  page.arrange();
  fillSizes(page, added, std::move(*sizes));
  bar.setColours(colours, label, "*g*");
  drawn.file = page.paint(originOf(head, number, range, colours, style));
  return drawn;
}

std::optional<DrawnFigure> drawSaliency(FigureRequest& request) {
  const FigureSpec& spec = request.spec;
  const auto chosen = request.run();
  if (!chosen) return std::nullopt;
  const RunOnDevice& run = *chosen;
  SaliencyOptions options;
  options.head = headOf(spec, "head");
  options.positions = rangeOf(spec, "rows", run->info().length);
  options.number = parseNumber(spec.text("by"));
  return drawSaliency(run, options, request.style, request.job);
}

}  // namespace foxscope::figure
