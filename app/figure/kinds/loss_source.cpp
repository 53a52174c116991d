#include "app/figure/kinds/loss_source.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/base/error.h"
#include "backend/eval/loss/loss_change.h"
#include "backend/eval/loss/text_curve.h"
#include "backend/trace/run_origin.h"

namespace foxscope::figure {
namespace {

constexpr std::int64_t kPaperStart = 128;
constexpr std::int64_t kLongEnough = 1024;  ///< positions from which on the first 128 can be spared
constexpr std::size_t kMostDocuments = 64;  ///< that the metadata name

std::size_t place(const std::vector<std::string>& order, const std::string& name) {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), name) - order.begin());
}

/// Whether the losses at a position are of other tokens in two sources, as far as these are known; runs and imported
/// files may know less.
bool ofOtherTokens(const LossSource& a, const LossSource& b) {
  const EvaluatedWindows& first = *a.model.windows;
  const EvaluatedWindows& second = *b.model.windows;
  return !first.token_id.empty() && !second.token_id.empty() && first.token_id != second.token_id;
}

/// "books.jsonl", or the text that a run read.
std::string originText(const LossSource& source) {
  return source.run || source.corpus.source.empty() ? source.name : source.corpus.source;
}

/// Says of two sources of other corpora whose tokens are not known that they may be of different windows.
void noteUnknownTexts(std::vector<std::string>& notes, std::span<const LossSource> sources) {
  for (const LossSource& other : sources.subspan(1)) {
    const LossSource& first = sources.front();
    const bool known = !first.model.windows->token_id.empty() && !other.model.windows->token_id.empty();
    if (known || originText(first) == originText(other)) continue;
    notes.push_back(fmt::format("{} ({}) and {} ({}): it is not known whether they are of the same windows", first.name,
                                originText(first), other.name, originText(other)));
    return;
  }
}

std::vector<double> lossesOfText(const LossSource& source) {
  const auto row = source.model.losses.row(0).first(static_cast<std::size_t>(source.model.losses.common_length()));
  return {row.begin(), row.end()};
}

/// The smallest moving average of one text that has an error.
std::int64_t narrowestWithError() {
  std::int64_t width = 1;
  while (!error_blocks(width).suffice()) width += 2;
  return width;
}

/// Says of one text what bands are, or why there are none.
std::string errorsOfText(std::int64_t smooth, std::int64_t length, LossAxis axis) {
  const bool positions = axis == LossAxis::positions;
  // A moving average is of half of the positions at most.
  if (positions ? length / 2 < narrowestWithError() : !error_blocks(length).suffice()) {
    return fmt::format("one text of {} tokens: too short for an error, so there are no bands", length);
  }
  if (positions && !error_blocks(smooth).suffice()) {
    return fmt::format(
        "one text: a mean of {} tokens is too short for an error, so there are no bands: --smooth {} or more has them",
        smooth, narrowestWithError());
  }
  return "one text: bands are ± 1 standard error over blocks of the tokens that a mean is of, as foxscope compare has "
         "it";
}

}  // namespace

bool ofOneText(const LossSource& source) { return source.model.losses.windows == 1 && !source.model.averaged; }

foxscope::PositionCurve lossesOver(const LossSource& source, std::int64_t smooth) {
  if (ofOneText(source)) return text_curve(lossesOfText(source), smooth);
  return loss_curve(source.model.losses, source.model.documents(), smooth);
}

foxscope::PositionCurve perplexitiesOf(const LossSource& source) {
  if (ofOneText(source)) return text_perplexity_curve(lossesOfText(source));
  return perplexity_curve(source.model.losses, source.model.documents());
}

foxscope::PositionCurve differencesOver(const LossSource& source, const LossSource& minus, std::int64_t smooth) {
  if (!ofOneText(source) || !ofOneText(minus)) {
    return difference_curve(source.model.losses, minus.model.losses, source.model.documents(), smooth);
  }
  std::vector<double> differences = lossesOfText(source);
  const std::vector<double> others = lossesOfText(minus);
  for (std::size_t p = 0; p < differences.size(); ++p) differences[p] -= others.at(p);
  return text_curve(differences, smooth);
}

std::string errorsOf(const LossSource& source) {
  if (ofOneText(source)) return "± 1 standard error over blocks of the tokens that a mean is of";
  return errors_text(document_groups(source.model.documents()));
}

