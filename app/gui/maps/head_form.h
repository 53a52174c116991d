#pragma once

#include <optional>
#include <vector>

#include <QCheckBox>
#include <QComboBox>
#include <QSpinBox>
#include <QWidget>

#include "app/gui/maps/pane/pane_state.h"

namespace foxscope::gui {

/// A run that a head can be chosen from.
struct RunHeads {
  QString name;
  int layers = 0;
  int heads = 0;
  bool operator==(const RunHeads&) const = default;
};

/// Chooses a head: by itself ("automatic", whatever that means to the owner), or a run, layer and head.
class HeadForm : public QWidget {
  Q_OBJECT

 public:
  /// @param automatic  text of the box that leaves the choice to the owner
  explicit HeadForm(const QString& automatic, QWidget* parent = nullptr);

  void setRuns(const std::vector<RunHeads>& runs);
  /// @param chosen     what was chosen by hand, if anything
  /// @param effective  the head that is shown
  void setHead(const std::optional<NamedHead>& chosen, const NamedHead& effective);

 signals:
  void chosen(const std::optional<foxscope::gui::NamedHead>& head);

 private:
  void tell();
  void limitNumbers();

  QCheckBox* m_automatic;
  QComboBox* m_run;
  QSpinBox* m_layer;
  QSpinBox* m_head;
  std::vector<RunHeads> m_runs;
};

}  // namespace foxscope::gui
