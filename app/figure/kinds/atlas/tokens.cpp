#include "app/figure/kinds/atlas/tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figure/curves/curve_palette.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/heads/token_bars_panel.h"
#include "app/figure/kinds/atlas/atlas_heads.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "app/figure/legend_panel.h"
#include "app/figure/page/panel_page.h"
#include "app/figure/token_text.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/plural.h"

namespace foxscope::figure {
namespace {

constexpr double kBarsBeside = 4;  ///< inches of a page, from which on two lists of bars stand beside each other
constexpr std::int64_t kMostBars = 60;

/// Every token that was read often enough.
std::vector<TokenBar> tokenBars(const AtlasModel& model, const TokensOptions& options) {
  const std::vector<std::int32_t> tokens = atlas_tokens(model.sums);
  const HeadTokens head = tokens_of_head(model, options.head, tokens);
  const auto counts = model.sums.at(AtlasSum::token_count);
  const bool byResets = options.by == TokensOptions::By::resets;
  const QString holding = QString::fromStdString(options.holding);
  std::vector<TokenBar> bars;
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    TokenBar bar;
    bar.id = tokens[n];
    bar.count = counts[index_of(tokens[n])];
    if (bar.count < options.fewest) continue;
    if (!holding.isEmpty() && !model.token_strings.empty() &&
        !tokenText(model.token_strings[n], Whitespace::asIs).contains(holding, Qt::CaseInsensitive)) {
      continue;
    }
    bar.token = model.token_strings.empty() ? QStringLiteral("⟨%1⟩").arg(tokens[n])
                                            : tokenText(shortToken(model.token_strings[n]), Whitespace::visible);
    bar.value = static_cast<double>(byResets ? head.share_below_half[n] : -head.mean_log_gate[n]);
    bar.error = byResets ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(head.error[n]);
    bar.certain = bar.count >= kFewestReadings;
    bars.push_back(std::move(bar));
  }
  return bars;
}

/// The first `count` bars from the largest value on, or from the smallest; of equal ones those read most often, of
/// which most is known.
std::vector<TokenBar> bestBars(std::vector<TokenBar> bars, std::size_t count, bool largest) {
  std::ranges::stable_sort(
      bars, {}, [largest](const TokenBar& bar) { return std::pair(largest ? -bar.value : bar.value, -bar.count); });
  bars.resize(std::min(count, bars.size()));
  return bars;
}

/// Bars with a standard error, and without one by the reason.
struct ShownErrors {
  std::size_t known = 0;
  std::size_t ofLaterIds = 0;
  std::size_t ofFewDocuments = 0;

  [[nodiscard]] std::size_t unknown() const { return ofLaterIds + ofFewDocuments; }
  void count(const std::vector<TokenBar>& bars) {
    for (const TokenBar& bar : bars) {
      if (!std::isnan(bar.error)) {
        ++known;
      } else {
        ++(bar.id >= kErrorTokens ? ofLaterIds : ofFewDocuments);
      }
    }
  }
};

/// The mean over all positions of what the bars show.
double meanOfAll(const AtlasModel& model, const TokensOptions& options) {
  const EvaluatedHeads heads = headsOf(model);
  if (options.by == TokensOptions::By::resets) {
    return find_array(heads.numbers, "share_below_half")->value[options.head];
  }
  return -find_array(heads.numbers, "mean_log_gate")->value[options.head];
}

/// @throws UsageError where no token has any: the bars would be 0, in an order that means nothing
void requireResets(const AtlasModel& model, const std::string& head, const std::vector<TokenBar>& bars) {
  if (std::ranges::any_of(bars, [](const TokenBar& bar) { return bar.value > 0; })) return;
  throw UsageError(
      fmt::format("--by resets: head {} of {} has no reset (f < 1/2) at any of the {} tokens: use --by gate, or "
                  "choose another head",
                  head, model.info.name, bars.size()));
}

std::size_t countOf(const FigureSpec& spec, std::size_t usual) {
  const auto count = integerOf(spec, "count");
  if (!count) return usual;
  if (*count < 1 || *count > kMostBars) {
    throw UsageError(fmt::format("--count {}: use a number from 1 to {}", *count, kMostBars));
  }
  return static_cast<std::size_t>(*count);
}

}  // namespace

