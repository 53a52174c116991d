#include "app/gui/words/word_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "app/figure/token_text.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/estimate_text.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr int kWordDigits = 3;

constexpr int kWordsBefore = 5;
constexpr int kNameLettersShown = 13;  ///< of a run, in a column's title

struct WordColumnText {
  const char* key;  ///< in sessions
  const char* name;
  const char* meaning;
};

// The texts of columns by WordRows::Column.
constexpr WordColumnText kWordColumns[WordRows::kColumns] = {
    {"before", QT_TRANSLATE_NOOP("WordTable", "before"), QT_TRANSLATE_NOOP("WordTable", "What stands before the word")},
    {"word", QT_TRANSLATE_NOOP("WordTable", "word"), QT_TRANSLATE_NOOP("WordTable", "A word, by the word rule")},
    {"surprisal", QT_TRANSLATE_NOOP("WordTable", "surprisal\n(nats)"),
     QT_TRANSLATE_NOOP(
         "WordTable",
         "−log p of the word given all before it: the sum of its tokens' losses; divide by 0.6931 for bits")},
    {"difference", QT_TRANSLATE_NOOP("WordTable", "Δ\n(nats)"),
     QT_TRANSLATE_NOOP("WordTable", "Surprisal of %1 minus that of %2: below 0 %1 predicts the word better")},
    {"expected", QT_TRANSLATE_NOOP("WordTable", "expected"),
     QT_TRANSLATE_NOOP("WordTable", "The likeliest token where the word begins")},
    {"share", QT_TRANSLATE_NOOP("WordTable", "its p"), QT_TRANSLATE_NOOP("WordTable", "p of that token")},
    {"rank", QT_TRANSLATE_NOOP("WordTable", "rank"),
     QT_TRANSLATE_NOOP("WordTable", "The largest rank of the word's tokens in the vocabulary; 1 is the likeliest")},
    {"entropy", QT_TRANSLATE_NOOP("WordTable", "entropy\n(nats)"),
     QT_TRANSLATE_NOOP("WordTable", "The sum of the entropies of the predictions at the word's tokens")},
    {"gate", QT_TRANSLATE_NOOP("WordTable", "−log f\n(10⁻³ nats)"),
     QT_TRANSLATE_NOOP("WordTable",
                       "How much the chosen head forgets where the word is read: −log of its forget gate f, averaged "
                       "over the word's tokens, in thousandths of a nat")},
    {"expert", QT_TRANSLATE_NOOP("WordTable", "expert"),
     QT_TRANSLATE_NOOP(
         "WordTable",
         "The heaviest expert of the layer where the token is read in which the word begins, and its weight")},
    {"tokens", QT_TRANSLATE_NOOP("WordTable", "tokens"),
     QT_TRANSLATE_NOOP("WordTable", "Number of tokens in the word")},
    {"sentence", QT_TRANSLATE_NOOP("WordTable", "sentence"),
     QT_TRANSLATE_NOOP("WordTable", "The word's sentence, from 0")},
    {"byte", QT_TRANSLATE_NOOP("WordTable", "byte"),
     QT_TRANSLATE_NOOP("WordTable", "Where the word begins in the text, UTF-8")},
};

bool isWholeNumber(int column) {
  return column == WordRows::kRank || (column > WordRows::kExpert && column < WordRows::kColumns);
}

bool isText(int column) {
  return column == WordRows::kBefore || column == WordRows::kWord || column == WordRows::kExpected;
}

/// −1000 log f, which is 0 and not −0 for a gate of 1.
double thousandthsForgotten(double gate) { return gate == 1 ? 0 : -1000 * std::log(gate); }

/// The rank of each string in alphabetical order, equal strings having one rank.
std::vector<double> alphabetPlaces(const std::vector<QString>& strings) {
  std::vector<QString> folded;
  folded.reserve(strings.size());
  for (const QString& string : strings) folded.push_back(string.toCaseFolded());
  std::vector<std::size_t> order(strings.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return folded[a] < folded[b]; });
  std::vector<double> places(strings.size());
  double place = 0;
  for (std::size_t n = 0; n < order.size(); ++n) {
    if (n > 0 && folded[order[n]] != folded[order[n - 1]]) ++place;
    places[order[n]] = place;
  }
  return places;
}

}  // namespace

