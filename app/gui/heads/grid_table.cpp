#include "app/gui/heads/grid_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/gui/views/cell_table.h"
#include "backend/trace/shown_heads.h"

namespace foxscope::gui {
namespace {

QSize sizeOfGrid(const RunList& runs) {
  QSize size(0, 0);
  for (const Run& run : runs) {
    if (run.look.hidden) continue;
    const TraceInfo& info = run.trace->info();
    size = {std::max(size.width(), most_shown_heads(info)), size.height() + info.layers};
  }
  return size;
}

std::optional<HeadChoice> headOfPlace(const RunList& runs, int row, int column) {
  for (const Run& run : runs) {
    if (run.look.hidden) continue;
    const TraceInfo& info = run.trace->info();
    if (row >= info.layers) {
      row -= info.layers;
      continue;
    }
    const LayerMixer mixer = info.mixer(row);
    if (column >= shown_heads(mixer)) return std::nullopt;
    return HeadChoice{run.id, row, column * shown_step(mixer)};
  }
  return std::nullopt;
}

/// Row and column of a head in the table.
std::optional<std::pair<int, int>> gridPlace(const RunList& runs, const HeadChoice& head) {
  int above = 0;
  for (const Run& run : runs) {
    if (run.look.hidden) continue;
    const TraceInfo& info = run.trace->info();
    if (run.id == head.run && head.layer < info.layers) {
      return std::pair(above + head.layer, head.head / shown_step(info.mixer(head.layer)));
    }
    above += info.layers;
  }
  return std::nullopt;
}

}  // namespace

QString spokenHead(const RunList& runs, const HeadTable& table, const HeadColouring& shown, const HeadChoice& head) {
  const Run* run = runs.run(head.run);
  if (run == nullptr) return {};
  QStringList words;
  const auto visible = std::ranges::count_if(runs, [](const Run& each) { return !each.look.hidden; });
  if (visible > 1) words += run->name;
  words += HeadGrid::tr("layer %1").arg(head.layer);
  words += HeadGrid::tr("head %1").arg(head.head);
  const HeadQuantityText text = textOf(shown.quantity);
  switch (shown.kind) {
    case HeadColouring::Kind::label: {
      const auto labels = table.labels(head);
      words += labels.empty() ? HeadGrid::tr("no label") : QString::fromStdString(names_of(labels, ", "));
      break;
    }
    case HeadColouring::Kind::difference: {
      const bool first = head.run == shown.of;
      const double value = table.difference(head, first ? shown.other : shown.of, shown.quantity);
      const QString number = valueText(shown.quantity, first ? value : -value);
      words +=
          HeadGrid::tr("difference of %1: %2").arg(text.name, std::isnan(value) ? HeadGrid::tr("not known") : number);
      break;
    }
    default: {
      const double value = table.value(head, shown.quantity);
      const QString number = std::isnan(value) ? HeadGrid::tr("not known") : valueText(shown.quantity, value);
      words += QStringLiteral("%1 %2").arg(text.name, number);
    }
  }
  return words.join(QStringLiteral(", "));
}

void describeGrid(HeadGrid& grid, RunList& runs, const HeadTable& table, std::function<HeadColouring()> shown) {
  CellTable cells;
  cells.size = [&runs] { return sizeOfGrid(runs); };
  cells.text = [&runs, &table, shown = std::move(shown)](int row, int column) {
    const auto head = headOfPlace(runs, row, column);
    return head ? spokenHead(runs, table, shown(), *head) : QString();
  };
  cells.place = [&grid, &runs](int row, int column) {
    const auto head = headOfPlace(runs, row, column);
    return head ? grid.cell(*head) : QRect();
  };
  cells.isChosen = [&runs](int row, int column) {
    return gridPlace(runs, runs.selection().head()) == std::pair(row, column);
  };
  cells.choose = [&runs](int row, int column) {
    if (const auto head = headOfPlace(runs, row, column)) runs.selection().setHead(*head);
  };
  cells.rowName = [&runs](int row) {
    const auto head = headOfPlace(runs, row, 0);
    return head ? HeadGrid::tr("%1, layer %2").arg(runs.run(head->run)->name).arg(head->layer) : QString();
  };
  cells.columnName = [](int column) { return HeadGrid::tr("head %1").arg(column); };
  grid.setAccessibleName(HeadGrid::tr("Heads"));
  describeCells(grid, std::move(cells));
  QObject::connect(&runs, &RunList::runsChanged, &grid, [&grid] { announceCells(grid); });
  QObject::connect(&runs.selection(), &Selection::headChanged, &grid, [&grid, &runs] {
    const auto place = gridPlace(runs, runs.selection().head());
    if (place) announceCell(grid, place->first, place->second);
  });
}

}  // namespace foxscope::gui
