#include "app/gui/words/word_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr int kWordDigits = 3;

struct WordColumnText {
  const char* name;
  const char* meaning;
};

// The texts of columns by WordRows::Column.
constexpr std::array<WordColumnText, WordRows::kColumns> kWordColumns{{
    {QT_TRANSLATE_NOOP("WordTable", "word"), QT_TRANSLATE_NOOP("WordTable", "What the word rule makes a word")},
    {QT_TRANSLATE_NOOP("WordTable", "surprisal\n(nats)"),
     QT_TRANSLATE_NOOP("WordTable",
                       "−log p of the word after all before it, the sum of its tokens' losses; divide by "
                       "0.6931 for bits")},
    {QT_TRANSLATE_NOOP("WordTable", "entropy\n(nats)"),
     QT_TRANSLATE_NOOP("WordTable", "Of what was predicted in the place of the word's tokens, their sum")},
    {QT_TRANSLATE_NOOP("WordTable", "rank"),
     QT_TRANSLATE_NOOP("WordTable",
                       "The largest rank of the word's tokens among all that could have come, 1: the "
                       "likeliest")},
    {QT_TRANSLATE_NOOP("WordTable", "gate"),
     QT_TRANSLATE_NOOP("WordTable", "Forget gate f of the chosen head where the word is read, the mean of its tokens")},
    {QT_TRANSLATE_NOOP("WordTable", "tokens"), QT_TRANSLATE_NOOP("WordTable", "Tokens that the word is made of")},
    {QT_TRANSLATE_NOOP("WordTable", "sentence"), QT_TRANSLATE_NOOP("WordTable", "The word's sentence, from 0")},
    {QT_TRANSLATE_NOOP("WordTable", "byte"),
     QT_TRANSLATE_NOOP("WordTable", "Where the word begins in the text, UTF-8")},
}};

bool isWholeNumber(int column) { return column == WordRows::kRank || column > WordRows::kGate; }

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

WordRows::WordRows(Surprisals surprisals) : table(std::move(surprisals)) {
  constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
  for (const SurprisalWord& word : table.words) {
    const WordNumbers numbers = numbers_of(table, word);
    string.push_back(QString::fromStdString(word.string));
    number[kSurprisal].push_back(numbers.surprisal);
    number[kEntropy].push_back(numbers.entropy);
    number[kRank].push_back(numbers.rank > 0 ? static_cast<double>(numbers.rank) : kNoNumber);
    number[kGate].push_back(numbers.gate.empty() || word.first == word.end ? kNoNumber : numbers.gate.front());
    number[kTokens].push_back(static_cast<double>(word.end - word.first));
    number[kSentence].push_back(static_cast<double>(word.sentence));
    number[kByte].push_back(static_cast<double>(word.byte_start));
  }
  number[kWord] = alphabetPlaces(string);
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
  const bool sameOrder =
      m_rows && rows && m_rows->string == rows->string && m_rows->number[column] == rows->number[column];
  if (sameOrder) {
    m_rows = std::move(rows);
    emit headerDataChanged(Qt::Horizontal, 0, WordRows::kColumns - 1);
    if (rowCount() > 0) emit dataChanged(index(0, 0), index(rowCount() - 1, WordRows::kColumns - 1));
    return;
  }
  beginResetModel();
  m_rows = std::move(rows);
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

int WordTable::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : WordRows::kColumns; }

QVariant WordTable::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const int column = index.column();
  const auto word = static_cast<std::size_t>(wordAt(index.row()));
  if (column == WordRows::kWord) return role == Qt::DisplayRole ? QVariant(m_rows->string[word]) : QVariant();
  if (role == Qt::TextAlignmentRole) return QVariant(Qt::AlignRight | Qt::AlignVCenter);
  const double value = m_rows->number[index_of(column)][word];
  if (role == ValueRole) return value;
  if (role != Qt::DisplayRole) return {};
  if (std::isnan(value)) return QStringLiteral("–");
  return isWholeNumber(column) ? QString::number(static_cast<qint64>(value)) : QString::number(value, 'f', kWordDigits);
}

QVariant WordTable::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section < 0 || section >= WordRows::kColumns) return {};
  const WordColumnText& text = kWordColumns[index_of(section)];
  if (role == Qt::ToolTipRole) return tr(text.meaning);
  if (role != Qt::DisplayRole) return {};
  // "gate_2_1" of the file's column.
  if (section == WordRows::kGate && m_rows && !m_rows->table.gate_names.empty()) {
    const QStringList parts = QString::fromStdString(m_rows->table.gate_names.front()).split(QLatin1Char('_'));
    return tr("gate\nL%1 H%2").arg(parts.value(1), parts.value(2));
  }
  return tr(text.name);
}

}  // namespace foxscope::gui
