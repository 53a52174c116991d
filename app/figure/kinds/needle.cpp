#include "app/figure/kinds/needle.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/maps/map_panel.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope::figure {
namespace {

constexpr int kMostAcross = 3;
constexpr double kLittleLoss = 0.1;  ///< share of the largest gain, below which a loss needs no colours of its own

/// One model's grid before it is drawn.
struct NeedleGrid {
  const NeedleEvaluation* test = nullptr;
  const NeedleModel* model = nullptr;
  HeadIndex head;
  std::vector<float> values;  ///< [P, Q]
  MapPanel* panel = nullptr;
};

std::size_t headPlace(const NeedleModel& model, const HeadIndex& head) {
  return static_cast<std::size_t>(head.layer) * static_cast<std::size_t>(model.info.heads) +
         static_cast<std::size_t>(head.head);
}

std::vector<float> ofHead(const NeedleModel& model, const std::vector<float>& values, std::size_t cells,
                          const HeadIndex& head) {
  const std::size_t heads = values.size() / cells;
  std::vector<float> chosen;
  for (std::size_t cell = 0; cell < cells; ++cell) chosen.push_back(values[cell * heads + headPlace(model, head)]);
  return chosen;
}

HeadIndex mostMass(const NeedleModel& model, std::size_t cells) {
  HeadIndex best;
  double most = -1;
  for (int layer = 0; layer < model.info.layers; ++layer) {
    for (int head = 0; head < model.info.heads; ++head) {
      double sum = 0;
      for (const float mass : ofHead(model, model.needle_mass, cells, {layer, head})) sum += static_cast<double>(mass);
      if (sum > most) best = {layer, head};
      most = std::max(most, sum);
    }
  }
  return best;
}

std::string labelOf(NeedleTint tint, const std::string& dot) {
  switch (tint) {
    case NeedleTint::gain:
      return "gain by the needle (nats per token)" + dot;
    case NeedleTint::mass:
      return "attention *A* on the needle";
    case NeedleTint::gate:
      return "share retained *F* of the needle";
  }
  return "";
}

std::string symbolOf(NeedleTint tint) {
  return tint == NeedleTint::gain ? "gain (nats)" : tint == NeedleTint::mass ? "*A*" : "*F*";
}

std::vector<std::string> lengthLabels(const NeedleEvaluation& evaluation) {
  std::vector<std::string> labels;
  for (const std::int64_t length : evaluation.lengths) labels.push_back(std::to_string(length));
  return labels;
}

std::vector<std::string> depthLabels(const NeedleEvaluation& evaluation) {
  std::vector<std::string> labels;
  for (const double depth : evaluation.depths) labels.push_back(fmt::format("{:.3g}", 100 * depth));
  return labels;
}

// Where a length stands among the columns; nothing beyond the first and the last.
std::optional<double> columnOf(const NeedleEvaluation& evaluation, const std::optional<std::int64_t>& length) {
  const auto& lengths = evaluation.lengths;
  if (!length || !std::is_sorted(lengths.begin(), lengths.end())) return std::nullopt;
  if (*length < lengths.front() || *length > lengths.back()) return std::nullopt;
  const auto above = std::lower_bound(lengths.begin(), lengths.end(), *length);
  const auto index = static_cast<double>(above - lengths.begin());
  if (*above == *length) return index + 0.5;
  const auto step = static_cast<double>(*above - *(above - 1));
  return index + 0.5 - static_cast<double>(*above - *length) / step;
}

// Depths downwards, lengths across.
Image transposed(const NeedleEvaluation& evaluation, const std::vector<float>& values) {
  const std::size_t depths = evaluation.depths.size();
  Image image{static_cast<std::int64_t>(depths), static_cast<std::int64_t>(evaluation.lengths.size()), {}};
  for (std::size_t depth = 0; depth < depths; ++depth) {
    for (std::size_t length = 0; length < evaluation.lengths.size(); ++length) {
      image.value.push_back(values[length * depths + depth]);
    }
  }
  return image;
}

std::vector<std::string> dotsOf(const NeedleEvaluation& evaluation, const NeedleModel& model) {
  const std::size_t depths = evaluation.depths.size();
  std::vector<std::string> texts;
  for (std::size_t depth = 0; depth < depths; ++depth) {
    for (std::size_t length = 0; length < evaluation.lengths.size(); ++length) {
      texts.emplace_back(model.found[length * depths + depth] != 0 ? "•" : "");
    }
  }
  return texts;
}

MapPanel::Content contentOf(const NeedleEvaluation& evaluation, const PanelPlace& place, bool lowest) {
  MapPanel::Content content;
  content.columns.range = {0, static_cast<std::int64_t>(evaluation.lengths.size())};
  content.columns.name = "context length (tokens)";
  content.columns.labels = lengthLabels(evaluation);
  content.columns.crowded = content.rows.crowded = MapAxis::Crowded::thinned;
  content.columns.shown = lowest ? AxisShown::ticksAndName : AxisShown::ticks;
  content.rows.range = {0, static_cast<std::int64_t>(evaluation.depths.size())};
  content.rows.name = "depth (%)";
  content.rows.labels = depthLabels(evaluation);
  content.rows.shown = place.column == 0 ? AxisShown::ticksAndName : AxisShown::nothing;
  content.columns.are = content.rows.are = MapAxis::Labels::values;
  content.heightOfWidth = std::clamp(
      static_cast<double>(evaluation.depths.size()) / static_cast<double>(evaluation.lengths.size()), 0.5, 1.0);
  return content;
}

FigureOrigin originOf(std::span<const std::shared_ptr<const NeedleEvaluation>> tests, const ScaledColours& colours,
                      const FigureStyle& style) {
  FigureOrigin origin;
  origin.title = style.title.empty() ? "Needle test" : style.title;
  origin.command = style.command;
  for (const auto& test : tests) {
    origin.facts.emplace_back("haystack", test->haystack);
    origin.facts.emplace_back("mode", test->mode == NeedleMode::easy ? "easy" : "standard");
  }
  origin.facts.emplace_back("colours", fmt::format("from {:g} to {:g}", colours.lower, colours.upper));
  for (const auto& test : tests) {
    for (const NeedleModel& model : test->models) addModel(origin, model.info);
  }
  return origin;
}

/// The models of all tests.
std::vector<NeedleGrid> gridsOf(std::span<const std::shared_ptr<const NeedleEvaluation>> tests) {
  std::vector<NeedleGrid> grids;
  for (const auto& test : tests) {
    for (const NeedleModel& model : test->models) {
      if (test->cells() > 0) grids.push_back({test.get(), &model, {}, {}, nullptr});
    }
  }
  return grids;
}

std::string titleOf(const std::vector<NeedleGrid>& grids, const NeedleGrid& grid, const FigureStyle& style) {
  const std::string& name = grid.model->info.name;
  const auto alike = std::count_if(grids.begin(), grids.end(),
                                   [&](const NeedleGrid& other) { return other.model->info.name == name; });
  return style.label(name) + (alike > 1 ? "\n" + grid.test->haystack : "");
}

}  // namespace

