#include "app/figure/kinds/atlas/passages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/kinds/atlas/atlas_heads.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "app/figure/maps/map_panel.h"
#include "app/figure/page/axis_ticks.h"
#include "app/figure/page/panel_page.h"
#include "app/figure/token_text.h"
#include "app/figure/words_panel.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/nearest_name.h"
#include "backend/map/statistics/gate_statistics.h"
#include "backend/text/tokenizer.h"
#include "backend/trace/dtype.h"

namespace foxscope::figure {
namespace {

constexpr std::int64_t kWordsAround = 40;  ///< tokens on either side, more than a line has room for
constexpr std::int64_t kMostPassages = 60;
constexpr int kDigitsOfValues = 3;
constexpr double kMostShown = 0.98;  ///< of the tints lie within the scale
constexpr double kWhite = 0.25;      ///< of the tokens are forgotten least
constexpr double kLeastFactor = 2;   ///< of a logarithmic scale's ends

/// A number of three digits: "−2.90", "−4.1 × 10⁻⁵".
std::string numberText(double value) {
  constexpr double kLeastPlain = 1e-3;
  if (std::abs(value) < kLeastPlain) return writtenNumber(value, kDigitsOfValues - 1);
  return fmt::format("{}{:#.{}g}", value < 0 ? "−" : "", std::abs(value), kDigitsOfValues);
}

/// Line ends on one line, as signs that are seen.
QString onOneLine(QString text) {
  for (QChar& character : text) {
    if (character == '\n') {
      character = QChar(0x23ce);
    } else if (!character.isPrint() && !character.isSurrogate()) {
      character = ' ';
    }
  }
  return text;
}

/// The tokens that the positions of windows read.
class WindowWords {
 public:
  explicit WindowWords(const AtlasModel& model) : model_(model), tokens_(atlas_tokens(model.sums)) {}

  /// The tokens that the positions [begin, end) of a window read; what the window does not have is left out. A
  /// character of several tokens stands at the last of them.
  [[nodiscard]] std::vector<ConcordancePanel::Piece> pieces(std::int64_t window, std::int64_t begin,
                                                            std::int64_t end) const {
    const EvaluatedWindows& windows = *model_.windows;
    const std::int64_t last = std::min(end, windows.tokens[index_of(window)] + 1);
    std::vector<ConcordancePanel::Piece> pieces;
    constexpr std::size_t kLongestCharacter = 4;
    std::string bytes;
    for (std::int64_t position = std::max<std::int64_t>(1, begin); position < last; ++position) {
      bytes += word(windows.token_id[index_of(window * windows.length + position - 1)]);
      const bool open = find_invalid_utf8(bytes) && bytes.size() < kLongestCharacter && position + 1 < last;
      pieces.push_back({open ? QString() : onOneLine(tokenText(bytes, Whitespace::asIs))});
      if (!open) bytes.clear();
    }
    return pieces;
  }

 private:
  [[nodiscard]] std::string word(std::int32_t id) const {
    const auto found = std::ranges::lower_bound(tokens_, id);
    const bool known = found != tokens_.end() && *found == id && !model_.token_strings.empty();
    return known ? model_.token_strings[index_of(found - tokens_.begin())] : fmt::format("⟨{}⟩", id);
  }

