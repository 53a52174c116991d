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

  /// The tokens that the positions [begin, end) of a window read; what the window does not have is left out, and its
  /// last token where the atlas has no text of it. A character of several tokens stands at the last of them.
  [[nodiscard]] std::vector<ConcordancePanel::Piece> pieces(std::int64_t window, std::int64_t begin,
                                                            std::int64_t end) const {
    const std::int64_t last = std::min(end, this->end(window));
    std::vector<ConcordancePanel::Piece> pieces;
    constexpr std::size_t kLongestCharacter = 4;
    std::string bytes;
    for (std::int64_t position = std::max<std::int64_t>(1, begin); position < last; ++position) {
      bytes += word(tokenAt(window, position));
      const bool open = find_invalid_utf8(bytes) && bytes.size() < kLongestCharacter && position + 1 < last;
      pieces.push_back({open ? QString() : onOneLine(tokenText(bytes, Whitespace::asIs))});
      if (!open) bytes.clear();
    }
    return pieces;
  }

  /// Behind the last position whose token has a text.
  [[nodiscard]] std::int64_t end(std::int64_t window) const {
    const std::int64_t tokens = model_.windows->tokens[index_of(window)];
    // The last token of a window is read by no position of it, and may be read by none at all.
    const bool known = tokens == 0 || model_.token_strings.empty() || placeOf(tokenAt(window, tokens)) != tokens_.end();
    return tokens + (known ? 1 : 0);
  }

  /// A place's token and the words around it, one text for each position.
  struct Around {
    std::int64_t first = 0;  ///< position
    QStringList texts;
  };
  [[nodiscard]] Around around(const AtlasPlace& place) const {
    Around around{std::max<std::int64_t>(1, place.position - kWordsAround), {}};
    for (auto& piece : pieces(place.window, around.first, place.position + 1 + kWordsAround)) {
      around.texts += std::move(piece.text);
    }
    return around;
  }

 private:
  /// The token that a position reads; positions go from 1 to the number of the window's tokens.
  [[nodiscard]] std::int32_t tokenAt(std::int64_t window, std::int64_t position) const {
    return model_.windows->token_id[index_of(window * model_.windows->length + position - 1)];
  }

  /// The token among those that were read; their end for one that was not.
  [[nodiscard]] std::vector<std::int32_t>::const_iterator placeOf(std::int32_t id) const {
    const auto found = std::ranges::lower_bound(tokens_, id);
    return found != tokens_.end() && *found == id ? found : tokens_.end();
  }

  [[nodiscard]] std::string word(std::int32_t id) const {
    const auto found = placeOf(id);
    const bool known = found != tokens_.end() && !model_.token_strings.empty();
    return known ? shortToken(model_.token_strings[index_of(found - tokens_.begin())]) : fmt::format("⟨{}⟩", id);
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

/// A place with the head that it is kept of.
struct PlaceOfHead {
  std::size_t head = 0;
  const AtlasPlace* place = nullptr;
};

/// The passages that an atlas keeps of a head.
struct KeptOfHead {
  std::size_t head = 0;
  std::vector<AtlasPassages> kinds;
};

/// The places of a kind that hold the text, those of several heads merged.
std::vector<PlaceOfHead> placesOfKind(const std::vector<KeptOfHead>& heads, const std::string& kind,
                                      const std::string& holding, const WindowWords& words) {
  std::vector<PlaceOfHead> places;
  const QString text = QString::fromStdString(holding);
  for (const KeptOfHead& one : heads) {
    const auto found = std::ranges::find(one.kinds, kind, &AtlasPassages::kind);
    if (found == one.kinds.end()) continue;
    for (const AtlasPlace& place : found->places) {
      if (!text.isEmpty() && !words.around(place).texts.join(QString()).contains(text, Qt::CaseInsensitive)) continue;
      places.push_back({one.head, &place});
    }
  }
  if (heads.size() < 2) return places;
  // Log f is listed from the smallest on, all else from the largest.
  const double sign = kind == "resets" || kind == "deciles" ? 1 : -1;
  std::ranges::stable_sort(places, {}, [sign](const PlaceOfHead& one) { return sign * one.place->value; });
  return places;
}

/// The name of the document that a window lies in; of windows of --ids, which have none, nothing.
std::string documentOf(const Atlas& atlas, const AtlasModel& model, std::int64_t window) {
  if (atlas.corpus.documents.empty()) return {};
  return atlas.corpus.documents[index_of(model.windows->document[index_of(window)])].name;
}

ConcordancePanel::Content contentOf(const Atlas& atlas, const AtlasModel& model, const std::vector<PlaceOfHead>& places,
                                    const PassagesOptions& options, const EvaluatedHeads& heads,
                                    const WindowWords& words) {
  ConcordancePanel::Content content;
  for (const PlaceOfHead& one : std::span(places).first(std::min(options.count, places.size()))) {
    const AtlasPlace& place = *one.place;
    ConcordancePanel::Place& shown = content.places.emplace_back();
    const std::string head = headWord(heads, one.head);
    shown.number = (options.heads.size() > 1 ? head + "  " : "") + numberText(place.value);
    shown.value = place.value;
    shown.position = place.position;
    shown.more = {
        {"head", head}, {"window", std::to_string(place.window)}, {"document", documentOf(atlas, model, place.window)}};
    // Pieces are those of positions, one each.
    const WindowWords::Around around = words.around(place);
    const FoundPhrase phrase =
        findPhrase(around.texts, QString::fromStdString(options.holding), index_of(place.position - around.first));
    const std::int64_t middle = around.first + static_cast<std::int64_t>(phrase.middle);
    const std::int64_t begin = std::max<std::int64_t>(1, middle - kWordsAround);
    const std::int64_t end = std::min(middle + 1 + kWordsAround, words.end(place.window));
    const auto add = [&](std::int64_t from, std::int64_t to) {
      for (ConcordancePanel::Piece& piece : words.pieces(place.window, from, to)) {
        piece.tint = forgottenNear(place, from);
        const std::int64_t at = from++ - around.first;
        piece.found = at >= 0 && at < std::ssize(phrase.found) && phrase.found[index_of(at)];
        shown.pieces.push_back(std::move(piece));
      }
    };
    // The text goes on before the first piece and behind the last.
    if (begin > 1) shown.pieces.push_back({"…"});
    shown.token = shown.pieces.size() + index_of(place.position - begin);
    shown.middle = shown.pieces.size() + index_of(middle - begin);
    add(begin, place.position);
    add(place.position, place.position + 1);
    add(place.position + 1, end);
    if (end < words.end(place.window)) shown.pieces.push_back({"…"});
    QString& token = shown.pieces[shown.token].text;
    if (token.trimmed().isEmpty()) token.replace(' ', QChar(0x2423));
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
      std::ranges::for_each(place.pieces, take);
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

DrawnFigure drawPassages(const Atlas& atlas, const AtlasModel& model, const PassagesOptions& options,
                         const FigureStyle& style) {
  std::vector<KeptOfHead> kept;
  std::vector<std::string> known;
  for (const std::size_t head : options.heads) {
    kept.push_back({head, atlas_passages(model, head)});
    for (const AtlasPassages& list : kept.back().kinds) {
      if (std::ranges::find(known, list.kind) == known.end()) known.emplace_back(list.kind);
    }
  }
  if (known.empty()) {
    throw Error(fmt::format("model '{}': the atlas keeps no passages of it: use --passages", model.info.name));
  }
  std::vector<std::string> kinds = options.kinds;
  if (kinds.empty()) kinds.push_back(known.front());
  if (kinds == std::vector<std::string>{"all"}) kinds = known;
  const WindowWords words(model);
  const EvaluatedHeads heads = headsOf(model);
  const bool headEach = options.heads.size() > 1;
  const std::string of =
      headEach ? fmt::format("{} heads", options.heads.size()) : headWord(heads, options.heads.front());
  std::vector<ConcordancePanel::Content> lists;
  for (const std::string& kind : kinds) {
    if (std::ranges::find(known, kind) == known.end()) {
      throw UsageError(
          fmt::format("--kind {}: {} has {}{}", kind, of, fmt::join(known, ", "), nearest_question(kind, known)));
    }
    const std::vector<PlaceOfHead> places = placesOfKind(kept, kind, options.holding, words);
    if (places.empty()) continue;
    lists.push_back(contentOf(atlas, model, places, options, heads, words));
    ConcordancePanel::Content& list = lists.back();
    const auto first = std::ranges::find_if(kept, [&](const KeptOfHead& one) {
      return std::ranges::find(one.kinds, kind, &AtlasPassages::kind) != one.kinds.end();
    });
    list.quantity = std::ranges::find(first->kinds, kind, &AtlasPassages::kind)->quantity;
    list.series = kind;
    // Its strongest places are resets (f < 1/2) of some heads alone.
    const std::string_view title = kind == "resets" ? "strongest forgetting" : std::string_view(kind);
    list.title = fmt::format("{} of {}: {}", title, modelBefore(of, atlas, model, style), list.quantity);
    if (!options.holding.empty()) list.title += fmt::format(", passages that hold “{}”", options.holding);
  }
  if (lists.empty()) {
    throw UsageError(fmt::format("--holding {}: no passage of {} holds it: choose another text", options.holding, of));
  }
  const ScaledColours colours =
      coloursOf(lists, fmt::format("share forgotten 1 − *f*, {}", modelBefore(of, atlas, model, style)));
  PanelPage page(style);
  int row = 0;
  for (ConcordancePanel::Content& list : lists) {
    list.colours = colours;
    page.add(std::make_unique<ConcordancePanel>(style.format, std::move(list)), {row++, 0, 1, 3});
  }
  if (std::ranges::any_of(options.heads, [&](std::size_t head) { return model.has_gate(head); })) {
    ColourBarPanel& bar = page.add(std::make_unique<ColourBarPanel>(style.format), {row, 0, 1, 3});
    bar.setColours(colours, colours.label, "1 − *f*");
  }
  page.arrange();
  DrawnFigure drawn;
  FigureOrigin origin = originOf(model, style, "Passages of a head");
  origin.facts.emplace_back(headEach ? "heads" : "head", of);
  if (!options.holding.empty()) origin.facts.emplace_back("holding", options.holding);
  origin.facts.emplace_back("kinds", fmt::format("{}", fmt::join(kinds, ", ")));
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawPassages(FigureRequest& request) {
  PassagesOptions options;
  options.kinds = request.spec.list("kind");
  options.holding = request.spec.text("holding");
  if (const auto count = integerOf(request.spec, "count")) {
    if (*count < 1 || *count > kMostPassages) {
      throw UsageError(fmt::format("--count {}: use a number from 1 to {}", *count, kMostPassages));
    }
    options.count = static_cast<std::size_t>(*count);
  }
  const Atlas atlas = request.atlas();
  const AtlasModel& model = request.model(atlas.models);
  options.heads = chosenHeads(request, model);
  return drawPassages(atlas, model, options, request.style);
}

}  // namespace foxscope::figure
