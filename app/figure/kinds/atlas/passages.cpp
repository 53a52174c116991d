#include "app/figure/kinds/atlas/passages.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/kinds/atlas/atlas_heads.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "app/figure/page/axis_ticks.h"
#include "app/figure/page/panel_page.h"
#include "app/figure/token_text.h"
#include "app/figure/words_panel.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/nearest_name.h"
#include "backend/eval/atlas/atlas_rows.h"

namespace foxscope::figure {
namespace {

constexpr std::int64_t kWordsAround = 40;  ///< tokens on either side, more than a line has room for
constexpr std::int64_t kMostPassages = 60;
constexpr int kDigitsOfValues = 3;

/// A place of the table of passages.
struct Passage {
  std::string kind;
  std::int64_t window = 0;
  std::int64_t position = 0;
  double value = 0;
};

/// The places of one head, of all kinds, in the order of the table.
std::vector<Passage> passagesOf(const Atlas& atlas, const AtlasModel& model, std::size_t head) {
  const int place = static_cast<int>(head);
  const AtlasTable table(atlas, "passages",
                         {model.info.name, std::pair(place / model.info.heads, place % model.info.heads)});
  const auto column = [&](std::string_view name) {
    return index_of(std::ranges::find(table.columns(), name) - table.columns().begin());
  };
  const std::size_t kind = column("kind");
  const std::size_t window = column("window");
  const std::size_t position = column("position");
  const std::size_t value = table.columns().size() - 1;  // what the place was chosen by
  std::vector<Passage> passages;
  table.each_row([&](std::span<const AtlasField> fields) {
    passages.push_back({std::get<std::string>(fields[kind]), std::get<std::int64_t>(fields[window]),
                        std::get<std::int64_t>(fields[position]), std::get<double>(fields[value])});
  });
  return passages;
}

std::vector<std::string> kindsOf(const std::vector<Passage>& passages) {
  std::vector<std::string> kinds;
  for (const Passage& passage : passages) {
    if (std::ranges::find(kinds, passage.kind) == kinds.end()) kinds.push_back(passage.kind);
  }
  return kinds;
}

/// A number of three digits: "−2.90", "−4.1 × 10⁻⁵".
std::string numberText(double value) {
  constexpr double kLeastWritten = 1e-3;
  if (std::abs(value) < kLeastWritten) return writtenNumber(value, kDigitsOfValues - 1);
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

  /// The tokens that the positions [begin, end) of a window read; what the window does not have is left out.
  [[nodiscard]] std::vector<ConcordancePanel::Piece> pieces(std::int64_t window, std::int64_t begin,
                                                            std::int64_t end) const {
    const EvaluatedWindows& windows = *model_.windows;
    const std::int64_t last = std::min(end, windows.tokens[index_of(window)] + 1);
    std::vector<ConcordancePanel::Piece> pieces;
    for (std::int64_t position = std::max<std::int64_t>(1, begin); position < last; ++position) {
      pieces.push_back({onOneLine(word(windows.token_id[index_of(window * windows.length + position - 1)]))});
    }
    return pieces;
  }

 private:
  [[nodiscard]] QString word(std::int32_t id) const {
    const auto found = std::ranges::lower_bound(tokens_, id);
    const bool known = found != tokens_.end() && *found == id && !model_.token_strings.empty();
    return known ? tokenText(model_.token_strings[index_of(found - tokens_.begin())], Whitespace::asIs)
                 : QStringLiteral("⟨%1⟩").arg(id);
  }

  const AtlasModel& model_;
  std::vector<std::int32_t> tokens_;
};

ConcordancePanel::Content placesOf(const std::vector<Passage>& passages, const std::string& kind,
                                   const PassagesOptions& options, const WindowWords& words) {
  ConcordancePanel::Content content;
  content.quantity = "log *f* (nats)";
  content.series = kind;
  for (const Passage& passage : passages) {
    if (passage.kind != kind || content.places.size() == options.count) continue;
    const std::int64_t at = passage.position;
    ConcordancePanel::Piece token = words.pieces(passage.window, at, at + 1).at(0);
    if (token.text.trimmed().isEmpty()) token.text.replace(' ', QChar(0x2423));
    content.places.push_back({numberText(passage.value), passage.value,
                              words.pieces(passage.window, at - kWordsAround, at), std::move(token),
                              words.pieces(passage.window, at + 1, at + 1 + kWordsAround),
                              fmt::format("{}:{}", passage.window, at)});
  }
  return content;
}

}  // namespace

DrawnFigure drawPassages(const Atlas& atlas, const AtlasModel& model, const PassagesOptions& options,
                         const FigureStyle& style) {
  const std::vector<Passage> passages = passagesOf(atlas, model, options.head);
  const std::vector<std::string> known = kindsOf(passages);
  if (known.empty()) {
    throw Error(fmt::format("model '{}': the atlas keeps no passages of it: use --passages", model.info.name));
  }
  std::vector<std::string> kinds = options.kinds;
  if (kinds.empty()) kinds.push_back(known.front());
  for (const std::string& kind : kinds) {
    if (std::ranges::find(known, kind) != known.end()) continue;
    throw UsageError(
        fmt::format("--kind {}: the atlas has {}{}", kind, fmt::join(known, ", "), nearest_question(kind, known)));
  }
  const WindowWords words(model);
  const std::string of = headWord(headsOf(model), options.head);
  PanelPage page(style);
  int row = 0;
  for (const std::string& kind : kinds) {
    ConcordancePanel::Content content = placesOf(passages, kind, options, words);
    content.title = fmt::format("{} of {}: log *f* (nats)", kind, of);
    page.add(std::make_unique<ConcordancePanel>(style.format, std::move(content)), {row++, 0});
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
  return drawPassages(atlas, model, options, request.style);
}

}  // namespace foxscope::figure