LossSource lossesOf(const std::shared_ptr<const Trace>& run) {
  const auto losses = run->per_token_loss();
  const TraceInfo& info = run->info();
  if (losses.empty()) {
    throw Error(fmt::format("{}: its losses were not kept: {}", info.name, losses_remedy(info)));
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
    if (ofOtherTokens(first, other)) {
      throw UsageError(
          fmt::format("{} and {} did not predict the same tokens (other windows, or another tokenizer): "
                      "evaluate both in one command",
                      first.name, other.name));
    }
  }
}

std::string differentTexts(std::span<const LossSource> sources) {
  std::string places;
  std::size_t kinds = 0;
  for (std::size_t n = 0; n < sources.size(); ++n) {
    const auto same = [&](const LossSource& before) {
      return !ofOtherTokens(before, sources[n]) &&
             before.model.losses.common_length() == sources[n].model.losses.common_length() &&
             before.model.windows->document.size() == sources[n].model.windows->document.size();
    };
    if (std::ranges::any_of(sources.first(n), same)) continue;
    ++kinds;
    places += fmt::format("{}{} ({} windows of {})", places.empty() ? "" : "; ", sources[n].name,
                          sources[n].model.losses.windows, originText(sources[n]));
  }
  if (kinds < 2) return {};
  return fmt::format("these losses are of different tokens and do not compare: {}", places);
}

std::int64_t firstPosition(std::span<const LossSource> sources, const std::optional<AxisLimits>& chosen) {
  std::int64_t length = sources.front().model.losses.common_length();
  for (const LossSource& source : sources) length = std::min(length, source.model.losses.common_length());
  const std::int64_t first = length >= kLongEnough ? kPaperStart : 0;
  if (!chosen || !(chosen->lower < static_cast<double>(first))) return first;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(chosen->lower));
}

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

Curve curveOf(const std::string& name, const CurveLook& look, const foxscope::PositionCurve& values, std::int64_t first,
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

std::string legendNote(std::span<const LossSource> sources, std::span<const Curve> curves, std::int64_t smooth,
                       std::int64_t first, LossAxis axis) {
  std::string note;
  if (smooth > 1) note = fmt::format("mean of {} tokens", smooth);
  // Where several texts are compared all the same, each with its own documents.
  std::vector<std::string> over;
  for (const LossSource& source : sources) {
    const ErrorGroups groups = document_groups(source.model.documents());
    const std::string text = groups_text(groups);
    if (groups.count > 1 && std::ranges::find(over, text) == over.end()) over.push_back(text);
  }
  if (haveBands(curves)) {
    if (over.empty()) over.emplace_back("blocks of the text");
    note += (note.empty() ? "" : ", ") + fmt::format("band: ± 1 standard error\nover {}", fmt::join(over, "; "));
  } else if (!over.empty()) {
    note += (note.empty() ? "" : ", ") + fmt::format("no band: {}", fmt::join(over, "; "));
  }
  if (first > 0) {
    note += (note.empty() ? "" : "\n") + (axis == LossAxis::lengths ? fmt::format("from length {}", first + 1)
                                                                    : fmt::format("from position {}", first));
  }
  return note;
}

void noteErrors(std::vector<std::string>& notes, std::span<const LossSource> sources, std::int64_t smooth,
                std::int64_t first, LossAxis axis) {
  const LossSource& source = sources.front();
  if (ofOneText(source)) {
    notes.push_back(errorsOfText(smooth, source.model.losses.common_length(), axis));
  } else if (source.model.averaged) {
    notes.emplace_back("no bands: the losses are means over windows that are not known");
  } else {
    const ErrorGroups over = document_groups(source.model.documents());
    notes.push_back((over.suffice() ? "bands: " : "") + errors_text(over));
  }
  noteUnknownTexts(notes, sources);
  if (first > 0) {
    notes.push_back(fmt::format("the first {} {} are left out, as in the paper: --x-limits 0:{} shows them", first,
                                axis == LossAxis::lengths ? "lengths" : "positions",
                                source.model.losses.common_length()));
  }
}

void applyChoice(std::vector<Curve>& curves, const CurveChoice& choice, const FigureStyle& style) {
  std::vector<std::string> names;
  for (const Curve& curve : curves) names.push_back(curve.name);
  for (const std::string& name : choice.order) requireName("--legend", name, names);
  style.requireLabels(names);
  for (const auto& [name, look] : style.looks) requireName("--look", name, names);
  for (const auto& [name, colour] : choice.colours) {
    requireName("--colours", name, names);
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