ScaledColours needleColours(std::span<const float> values, NeedleTint tint) {
  double lowest = 0;
  double highest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    lowest = std::min(lowest, static_cast<double>(value));
    highest = std::max(highest, static_cast<double>(value));
  }
  const double most = std::max(-lowest, highest) > 0 ? std::max(-lowest, highest) : 1;
  ScaledColours colours;
  const bool centred = -lowest > kLittleLoss * most;
  colours.map = centred ? &diverging() : &viridis();
  colours.lower = centred ? -most : lowest;
  colours.upper = tint == NeedleTint::gate ? 1 : most;
  return colours;
}

DrawnFigure drawNeedle(std::span<const std::shared_ptr<const NeedleEvaluation>> tests, const NeedleOptions& options,
                       const FigureStyle& style) {
  std::vector<NeedleGrid> grids = gridsOf(tests);
  if (grids.empty()) throw UsageError("there is no needle test in this file");
  DrawnFigure drawn;
  PanelPage page(style);
  const int models = static_cast<int>(grids.size());
  const int across = std::min(models, kMostAcross);
  bool found = false;
  for (int index = 0; index < models; ++index) {
    NeedleGrid& grid = grids[index_of(index)];
    const NeedleModel& model = *grid.model;
    const PanelPlace place{index / across, index % across};
    MapPanel::Content content = contentOf(*grid.test, place, index + across >= models);
    if (place.column > 0 && grids[index_of(index - 1)].test->depths != grid.test->depths) {
      content.rows.shown = AxisShown::ticks;
    }
    content.title = titleOf(grids, grid, style);
    if (columnOf(*grid.test, options.trainLength)) content.columns.name += ", dashed: training length";
    if (options.tint == NeedleTint::gain) {
      grid.values = model.gain();
      found = found || std::any_of(model.found.begin(), model.found.end(), [](int cell) { return cell != 0; });
    } else {
      grid.head = options.head.value_or(mostMass(model, grid.test->cells()));
      requireHead(model.info, grid.head);
      if (!options.head) {
        drawn.notes.push_back(fmt::format("{}: {}:{} has the most attention on the needle; --head chooses another",
                                          model.info.name, grid.head.layer, grid.head.head));
      }
      const auto& values = options.tint == NeedleTint::mass ? model.needle_mass : model.needle_gate;
      grid.values = ofHead(model, values, grid.test->cells(), grid.head);
      content.title += fmt::format("\nlayer\u00a0{}, head\u00a0{}", grid.head.layer, grid.head.head);
    }
    grid.panel = &page.add(std::make_unique<MapPanel>(style.format, std::move(content)), place);
  }
  std::vector<float> all;
  for (const NeedleGrid& grid : grids) all.insert(all.end(), grid.values.begin(), grid.values.end());
  ScaledColours colours = needleColours(all, options.tint);
  colours.label = labelOf(options.tint, "");
  ColourBarPanel& bar = page.add(std::make_unique<ColourBarPanel>(style.format),
                                 PanelPlace{(models + across - 1) / across, 0, 1, across});
  bar.setColours(colours, labelOf(options.tint, found ? ", • answer found" : ""), symbolOf(options.tint));
  page.arrange();
  for (const NeedleGrid& grid : grids) {
    grid.panel->setImage(transposed(*grid.test, grid.values), colours);
    if (const auto trained = columnOf(*grid.test, options.trainLength)) grid.panel->setColumnMark(*trained);
    if (options.tint == NeedleTint::gain) grid.panel->setCellTexts(dotsOf(*grid.test, *grid.model));
  }
  drawn.file = page.paint(originOf(tests, colours, style));
  return drawn;
}

