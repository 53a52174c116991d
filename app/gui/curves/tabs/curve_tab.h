#pragma once

#include <optional>
#include <vector>

#include <QJsonObject>
#include <QString>
#include <QWidget>

#include "app/figure/curves/curve_figure.h"
#include "app/gui/curves/plot_content.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/views/message_pages.h"

class QAction;
class QLabel;
class QMenu;
class QMimeData;
class QToolBar;
class QVBoxLayout;

namespace foxscope::gui::curves {

class ReadOut;

/// One tab of the curves: its controls, a read-out, and below it a plot, or a line that says why there is none. A tab
/// asks for nothing while it is not seen.
class CurveTab : public QWidget {
  Q_OBJECT

 public:
  /// @param name  of its controls, for those who cannot see them
  CurveTab(RunList& runs, const ModelRuns& modelRuns, const QString& name, QWidget* parent);

  /// The tools beside the tabs while this one is shown.
  [[nodiscard]] QToolBar* controls() const { return m_controls; }

  /// Its choices, by the names that they were added with.
  [[nodiscard]] virtual QJsonObject saveState() const;
  virtual void restoreState(const QJsonObject& state);
  /// Whether the tab shows the last request.
  [[nodiscard]] bool isSettled() const {
    return !isVisible() || (m_fresh && (!message().isEmpty() || plotIsSettled()));
  }
  /// The numbers behind what is shown, all of them: CSV with a line of names and units. Empty where there are none.
  [[nodiscard]] virtual QString data() const = 0;
  /// The figure of the tab, for export. Nothing where a figure of curves cannot show it.
  [[nodiscard]] virtual std::optional<figure::CurveFigure> figure() const = 0;
  [[nodiscard]] ReadOut& readOut() { return *m_readOut; }
  /// The tab as a picture, and the numbers behind it as tab-separated values; null where there is a message.
  [[nodiscard]] QMimeData* copied();
  /// The line instead of the plot; empty while the plot is shown.
  [[nodiscard]] QString message() const { return m_pages->message(); }
  /// The button below that line, which does something about it; not visible where nothing can be done.
  [[nodiscard]] QToolButton& remedy() const { return m_pages->remedy(); }
  /// The line under the plot; empty where there is none.
  [[nodiscard]] QString note() const;

 signals:
  void exportWanted();

 protected:
  RunList& list() { return m_runs; }
  [[nodiscard]] const RunList& list() const { return m_runs; }
  [[nodiscard]] const ModelRuns& modelRuns() const { return m_modelRuns; }

  /// Begins to make what is to be shown; ends with showPlot or showMessage.
  virtual void refresh() = 0;
  /// Shows what is known already, in the palette's colours.
  virtual void restyle() = 0;
  /// Tells the values at the cursor.
  virtual void showReading() = 0;
  [[nodiscard]] virtual bool plotIsSettled() const = 0;

  /// Says that the shown content is no longer the present one.
  void outdate();
  /// Whether the tab shows its present content.
  [[nodiscard]] bool isFresh() const { return m_fresh; }
  void setPlot(QWidget* plot);
  void showPlot(const QString& note);
  /// @param remedy  shown as a button below the line; null: none
  void showMessage(const QString& message, QAction* remedy = nullptr);
  /// @param name  by which the session keeps it; empty: not by itself
  QAction* addChoice(const QString& name, const QString& text, const QString& tip, bool on);
  /// The message of a view without any run.
  [[nodiscard]] QString noRunText() const;

  /// The content without the lines whose entries of the legend are switched off.
  [[nodiscard]] PlotContent withoutHidden(PlotContent content) const;

  void contextMenuEvent(QContextMenuEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void openMenu(const QPoint& place);
  void fillMenu(QMenu& menu);

  RunList& m_runs;
  const ModelRuns& m_modelRuns;
  QToolBar* m_controls;
  ReadOut* m_readOut;
  QLabel* m_note;
  MessagePages* m_pages;
  QVBoxLayout* m_plotPage;
  std::vector<QAction*> m_choices;
  bool m_fresh = false;
};

/// "812 reads “␣the”", for a position of a run.
QString readingText(const TokenTable& tokens, std::int64_t position);
/// A field of CSV, quoted where it has to be.
QString csvField(const QString& text);

}  // namespace foxscope::gui::curves
