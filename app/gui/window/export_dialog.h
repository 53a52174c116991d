#pragma once

#include <functional>
#include <optional>

#include <QCheckBox>
#include <QComboBox>
#include <QDialog>
#include <QDoubleSpinBox>
#include <QSpinBox>

#include "app/figure/curve_figure.h"
#include "app/figure/map_figure.h"
#include "app/gui/document/document.h"
#include "app/gui/document/run.h"
#include "app/gui/maps/map_export.h"
#include "app/gui/window/paper_figures.h"

class QLabel;

namespace foxscope::gui {

class CurvesView;
class MapsView;

/// Saves what is shown: a picture at a physical size, or the data behind it.
class ExportDialog : public QDialog {
  Q_OBJECT

 public:
  enum class Source { map, curves, window, figures };  ///< figures and on: that of paperFigures() by its place
  enum class Kind { pdf, svg, png, hdf5, npy, csv };

  ExportDialog(Document& document, const MapsView& maps, const CurvesView& curves, QWidget& window);

  /// What is chosen, for whoever drives the dialog.
  QComboBox& source() { return *m_source; }
  QComboBox& kind() { return *m_kind; }
  [[nodiscard]] figure::FigureFormat format() const;
  /// Writes the file in the background (Document::writeFile), as the kind that its name ends on if that is offered.
  void write(const QString& path);

 private:
  void makeForm();
  void followSource();
  void followKind();
  void choosePath();
  void writeMapPicture(const QString& path);
  void writeMapData(const QString& path);
  void writeCurves(const QString& path);
  void writeWindow(const QString& path);
  void writeFigure(const QString& path);
  /// Null unless one of the figures is chosen.
  [[nodiscard]] const PaperFigure* chosenFigure() const;
  [[nodiscard]] Source chosenSource() const;
  [[nodiscard]] Kind chosenKind() const;

  Document& m_document;
  QWidget& m_window;
  // What was shown when the dialog opened: views may move on behind it.
  std::optional<ShownMap> m_map;
  std::optional<figure::CurveFigure> m_curves;
  QString m_curveData;
  std::vector<PaperFigure> m_figures;
  QComboBox* m_source = nullptr;
  QComboBox* m_kind = nullptr;
  QComboBox* m_preset = nullptr;
  QDoubleSpinBox* m_width = nullptr;
  QSpinBox* m_dpi = nullptr;
  QDoubleSpinBox* m_font = nullptr;
  QCheckBox* m_everyEntry = nullptr;
  QLabel* m_size = nullptr;
};

}  // namespace foxscope::gui
