#pragma once

#include <memory>
#include <optional>
#include <string>

#include <QPoint>
#include <QWidget>

#include "app/gui/document/head_table.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/text/text_page.h"
#include "app/gui/text/text_shape.h"
#include "app/gui/views/view_part.h"

class QLabel;
class QStackedWidget;
class QToolButton;

namespace foxscope::gui {

class FindBar;
class GoBar;
class TextEditor;
class TextOverview;
class TextTinter;
class TextToolRow;

/// Shows the text of the reference run, each word tinted by a chosen quantity. If there is no run, or the user asks for
/// it, shows an editor of the text to run.
class TextView : public QWidget, public ViewPart {
  Q_OBJECT

 public:
  TextView(RunList& runs, ModelRuns& modelRuns, QWidget* parent = nullptr);

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] QList<QAction*> commands() const override { return m_commands; }
  [[nodiscard]] bool isSettled() const override;
  /// Texts that are offered where there is none.
  void setSamples(const QStringList& paths);
  /// The part of the text that the selection shows, as it is read; empty where there is no run.
  [[nodiscard]] QString shownText() const;

 signals:
  /// The heads are to be coloured by a number, and listed in its order.
  void headOrderAsked(foxscope::gui::HeadQuantity quantity);
  /// The profile of the pinned key's column is to be shown.
  void columnAsked();
  void messageRaised(const foxscope::gui::Message& message);
  void textWanted(const QString& path);

 protected:
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  QWidget* makePage();
  QWidget* makeEditor();
  void makeCommands();
  void connectDocument();
  void connectPage();
  void connectBars();
  QAction* addCommand(const QString& text, const QString& tip, const QKeySequence& shortcut);

  void takeRuns();
  void takeInputs();
  void takePin();
  void takeHover();
  void takeView();
  void setEditing(bool editing);
  void showMode();

  void requestShape();
  void takeShape(std::shared_ptr<const TextShape> shape);

  void requestSearch();
  void goToHit(int step);
  void requestReadout(std::int64_t cell, const QPoint& globalPosition);
  void openMenu(std::int64_t cell, const QPoint& globalPosition);
  void closeBars();
  void goTo(std::int64_t position);
  /// Has the saliency of the chosen head's run computed, and tints by it.
  /// @param target  positions of the reference run; nothing: all
  void computeSaliency(std::optional<Range> target);
  /// Asks which heads still hold a word some time after it was read.
  void askWhoRemembers(std::int64_t cell);
  /// Asks which head's gates a prediction hangs on most: it is chosen when the saliency of the prediction is there.
  void askWhatItHangsOn(std::int64_t cell);
  void chooseMostSalient();

  RunList& m_runs;
  ModelRuns& m_modelRuns;
  TextToolRow* m_tools;
  FindBar* m_find;
  SearchHits m_leftHits;     ///< of the page before it was laid anew
  bool m_searching = false;  ///< what was asked for last is not found yet
  GoBar* m_go;
  QStackedWidget* m_stack;
  TextPage* m_page;
  TextTinter* m_tinter;
  TextOverview* m_overview;
  TextEditor* m_editor;
  QWidget* m_samples;
  QLabel* m_editorNote;
  QToolButton* m_clear;
  QList<QAction*> m_commands;
  QList<QAction*> m_pageCommands;    ///< that need a run's text
  QList<QAction*> m_tintCommands;    ///< of these, those that tint it
  QAction* m_tintExperts = nullptr;  ///< is there where a run has kept its experts
  bool m_offersExperts = false;
  std::string m_awaitedTarget;  ///< of the saliency whose strongest head is to be chosen; empty: none
  std::shared_ptr<const Trace> m_reference;
  QString m_steps;  ///< ShownSteps::of
  Cursor m_lastPin;
  bool m_editing = false;
  bool m_shapePending = false;
};

}  // namespace foxscope::gui
