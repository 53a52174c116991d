#include "app/figure/kinds/comparison.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figure/curves/bar_panel.h"
#include "app/figure/curves/curve_palette.h"
#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/kinds/map_scale.h"
#include "app/figure/legend_panel.h"
#include "app/figure/page/panel_page.h"
#include "app/figure/token_text.h"
#include "app/figure/words_panel.h"
#include "backend/base/error.h"
#include "backend/eval/loss/loss_comparison.h"
#include "backend/trace/run_origin.h"
#include "backend/trace/token_strings.h"

namespace foxscope::figure {
namespace {

constexpr double kListsBeside = 4.5;  ///< inches of a page, from which on two lists stand beside each other
constexpr std::int64_t kMostWords = 40;

/// A number with a true minus sign and always a sign.
std::string withSign(double value, int decimals) {
  return fmt::format("{}{:.{}f}", value < 0 ? "−" : "+", std::abs(value), decimals);
}

/// "−0.0210 ± 0.0031", of so many decimals that the error has two digits, four at the least.
std::string differenceText(const Estimate& estimate) {
  if (std::isnan(estimate.error)) return withSign(estimate.value, 4);
  const int digits = estimate.error > 0 ? 1 - static_cast<int>(std::floor(std::log10(estimate.error))) : 4;
  const int decimals = std::clamp(digits, 4, 8);
  return fmt::format("{} ± {:.{}f}", withSign(estimate.value, decimals), estimate.error, decimals);
}

/// Two names, as the figure writes them.
struct Names {
  std::string run;
  std::string minus;
};

/// The answer in a sentence or two.
std::string answerOf(const LossComparison& comparison, const Names& names) {
  const Estimate& mean = comparison.difference.mean;
  std::string text =
      fmt::format("{} − {}: {} nats per token over {} tokens, perplexity × {:.4f}.\n", names.run, names.minus,
                  differenceText(mean), comparison.difference.tokens, comparison.difference.perplexity_factor());
  if (!mean.over.suffice()) return text + "The text is too short for an error.";
  text += beyond_chance(mean)
              ? fmt::format("{} predicts better, beyond chance (95 %).", mean.value < 0 ? names.run : names.minus)
              : std::string("0 is in the 95 % interval: this text does not tell which is better.");
  return text + fmt::format(" ± is a standard error over {}.", groups_text(mean.over));
}

BarPanel::Content barsOf(const LossComparison& comparison, const Names& names) {
  BarPanel::Content content;
  content.title = "Of all positions, and by octave";
  content.across = "octave from position *p*";
  content.up = fmt::format("{} − {} (nats per token)", names.run, names.minus);
  content.series = fmt::format("{} − {}", names.run, names.minus);
  const auto add = [&](const std::string& name, const Range& positions, const Estimate& difference) {
    content.bars.push_back({name, fmt::format("{}:{}", positions.begin, positions.end), difference.value,
                            difference.error, curveColour(difference.value < 0 ? 0 : 1),
                            difference.over.suffice() && beyond_chance(difference)});
  };
  add("all", comparison.positions, comparison.difference.mean);
  for (const LossOctave& octave : comparison.octaves) {
    add(std::to_string(octave.positions.begin), octave.positions, octave.difference);
  }
  return content;
}

/// Says what the bars' colours and outlines are.
std::string noteOfBars(const Names& names) {
  return fmt::format("below 0 {} is better, above it {}; outlined: not beyond chance", names.run, names.minus);
}

QString inOneLine(std::string text) {
  QString line = QString::fromStdString(text);
  for (QChar& character : line) {
    if (character == '\n' || character == '\r' || character == '\t') character = ' ';
  }
  return line.simplified();
}

WordsPanel::Content listOf(const Trace& run, const std::vector<TokenChange>& changes, const std::string& title,
                           const Names& names) {
  WordsPanel::Content content;
  content.title = title;
  content.quantity = "difference (nats)";
  content.series = fmt::format("{} − {}", names.run, names.minus);
  content.tint = tint()[1];
  for (const TokenChange& change : changes) {
    content.words.push_back({change.position, change.change, inOneLine(words_before(*run.tokens(), change.position)),
                             predictedText(*run.tokens(), change.position, Whitespace::visible)});
  }
  return content;
}

void requireLosses(const Trace& run) {
  if (!run.per_token_loss().empty()) return;
  throw Error(fmt::format("{}: its losses were not kept: {}", run.info().name, losses_remedy(run.info())));
}

}  // namespace

DrawnFigure drawComparison(const std::shared_ptr<const Trace>& run, const std::shared_ptr<const Trace>& minus,
                           const ComparisonOptions& options, const FigureStyle& style) {
  const auto note = requireSameTokens(*run, *minus);
  requireLosses(*run);
  requireLosses(*minus);
  const Names names{style.label(run->info().name), style.label(minus->info().name)};
  const Range positions = options.positions.value_or(Range{0, run->info().length});
  const LossComparison comparison =
      compare_losses(run->per_token_loss(), minus->per_token_loss(), positions, options.words);
  PanelPage page(style);
  int row = 0;
  page.add(std::make_unique<ParagraphPanel>(style.format, answerOf(comparison, names)), {row++, 0, 1, 2});
  page.add(std::make_unique<BarPanel>(style.format, barsOf(comparison, names)), {row++, 0, 1, 2});
  page.add(std::make_unique<LegendPanel>(style.format, std::vector<Curve>(), noteOfBars(names)), {row++, 0, 1, 2});
  const bool beside = widthInPoints(style.format) >= kListsBeside * kPointsPerInch;
  const std::pair<const std::vector<TokenChange>*, const char*> lists[] = {{&comparison.difference.helped, "better"},
                                                                           {&comparison.difference.hurt, "worse"}};
  int column = 0;
  for (const auto& [changes, word] : lists) {
    const std::string title = fmt::format("{} predicts {}", names.run, word);
    page.add(std::make_unique<WordsPanel>(style.format, listOf(*run, *changes, title, names)),
             beside ? PanelPlace{row, column++} : PanelPlace{row++, 0, 1, 2});
  }
  page.arrange();

  DrawnFigure drawn;
  if (note) drawn.notes.push_back(*note);
  FigureOrigin origin;
  origin.title = style.title.empty()
                     ? fmt::format("Losses of {} less those of {}", run->info().name, minus->info().name)
                     : style.title;
  origin.command = style.command;
  origin.facts = {{"difference", differenceText(comparison.difference.mean) + " nats per token"},
                  {"positions", fmt::format("{}:{}", positions.begin, positions.end)},
                  {"errors", errors_text(comparison.difference.mean.over)}};
  for (const auto& one : {run, minus}) addRun(origin, *one);
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawComparison(FigureRequest& request) {
  const FigureSpec& spec = request.spec;
  const auto runs = request.twoRuns();
  if (!runs) return std::nullopt;
  const auto& [run, minus] = *runs;
  if (run.trace == minus.trace) {
    throw UsageError(fmt::format("--models {0},{0}: a model differs from itself in nothing", run.trace->info().name));
  }
  ComparisonOptions options;
  options.positions = rangeOf(spec, "rows", run->info().length);
  if (const auto words = integerOf(spec, "words")) {
    if (*words < 0 || *words > kMostWords) {
      throw UsageError(fmt::format("--words {}: use a number from 0 to {}", *words, kMostWords));
    }
    options.words = static_cast<std::size_t>(*words);
  }
  return drawComparison(run.trace, minus.trace, options, request.style);
}

}  // namespace foxscope::figure