WordRows::WordRows(WordContent content) : table(std::move(content.table)), run(std::move(content.run)) {
  constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
  number.resize(kColumns);
  expertLayer = content.expertLayer;
  for (const SurprisalWord& word : table.words) {
    const WordNumbers numbers = numbers_of(table, word);
    const bool has = word.first < word.end;
    const auto first = static_cast<std::size_t>(word.first);
    const bool known = has && first < content.expected.size();
    string.push_back(QString::fromStdString(word.string));
    expected.push_back(known ? figure::tokenText(content.expected[first], figure::Whitespace::visible) : QString());
    number[kSurprisal].push_back(numbers.surprisal);
    number[kEntropy].push_back(numbers.entropy);
    number[kRank].push_back(numbers.rank > 0 ? static_cast<double>(numbers.rank) : kNoNumber);
    number[kGate].push_back(numbers.gate.empty() || !has ? kNoNumber : thousandthsForgotten(numbers.gate.front()));
    number[kShare].push_back(known ? content.share[first] : kNoNumber);
    // The token is read by the position behind the one that predicts it.
    const bool read = has && first + 1 < content.experts.size() && content.experts[first + 1].expert >= 0;
    number[kExpert].push_back(read ? static_cast<double>(content.experts[first + 1].expert) : kNoNumber);
    expertWeight.push_back(read ? content.experts[first + 1].weight : kNoNumber);
    number[kTokens].push_back(static_cast<double>(word.end - word.first));
    number[kSentence].push_back(static_cast<double>(word.sentence));
    number[kByte].push_back(static_cast<double>(word.byte_start));
  }
  number[kBefore] = number[kByte];
  number[kWord] = alphabetPlaces(string);
  number[kExpected] = alphabetPlaces(expected);
  for (std::size_t n = 0; n < expected.size(); ++n) {
    if (expected[n].isEmpty()) number[kExpected][n] = kNoNumber;
  }
  for (const WordContent::Other& other : content.others) {
    others.push_back(other.run);
    std::vector<double>& column = number.emplace_back(string.size(), kNoNumber);
    // The words of one text by one rule are the same as far as both have read.
    for (std::size_t n = 0; n < std::min(column.size(), other.table.words.size()); ++n) {
      if (other.table.words[n].byte_start != table.words[n].byte_start) break;
      column[n] = numbers_of(other.table, other.table.words[n]).surprisal;
    }
  }
  number[kDifference].assign(string.size(), kNoNumber);
  if (!content.difference) return;
  const auto column = [this](int place) { return place < 0 ? static_cast<int>(kSurprisal) : kColumns + place; };
  const auto name = [this](int place) { return place < 0 ? run : others[index_of(place)]; };
  const auto& [first, second] = *content.difference;
  difference = {name(first), name(second)};
  for (std::size_t n = 0; n < string.size(); ++n) {
    number[kDifference][n] = number[index_of(column(first))][n] - number[index_of(column(second))][n];
  }
}

QString WordRows::before(int word) const {
  QStringList words;
  for (int n = std::max(0, word - kWordsBefore); n < word; ++n) words += string[index_of(n)];
  return words.join(QLatin1Char(' '));
}

bool WordRows::has(Column column) const {
  return std::ranges::any_of(number[column], [](double value) { return !std::isnan(value); });
}

std::int64_t WordRows::tokenOf(int word) const {
  const SurprisalWord& of = table.words[index_of(word)];
  const auto behind = std::ranges::upper_bound(table.byte_start, of.byte_start);
  const std::int64_t holds = std::max<std::int64_t>(0, behind - table.byte_start.begin() - 1);
  return of.first < of.end ? std::clamp(holds, of.first, of.end - 1) : holds;
}

int WordRows::wordOf(std::int64_t token) const { return static_cast<int>(table.word[index_of(token)]); }

void WordTable::setContent(std::shared_ptr<const WordRows> rows) {
  const auto column = static_cast<std::size_t>(m_column);
  const bool sameOrder = m_rows && rows && m_rows->string == rows->string && m_rows->others == rows->others &&
                         column < rows->number.size() && m_rows->number[column] == rows->number[column];
  if (sameOrder) {
    m_rows = std::move(rows);
    emit headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);
    if (rowCount() > 0) emit dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
    return;
  }
  beginResetModel();
  m_rows = std::move(rows);
  if (m_column >= columnCount()) m_column = WordRows::kByte;
  arrange();
  endResetModel();
}

void WordTable::setFilter(const QString& letters) {
  if (letters == m_filter) return;
  beginResetModel();
  m_filter = letters;
  arrange();
  endResetModel();
}

void WordTable::sort(int column, Qt::SortOrder order) {
  if (column == m_column && order == m_order) return;
  beginResetModel();
  m_column = column;
  m_order = order;
  arrange();
  endResetModel();
}

