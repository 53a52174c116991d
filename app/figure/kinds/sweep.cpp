#include "app/figure/kinds/sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "app/figure/colour_scale.h"
#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/maps/map_panel.h"
#include "app/figure/page/axis_ticks.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope::figure {
namespace {

constexpr int kSweepsAcross = 2;
constexpr double kHeadsShown = 0.9;
constexpr double kFarBeyond = 1.5;  ///< the scale is cut only where the largest change is so many times its end
constexpr double kMilli = 1000;

/// The unit that changes are written in.
struct Unit {
  double factor = 1;
  const char* words = "nats per token";
};

Unit unitOf(double limit) {
  if (limit < 0.1) return {kMilli, "10⁻³ nats per token"};
  return {};
}

/// Layers downwards, heads across.
Image imageOf(const SweepEvaluation& sweep, const std::vector<HeadChange>& heads) {
  Image image{sweep.info.layers, sweep.info.heads, {}};
  // Cells of heads that a layer does not have stay empty.
  image.value.assign(sweep.changed_loss.size(), std::numeric_limits<float>::quiet_NaN());
  for (const HeadChange& head : heads) {
    image.value[sweep.place_of(head.layer, head.head)] = static_cast<float>(head.change.mean.value);
  }
  return image;
}

/// The limits of all sweeps together.
SweepLimits limitsOf(const std::vector<std::vector<HeadChange>>& sweeps) {
  std::vector<double> changes;
  for (const auto& heads : sweeps) {
    for (const HeadChange& head : heads) changes.push_back(head.change.mean.value);
  }
  return sweepLimits(changes);
}

/// A number in as many digits as its error leaves.
int digitsFor(double error) {
  constexpr double kOneDigit = 2.95;  // an error from 3 on is told by its first digit
  if (!(error > 0) || !std::isfinite(error)) return 2;
  const double exponent = std::floor(std::log10(error));
  const bool one = error / std::pow(10, exponent) >= kOneDigit;
  return std::clamp(static_cast<int>(-exponent) + (one ? 0 : 1), 0, 3);
}

std::string signedText(double value, int digits) {
  const std::string text = fmt::format("{:.{}f}", std::abs(value), digits);
  const bool zero = text.find_first_not_of("0.") == std::string::npos;
  return (zero ? "" : value < 0 ? "−" : "+") + text;
}

constexpr const char* kDot = "•";

/// A dot for each head that is not told from 0; none where no error is known.
std::vector<std::string> dotTexts(const SweepEvaluation& sweep, const std::vector<HeadChange>& heads,
                                  std::optional<double> rate) {
  const std::vector<bool> named = rate ? sweep.discovered(*rate) : std::vector<bool>();
  std::vector<std::string> texts;
  texts.reserve(heads.size());
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const Estimate& mean = heads[n].change.mean;
    const bool told = rate ? named[n] : beyond_chance(mean);
    texts.emplace_back(told || std::isnan(p_value(mean)) ? "" : kDot);
  }
  return texts;
}

/// @param dots  behind the values; empty: none
std::vector<std::string> valueTexts(const std::vector<HeadChange>& heads, const Unit& unit,
                                    const std::vector<std::string>& dots) {
  std::vector<std::string> texts;
  texts.reserve(heads.size());
  for (const HeadChange& head : heads) {
    const Estimate& mean = head.change.mean;
    const int digits = digitsFor(unit.factor * mean.error);
    std::string text = signedText(unit.factor * mean.value, digits);
    if (!dots.empty() && !dots[texts.size()].empty()) text += ' ' + dots[texts.size()];
    if (std::isfinite(mean.error)) text += fmt::format("\n±{:.{}f}", unit.factor * mean.error, digits);
    texts.push_back(std::move(text));
  }
  return texts;
}

