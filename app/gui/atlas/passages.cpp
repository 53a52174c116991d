#include "app/gui/atlas/passages.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "app/figure/token_text.h"
#include "backend/base/index.h"
#include "backend/text/tokenizer.h"

namespace foxscope::gui::atlas {
namespace {

/// A passage before its text is wanted.
struct FoundPassage {
  std::size_t head = 0;
  std::size_t kind = 0;
  AtlasPassage place;
};

/// The tokens of a place's passage: [begin, end) of the window's.
std::pair<std::int64_t, std::int64_t> tokensAround(const AtlasPassage& place, std::int64_t tokens) {
  const std::int64_t read = place.position - 1;
  return {std::max<std::int64_t>(0, read - kTokensBefore), std::min(tokens, read + 1 + kTokensBehind)};
}

QString shownText(const std::string& bytes) {
  QString text = QString::fromStdString(spell_invalid_utf8(bytes));
  text.replace(QStringLiteral("\r\n"), QStringLiteral("⏎")).replace('\n', QChar(0x23ce)).replace('\t', QChar(0x21e5));
  return text;
}

class PassageReader {
 public:
  explicit PassageReader(const AtlasModel& model)
      : m_model(model), m_facts(model.facts()), m_places(index_of(m_facts.vocabulary), -1) {
    for (std::size_t n = 0; n < m_facts.token_id.size(); ++n) {
      m_places[index_of(m_facts.token_id[n])] = static_cast<std::int32_t>(n);
    }
  }

  /// The place of a token in the arrays of tokens; negative for one that no position read.
  [[nodiscard]] std::int32_t placeOf(std::int32_t id) const { return m_places[index_of(id)]; }

  /// The text alone, to look for something in.
  QString text(const AtlasPassage& place) {
    const std::vector<std::int32_t>& ids = window(place.window);
    const auto [begin, end] = tokensAround(place, std::ssize(ids));
    std::string bytes;
    for (std::int64_t n = begin; n < end; ++n) bytes += bytesOf(ids[index_of(n)]);
    return shownText(bytes);
  }

  /// @param logGate  of the head at a token's place in the passage
  PassageRow row(const FoundPassage& found, const std::function<float(std::int64_t token, std::int32_t id)>& logGate) {
    PassageRow row{found.head, found.kind, found.place, {}, {}};
    const auto& documents = m_model.reader->corpus().documents;
    if (!documents.empty()) {
      const std::int32_t document = m_facts.windows->document[index_of(found.place.window)];
      row.document = QString::fromStdString(documents[index_of(document)].name);
    }
    const std::vector<std::int32_t>& ids = window(found.place.window);
    const auto [begin, end] = tokensAround(found.place, std::ssize(ids));
    std::string bytes;
    bool open = false;
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int32_t id = ids[index_of(n)];
      const float gate = std::exp(logGate(n, id));
      if (!open) row.pieces.emplace_back().gate = gate;
      PassagePiece& piece = row.pieces.back();
      bytes += bytesOf(id);
      piece.gate = std::isnan(piece.gate) ? gate : std::min(piece.gate, gate);
      piece.marked = piece.marked || n == found.place.position - 1;
      // Bytes of one character stand together.
      open = find_invalid_utf8(bytes).has_value() && bytes.size() < 4;
      if (open && n + 1 < end) continue;
      piece.text = shownText(bytes);
      bytes.clear();
    }
    return row;
  }

 private:
  static constexpr std::int64_t kBlock = 16;       ///< windows that are read together, as they are packed together
  static constexpr std::size_t kMostBlocks = 256;  ///< that are kept

  const std::vector<std::int32_t>& window(std::int64_t number) {
    const std::int64_t block = number / kBlock;
    if (m_blocks.size() >= kMostBlocks && !m_blocks.contains(block)) m_blocks.clear();
    auto [at, fresh] = m_blocks.try_emplace(block);
    if (fresh) {
      const std::int64_t first = block * kBlock;
      at->second =
          m_model.reader->windows(m_model.index, first, std::min(kBlock, std::ssize(m_facts.windows->tokens) - first));
      // The last token of a window is read by no position of it, and may be read by none at all: it has no text then.
      for (std::vector<std::int32_t>& ids : at->second) {
        if (!ids.empty() && !m_facts.token_string.empty() && placeOf(ids.back()) < 0) ids.pop_back();
      }
    }
    return at->second[index_of(number % kBlock)];
  }

  [[nodiscard]] std::string bytesOf(std::int32_t id) const {
    const std::int32_t place = placeOf(id);
    if (place < 0 || m_facts.token_string.empty()) return "⟨" + std::to_string(id) + "⟩";
    return figure::shortToken(m_facts.token_string[index_of(place)]);
  }

