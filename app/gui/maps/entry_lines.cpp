#include "app/gui/maps/entry_lines.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace foxscope::gui {
namespace {

constexpr std::int64_t kBlock = 64;  ///< a diagonal is computed in squares of so many entries

std::string tokenAt(const Trace& trace, std::int64_t position) {
  const auto& tokens = trace.tokens();
  return tokens ? readText(*tokens, position, Whitespace::visible).toStdString() : std::string();
}

/// Collects the lines of a table.
class TableWriter {
 public:
  TableWriter(const EntryLine& line, EntryTable& table) : m_trace(*line.entry.head.trace), m_table(table) {
    if (line.along == EntryLine::Along::single) return;
    m_table.text = fmt::format("i\ttoken_i\tj\ttoken_j\tdistance\t{}\n", to_string(line.entry.quantity));
  }

  /// An entry that does not exist is NaN, and is left out.
  void add(std::int64_t query, std::int64_t key, float value) {
    if (std::isnan(value)) return;
    m_table.text += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", query, tokenAt(m_trace, query), key, tokenAt(m_trace, key),
                                query - key, value);
    ++m_table.entries;
  }

 private:
  const Trace& m_trace;
  EntryTable& m_table;
};

/// Every entry of a part of the map.
std::optional<Image> entriesOf(const EntryRequest& entry, const Range& rows, const Range& columns, const Job& job) {
  MapRequest request;
  request.head = entry.head;
  request.minus = entry.minus;
  request.quantity = entry.quantity;
  request.first_key = entry.firstKey;
  request.rows = rows;
  request.columns = columns;
  request.pixel_rows = rows.size();
  request.pixel_columns = columns.size();
  return compute_map(request, job);
}

/// The entries of a straight line: a row or a column.
bool addStraight(const EntryLine& line, const Range& rows, const Range& columns, TableWriter& writer, const Job& job) {
  if (rows.size() < 1 || columns.size() < 1) return true;
  const auto image = entriesOf(line.entry, rows, columns, job);
  if (!image) return false;
  for (std::int64_t n = 0; n < rows.size() * columns.size(); ++n) {
    writer.add(rows.begin + n / columns.size(), columns.begin + n % columns.size(),
               image->value[static_cast<std::size_t>(n)]);
  }
  return true;
}

bool addDiagonal(const EntryLine& line, TableWriter& writer, const Job& job) {
  const std::int64_t distance = line.entry.query - line.entry.key;
  const Range rows{std::max(line.rows.begin, line.columns.begin + distance),
                   std::min(line.rows.end, line.columns.end + distance)};
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += kBlock) {
    const Range part{begin, std::min(begin + kBlock, rows.end)};
    const auto image = entriesOf(line.entry, part, {part.begin - distance, part.end - distance}, job);
    if (!image) return false;
    for (std::int64_t n = 0; n < part.size(); ++n) {
      writer.add(part.begin + n, part.begin + n - distance,
                 image->value[static_cast<std::size_t>(n * part.size() + n)]);
    }
  }
  return true;
}

}  // namespace

std::optional<EntryTable> tableOf(const EntryLine& line, const Job& job) {
  EntryTable table;
  TableWriter writer(line, table);
  const std::int64_t i = line.entry.query;
  const std::int64_t j = line.entry.key;
  bool whole = true;
  switch (line.along) {
    case EntryLine::Along::single:
      whole = addStraight(line, {i, i + 1}, {j, j + 1}, writer, job);
      break;
    case EntryLine::Along::row:
      whole = addStraight(line, {i, i + 1}, {line.columns.begin, std::min(line.columns.end, i + 1)}, writer, job);
      break;
    case EntryLine::Along::column:
      whole = addStraight(line, {std::max(line.rows.begin, j), line.rows.end}, {j, j + 1}, writer, job);
      break;
    case EntryLine::Along::diagonal:
      whole = addDiagonal(line, writer, job);
      break;
  }
  return whole ? std::optional(table) : std::nullopt;
}

}  // namespace foxscope::gui
