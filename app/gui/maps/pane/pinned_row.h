#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <QObject>

#include "app/gui/document/runs/run_list.h"
#include "app/gui/maps/map_picture.h"

namespace foxscope::gui {

class MapPlot;

/// The row of the pinned query in a map, read out entry by entry: a table of one row, a column for each key. Its exact
/// entries are computed when a program for those who cannot see asks for them, and again when the pin moves.
class PinnedRow : public QObject {
  Q_OBJECT

 public:
  /// The content of the map and its side that shows a pair; null: nothing is shown.
  using Shown = std::function<std::pair<const PictureContent*, std::size_t>(const Cursor& pair)>;
  PinnedRow(RunList& runs, MapPlot& plot, Shown shown);

  /// The pin, or what the map shows, is another.
  void follow();

 private:
  enum Channel { kRow };
  [[nodiscard]] std::optional<EntryRequest> wanted() const;
  [[nodiscard]] int keys();
  void ask();
  [[nodiscard]] QString spoken(int key) const;
  [[nodiscard]] QRect place(int key) const;

  RunList& m_runs;
  MapPlot& m_plot;
  Shown m_shown;
  bool m_asked = false;               ///< somebody reads it
  std::optional<EntryRequest> m_row;  ///< whose entries are there, or on their way; its key is 0
  std::vector<float> m_entries;       ///< by key, of the side's own run
  std::optional<std::int64_t> m_key;  ///< that was read out last
};

}  // namespace foxscope::gui