  const AtlasModel& m_model;
  const AtlasFacts& m_facts;
  std::vector<std::int32_t> m_places;  ///< by id
  std::map<std::int64_t, std::vector<std::vector<std::int32_t>>> m_blocks;
};

/// Marks every piece that holds a part of a phrase, and makes the occurrence nearest to the place the row's middle.
void markFound(PassageRow& row, const QString& phrase) {
  const auto place = std::ranges::find(row.pieces, true, &PassagePiece::marked) - row.pieces.begin();
  QStringList texts;
  for (const PassagePiece& piece : row.pieces) texts += piece.text;
  const figure::FoundPhrase found = figure::findPhrase(texts, phrase, index_of(place));
  row.middle = found.middle;
  for (std::size_t n = 0; n < row.pieces.size(); ++n) row.pieces[n].found = found.found[n];
}

}  // namespace

QString PassageRow::text() const {
  QString text;
  for (const PassagePiece& piece : pieces) text += piece.text;
  return text;
}

std::optional<PassageAnswer> findPassages(const PassageQuestion& question, const Job& job) {
  const AtlasFacts& facts = question.model.facts();
  std::vector<FoundPassage> found;
  for (const std::size_t head : question.heads) {
    for (std::size_t kind = 0; kind < facts.passages.size(); ++kind) {
      if (question.kind && kind != *question.kind) continue;
      for (const AtlasPassage& place : question.model.reader->passages(question.model.index, kind, head)) {
        found.push_back({head, kind, place});
      }
    }
    if (job.stop.stop_requested()) return std::nullopt;
  }
  PassageAnswer answer;
  answer.looked = found.size();
  PassageReader reader(question.model);
  if (!question.phrase.isEmpty()) {
    std::vector<std::size_t> order(found.size());
    for (std::size_t n = 0; n < order.size(); ++n) order[n] = n;
    std::ranges::stable_sort(order, {}, [&](std::size_t n) { return found[n].place.window; });
    std::vector<bool> holds(found.size());
    for (const std::size_t n : order) {
      holds[n] = reader.text(found[n].place).contains(question.phrase, Qt::CaseInsensitive);
      if (job.stop.stop_requested()) return std::nullopt;
    }
    std::vector<FoundPassage> kept;
    for (std::size_t n = 0; n < found.size(); ++n) {
      if (holds[n]) kept.push_back(found[n]);
    }
    found = std::move(kept);
  }
  answer.found = found.size();
  // Lists of one head are in the file's order; those of several are merged by value, each kind by itself.
  if (question.heads.size() > 1) {
    // Log f is listed from the smallest on, all else from the largest.
    std::ranges::stable_sort(found, {}, [&](const FoundPassage& one) {
      return std::pair(one.kind, isOfGate(facts.passages[one.kind]) ? one.place.value : -one.place.value);
    });
  }
  if (found.size() > kMostRows) found.resize(kMostRows);
  using HeadOfKind = std::pair<std::size_t, std::size_t>;
  std::map<HeadOfKind, std::vector<float>> gates;
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  for (const FoundPassage& one : found) {
    const std::int64_t around = facts.passages[one.kind].around;
    auto [at, fresh] = gates.try_emplace(HeadOfKind{one.head, around > 0 ? one.kind : facts.passages.size()});
    std::vector<float>& known = at->second;
    if (fresh && around > 0) known = question.model.reader->log_gates_around(question.model.index, one.kind, one.head);
    if (fresh && around == 0 && facts.has_tokens)
      known = question.model.reader->tokens(question.model.index, one.head).mean_log_gate;
    answer.ofPlaces = answer.ofPlaces || around > 0;
    answer.rows.push_back(reader.row(one, [&](std::int64_t token, std::int32_t id) {
      if (around > 0) {
        // Position p reads token p - 1.
        const std::int64_t from = token + 1 - one.place.position + around;
        const bool inside = from >= 0 && from <= 2 * around;
        return inside ? known[one.place.rank * index_of(2 * around + 1) + index_of(from)] : kNone;
      }
      const std::int32_t place = reader.placeOf(id);
      return place >= 0 && index_of(place) < known.size() ? known[index_of(place)] : kNone;
    }));
    markFound(answer.rows.back(), question.phrase);
    for (const PassagePiece& piece : answer.rows.back().pieces) {
      if (std::isfinite(piece.gate)) answer.least = std::min(answer.least, piece.gate);
    }
    if (job.stop.stop_requested()) return std::nullopt;
  }
  return answer;
}

}  // namespace foxscope::gui::atlas
