#pragma once

#include <QComboBox>
#include <QLineEdit>
#include <QPushButton>
#include <QWidget>

#include "app/gui/maps/map_picture.h"

namespace foxscope::gui {

/// Colour map, scale, limits and threshold of a pane.
class ColourForm : public QWidget {
  Q_OBJECT

 public:
  explicit ColourForm(QWidget* parent = nullptr);

  /// @param picture  what is shown, whose limits stand where none were chosen; may be null
  void setState(const PaneState& state, const PicturePointer& picture);

 signals:
  void coloursWanted(const foxscope::gui::ColourState& colours);
  void contrastWanted();

 private:
  void tell();
  void fillMaps(bool signs);

  ColourState m_colours;
  bool m_signs = false;
  double m_shownLower = 0;
  double m_shownUpper = 1;
  QComboBox* m_map;
  QComboBox* m_scale;
  QLineEdit* m_lower;
  QLineEdit* m_upper;
  QLineEdit* m_blank;
  QPushButton* m_contrast;
  QPushButton* m_automatic;
};

}  // namespace foxscope::gui
