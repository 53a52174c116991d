#pragma once

#include <map>
#include <tuple>

#include <QObject>
#include <QString>

#include "app/gui/document/runs/run_list.h"
#include "backend/eval/heads/head_measures.h"

namespace foxscope::gui::curves {

/// Statistics of heads against distance, content and decay apart: measured in the background when it is first asked
/// for, and kept as long as the run.
class DistanceProfiles : public QObject {
  Q_OBJECT

 public:
  DistanceProfiles(RunList& runs, QObject* parent);

  /// Measures a head that is not known yet; changed() follows.
  void want(const HeadChoice& head, Priority priority);
  /// Null until it is known.
  [[nodiscard]] const HeadMeasures* of(const HeadChoice& head) const;
  /// The reason why a head cannot be measured; empty where it can, or is not known yet.
  [[nodiscard]] QString failure(const HeadChoice& head) const;
  /// The head of another run whose attention reaches as far, of those that are known (head_match.h); nothing if none
  /// is.
  [[nodiscard]] std::optional<HeadChoice> nearest(const HeadChoice& head, RunId other) const;

 signals:
  void changed();

 private:
  struct Entry {
    std::optional<HeadMeasures> measures;  ///< nothing while it is being made
    QString failure;
    Priority priority = Priority::background;
  };
  using Key = std::tuple<RunId, int, int>;
  static Key keyOf(const HeadChoice& head) { return {head.run, head.layer, head.head}; }

  RunList& m_runs;
  std::map<Key, Entry> m_entries;
};

}  // namespace foxscope::gui::curves
