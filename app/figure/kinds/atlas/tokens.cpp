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

namespace foxscope::figure {
namespace {

constexpr double kBarsBeside = 4;  ///< inches of a page, from which on two lists of bars stand beside each other
constexpr std::int64_t kMostBars = 60;

/// Every token that was read often enough, the one at which the head forgets most first.
std::vector<TokenBar> tokenBars(const AtlasModel& model, const TokensOptions& options) {
  const std::vector<std::int32_t> tokens = atlas_tokens(model.sums);
  const HeadTokens head = tokens_of_head(model, options.head, tokens);
  const auto counts = model.sums.at(AtlasSum::token_count);
  const bool byResets = options.by == TokensOptions::By::resets;
  const QString holding = QString::fromStdString(options.holding);
  std::vector<TokenBar> bars;
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    TokenBar bar;
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
  std::ranges::stable_sort(bars, std::greater<>(), &TokenBar::value);
  return bars;
}

/// The mean over all positions of what the bars show.
double meanOfAll(const AtlasModel& model, const TokensOptions& options) {
  const EvaluatedHeads heads = headsOf(model);
  if (options.by == TokensOptions::By::resets) {
    return find_array(heads.numbers, "share_below_half")->value[options.head];
  }
  return -find_array(heads.numbers, "mean_log_gate")->value[options.head];
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

DrawnFigure drawTokens(const AtlasModel& model, const TokensOptions& options, const FigureStyle& style) {
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
  DrawnFigure drawn;
  const std::string of = headWord(headsOf(model), options.head);
  const auto count = static_cast<std::ptrdiff_t>(std::min(options.count, bars.size()));
  TokenBarsPanel::Content most;
  most.title = fmt::format("{}: forgets most", of);
  most.across = options.by == TokensOptions::By::resets ? "share of resets (*f* < 1/2)" : "mean −log *f* (nats)";
  most.series = "forgets most";
  most.mark = meanOfAll(model, options);
  most.bars = {bars.begin(), bars.begin() + count};
  most.colour = curveColour(2);
  TokenBarsPanel::Content least = most;
  least.title = fmt::format("{}: forgets least", of);
  least.series = "forgets least";
  least.bars = {bars.rbegin(), bars.rbegin() + count};
  least.colour = curveColour(0);

  const bool beside = widthInPoints(style.format) >= kBarsBeside * kPointsPerInch;
  PanelPage page(style);
  const auto& above = page.add(std::make_unique<TokenBarsPanel>(style.format, std::move(most)), {0, 0});
  const auto& below = page.add(std::make_unique<TokenBarsPanel>(style.format, std::move(least)),
                               beside ? PanelPlace{0, 1} : PanelPlace{1, 0});
  std::string note = "at the right how often the token was read";
  if (above.hasErrors() || below.hasErrors()) note += "; ± 1 standard error";
  if (above.hasMark() || below.hasMark()) note += "; dashed: mean of all positions";
  page.add(std::make_unique<LegendPanel>(style.format, std::vector<Curve>(), std::move(note)),
           beside ? PanelPlace{1, 0, 1, 2} : PanelPlace{2, 0});
  page.arrange();
  const auto read = static_cast<std::int64_t>(atlas_tokens(model.sums).size());
  drawn.notes.push_back(fmt::format("{}: {} of {} tokens that were read {} times and more", model.info.name,
                                    bars.size(), read, options.fewest));
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
  return drawTokens(model, options, request.style);
}

}  // namespace foxscope::figure
