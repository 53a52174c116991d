#pragma once

#include <optional>
#include <utility>

#include <QJsonObject>
#include <QObject>
#include <QString>

#include "app/gui/document/selection.h"

namespace foxscope::gui {

class HeadTable;
class MapsView;
class RunList;

/// F and A of the head that forgets fastest, which becomes the chosen one, above F and A of the head that forgets
/// slowest, which the lower maps keep. An arrangement as by hand: it can be undone, and a head that is chosen
/// afterwards is shown in the upper maps.
class ExtremeHeads : public QObject {
  Q_OBJECT

 public:
  ExtremeHeads(MapsView& maps, RunList& runs, const HeadTable& table, QObject* parent);

  /// Shows them, or the maps before where the maps stand as this has left them.
  /// @returns why it cannot be; empty when it was done
  QString toggle();

 private:
  struct Arrangement {
    QJsonObject maps;
    HeadChoice head;
  };
  [[nodiscard]] Arrangement shown() const;
  void show(const Arrangement& wanted);
  /// The fastest and the slowest head of a run; nothing where no decay time is known.
  [[nodiscard]] std::optional<std::pair<HeadChoice, HeadChoice>> heads(RunId run) const;

  MapsView& m_maps;
  RunList& m_runs;
  const HeadTable& m_table;
  std::optional<Arrangement> m_before;  ///< the maps that gave way
  QJsonObject m_made;                   ///< the panes as they were left
};

}  // namespace foxscope::gui
