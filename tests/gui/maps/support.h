#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <QPointF>
#include <QWheelEvent>

#include "app/gui/document/document.h"
#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/maps/pane/map_pane.h"
#include "tests/file/synthetic_trace.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

/// A synthetic run of so many tokens.
std::shared_ptr<const Trace> traceOf(std::int64_t length);

/// A maps view on a document with runs, as in a window.
class OpenMaps {
 public:
  /// @param traces  are written to a run file and opened; none: an empty document
  /// @param axes    of all panes; absent: as suits the heads
  explicit OpenMaps(const std::vector<std::shared_ptr<const Trace>>& traces,
                    std::optional<MapAxes> axes = MapAxes::key);

  /// Waits until the view shows what it is to show. False if that took too long.
  bool settle();
  [[nodiscard]] MapPane& pane(int index = 0) { return view.pane(index); }
  [[nodiscard]] MapPlot& plot(int index = 0) { return pane(index).plot(); }
  [[nodiscard]] const View& range() const { return document.runs().selection().view(); }
  /// The middle of an entry's cell in a pane's plot.
  [[nodiscard]] QPoint cell(std::int64_t row, std::int64_t column, int index = 0);
  void setQuantity(Quantity quantity, int index = 0);
  void moveTo(const QPoint& at, int index = 0);
  void wheel(const QPoint& at, int notches, Qt::KeyboardModifiers modifiers = Qt::NoModifier);
  void drag(const QPoint& from, const QPoint& to, Qt::MouseButton button = Qt::LeftButton);
  /// The plot as it stands on the screen, without what follows the pointer.
  QImage grabPlot(int index = 0);

  Document document;
  MapsView view;

 private:
  Folder m_folder;
};

/// A run on the same text as `run`, whose tokens are pairs of that run's tokens. It keeps gates only.
std::shared_ptr<const Trace> withPairedTokens(const Trace& run, const std::string& name);

/// The first tokens of a run, as of a limit: gates only.
std::shared_ptr<const Trace> withFirstTokens(const Trace& run, std::int64_t tokens, const std::string& name);

/// Within one step of every channel.
bool sameColour(QRgb a, QRgb b);

}  // namespace foxscope::gui::test
