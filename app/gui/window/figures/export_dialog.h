#pragma once

#include <memory>
#include <optional>

#include <QCheckBox>
#include <QComboBox>
#include <QDialog>
#include <QDoubleSpinBox>
#include <QSpinBox>

#include "app/figure/curves/curve_figure.h"
#include "app/figure/maps/map_figure.h"
#include "app/gui/atlas/atlas_view.h"
#include "app/gui/document/runs/run.h"
#include "app/gui/maps/map_export.h"
#include "app/gui/window/figures/figure_preview.h"
#include "app/gui/window/figures/paper_figures.h"
#include "app/gui/window/run_commands.h"

class QFormLayout;
class QLabel;
class QPushButton;
class QScrollArea;
class QVBoxLayout;

namespace foxscope::gui {

class CurvesView;
class Document;
class EvaluationsView;
class FigureForm;
class MapsView;
class Settings;

/// Saves what is shown: a picture at a physical size, drawn beside the form as it will be, or the data behind it. A
/// figure can be had as the command that draws it, and as a spec that the command line reads.
class ExportDialog : public QDialog {
  Q_OBJECT

 public:
  /// panels: of the atlas; figures and on: that of paperFigures() by its place
  enum class Source { map, curves, panels, window, figures };
  enum class Kind { pdf, svg, png, hdf5, npy, csv };

  /// @param settings  widths and sizes begin as they were when a file was last saved
  ExportDialog(Document& document, const MapsView& maps, const CurvesView& curves, const EvaluationsView& evaluations,
               Settings& settings, QWidget& window);

  /// The chosen fields, for whoever drives the dialog.
  QComboBox& source() { return *m_source; }
  QComboBox& kind() { return *m_kind; }
  QDoubleSpinBox& pageWidth() { return *m_width; }
  FigureForm& form() { return *m_form; }
  FigurePreview& preview() { return *m_preview; }
  [[nodiscard]] figure::FigureFormat format() const;
  /// Writes the file in the background (FileWriter::writeFile), as the kind that its name ends on if that is offered.
  void write(const QString& path);
  /// Writes the chosen figure as `foxscope figure spec` reads it, likewise.
  void writeSpec(const QString& path);
  /// The command that draws what is chosen into this file, behind those that make runs that are in no file; empty where
  /// none can, which commandNote() explains.
  [[nodiscard]] QString command(const QString& output) const;
  [[nodiscard]] QString commandNote() const;

 private:
  void makeForm();
  void makeSizes(QFormLayout& form);
  void makeButtons(QVBoxLayout& layout);
  void followSource();
  void followKind();
  void followForm();
  void choosePath();
  void chooseSpecPath();
  void copyCommand();
  void writeMapData(const QString& path);
  void writeCurveData(const QString& path);
  void writeWindow(const QString& path);
  void writePage(const QString& path);
  void tellError(const QString& text);
  void remember();
  /// Draws the chosen source with the choices of the form.
  /// @param output  the file, which the metadata's command names; empty: no command
  /// @throws UsageError for what the form holds
  [[nodiscard]] DrawPage page(const QString& output) const;
  /// The shown map with the form's choices.
  [[nodiscard]] figure::MapFigure mapFigure() const;
  [[nodiscard]] DrawPage mapPage(const QString& output) const;
  [[nodiscard]] DrawPage curvesPage() const;
  [[nodiscard]] DrawPage panelsPage(const QString& output) const;
  /// The shown panels; of one alone what the form chooses of it is among its options.
  [[nodiscard]] ShownPanels chosenPanels() const;
  [[nodiscard]] figure::CurveFigure chosenCurves() const;
  [[nodiscard]] figure::ColourChoice chosenColours(const figure::ColourChoice& shown) const;
  /// The chosen figure of runs with the form's choices.
  [[nodiscard]] figure::RunFigure runFigure() const;
  /// Where the runs of what is chosen are.
  [[nodiscard]] RunCommands runCommands(const QString& output) const;
  [[nodiscard]] static figure::RunFigure inFiles(figure::RunFigure figure, const RunCommands& runs);
  [[nodiscard]] figure::FigureStyle style() const;
  /// Null unless one of the figures is chosen.
  [[nodiscard]] const PaperFigure* chosenFigure() const;
  [[nodiscard]] Source chosenSource() const;
  [[nodiscard]] Kind chosenKind() const;
  [[nodiscard]] QString dataSize() const;

  Document& m_document;
  Settings& m_settings;
  QWidget& m_window;
  // The content of the views when the dialog opened: they may move on behind it.
  std::optional<ShownMap> m_map;
  std::optional<figure::CurveFigure> m_curves;
  QString m_curveData;
  ShownPanels m_panels;
  QImage m_windowPicture;
  std::vector<PaperFigure> m_figures;
  std::shared_ptr<figure::EvaluatedRuns> m_evaluated;
  QComboBox* m_source = nullptr;
  QComboBox* m_kind = nullptr;
  QComboBox* m_preset = nullptr;
  QDoubleSpinBox* m_width = nullptr;
  QSpinBox* m_dpi = nullptr;
  QDoubleSpinBox* m_font = nullptr;
  QCheckBox* m_everyEntry = nullptr;
  QCheckBox* m_svgText = nullptr;
  FigureForm* m_form = nullptr;
  QScrollArea* m_fields = nullptr;
  FigurePreview* m_preview = nullptr;
  QPushButton* m_copy = nullptr;
  QPushButton* m_spec = nullptr;
  QLabel* m_note = nullptr;
};

}  // namespace foxscope::gui