/// Texts of heads in the places of their cells: what a layer does not have is empty.
std::vector<std::string> placed(const SweepEvaluation& sweep, const std::vector<HeadChange>& heads,
                                std::vector<std::string> texts) {
  std::vector<std::string> cells(sweep.changed_loss.size());
  for (std::size_t n = 0; n < heads.size(); ++n) {
    cells[sweep.place_of(heads[n].layer, heads[n].head)] = std::move(texts[n]);
  }
  return cells;
}

/// "FoX, gate 1, on up-from-slavery-1.txt (2048 tokens)"
std::string panelTitle(const SweepEvaluation& sweep, const FigureStyle& style) {
  const std::string head = style.label(sweep.info.name) + ", " + sweep.change.kind_words();
  if (sweep.source.empty()) return fmt::format("{}, on {}\u00a0tokens", head, sweep.info.length);
  return fmt::format("{}, on {} ({}\u00a0tokens)", head, style.label(sweep.source), sweep.info.length);
}

MapPanel::Content contentOf(const SweepEvaluation& sweep, const FigureStyle& style) {
  constexpr double kCell = 0.6;  // its height over its width, for a number to stand in
  MapPanel::Content content;
  content.rows = numberedAxis("layer", sweep.info.layers);
  content.columns = numberedAxis("head", sweep.info.heads);
  content.title = panelTitle(sweep, style);
  content.heightOfWidth = std::clamp(kCell * sweep.info.layers / sweep.info.heads, 0.2, 0.9);
  content.proportions = Panel::Proportions::free;
  return content;
}

/// The label of the bar: the unit of cells and dots. Where many heads stand beside each other some are far from 0 by
/// chance, which the label says too.
std::string barLabel(const Unit& unit, const SweepLimits& limits, bool values, bool errors,
                     std::optional<double> rate) {
  std::string label = values && errors ? "change of the loss ± 1 standard error" : "change of the loss";
  label += fmt::format(" ({})", unit.words);
  if (limits.cut) label = someBeyond(label);
  if (!errors) return label;
  if (rate)
    return label + fmt::format(", {} not found at a false discovery rate of {} %", kDot, writtenNumber(100 * *rate, 6));
  return label + (values ? "; beyond two errors by chance: about 1 head in 20"
                         : fmt::format(", {} 0 in its 95 % interval (outside by chance: 1 head in 20)", kDot));
}

/// Notes the kind of each sweep's errors, and how many of its heads are beyond chance.
void noteErrorsOf(std::vector<std::string>& notes, const SweepEvaluation& sweep, const std::vector<HeadChange>& heads,
                  std::optional<double> rate) {
  std::vector<Estimate> means;
  for (const HeadChange& head : heads) means.push_back(head.change.mean);
  notes.push_back(fmt::format("{}: {}", sweep.info.name, errors_text(error_blocks(sweep.info.length))));
  const std::string beyond = beyond_chance_text(means, rate.value_or(kChance));
  if (!beyond.empty()) notes.push_back(fmt::format("{}: {}", sweep.info.name, beyond));
}

FigureOrigin originOf(std::span<const SweepEvaluation> sweeps, const SweepLimits& limits, const FigureStyle& style) {
  FigureOrigin origin;
  origin.title = style.title.empty() ? "Change of the loss by each head" : style.title;
  origin.command = style.command;
  for (const SweepEvaluation& sweep : sweeps) {
    addModel(origin, sweep.info);
    addOnce(origin, {"text", sweep.source});
    addOnce(origin, {"tokens", std::to_string(sweep.info.length)});
    addOnce(origin, {"change", sweep.change.kind_text()});
  }
  origin.facts.emplace_back("colours", fmt::format("from {:g} to {:g} nats", -limits.limit, limits.limit));
  return origin;
}

}  // namespace

SweepLimits sweepLimits(std::span<const double> changes) {
  Image all{1, static_cast<std::int64_t>(changes.size()), {changes.begin(), changes.end()}};
  const double largest = sizeOfMost(all, 1);
  const double most = sizeOfMost(all, kHeadsShown);
  if (largest <= 0) return {};
  return most > 0 && largest > kFarBeyond * most ? SweepLimits{most, true} : SweepLimits{largest, false};
}

