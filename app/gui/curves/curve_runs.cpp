#include "app/gui/curves/curve_runs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include <QCoreApplication>
#include <QStringList>

#include "backend/map/statistics/head_saliency.h"
#include "backend/trace/run_origin.h"

namespace foxscope::gui::curves {
namespace {

std::vector<double> indices(std::size_t count) {
  std::vector<double> result(count);
  for (std::size_t index = 0; index < count; ++index) result[index] = static_cast<double>(index);
  return result;
}

std::shared_ptr<const Series> shared(Series series) { return std::make_shared<const Series>(std::move(series)); }

/// Tokens of the first run on a run's text.
const TokenTable& referenceOf(std::span<const CurveRun> runs, const CurveRun& run) {
  const auto first =
      std::find_if(runs.begin(), runs.end(), [&](const CurveRun& other) { return other.text == run.text; });
  return *first->trace->tokens();
}

Series lossOf(const CurveRun& run, const TokenTable& reference) {
  const std::span<const float> loss = run.trace->per_token_loss();
  return {{loss.begin(), loss.end()}, placesPredicted(*run.trace->tokens(), reference)};
}

Series differenceOf(const Series& first, const Series& second) {
  Series difference{std::vector<double>(first.size()), first.position};
  for (std::size_t index = 0; index < first.size(); ++index) {
    const auto other = second.indexAt(first.positionAt(index));
    difference.value[index] =
        other ? first.value[index] - second.value[*other] : std::numeric_limits<double>::quiet_NaN();
  }
  // It ends where the shorter of the two does: a mean over a window would go on for half of the window.
  while (!difference.value.empty() && std::isnan(difference.value.back())) difference.value.pop_back();
  if (!difference.position.empty()) difference.position.resize(difference.value.size());
  return difference;
}

}  // namespace

std::vector<CurveRun> curveRuns(const RunList& list) {
  std::vector<CurveRun> runs;
  int index = 0;
  for (const Run& run : list) {
    const Run* base = list.baseOf(run);
    const CurveRun shown{run.id,   index++, run.name, run.trace, base != nullptr ? base->name : QString(),
                         run.text, run.look};
    if (!run.look.hidden) runs.push_back(shown);
  }
  std::stable_partition(runs.begin(), runs.end(), [&](const CurveRun& run) { return list.isOnText(run.id); });
  return runs;
}

std::vector<double> placesPredicted(const TokenTable& run, const TokenTable& reference) {
  if (beginAlike(run, reference)) return {};
  if (run.byte_start.empty() || reference.byte_start.empty()) return indices(run.id.size());
  std::vector<double> places(run.id.size());
  const auto& starts = reference.byte_start;
  for (std::size_t position = 0; position < places.size(); ++position) {
    const std::int64_t byte = run.byte_start[position];
    const auto after = std::upper_bound(starts.begin(), starts.end(), byte) - starts.begin();
    const auto token = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, after - 1));
    const auto width = static_cast<double>(std::max<std::int64_t>(1, reference.byte_end[token] - starts[token]));
    const double inside = static_cast<double>(byte - starts[token]) / width;
    // Tokens past the end of the reference's text stay past its last position.
    places[position] = static_cast<double>(token) + std::max(0.0, inside);
  }
  return places;
}

std::vector<double> placesRead(const TokenTable& run, const TokenTable& reference) {
  const std::vector<double> predicted = placesPredicted(run, reference);
  if (predicted.empty()) return {};
  std::vector<double> places(predicted.size());
  for (std::size_t position = 1; position < places.size(); ++position) places[position] = 1 + predicted[position - 1];
  return places;
}

