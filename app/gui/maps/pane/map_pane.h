#pragma once

#include <map>
#include <optional>

#include <QLabel>
#include <QTimer>
#include <QWidget>

#include "app/figure/maps/map_figure.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/document/step_limits.h"
#include "app/gui/maps/entry_lines.h"
#include "app/gui/maps/map_export.h"
#include "app/gui/maps/pane/pane_header.h"
#include "app/gui/maps/pane/pane_heads.h"
#include "app/gui/maps/pane/pane_pictures.h"
#include "app/gui/maps/pane/pane_texts.h"
#include "app/gui/maps/pane/pinned_row.h"

namespace foxscope::gui {

class MapPlot;
class MapGestures;
class MapArea;
class ColourBar;
struct LabelledAxes;
enum class MapTool;
enum class Proportions;

/// One map below its header, which follows the selection and its range.
class MapPane : public QWidget {
  Q_OBJECT

 public:
  MapPane(RunList& runs, const NearestHead& nearest, QWidget* parent = nullptr);

  [[nodiscard]] const PaneState& state() const { return m_state; }
  /// The pane's columns, as they were chosen or as suits its heads.
  [[nodiscard]] MapAxes axes() const { return m_axes.are; }
  void setState(const PaneState& state);
  /// Quantities that the heads of the pane do not have, and why.
  [[nodiscard]] std::map<Quantity, QString> lacks() const;
  void setTool(MapTool tool);
  void setProportions(Proportions proportions);
  enum class Role { ordinary, active };
  void setRole(Role role);
  /// Limits at the percentiles of what is shown.
  void setContrast();
  /// The other side's head becomes the nearest one of another run.
  void chooseNearest();
  /// Puts the entries of a line of the map on the clipboard, exact, with their tokens (tableOf); of rows, columns and
  /// diagonals what the view shows.
  void copyEntries(std::optional<MapLine::Along> along, const Cursor& at);
  /// Lets go of a drag.
  void cancelGesture();

  /// The picture that is wanted is there, and painted.
  [[nodiscard]] bool isSettled() const;
  /// The newest one; null until there is one.
  [[nodiscard]] PicturePointer picture() const { return m_pictures.newest(); }
  [[nodiscard]] std::optional<MapRequest> request() const;
  [[nodiscard]] std::optional<figure::MapFigure> figure() const;
  /// The pane's picture for a file of any size. Nothing while what is wanted is not there.
  [[nodiscard]] std::optional<ShownMap> shownMap() const;
  [[nodiscard]] QImage grabPicture() const;
  [[nodiscard]] MapPlot& plot() const;
  [[nodiscard]] ColourBar& bar() const;
  /// "fox L7 H2 · forget F"
  [[nodiscard]] const QString& titleText() const { return m_title; }
  /// How pixels are made of entries, and all else that is to be known of the picture.
  [[nodiscard]] const QString& detailText() const { return m_header->texts().detail; }
  /// The part of detailText() that is seen at once.
  [[nodiscard]] const QString& noteText() const { return m_header->texts().note; }
  /// The reading under the cursor.
  [[nodiscard]] const QString& readoutText() const { return m_header->readout().reading().whole; }
  [[nodiscard]] const PaneReading& reading() const { return m_header->readout().reading(); }
  /// The room around the map if these axes were labelled: header, margins and colour bar together.
  [[nodiscard]] QSize roomAroundMap(const LabelledAxes& labelled) const;
  /// The reason why there is no picture, or why the last one could not be made; empty: all is well.
  [[nodiscard]] QString messageText() const { return m_message; }
  /// The line under the title; empty where there is none.
  [[nodiscard]] QString meaningText() const { return m_meaning->text(); }

 public slots:
  void followRuns();
  /// Follows another head that was chosen in the window.
  void followHead();
  /// Asks for the picture that is wanted now, once, when control is back in the event loop.
  void refreshLater();
  void followCursor();

 signals:
  void activated();
  void stateChanged();
  void fitWanted();
  void zoomWanted(const foxscope::gui::Cursor& to);
  void exportWanted();
  /// The line through the pinned pair, in the chosen head, as a curve.
  void profileWanted(foxscope::MapLine::Along along);
  void firstPictureShown();  ///< of a wanted one; it may be coarse
  void exactPictureShown();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void changeEvent(QEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  enum Channel { kEntry, kCopy };

  void connectParts();
  void refresh();
  void showPictures();
  void showNothing(const QString& notice);
  void showTexts();
  void showReadout();
  void showMenu(const Cursor& at, const QPoint& where);
  /// Chooses the head that is shown at a pair, and pins the pair.
  void showProfile(MapLine::Along along, const Cursor& at);
  /// Has the exact entry at the cursor computed, unless it is known or on its way.
  void followEntry();
  void showControls();
  void change(const PaneState& state);
  [[nodiscard]] PictureRequest completed(const PictureContent& content) const;
  /// Axes of a picture of these heads, and why they are not those of keys.
  struct Axes {
    MapAxes are = MapAxes::key;
    QString reason;
    bool operator==(const Axes&) const = default;
  };
  [[nodiscard]] Axes axesOf(const PictureContent& content) const;
  /// The view as the plot shows it.
  [[nodiscard]] View shownView() const;
  /// The content that the title speaks of; null where nothing is shown or wanted, or the picture is held.
  [[nodiscard]] const PictureContent* shownContent() const;
  /// The picture is one of a step that is not shown any more; it stays until that of this step is there.
  [[nodiscard]] bool isHeld() const;
  [[nodiscard]] Shading shading() const;
  /// Names the content that limits of colours are kept for, whatever the step of a training.
  [[nodiscard]] QString shadedContent() const;
  void takeLimits(const MapPicture& picture);
  [[nodiscard]] View view() const;
  /// Positions of the run that the pane's axes show.
  [[nodiscard]] std::int64_t length() const;
  /// The pane shows the text that the selection speaks of.
  [[nodiscard]] bool isOnText() const;
  /// M of a head that is chosen becomes A of one with attention, which has no signs, and A becomes M again.
  void followMixer();
  /// The pane takes the text of the selection.
  void chooseText();
  void followText();

  RunList& m_runs;
  PaneHeads m_heads;
  PaneState m_state;
  Axes m_axes;
  Role m_role = Role::ordinary;

  PaneHeader* m_header;
  QString m_title;
  QLabel* m_meaning;  ///< of a linear mixer's entries
  QLabel* m_failure;
  MapArea* m_area;
  MapGestures* m_gestures;

  PinnedRow* m_row = nullptr;  ///< read out
  PanePictures m_pictures;
  StepLimits m_steps;                   ///< of the colours, where the runs are steps of a training
  QString m_shownOf;                    ///< ShownSteps::of, as it was last
  std::optional<EntryReading> m_entry;  ///< at the cursor
  QString m_message;
  bool m_copying = false;
  QString m_copied;  ///< what was put on the clipboard a moment ago
  QTimer m_copiedShown;
  bool m_refreshQueued = false;
  Cursor m_pinBeforeClick;
  bool m_wasMixing = false;  ///< A is shown in the place of M, since the chosen head has attention
};

}  // namespace foxscope::gui
