#include "app/figure/kinds/atlas/resets.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figure/curves/curve_palette.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/heads/histogram_panel.h"
#include "app/figure/heads/token_bars_panel.h"
#include "app/figure/kinds/atlas/atlas_heads.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "app/figure/legend_panel.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope::figure {
namespace {

/// @param of  the head, as "6:3"
TokenBarsPanel::Content classBars(const AtlasModel& model, const AtlasResets& resets, std::size_t head,
                                  const std::string& of) {
  TokenBarsPanel::Content content;
  content.title = fmt::format("{}: resets by class of token", of);
  content.across = "share of resets (*f* < 1/2)";
  content.series = "resets";
  content.colour = curveColour(0);
  const auto positions = model.sums.at(AtlasSum::class_count);
  for (std::size_t n = 0; n < kResetClasses; ++n) {
    const std::size_t at = head * kResetClasses + n;
    if (positions[n] == 0) continue;
    TokenBar bar;
    bar.token = QString::fromStdString(to_string(static_cast<BoundaryClass>(n))).replace('_', ' ');
    bar.value = resets.share[at];
    bar.count = positions[n];
    bar.certain = resets.discovered[at] != 0;
    bar.chance = {resets.chance[at], resets.chance_spread[at], resets.p_value[at]};
    content.bars.push_back(std::move(bar));
  }
  return content;
}

HistogramPanel::Content distanceSteps(std::span<const std::int64_t> gaps, const std::string& of) {
  HistogramPanel::Content content;
  content.title = fmt::format("{}: distances of resets", of);
  content.across = "distance of neighbouring resets (tokens)";
  content.up = "share of distances";
  content.series = "distances";
  content.row = of;
  content.scale = AxisScale::logarithmic;
  content.heightOfWidth = 0.4;
  const auto all = static_cast<double>(std::accumulate(gaps.begin(), gaps.end(), std::int64_t{0}));
  std::size_t bins = gaps.size();
  while (bins > 1 && gaps[bins - 1] == 0) --bins;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    content.edges.push_back(std::exp2(bin));
    content.shares.push_back(static_cast<double>(gaps[bin]) / all);
  }
  content.edges.push_back(std::exp2(bins));
  return content;
}

/// The head that --head names; without it the one of most resets, with a note.
std::size_t chosenByResets(FigureRequest& request, const AtlasModel& model) {
  if (request.spec.has("head") || !model.forgets()) return chosenHead(request, model);
  const std::vector<std::int64_t> counts = atlas_resets(model).count;
  const auto head = index_of(std::ranges::max_element(counts) - counts.begin());
  if (counts[head] == 0) {
    throw UsageError(
        fmt::format("model '{}' has no resets: f is 1/2 or more at every position of every head", model.info.name));
  }
  request.notes.push_back(fmt::format("{}: {} is drawn, the head of most resets; --head chooses another",
                                      model.info.name, headWord(headsOf(model), head)));
  return head;
}

}  // namespace

DrawnFigure drawResets(const AtlasModel& model, const ResetsOptions& options, const FigureStyle& style) {
  using Of = ResetsOptions::Of;
  const std::string of = headWord(headsOf(model), options.head);
  const AtlasResets resets = atlas_resets(model);
  const auto gaps = model.sums.row(AtlasSum::reset_gap, options.head);
  const bool apart = std::ranges::any_of(gaps, [](std::int64_t count) { return count > 0; });
  if (options.of == Of::classes && !options.isText) {
    throw UsageError("--of classes: the atlas is of token ids, there is no text whose classes resets fall on");
  }
  if (resets.count[options.head] == 0) {
    throw UsageError(
        fmt::format("--head {}: this head of {} has no resets, f is 1/2 or more at every position: choose "
                    "another",
                    of, model.info.name));
  }
  const bool classes = options.isText && options.of != Of::distances;
  if (!apart && !classes) {
    throw UsageError(
        fmt::format("--head {}: no window has two resets of this head of {}, so none has a distance: choose "
                    "another",
                    of, model.info.name));
  }
  PanelPage page(style);
  int row = 0;
  if (classes) {
    page.add(std::make_unique<TokenBarsPanel>(style.format, classBars(model, resets, options.head, of)), {row++, 0});
    page.add(std::make_unique<LegendPanel>(style.format, std::vector<Curve>(),
                                           "mark: by chance ± 1 standard deviation; grey: not beyond chance"),
             {row++, 0});
  }
  if (apart && options.of != Of::classes) {
    page.add(std::make_unique<HistogramPanel>(style.format, distanceSteps(gaps, of)), {row++, 0});
  }
  page.arrange();
  DrawnFigure drawn;
  const auto share = static_cast<double>(resets.count[options.head]) / static_cast<double>(model.positions());
  drawn.notes.push_back(fmt::format("{}: {} has {} resets, {:.3g} % of positions", model.info.name, of,
                                    resets.count[options.head], 100 * share));
  FigureOrigin origin = originOf(model, style, "Where a head resets");
  origin.facts.emplace_back("head", of);
  origin.facts.emplace_back("resets", std::to_string(resets.count[options.head]));
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawResets(FigureRequest& request) {
  ResetsOptions options;
  options.of = choiceOf<ResetsOptions::Of>(request.spec, "of", {"all", "classes", "distances"});
  const Atlas atlas = request.atlas();
  options.isText = !atlas.corpus.documents.empty();
  const AtlasModel& model = request.model(atlas.models);
  options.head = chosenByResets(request, model);
  return drawResets(model, options, request.style);
}

}  // namespace foxscope::figure
