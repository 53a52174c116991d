#include "app/gui/atlas/passages.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>

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

std::string bytesOf(const AtlasFacts& facts, std::int32_t id) {
  const auto place = facts.place_of(id);
  // The last token of a window may be read by no position.
  if (!place || facts.token_string.empty()) return "⟨" + std::to_string(id) + "⟩";
  return facts.token_string[*place];
}

QString shownText(const std::string& bytes) {
  QString text = QString::fromStdString(bytes);
  text.replace(QStringLiteral("\r\n"), QStringLiteral("⏎")).replace('\n', QChar(0x23ce)).replace('\t', QChar(0x21e5));
  return text;
}

class PassageReader {
 public:
  explicit PassageReader(const AtlasModel& model) : m_model(model), m_facts(model.facts()) {}

  const std::vector<std::int32_t>& window(std::int64_t number) {
    if (number != m_window) {
      m_ids = m_model.reader->window(m_model.index, number);
      m_window = number;
    }
    return m_ids;
  }

  /// The text alone, to look for something in.
  QString text(const AtlasPassage& place) {
    const std::vector<std::int32_t>& ids = window(place.window);
    const auto [begin, end] = tokensAround(place, std::ssize(ids));
    std::string bytes;
    for (std::int64_t n = begin; n < end; ++n) bytes += bytesOf(m_facts, ids[index_of(n)]);
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
      bytes += bytesOf(m_facts, id);
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
  const AtlasModel& m_model;
  const AtlasFacts& m_facts;
  std::int64_t m_window = -1;
  std::vector<std::int32_t> m_ids;
};

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
      const auto place = facts.place_of(id);
      return place && *place < known.size() ? known[*place] : kNone;
    }));
    for (const PassagePiece& piece : answer.rows.back().pieces) {
      if (std::isfinite(piece.gate)) answer.least = std::min(answer.least, piece.gate);
    }
    if (job.stop.stop_requested()) return std::nullopt;
  }
  return answer;
}

}  // namespace foxscope::gui::atlas
