#include "app/gui/maps/entry_lines.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace foxscope::gui {
namespace {

std::string tokenAt(const Trace& trace, std::int64_t position) {
  const auto& tokens = trace.tokens();
  return tokens ? readText(*tokens, position, Whitespace::visible).toStdString() : std::string();
}

/// Collects the lines of a table.
class TableWriter {
 public:
  TableWriter(const EntryLine& line, EntryTable& table) : m_trace(*line.entry.head.trace), m_table(table) {
    if (!line.along) return;
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

/// Positions of the line whose pairs lie in the part of the map that is wanted.
Range positionsOf(const EntryLine& line, const MapLine& along) {
  switch (along.along) {
    case MapLine::Along::row:
      return {line.columns.begin, std::min(line.columns.end, along.at + 1)};
    case MapLine::Along::column:
      return {std::max(line.rows.begin, along.at), line.rows.end};
    case MapLine::Along::diagonal:
      break;
  }
  return {std::max(line.rows.begin, line.columns.begin + along.at),
          std::min(line.rows.end, line.columns.end + along.at)};
}

}  // namespace

std::optional<EntryTable> tableOf(const EntryLine& line, const Job& job) {
  const EntryRequest& entry = line.entry;
  LineRequest request{entry.head, entry.minus, entry.quantity, entry.firstKey, {}, {}};
  request.line = MapLine::through(line.along.value_or(MapLine::Along::row), entry.query, entry.key);
  request.positions = line.along ? positionsOf(line, request.line) : Range{entry.key, entry.key + 1};
  const auto values = line_entries(request, job);
  if (!values) return std::nullopt;
  EntryTable table;
  TableWriter writer(line, table);
  std::int64_t position = request.positions.begin;
  for (const float value : *values) {
    writer.add(request.line.query(position), request.line.key(position), value);
    ++position;
  }
  return table;
}

}  // namespace foxscope::gui
