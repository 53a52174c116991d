#include "app/figure/kinds/loss_source.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

constexpr std::int64_t kPaperStart = 128;
constexpr std::int64_t kLongEnough = 1024;  ///< positions from which on the first 128 can be spared
constexpr std::size_t kMostDocuments = 64;  ///< that the metadata name

std::size_t place(const std::vector<std::string>& order, const std::string& name) {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), name) - order.begin());
}

void requireName(const std::vector<Curve>& curves, const char* option, const std::string& name) {
  std::string names;
  for (const Curve& curve : curves) {
    if (curve.name == name) return;
    names += (names.empty() ? "" : ", ") + curve.name;
  }
  throw UsageError(fmt::format("{} {}: the figure has {}", option, name, names));
}

}  // namespace

LossSource lossesOf(const std::shared_ptr<const Trace>& run) {
  const auto losses = run->per_token_loss();
  const TraceInfo& info = run->info();
  if (losses.empty()) {
    throw Error(fmt::format("{}: its losses were not kept: run again with loss in --keep", info.name));
  }
  EvaluatedWindows windows;
  windows.document = {0};
  windows.tokens = {info.length};
  windows.length = info.length;
  windows.token_id = run->tokens()->id;
  LossSource source;
  source.name = info.name;
  source.model.info = info;
  source.model.windows = std::make_shared<EvaluatedWindows>(std::move(windows));
  source.model.losses = {1, info.length, {losses.begin(), losses.end()}, {info.length}};
  source.run = run;
  return source;
}

std::vector<LossSource> lossesOf(const LossEvaluation& evaluation) {
  std::vector<LossSource> sources;
  for (const EvaluatedModel& model : evaluation.models) {
    sources.push_back({model.info.name, model, evaluation.corpus, nullptr});
  }
  return sources;
}

void requireComparable(std::span<const LossSource> sources) {
  if (sources.empty()) throw UsageError("there are no losses in these files");
  const LossSource& first = sources.front();
  for (const LossSource& other : sources.subspan(1)) {
    const std::int64_t lengths[] = {first.model.losses.common_length(), other.model.losses.common_length()};
    if (lengths[0] != lengths[1]) {
      throw UsageError(fmt::format("{} has windows of {} tokens, {} of {}: evaluate both with one --length", first.name,
                                   lengths[0], other.name, lengths[1]));
    }
    const bool known = !first.model.windows->token_id.empty() && !other.model.windows->token_id.empty();
    if (known && first.model.windows->token_id != other.model.windows->token_id) {
      throw UsageError(
          fmt::format("{} and {} did not predict the same tokens (other windows, or another tokenizer): "
                      "evaluate both in one command",
                      first.name, other.name));
    }
  }
}

std::int64_t firstPosition(std::int64_t length) { return length >= kLongEnough ? kPaperStart : 0; }

void addLosses(FigureOrigin& origin, std::span<const LossSource> sources) {
  for (const LossSource& source : sources) {
    if (source.run) {
      addRun(origin, *source.run);
      continue;
    }
    addModel(origin, source.model.info);
    const LossTable& losses = source.model.losses;
    addOnce(origin, {"corpus", fmt::format("{}, {} windows of {} tokens, seed {}", source.corpus.source, losses.windows,
                                           losses.length, source.corpus.seed)});
    if (source.corpus.documents.size() > kMostDocuments) continue;
    for (const WindowDocument& document : source.corpus.documents) {
      addOnce(origin, {"text", fmt::format("{} SHA-256 {}", document.name, document.sha256)});
    }
  }
}

Curve curveOf(const std::string& name, const CurveLook& look, const foxscope::Curve& values, std::int64_t first,
              std::int64_t offset) {
  Curve curve;
  curve.name = name;
  curve.colour = look.colour;
  curve.line = curveLine(look.colour, look.change);
  bool known = false;
  for (auto index = static_cast<std::size_t>(first); index < values.value.size(); ++index) {
    const double error = index < values.error.size() ? values.error[index] : std::numeric_limits<double>::quiet_NaN();
    curve.x.push_back(static_cast<double>(index) + static_cast<double>(offset));
    curve.y.push_back(values.value[index]);
    curve.bandLower.push_back(values.value[index] - error);
    curve.bandUpper.push_back(values.value[index] + error);
    known = known || std::isfinite(error);
  }
  if (!known) curve.bandLower = curve.bandUpper = {};
  return curve;
}

std::string legendNote(std::span<const Curve> curves, std::int64_t smooth) {
  std::string note;
  if (smooth > 1) note = fmt::format("mean of {} tokens", smooth);
  if (!haveBands(curves)) return note;
  return note + (note.empty() ? "" : ", ") + "band: ± 1 standard error";
}

void noteErrors(std::vector<std::string>& notes, std::span<const Curve> curves) {
  if (haveBands(curves)) return;
  notes.emplace_back("one text: no error can be estimated, so there are no bands");
}

void applyChoice(std::vector<Curve>& curves, const CurveChoice& choice, const FigureStyle& style) {
  for (const std::string& name : choice.order) requireName(curves, "--legend", name);
  for (const auto& [name, text] : style.labels) requireName(curves, "--label", name);
  for (const auto& [name, look] : style.looks) requireName(curves, "--look", name);
  for (const auto& [name, colour] : choice.colours) {
    requireName(curves, "--colour", name);
    for (Curve& curve : curves) {
      if (curve.name == name) curve.ownColour = colour;
    }
  }
  std::stable_sort(curves.begin(), curves.end(), [&](const Curve& a, const Curve& b) {
    return place(choice.order, a.name) < place(choice.order, b.name);
  });
  for (Curve& curve : curves) curve.name = style.label(curve.name);
}

void applyChoice(CurvePlot& plot, const CurveChoice& choice) {
  plot.xLimits = choice.xLimits;
  plot.yLimits = choice.yLimits;
  plot.xTicks = choice.xTicks;
  plot.yTicks = choice.yTicks;
}

}  // namespace foxscope::figure