void WordTable::arrange() {
  m_shown.clear();
  m_rowOf.clear();
  if (!m_rows) return;
  const WordRows& rows = *m_rows;
  for (int word = 0; word < rows.size(); ++word) {
    const QString& string = rows.string[index_of(word)];
    if (m_filter.isEmpty() || string.contains(m_filter, Qt::CaseInsensitive)) m_shown.push_back(word);
  }
  const std::vector<double>& key = rows.number[index_of(m_column)];
  const bool rising = m_order == Qt::AscendingOrder;
  // Words without a value stand at the end, equals in the order of the text.
  std::ranges::stable_sort(m_shown, [&](int left, int right) {
    const double a = key[index_of(left)];
    const double b = key[index_of(right)];
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    return rising ? a < b : b < a;
  });
  m_rowOf.assign(static_cast<std::size_t>(rows.size()), -1);
  for (std::size_t row = 0; row < m_shown.size(); ++row) {
    m_rowOf[index_of(m_shown[row])] = static_cast<int>(row);
  }
}

int WordTable::rowOf(int word) const {
  return word < 0 || word >= static_cast<int>(m_rowOf.size()) ? -1 : m_rowOf[index_of(word)];
}

int WordTable::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_shown.size());
}

const char* WordTable::keyOf(int column) {
  return column >= 0 && column < WordRows::kColumns ? kWordColumns[column].key : "";
}

int WordTable::columnCount(const QModelIndex& parent) const {
  if (parent.isValid()) return 0;
  return WordRows::kColumns + (m_rows ? static_cast<int>(m_rows->others.size()) : 0);
}

QVariant WordTable::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const int column = index.column();
  const auto word = static_cast<std::size_t>(wordAt(index.row()));
  if (isText(column)) {
    if (role == Qt::TextAlignmentRole && column == WordRows::kBefore)
      return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    if (role != Qt::DisplayRole) return {};
    if (column == WordRows::kBefore) return m_rows->before(static_cast<int>(word));
    return column == WordRows::kWord ? m_rows->string[word] : m_rows->expected[word];
  }
  if (role == Qt::TextAlignmentRole) return QVariant(Qt::AlignRight | Qt::AlignVCenter);
  const double value = m_rows->number[index_of(column)][word];
  if (role == ValueRole) return value;
  if (role != Qt::DisplayRole) return {};
  if (std::isnan(value)) return QStringLiteral("–");
  if (std::isinf(value)) return QStringLiteral("∞");
  if (column == WordRows::kExpert) {
    return QStringLiteral("%1 (%2)")
        .arg(static_cast<int>(value))
        .arg(QString::number(m_rows->expertWeight[word], 'g', 2));
  }
  if (column == WordRows::kDifference) return signedText(value, kWordDigits);
  return isWholeNumber(column) ? QString::number(static_cast<qint64>(value)) : QString::number(value, 'f', kWordDigits);
}

QVariant WordTable::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section < 0 || section >= columnCount()) return {};
  const bool ofOther = section >= WordRows::kColumns;
  const WordColumnText& text = kWordColumns[ofOther ? static_cast<int>(WordRows::kSurprisal) : section];
  const bool several = m_rows && !m_rows->others.empty();
  if (role == Qt::ToolTipRole) {
    if (section == WordRows::kDifference && several) {
      return tr(text.meaning).arg(m_rows->difference.first, m_rows->difference.second);
    }
    const QString of = ofOther   ? m_rows->others[index_of(section - WordRows::kColumns)]
                       : several ? m_rows->run
                                 : QString();
    return (ofOther || section == WordRows::kSurprisal) && !of.isEmpty() ? of + QStringLiteral(": ") + tr(text.meaning)
                                                                         : tr(text.meaning);
  }
  if (role != Qt::DisplayRole && role != Qt::AccessibleTextRole) return {};
  // The columns of several runs are named by their runs.
  if (ofOther || (several && section == WordRows::kSurprisal)) {
    const QString of = ofOther ? m_rows->others[index_of(section - WordRows::kColumns)] : m_rows->run;
    return tr("%1\n(nats)").arg(role == Qt::AccessibleTextRole ? of : shortened(of, kNameLettersShown));
  }
  // "gate_2_1" of the file's column.
  if (section == WordRows::kGate && m_rows && !m_rows->table.gate_names.empty()) {
    const QStringList parts = QString::fromStdString(m_rows->table.gate_names.front()).split(QLatin1Char('_'));
    return tr("−log f L%1 H%2\n(10⁻³ nats)").arg(parts.value(1), parts.value(2));
  }
  if (section == WordRows::kExpert && m_rows && m_rows->expertLayer) {
    return tr("expert\nof L%1").arg(*m_rows->expertLayer);
  }
  return tr(text.name);
}

}  // namespace foxscope::gui
