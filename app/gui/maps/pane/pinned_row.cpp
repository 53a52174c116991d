#include "app/gui/maps/pane/pinned_row.h"

#include <utility>

#include <QAccessible>

#include "app/gui/document/number_text.h"
#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/pane/pane_state.h"
#include "app/gui/views/cell_table.h"
#include "backend/base/index.h"
#include "backend/map/map_line.h"

namespace foxscope::gui {

PinnedRow::PinnedRow(RunList& runs, MapPlot& plot, Shown shown)
    : m_runs(runs), m_plot(plot), m_shown(std::move(shown)) {
  CellTable cells;
  cells.size = [this] { return QSize(keys(), keys() > 0 ? 1 : 0); };
  cells.text = [this](int /*row*/, int key) { return spoken(key); };
  cells.place = [this](int /*row*/, int key) { return place(key); };
  cells.isChosen = [this](int /*row*/, int key) { return m_runs.selection().pin().key == key; };
  cells.choose = [this](int /*row*/, int key) { m_runs.selection().pinKey(key); };
  cells.rowName = [this](int /*row*/) { return m_row ? tr("query %1").arg(m_row->query) : QString(); };
  cells.columnName = [](int key) { return tr("key %1").arg(key); };
  describeCells(plot, std::move(cells));
}

// The row begins at key 0 of the reference run: the first that a side has read.
std::optional<EntryRequest> PinnedRow::wanted() const {
  const Cursor& pin = m_runs.selection().pin();
  if (!pin.query || *pin.query >= m_runs.length()) return std::nullopt;
  const auto [content, side] = m_shown({pin.query, pin.key.value_or(0)});
  return content == nullptr ? std::nullopt : entryAt(*content, side, *pin.query, 0);
}

int PinnedRow::keys() {
  m_asked = true;
  ask();
  return static_cast<int>(m_entries.size());
}

void PinnedRow::ask() {
  std::optional<EntryRequest> row = wanted();
  if (row == m_row) return;
  m_row = std::move(row);
  m_entries.clear();
  if (!m_row) return m_runs.quickJobs().cancel(this, kRow);
  JobRunner::Request<std::vector<float>> job;
  job.work = [row = *m_row](const Job& running) {
    LineRequest request{row.head, row.minus, row.quantity, row.firstKey, {}, {}};
    request.line = MapLine::through(MapLine::Along::row, row.query, 0);
    request.positions = {0, row.query + 1};
    return line_entries(request, running);
  };
  job.done = [this](std::vector<float> entries) {
    m_entries = std::move(entries);
    announceCells(m_plot);
    if (m_key) announceCell(m_plot, 0, static_cast<int>(*m_key));
  };
  job.failed = [](const QString& /*message*/) {};  // the read-out of the pane says why
  m_runs.quickJobs().submit(this, kRow, std::move(job));
}

void PinnedRow::follow() {
  if (!m_asked && !QAccessible::isActive()) return;
  ask();
  const std::optional<std::int64_t> key = m_runs.selection().pin().key;
  if (std::exchange(m_key, key) != key && key) announceCell(m_plot, 0, static_cast<int>(*key));
}

QString PinnedRow::spoken(int key) const {
  if (!m_row || index_of(key) >= m_entries.size()) return {};
  const auto& tokens = m_row->head.trace->tokens();
  const QString token = tokens ? QStringLiteral(" “%1”").arg(readText(*tokens, key, Whitespace::visible)) : QString();
  const float value = m_entries[index_of(key)];
  return tr("key %1%2, %3 %4").arg(key).arg(token, nameOf(m_row->quantity), numberText(static_cast<double>(value)));
}

QRect PinnedRow::place(int key) const {
  const PlotGeometry& geometry = m_plot.geometryOfView();
  const Cursor& pin = m_runs.selection().pin();
  const View& view = geometry.view;
  const bool seen = pin.query && *pin.query >= view.rows.begin && *pin.query < view.rows.end &&
                    key >= view.columns.begin && key < view.columns.end;
  if (!seen) return {};
  return geometry.placeOf({{*pin.query, *pin.query + 1}, {key, key + 1}}).toAlignedRect();
}

}  // namespace foxscope::gui