DrawnFigure drawSweep(std::span<const SweepEvaluation> sweeps, const FigureStyle& style, std::optional<double> rate) {
  if (sweeps.empty()) throw UsageError("there is no sweep to draw");
  std::vector<std::vector<HeadChange>> heads;
  std::vector<Image> images;
  for (const SweepEvaluation& sweep : sweeps) {
    heads.push_back(sweep.changes(0));
    images.push_back(imageOf(sweep, heads.back()));
  }
  const SweepLimits limits = limitsOf(heads);
  const bool errors = std::ranges::any_of(
      sweeps, [](const SweepEvaluation& sweep) { return error_blocks(sweep.info.length).suffice(); });
  const Unit unit = unitOf(limits.limit);

  PanelPage page(style);
  const int count = static_cast<int>(sweeps.size());
  const int across = std::min(count, kSweepsAcross);
  std::vector<MapPanel*> panels;
  panels.reserve(sweeps.size());
  for (int index = 0; index < count; ++index) {
    panels.push_back(&page.add(std::make_unique<MapPanel>(style.format, contentOf(sweeps[index_of(index)], style)),
                               PanelPlace{index / across, index % across}));
  }
  ColourBarPanel& bar =
      page.add(std::make_unique<ColourBarPanel>(style.format), PanelPlace{(count + across - 1) / across, 0, 1, across});
  bar.expectLabel(barLabel(unit, limits, true, errors, rate));
  page.arrange();

  std::vector<std::vector<std::string>> values;
  std::vector<std::vector<std::string>> dots;
  bool fit = true;
  for (std::size_t n = 0; n < panels.size(); ++n) {
    dots.push_back(dotTexts(sweeps[n], heads[n], rate));
    values.push_back(
        placed(sweeps[n], heads[n], valueTexts(heads[n], unit, rate ? dots[n] : std::vector<std::string>())));
    fit = fit && panels[n]->fitsCells(values[n], page.inner(*panels[n]));
  }
  ScaledColours colours;
  colours.map = &diverging();
  colours.hasSigns = true;
  colours.lower = -limits.limit * unit.factor;
  colours.upper = limits.limit * unit.factor;
  colours.label = fmt::format("change of the loss ({})", unit.words);
  bar.setColours(colours, barLabel(unit, limits, fit, errors, rate), "change of the loss");
  for (std::size_t n = 0; n < panels.size(); ++n) {
    for (float& value : images[n].value) value *= static_cast<float>(unit.factor);
    panels[n]->setImage(std::move(images[n]), colours);
    panels[n]->setCellTexts(fit ? values[n] : placed(sweeps[n], heads[n], dots[n]));
  }
  DrawnFigure drawn;
  for (std::size_t n = 0; n < panels.size(); ++n) noteErrorsOf(drawn.notes, sweeps[n], heads[n], rate);
  if (limits.cut) {
    std::size_t all = 0;
    std::ptrdiff_t beyond = 0;
    for (const auto& changes : heads) {
      all += changes.size();
      beyond += std::ranges::count_if(
          changes, [&](const HeadChange& head) { return std::abs(head.change.mean.value) > limits.limit; });
    }
    drawn.notes.push_back(fmt::format("the colours end at ±{:.3g} nats: of {} heads {} change the loss by more",
                                      limits.limit, all, beyond));
  }
  drawn.file = page.paint(originOf(sweeps, limits, style));
  return drawn;
}

std::optional<DrawnFigure> drawSweep(FigureRequest& request) {
  std::vector<SweepEvaluation> sweeps;
  std::vector<std::string> names;
  for (const std::string& file : request.sources.files) {
    const SweepEvaluation& sweep = sweeps.emplace_back(SweepEvaluation::open(file));
    for (const std::string& name : {sweep.info.name, sweep.source}) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  request.style.requireLabels(names);
  return drawSweep(sweeps, request.style, numberOf(request.spec, "fdr"));
}

}  // namespace foxscope::figure
