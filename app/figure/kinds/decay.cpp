#include "app/figure/kinds/decay.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figure/curves/curve_legend.h"
#include "app/figure/curves/curve_palette.h"
#include "app/figure/curves/curve_panel.h"
#include "app/figure/figure_request.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/number_ranges.h"
#include "backend/map/statistics/gate_statistics.h"
#include "backend/trace/decay_time.h"

namespace foxscope::figure {
namespace {

constexpr Rgb kGrey{196, 196, 196};
constexpr double kSpread = 0.6;  ///< of the heads of a layer or class beside each other; 1: as far as the next
constexpr std::int64_t kFewestTokens = 10;
constexpr int kMostLayerTicks = 8;

/// The name of a class on an axis, and a short one where there is little room.
struct ClassName {
  TokenClass token_class;
  const char* text;
  const char* inShort;
};
constexpr ClassName kClasses[] = {
    {TokenClass::newline, "newline", "line"},          {TokenClass::punctuation, "punct.", "punct."},
    {TokenClass::sentence_start, "sentence", "sent."}, {TokenClass::word_first, "word", "word"},
    {TokenClass::word_later, "in word", "inside"},     {TokenClass::rare_word, "rare word", "rare"}};

/// 812, 3.4k, 1.2M: a count where there is little room.
std::string shortCount(std::int64_t count) {
  constexpr std::int64_t kThousand = 1000;
  if (count < kThousand) return std::to_string(count);
  const bool millions = count >= kThousand * kThousand;
  const double value = static_cast<double>(count) / (millions ? 1e6 : 1e3);
  return fmt::format("{:.{}f}{}", value, value < 10 ? 1 : 0, millions ? "M" : "k");
}

/// Labels of an axis, and what has to be said beside it.
struct ClassLabels {
  std::vector<std::string> labels;
  std::string note;
};

/// Labels that do not run into each other on a page of this format, with how many tokens each class is of; that is said
/// beside the axis where there is no room.
ClassLabels labelsOf(std::span<const ClassName> classes, std::span<const std::int64_t> tokens,
                     const FigureFormat& format) {
  const TextStyle style = textStyleOf(format);
  // The axis takes the page but for its own labels.
  const double room = (widthInPoints(format) - 5 * style.size) / static_cast<double>(classes.size());
  const auto fits = [&](const std::vector<std::string>& labels) {
    return std::ranges::all_of(labels, [&](const std::string& label) {
      return textWidth(QString::fromStdString(label), style) + 0.5 * style.size < room;
    });
  };
  std::vector<std::string> names, brief, counted, briefCounted;
  for (const ClassName& one : classes) {
    const std::string count = shortCount(tokens[index_of(one.token_class)]);
    names.emplace_back(one.text);
    brief.emplace_back(one.inShort);
    counted.push_back(fmt::format("{} ({})", one.text, count));
    briefCounted.push_back(fmt::format("{} ({})", one.inShort, count));
  }
  for (const auto& labels : {counted, briefCounted}) {
    if (fits(labels)) return {labels, {}};
  }
  // Where the note takes two lines a count stays beside its class.
  for (std::string& one : briefCounted) one = QString::fromStdString(one).replace(u' ', QChar::Nbsp).toStdString();
  return {fits(names) ? names : brief, fmt::format("tokens: {}", fmt::join(briefCounted, ", "))};
}

/// The names of heads in a legend that is this share of a page of this format wide: in brief where they would not stand
/// in one line.
std::vector<std::string> namesOf(const std::vector<HeadIndex>& heads, const FigureFormat& format, double share) {
  const TextStyle style = textStyleOf(format);
  std::vector<Curve> curves(heads.size());
  for (std::size_t n = 0; n < heads.size(); ++n) curves[n].name = headTitle(heads[n]);
  const double room = share * widthInPoints(format) - 5 * style.size;
  const bool fit = legendWidth({curves}, style.scaled(em::kSmallFont)) < room;
  std::vector<std::string> names;
  names.reserve(heads.size());
  for (const HeadIndex& head : heads) {
    names.push_back(fit ? headTitle(head) : fmt::format("L{}\u00a0H{}", head.layer, head.head));
  }
  return names;
}

/// Decay times of all heads in layers that forget; NaN for the others, which have no decay to be shown.
std::vector<double> timesOf(const EvaluatedHeads& model) {
  std::vector<double> times = requireArray(model, model.numbers, "rate_decay_time").value;
  for (std::size_t place = 0; place < times.size(); ++place) {
    const auto layer = static_cast<int>(place / static_cast<std::size_t>(model.info.heads));
    if (!forgets(model.info, layer)) times[place] = std::numeric_limits<double>::quiet_NaN();
  }
  return times;
}

/// Limits of a logarithmic axis with some room beyond all that is drawn on it.
AxisLimits withRoom(const std::vector<double>& times) {
  constexpr double kRoom = 1.5;
  AxisLimits limits{std::numeric_limits<double>::infinity(), 0};
  for (const double time : times) {
    if (!std::isfinite(time)) continue;
    limits.lower = std::min(limits.lower, time);
    limits.upper = std::max(limits.upper, time);
  }
  return {limits.lower / kRoom, limits.upper * kRoom};
}

/// Where one of `count` stands beside the others around a place.
double beside(double place, std::size_t index, std::size_t count) {
  return place + kSpread * ((static_cast<double>(index) + 0.5) / static_cast<double>(count) - 0.5);
}

/// Shapes tell points apart in grey print; the first is a disc.
PointShape shapeOf(std::size_t index) {
  constexpr std::size_t kShapes = 4;
  return static_cast<PointShape>(index % kShapes);
}

std::string nameOf(const EvaluatedHeads& model, const FigureStyle& style, bool several) {
  return several ? style.label(model.info.name) : std::string();
}

std::vector<double> layerTicks(int layers) {
  std::vector<double> ticks;
  const int step = (layers + kMostLayerTicks - 1) / kMostLayerTicks;
  for (int layer = 0; layer < layers; layer += step) ticks.push_back(layer);
  return ticks;
}

CurvePlot timesByLayer(std::span<const EvaluatedHeads* const> models, const FigureStyle& style) {
  CurvePlot plot;
  plot.title = "Decay time of every head";
  plot.xLabel = "layer";
  plot.yLabel = "decay time (tokens)";
  plot.yScale = AxisScale::logarithmic;
  plot.legend = style.legend;
  int layers = 0;
  for (std::size_t n = 0; n < models.size(); ++n) {
    const EvaluatedHeads& model = *models[n];
    const auto heads = static_cast<std::size_t>(model.info.heads);
    Curve curve;
    curve.name = nameOf(model, style, models.size() > 1);
    curve.colour = style.look(model.info.name, n).colour;
    curve.line = LineStyle::points;
    curve.shape = shapeOf(n);
    curve.y = timesOf(model);
    for (std::size_t head = 0; head < curve.y.size(); ++head) {
      const std::size_t layer = head / heads;
      curve.x.push_back(beside(static_cast<double>(layer), n * heads + head % heads, models.size() * heads));
      curve.pointNames.push_back(headWord(model, head));
    }
    plot.curves.push_back(std::move(curve));
    layers = std::max(layers, model.info.layers);
  }
  plot.xLimits = AxisLimits{-0.6, layers - 0.4};
  plot.xTicks = layerTicks(layers);
  return plot;
}

/// A step up at each time.
/// @param times  the shortest first
void addStairs(Curve& curve, const std::vector<double>& times) {
  const auto count = static_cast<double>(times.size());
  for (std::size_t n = 0; n < times.size(); ++n) {
    curve.x.insert(curve.x.end(), {times[n], times[n]});
    curve.y.insert(curve.y.end(), {static_cast<double>(n) / count, static_cast<double>(n + 1) / count});
  }
}

CurvePlot distribution(std::span<const EvaluatedHeads* const> models, const FigureStyle& style) {
  CurvePlot plot;
  plot.title = "Cumulative share of heads";
  plot.xLabel = "decay time (tokens)";
  plot.yLabel = "share of heads";
  plot.xScale = AxisScale::logarithmic;
  plot.yLimits = AxisLimits{0, 1.04};
  plot.legend = style.legend;
  std::vector<double> all;
  for (std::size_t n = 0; n < models.size(); ++n) {
    std::vector<double> times = timesOf(*models[n]);
    std::erase_if(times, [](double time) { return std::isnan(time); });
    std::sort(times.begin(), times.end());
    all.insert(all.end(), times.begin(), times.end());
    Curve curve;
    curve.name = nameOf(*models[n], style, models.size() > 1);
    const CurveLook look = style.look(models[n]->info.name, n);
    curve.colour = look.colour;
    curve.line = curveLine(look.colour, look.change);
    addStairs(curve, times);
    plot.curves.push_back(std::move(curve));
  }
  plot.xLimits = withRoom(all);
  return plot;
}

/// Decay times of a head's channels, tokens, the shortest first; those that never decay are left out.
std::vector<double> timesOfChannels(const EvaluatedHeads& model, std::size_t head) {
  const HeadArray& decays = model.by_channel.front();
  const std::size_t channels = decays.value.size() / model.head_count();
  std::vector<double> times;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const double time = decay_time(decays.value[head * channels + channel]);
    if (std::isfinite(time)) times.push_back(time);
  }
  std::ranges::sort(times);
  return times;
}

/// A head's channels as a bar from the fastest to the slowest, with the median on it; chosen heads in the colours that
/// the distribution beside them names.
CurvePlot channelsByHead(const EvaluatedHeads& model, const ChosenHeads& choice, const FigureStyle& style,
                         bool several) {
  CurvePlot plot;
  plot.title = "Decay times of each head\u2019s channels" + (several ? ", " + style.label(model.info.name) : "");
  plot.xLabel = "layer";
  plot.yLabel = "decay time (tokens)";
  plot.yScale = AxisScale::logarithmic;
  plot.legend = style.legend;
  const auto heads = static_cast<std::size_t>(model.info.heads);
  // Other heads, then each of those that were chosen.
  plot.curves.resize(1 + choice.heads.size());
  plot.curves.front().ownColour = kGrey;
  for (std::size_t n = 0; n < plot.curves.size(); ++n) {
    plot.curves[n].line = LineStyle::points;
    plot.curves[n].shape = shapeOf(n);
    plot.curves[n].colour = std::max(static_cast<int>(n) - 1, 0);
  }
  std::vector<double> all;
  for (std::size_t head = 0; head < model.head_count(); ++head) {
    std::vector<double> times = timesOfChannels(model, head);
    if (times.empty()) continue;
    const auto chosen =
        std::ranges::find(choice.heads, head, [&](const HeadIndex& one) { return placeOf(model, one); });
    const std::size_t layer = head / heads;
    Curve& curve = plot.curves[chosen == choice.heads.end() ? 0 : 1 + index_of(chosen - choice.heads.begin())];
    curve.x.push_back(beside(static_cast<double>(layer), head % heads, heads));
    curve.pointNames.push_back(headWord(model, head));
    curve.bandLower.push_back(times.front());
    curve.bandUpper.push_back(times.back());
    curve.y.push_back(quantile(times, 0.5));
    all.insert(all.end(), times.begin(), times.end());
  }
  plot.note = "median; from the fastest to the slowest";
  plot.yLimits = withRoom(all);
  plot.xLimits = AxisLimits{-0.6, model.info.layers - 0.4};
  plot.xTicks = layerTicks(model.info.layers);
  return plot;
}

/// The share of a head's channels up to a decay time, of the heads that tell most, and of all channels of the model.
CurvePlot channelDistribution(const EvaluatedHeads& model, const ChosenHeads& choice, const FigureStyle& style) {
  CurvePlot plot;
  plot.title = "Cumulative share of channels";
  plot.xLabel = "decay time (tokens)";
  plot.yLabel = "share of channels";
  plot.xScale = AxisScale::logarithmic;
  plot.yLimits = AxisLimits{0, 1.04};
  plot.legend = style.legend;
  std::vector<double> all;
  for (std::size_t head = 0; head < model.head_count(); ++head) {
    const std::vector<double> times = timesOfChannels(model, head);
    all.insert(all.end(), times.begin(), times.end());
  }
  std::ranges::sort(all);
  Curve every;
  every.name = "all heads";
  every.ownColour = kGrey;
  addStairs(every, all);
  plot.curves.push_back(std::move(every));
  const std::vector<std::string> names = namesOf(choice.heads, style.format, 0.5);
  for (std::size_t n = 0; n < choice.heads.size(); ++n) {
    Curve curve;
    curve.name = names[n];
    curve.colour = static_cast<int>(n);
    curve.line = curveLine(curve.colour, 0);
    const std::vector<double> times = timesOfChannels(model, placeOf(model, choice.heads[n]));
    if (times.empty()) continue;
    addStairs(curve, times);
    plot.curves.push_back(std::move(curve));
  }
  plot.xLimits = withRoom(all);
  return plot;
}

/// Decay time of a head while it reads each class that is shown; NaN where its gate stays open.
std::vector<double> timesOfHead(const HeadArray& gates, std::size_t head, std::span<const ClassName> classes) {
  std::vector<double> times;
  for (const ClassName& one : classes) {
    const double mean = gates.value[head * kTokenClasses + static_cast<std::size_t>(one.token_class)];
    const double time = decay_time(mean);
    times.push_back(std::isfinite(time) ? time : std::numeric_limits<double>::quiet_NaN());
  }
  return times;
}

/// Whether enough tokens are of a class that their gates are drawn.
bool isDrawn(const EvaluatedHeads& model, const ClassName& one) {
  return model.class_tokens[index_of(one.token_class)] >= kFewestTokens;
}

/// "rare word, newline"
std::string classesLeftOut(const EvaluatedHeads& model) {
  std::vector<const char*> left;
  for (const ClassName& one : kClasses) {
    if (!isDrawn(model, one)) left.push_back(one.text);
  }
  return fmt::format("{}", fmt::join(left, ", "));
}

CurvePlot timesByClass(const EvaluatedHeads& model, const ChosenHeads& choice, const FigureStyle& style, bool several) {
  CurvePlot plot;
  plot.title = "Decay time by the token that is read" + (several ? ", " + style.label(model.info.name) : "");
  plot.yLabel = "decay time (tokens)";
  plot.yScale = AxisScale::logarithmic;
  plot.heightOfWidth = 0.32;
  plot.legend = style.legend;
  std::vector<ClassName> classes;
  for (const ClassName& one : kClasses) {
    if (isDrawn(model, one)) classes.push_back(one);
  }
  ClassLabels labels = labelsOf(classes, model.class_tokens, style.format);
  plot.categories = std::move(labels.labels);
  plot.note = std::move(labels.note);
  plot.xLabel = plot.note.empty() ? "token that is read (how many)" : "token that is read";
  plot.xLimits = AxisLimits{-0.5, static_cast<double>(classes.size()) - 0.5};
  const HeadArray& gates = requireArray(model, model.by_class, "mean_log_gate");
  std::vector<double> withinLimits;
  Curve all;
  all.line = LineStyle::points;
  all.ownColour = kGrey;
  for (std::size_t head = 0; head < model.head_count(); ++head) {
    const std::vector<double> times = timesOfHead(gates, head, classes);
    withinLimits.insert(withinLimits.end(), times.begin(), times.end());
    const bool chosen = std::any_of(choice.heads.begin(), choice.heads.end(),
                                    [&](const HeadIndex& one) { return placeOf(model, one) == head; });
    if (chosen) continue;  // it has a shape of its own
    for (std::size_t place = 0; place < times.size(); ++place) {
      all.x.push_back(beside(static_cast<double>(place), head, model.head_count()));
      all.y.push_back(times[place]);
      all.pointNames.push_back(headWord(model, head));
    }
  }
  plot.yLimits = withRoom(withinLimits);
  plot.curves.push_back(std::move(all));
  const std::vector<std::string> names = namesOf(choice.heads, style.format, 1);
  for (std::size_t n = 0; n < choice.heads.size(); ++n) {
    const std::size_t head = placeOf(model, choice.heads[n]);
    Curve curve;
    curve.name = names[n];
    curve.colour = static_cast<int>(n);
    curve.line = LineStyle::points;
    curve.shape = shapeOf(n + 1);
    curve.y = timesOfHead(gates, head, classes);
    if (std::ranges::all_of(curve.y, [](double time) { return std::isnan(time); })) continue;  // nothing decays
    for (std::size_t place = 0; place < curve.y.size(); ++place) {
      curve.x.push_back(beside(static_cast<double>(place), head, model.head_count()));
      curve.pointNames.push_back(headWord(model, head));
    }
    plot.curves.push_back(std::move(curve));
  }
  return plot;
}

}  // namespace

