#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include <QImage>
#include <QObject>

#include "app/gui/document/runs/run_list.h"
#include "backend/map/distance_axis.h"

namespace foxscope::gui {

/// Pixels of A that are no larger have the darkest colour.
inline constexpr double kLeastAttention = 1e-3;

/// Small pictures of F and A of every head, computed in the background head by head and kept as long as the run. All
/// are by distance where the default of a pane would be that for one of the heads.
class HeadPictures : public QObject {
  Q_OBJECT

 public:
  HeadPictures(RunList& runs, QObject* parent);

  /// Asks for pictures of this quantity, of all heads of all runs that are not hidden; nothing: asks for none, and
  /// those that wait are given up.
  void want(std::optional<Quantity> quantity);
  /// Null while there is none: it is being computed, or what it is made of was not kept.
  [[nodiscard]] const QImage* of(const HeadChoice& head, Quantity quantity) const;
  /// The axes of all pictures; those of keys while there are none.
  [[nodiscard]] MapAxes axes() const { return m_axes.value_or(MapAxes::key); }

 signals:
  void changed();

 private:
  using Key = std::tuple<RunId, int, int, Quantity>;
  void request();
  void request(const Run& run, const HeadChoice& head);
  /// A job channel for each picture of each head.
  static int channel(const HeadChoice& head, const TraceInfo& info, Quantity quantity);

  RunList& m_runs;
  std::optional<Quantity> m_wanted;
  std::map<Key, QImage> m_pictures;
  std::optional<MapAxes> m_axes;
  /// The axes of the runs that were looked at, on the jobs' thread alone.
  std::shared_ptr<std::map<RunId, MapAxes>> m_found = std::make_shared<std::map<RunId, MapAxes>>();
};

}  // namespace foxscope::gui