  const AtlasModel& model_;
  std::vector<std::int32_t> tokens_;
};

/// The share that is forgotten at a position, 1 - f, of one near a place; NaN farther away.
double forgottenNear(const AtlasPlace& place, std::int64_t position) {
  const std::int64_t at = position - place.position + kSurroundings;
  if (at < 0 || at >= static_cast<std::int64_t>(kSurrounding)) return std::numeric_limits<double>::quiet_NaN();
  return -std::expm1(static_cast<double>(from_float16(place.log_gate[index_of(at)])));
}

ConcordancePanel::Content placesOf(const AtlasPassages& passages, std::size_t count, const WindowWords& words) {
  ConcordancePanel::Content content;
  content.quantity = passages.quantity;
  content.series = passages.kind;
  const std::size_t shown = std::min(count, passages.places.size());
  for (const AtlasPlace& place : std::span(passages.places).first(shown)) {
    const std::int64_t at = place.position;
    const auto tinted = [&](std::int64_t begin, std::int64_t end) {
      std::vector<ConcordancePanel::Piece> pieces = words.pieces(place.window, begin, end);
      std::int64_t position = std::max<std::int64_t>(1, begin);
      for (ConcordancePanel::Piece& piece : pieces) piece.tint = forgottenNear(place, position++);
      return pieces;
    };
    ConcordancePanel::Piece token = tinted(at, at + 1).at(0);
    if (token.text.trimmed().isEmpty()) token.text.replace(' ', QChar(0x2423));
    content.places.push_back({numberText(place.value), place.value, tinted(at - kWordsAround, at), std::move(token),
                              tinted(at + 1, at + 1 + kWordsAround), fmt::format("{}:{}", place.window, at)});
  }
  return content;
}

/// White for what is forgotten least, and the darkest for all but the very most, of all places that are shown.
ScaledColours coloursOf(const std::vector<ConcordancePanel::Content>& lists, const std::string& label) {
  std::vector<double> values;
  const auto take = [&](const ConcordancePanel::Piece& piece) {
    if (std::isfinite(piece.tint)) values.push_back(piece.tint);
  };
  for (const ConcordancePanel::Content& list : lists) {
    for (const ConcordancePanel::Place& place : list.places) {
      std::ranges::for_each(place.before, take);
      take(place.token);
      std::ranges::for_each(place.after, take);
    }
  }
  ScaledColours colours;
  colours.map = &tint();
  colours.label = label;
  if (values.empty()) return colours;
  colours.upper = foxscope::quantile(values, kMostShown);
  if (!(colours.upper > 0)) colours.upper = 1;
  const double lower = foxscope::quantile(values, kWhite);
  if (lower > 0 && colours.upper > kLeastFactor * lower) {
    colours.scale = ColourScale::logarithmic;
    colours.lower = lower;
  }
  return colours;
}

}  // namespace

DrawnFigure drawPassages(const AtlasModel& model, const PassagesOptions& options, const FigureStyle& style) {
  const std::vector<AtlasPassages> passages = atlas_passages(model, options.head);
  if (passages.empty()) {
    throw Error(fmt::format("model '{}': the atlas keeps no passages of it: use --passages", model.info.name));
  }
  std::vector<std::string> known;
  for (const AtlasPassages& list : passages) known.emplace_back(list.kind);
  std::vector<std::string> kinds = options.kinds;
  if (kinds.empty()) kinds.push_back(known.front());
  const WindowWords words(model);
  const std::string of = headWord(headsOf(model), options.head);
  std::vector<ConcordancePanel::Content> lists;
  for (const std::string& kind : kinds) {
    const auto found = std::ranges::find(known, kind);
    if (found == known.end()) {
      throw UsageError(
          fmt::format("--kind {}: {} has {}{}", kind, of, fmt::join(known, ", "), nearest_question(kind, known)));
    }
    lists.push_back(placesOf(passages[index_of(found - known.begin())], options.count, words));
    // Its strongest places are resets (f < 1/2) of some heads alone.
    const std::string_view title = kind == "resets" ? "strongest forgetting" : std::string_view(kind);
    lists.back().title = fmt::format("{} of {}: {}", title, of, lists.back().quantity);
  }
  const ScaledColours colours = coloursOf(lists, fmt::format("share forgotten 1 − *f*, {}", of));
  PanelPage page(style);
  int row = 0;
  for (ConcordancePanel::Content& list : lists) {
    list.colours = colours;
    page.add(std::make_unique<ConcordancePanel>(style.format, std::move(list)), {row++, 0, 1, 3});
  }
  if (model.has_gate(options.head)) {
    ColourBarPanel& bar = page.add(std::make_unique<ColourBarPanel>(style.format), {row, 0, 1, 3});
    bar.setColours(colours, colours.label, "1 − *f*");
  }
  page.arrange();
  DrawnFigure drawn;
  FigureOrigin origin = originOf(model, style, "Passages of a head");
  origin.facts.emplace_back("head", of);
  origin.facts.emplace_back("kinds", fmt::format("{}", fmt::join(kinds, ", ")));
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawPassages(FigureRequest& request) {
  PassagesOptions options;
  options.kinds = request.spec.list("kind");
  if (const auto count = integerOf(request.spec, "count")) {
    if (*count < 1 || *count > kMostPassages) {
      throw UsageError(fmt::format("--count {}: use a number from 1 to {}", *count, kMostPassages));
    }
    options.count = static_cast<std::size_t>(*count);
  }
  const Atlas atlas = request.atlas();
  const AtlasModel& model = request.model(atlas.models);
  options.head = chosenHead(request, model);
  return drawPassages(model, options, request.style);
}

}  // namespace foxscope::figure
