#pragma once

#include <vector>

#include <QActionGroup>
#include <QComboBox>
#include <QPushButton>
#include <QToolButton>
#include <QWidget>

#include "app/gui/maps/colour_form.h"
#include "app/gui/maps/head_form.h"
#include "app/gui/maps/pane_state.h"

namespace foxscope::gui {

/// What the controls of a pane show beside its state.
struct ControlsContext {
  std::vector<RunHeads> runs;
  NamedHead head;   ///< that is shown
  NamedHead other;  ///< on the other side; without a name where there is none
  bool nearestKnown = false;
  PicturePointer picture;
};

/// The slim row above a map: head, quantity, reduction, the other side, colours.
class PaneControls : public QWidget {
  Q_OBJECT

 public:
  explicit PaneControls(QWidget* parent = nullptr);

  void show(const PaneState& state, const ControlsContext& context);

 signals:
  void stateWanted(const foxscope::gui::PaneState& state);
  void contrastWanted();
  void nearestWanted();

 private:
  void makeHeadButton();
  void makeLists();
  void makeSidesButton();
  void makeColoursButton();
  template <typename Change>
  void change(Change&& what);

  PaneState m_state;
  QToolButton* m_head;
  HeadForm* m_headForm;
  QComboBox* m_quantity;
  QComboBox* m_reduction;
  QToolButton* m_sides;
  QActionGroup* m_sideActions;
  HeadForm* m_otherForm;
  QPushButton* m_nearest;
  QToolButton* m_colours;
  ColourForm* m_colourForm;
};

}  // namespace foxscope::gui