DrawnFigure drawTokens(const Atlas& atlas, const AtlasModel& model, const TokensOptions& options,
                       const FigureStyle& style) {
  const std::vector<TokenBar> bars = tokenBars(model, options);
  if (bars.empty() && !options.holding.empty()) {
    throw Error(
        fmt::format("model '{}': no token that holds “{}” was read {} times: choose another text, or a smaller "
                    "--fewest",
                    model.info.name, options.holding, options.fewest));
  }
  if (bars.empty()) {
    throw Error(fmt::format("model '{}': no token was read {} times: use a smaller --fewest, or an atlas of more text",
                            model.info.name, options.fewest));
  }
  const std::string of = headWord(headsOf(model), options.head);
  if (options.by == TokensOptions::By::resets) requireResets(model, of, bars);
  DrawnFigure drawn;
  TokenBarsPanel::Content most;
  const std::string title = modelBefore(of, atlas, model, style);
  most.title = fmt::format("{}: forgets most", title);
  most.across = options.by == TokensOptions::By::resets ? "share of resets (*f* < 1/2)" : "mean −log *f* (nats)";
  most.series = "forgets most";
  most.mark = meanOfAll(model, options);
  most.bars = bestBars(bars, options.count, true);
  most.colour = curveColour(2);
  TokenBarsPanel::Content least = most;
  least.title = fmt::format("{}: forgets least", title);
  least.series = "forgets least";
  least.bars = bestBars(bars, options.count, false);
  least.colour = curveColour(0);

  ShownErrors errors;
  errors.count(most.bars);
  errors.count(least.bars);
  const bool beside = widthInPoints(style.format) >= kBarsBeside * kPointsPerInch;
  PanelPage page(style);
  const auto& above = page.add(std::make_unique<TokenBarsPanel>(style.format, std::move(most)), {0, 0});
  const auto& below = page.add(std::make_unique<TokenBarsPanel>(style.format, std::move(least)),
                               beside ? PanelPlace{0, 1} : PanelPlace{1, 0});
  std::string note = "at the right how often the token was read";
  if (errors.known > 0) note += errors.unknown() > 0 ? "; ± 1 standard error where known" : "; ± 1 standard error";
  if (above.hasMark() || below.hasMark()) note += "; dashed: mean of all positions";
  page.add(std::make_unique<LegendPanel>(style.format, std::vector<Curve>(), std::move(note)),
           beside ? PanelPlace{1, 0, 1, 2} : PanelPlace{2, 0});
  page.arrange();
  const auto read = static_cast<std::int64_t>(atlas_tokens(model.sums).size());
  drawn.notes.push_back(
      fmt::format("{}: {} tokens were read; the bars are chosen among the {} that were read {} {} or more{}",
                  model.info.name, read, bars.size(), options.fewest, plural(options.fewest, "time"),
                  options.holding.empty() ? "" : fmt::format(" and hold “{}”", options.holding)));
  if (options.by == TokensOptions::By::gate && errors.unknown() > 0) {
    drawn.notes.push_back(
        fmt::format("{}: {} of {} bars have no standard error: an atlas has none of tokens with ids from {} on (here "
                    "{}), nor where "
                    "too few documents of about one size read the token (here {})",
                    model.info.name, errors.unknown(), errors.known + errors.unknown(), kErrorTokens, errors.ofLaterIds,
                    errors.ofFewDocuments));
  }
  const auto without = std::ranges::count(bars, 0.0, &TokenBar::value);
  if (options.by == TokensOptions::By::resets && without > 1) {
    drawn.notes.push_back(
        fmt::format("{}: {} of these tokens have no reset at all: the bars of 0 are of those that were "
                    "read most often",
                    model.info.name, without));
  }
  FigureOrigin origin = originOf(model, style, "Tokens that make a head forget");
  origin.facts.emplace_back("head", of);
  if (!options.holding.empty()) origin.facts.emplace_back("holding", options.holding);
  origin.facts.emplace_back("fewest readings", std::to_string(options.fewest));
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawTokens(FigureRequest& request) {
  TokensOptions options;
  options.count = countOf(request.spec, options.count);
  options.by = choiceOf<TokensOptions::By>(request.spec, "by", {"gate", "resets"});
  options.holding = request.spec.text("holding");
  if (const auto fewest = integerOf(request.spec, "fewest")) {
    if (*fewest < 1) throw UsageError(fmt::format("--fewest {}: use a number from 1", *fewest));
    options.fewest = *fewest;
  }
  const Atlas atlas = request.atlas();
  const AtlasModel& model = request.model(atlas.models);
  options.head = chosenHead(request, model);
  return drawTokens(atlas, model, options, request.style);
}

}  // namespace foxscope::figure