DrawnFigure drawDecay(std::span<const EvaluatedHeads> models, const FigureStyle& style) {
  DrawnFigure drawn;
  std::vector<const EvaluatedHeads*> gated;
  for (const EvaluatedHeads& model : models) {
    if (forgets(model.info)) {
      gated.push_back(&model);
    } else {
      drawn.notes.push_back(fmt::format("{}: has no gate, so nothing decays: it is left out", model.info.name));
    }
  }
  if (gated.empty()) throw UsageError("figure decay: none of the models has a gate, so nothing decays");
  PanelPage page(style);
  page.add(std::make_unique<CurvePanel>(style.format, timesByLayer(gated, style)), {0, 0});
  page.add(std::make_unique<CurvePanel>(style.format, distribution(gated, style)), {0, 1});
  int row = 1;
  for (const EvaluatedHeads* model : gated) {
    const ChosenHeads choice = representativeHeads(*model);
    if (!model->by_channel.empty() || !model->by_class.empty()) drawn.notes.push_back(choice.note);
    if (const std::vector<int> layers = layersWithoutGate(model->info); !layers.empty()) {
      drawn.notes.push_back(
          fmt::format("{}: layers without a gate are left out: {}", model->info.name, ranges_text(layers)));
    }
    if (!model->by_channel.empty()) {
      page.add(std::make_unique<CurvePanel>(style.format, channelsByHead(*model, choice, style, gated.size() > 1)),
               {row, 0});
      page.add(std::make_unique<CurvePanel>(style.format, channelDistribution(*model, choice, style)), {row++, 1});
    }
    if (model->by_class.empty()) {
      drawn.notes.push_back(fmt::format(
          "{}: gates are not told by class of the token: the file has none, `foxscope heads --by-class -o` and "
          "`foxscope eval heads` write them",
          model->info.name));
      continue;
    }
    if (const std::string left = classesLeftOut(*model); !left.empty()) {
      drawn.notes.push_back(
          fmt::format("{}: classes that the file does not tell, or of fewer than {} tokens, are left "
                      "out: {}",
                      model->info.name, kFewestTokens, left));
    }
    page.add(std::make_unique<CurvePanel>(style.format, timesByClass(*model, choice, style, gated.size() > 1)),
             {row++, 0, 1, 2});
  }
  page.arrange();
  FigureOrigin origin = originOf(models, style, "Decay times");
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawDecay(FigureRequest& request) {
  const auto models = request.chosenHeads();
  return models ? std::optional(drawDecay(*models, request.style)) : std::nullopt;
}

}  // namespace foxscope::figure