LossCurves lossCurves(std::span<const CurveRun> runs, int window) {
  LossCurves curves;
  for (const CurveRun& run : runs) {
    RunLoss loss{run, nullptr, nullptr};
    if (!run.trace->per_token_loss().empty()) {
      Series raw = lossOf(run, referenceOf(runs, run));
      curves.tokensDiffer = curves.tokensDiffer || (run.text == runs.front().text && !raw.position.empty());
      loss.mean = shared({smoothed(raw.value, window), raw.position});
      loss.raw = shared(std::move(raw));
    }
    curves.runs.push_back(std::move(loss));
  }
  for (std::size_t index = 1; index < curves.runs.size(); ++index) {
    const RunLoss& own = curves.runs[index];
    if (own.run.text != runs.front().text) continue;
    const auto base = std::find_if(curves.runs.begin(), curves.runs.end(), [&](const RunLoss& loss) {
      return !own.run.base.isEmpty() && loss.run.name == own.run.base;
    });
    const RunLoss& other = base != curves.runs.end() && base->run.text == own.run.text ? *base : curves.runs.front();
    const bool after = other.run.index < own.run.index;
    const RunLoss& first = after ? other : own;
    const RunLoss& second = after ? own : other;
    if (!first.raw || !second.raw) continue;
    Series raw = differenceOf(*first.raw, *second.raw);
    const auto mean = shared({smoothed(raw.value, window), raw.position});
    curves.differences.push_back({first.run, second.run, own.run, shared(std::move(raw)), mean});
  }
  return curves;
}

std::vector<RunContext> contextCurves(std::span<const CurveRun> runs) {
  std::vector<RunContext> curves;
  for (const CurveRun& run : runs) {
    RunContext context{run, nullptr, nullptr};
    if (!run.trace->per_token_loss().empty()) {
      const Series loss = lossOf(run, referenceOf(runs, run));
      Series mean{meansSoFar(loss.value), loss.position};
      Series perplexity = mean;
      for (double& value : perplexity.value) value = std::exp(value);
      context.mean = shared(std::move(mean));
      context.perplexity = shared(std::move(perplexity));
    }
    curves.push_back(std::move(context));
  }
  return curves;
}

std::vector<int> textsOf(std::span<const CurveRun> runs) {
  std::vector<int> texts;
  for (const CurveRun& run : runs) {
    if (std::find(texts.begin(), texts.end(), run.text) == texts.end()) texts.push_back(run.text);
  }
  return texts;
}

QString otherTextsNote(std::span<const CurveRun> runs) {
  QStringList others;
  for (const CurveRun& run : runs) {
    if (run.text != runs.front().text) others += run.name;
  }
  if (others.empty()) return {};
  return QCoreApplication::translate("foxscope::gui::CurveRuns",
                                     "%1 read another text. It is shown along its own tokens, without a difference, "
                                     "because tokens of different texts cannot be matched.")
      .arg(others.join(QStringLiteral(", ")));
}

QString missingLossesNote(std::span<const CurveRun> without) {
  std::map<std::string, QStringList> byRemedy;
  for (const CurveRun& run : without) byRemedy[losses_remedy(run.trace->info())] += run.name;
  QStringList sentences;
  for (const auto& [remedy, names] : byRemedy) {
    sentences += QCoreApplication::translate("foxscope::gui::CurveRuns", "Losses of %1 were not kept: %2.")
                     .arg(names.join(QStringLiteral(", ")), QString::fromStdString(remedy));
  }
  return sentences.join(' ');
}

Series gateSeries(const HeadOf& head, const TokenTable& reference) {
  const std::span<const double> c = head.trace->cumulative_log_gate(head.layer, head.head);
  Series gate{std::vector<double>(c.size()), placesRead(*head.trace->tokens(), reference)};
  for (std::size_t t = 0; t < c.size(); ++t) gate.value[t] = std::exp(t == 0 ? c[0] : c[t] - c[t - 1]);
  return gate;
}

Series changeSeries(const HeadOf& head, std::span<const float> gradient, const TokenTable& reference) {
  Series changes{{}, placesRead(*head.trace->tokens(), reference)};
  for (const float value : gradient) changes.value.push_back(change_by_one_percent(static_cast<double>(value)));
  return changes;
}

}  // namespace foxscope::gui::curves