DrawnFigure drawNeedle(const NeedleEvaluation& evaluation, const NeedleOptions& options, const FigureStyle& style) {
  const std::shared_ptr<const NeedleEvaluation> test(std::shared_ptr<const NeedleEvaluation>(), &evaluation);
  return drawNeedle(std::span(&test, 1), options, style);
}

std::optional<DrawnFigure> drawNeedle(FigureRequest& request) {
  const FigureSpec& spec = request.spec;
  if (request.sources.files.size() > 1) {
    throw UsageError("figure needle: takes one file: test all models in one command");
  }
  NeedleOptions options;
  options.tint = choiceOf<NeedleTint>(spec, "tint", {"gain", "mass", "gate"});
  options.trainLength = trainLengthOf(spec);
  options.head = headOf(spec, "head");
  if (options.head && options.tint == NeedleTint::gain) {
    throw UsageError("--head: the gain is of the whole model: choose --tint mass or gate too");
  }
  const NeedleEvaluation evaluation = NeedleEvaluation::open(request.sources.files.front());
  std::vector<std::string> names;
  for (const NeedleModel& model : evaluation.models) names.push_back(model.info.name);
  request.style.requireLabels(names);
  return drawNeedle(evaluation, options, request.style);
}

}  // namespace foxscope::figure
