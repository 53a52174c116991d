#pragma once

#include <map>
#include <vector>

#include <QActionGroup>
#include <QLabel>
#include <QMenu>
#include <QPushButton>
#include <QToolButton>
#include <QWidget>

#include "app/gui/maps/colour_form.h"
#include "app/gui/maps/head_form.h"
#include "app/gui/maps/header_button.h"
#include "app/gui/maps/pane/pane_readout.h"
#include "app/gui/maps/pane/pane_state.h"

namespace foxscope::gui {

/// The context that the header of a pane shows beside its state.
struct HeaderContext {
  std::vector<RunHeads> runs;
  NamedHead head;   ///< that is shown
  NamedHead other;  ///< on the other side; without a name where there is none
  bool nearestKnown = false;
  std::map<Quantity, QString> lacks;  ///< quantities that the heads do not have, and why
  PicturePointer picture;
};

/// Words of the header.
struct HeaderTexts {
  std::vector<TitlePart> heads;  ///< "fox L7 H2 − base L0 H1"
  QString detail;                ///< how pixels are made of entries, and all that is to be known of the picture
  QString note;                  ///< what misleads if it is not seen; empty: nothing
  bool operator==(const HeaderTexts&) const = default;
};

/// The one line above a map: its title, which is the menu of the head, the menus of the quantity, of the comparison and
/// of the colours, and at the end what is read under the cursor.
class PaneHeader : public QWidget {
  Q_OBJECT

 public:
  explicit PaneHeader(QWidget* parent = nullptr);

  void show(const PaneState& state, const HeaderContext& context);
  void setTexts(const HeaderTexts& texts);
  /// The menu of the colours, whose button has no room in a narrow header.
  void openColours(const QPoint& where) { m_colours->menu()->popup(where); }
  [[nodiscard]] const HeaderTexts& texts() const { return m_texts; }
  /// The part of the title that there is room for.
  [[nodiscard]] QString title() const { return m_head->shownText(); }
  [[nodiscard]] PaneReadout& readout() const { return *m_readout; }

 signals:
  void stateWanted(const foxscope::gui::PaneState& state);
  void contrastWanted();
  void nearestWanted();
  void touched();  ///< a click, anywhere in it

 protected:
  void mousePressEvent(QMouseEvent* event) override;
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void makeHeadButton();
  void makeKeptPill();
  void makeQuantityButton();
  void makeSidesButton();
  void makeColoursButton();
  void showQuantity();
  void showColours();
  void showToolTips();
  /// Where there is little room: the words of the comparison give way first, then the quantity's name, then most
  /// letters of the title's names, then the value, and last the note.
  void fitParts();
  template <typename Change>
  void change(Change&& what);

  PaneState m_state;
  HeaderTexts m_texts;
  PicturePointer m_picture;
  const figure::ColourMap* m_shownMap = nullptr;
  HeaderButton* m_head = nullptr;
  QToolButton* m_kept = nullptr;
  HeadForm* m_headForm = nullptr;
  HeaderButton* m_quantity = nullptr;
  QActionGroup* m_quantityActions = nullptr;
  QAction* m_firstKey = nullptr;
  QActionGroup* m_axesActions = nullptr;
  QActionGroup* m_reductionActions = nullptr;
  HeaderButton* m_sides = nullptr;
  QActionGroup* m_sideActions = nullptr;
  HeadForm* m_otherForm = nullptr;
  QPushButton* m_nearest = nullptr;
  HeaderButton* m_colours = nullptr;
  ColourForm* m_colourForm = nullptr;
  QLabel* m_note;
  PaneReadout* m_readout;
};

}  // namespace foxscope::gui
