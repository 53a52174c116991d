#pragma once

#include <functional>
#include <optional>

#include <QByteArray>
#include <QDockWidget>
#include <QObject>

class QMainWindow;

namespace foxscope::gui {

/// The docks around the maps: where they stand, and when they are in sight. They stand beside what is open, not beside
/// the first page; those of predictions, experts, evaluations, effects and trainings come by themselves, and go with
/// what they show.
class Docks : public QObject {
  Q_OBJECT

 public:
  struct Views {
    QWidget* heads;
    QWidget* runs;
    QWidget* text;
    QWidget* curves;
    QWidget* words;
    QWidget* comparison;
    QWidget* predictions;
    QWidget* experts;
    QWidget* effects;
    QWidget* evaluations;
    QWidget* training;
  };
  /// The parts that there are to show.
  struct Content {
    bool anything = false;    ///< that docks of runs could show
    bool comparison = false;  ///< two runs on one text
    bool predictions = false;
    bool experts = false;
    bool effects = false;
    bool evaluations = false;
    bool training = false;
  };
  Docks(QMainWindow& window, const Views& views, std::function<Content()> content);

  [[nodiscard]] QDockWidget& heads() const { return *m_heads; }
  [[nodiscard]] QDockWidget& runs() const { return *m_runs; }
  [[nodiscard]] QDockWidget& text() const { return *m_text; }
  [[nodiscard]] QDockWidget& curves() const { return *m_curves; }
  [[nodiscard]] QDockWidget& words() const { return *m_words; }
  [[nodiscard]] QDockWidget& comparison() const { return *m_comparison; }
  [[nodiscard]] QDockWidget& predictions() const { return *m_predictions; }
  [[nodiscard]] QDockWidget& experts() const { return *m_experts; }
  [[nodiscard]] QDockWidget& effects() const { return *m_effects; }
  [[nodiscard]] QDockWidget& evaluations() const { return *m_evaluations; }
  [[nodiscard]] QDockWidget& training() const { return *m_training; }
  /// Brings a dock in sight, before those that it shares its place with.
  static void bringForward(QDockWidget& dock);

  /// Puts them where they are at first.
  void reset();
  /// The same as somebody's wish, which is kept also where they are out of sight by now.
  void resetLayout();
  /// Follows what was opened, or that everything was closed.
  void follow();
  /// Evaluations leave the centre, which maps take: their dock gets half of the window's height, a little more of a low
  /// one, or the share that it had when somebody last saw it.
  void giveEvaluationsRoom();
  /// Keeps that share before evaluations go back to the centre.
  void keepEvaluationsRoom() { m_evaluationsShare = evaluationsShare(); }
  /// The list of runs comes into sight: the first time as high as its rows need; the text keeps the rest.
  void fitRuns();

  /// Where they stand, with their sizes and the window's: on a smaller window they shrink as it does.
  [[nodiscard]] QByteArray state() const;
  /// Restores the docks as soon as the window has its size. Those wanted last win.
  void restore(const QByteArray& state);
  [[nodiscard]] bool isSettled() const { return m_wanted.isEmpty(); }
  /// The window was shown, or has another size.
  void followShow();
  void followResize();

 private:
  enum class Size { pending, final };
  QDockWidget* add(QWidget* view, const QString& title, const QString& key);
  void place(Size size);
  [[nodiscard]] int tabsBelow(QDockWidget& dock) const;
  [[nodiscard]] bool hasItsSize() const;
  /// The share of the window's height that the dock of evaluations has, or had when it was last seen.
  [[nodiscard]] double evaluationsShare() const;

  QMainWindow& m_window;
  std::function<Content()> m_content;
  QDockWidget* m_heads;
  QDockWidget* m_runs;
  QDockWidget* m_text;
  QDockWidget* m_curves;
  QDockWidget* m_words;
  QDockWidget* m_comparison;
  QDockWidget* m_predictions;
  QDockWidget* m_experts;
  QDockWidget* m_effects;
  QDockWidget* m_evaluations;
  QDockWidget* m_training;
  bool m_first = true;            ///< nobody has placed them: they follow from the window's first size
  bool m_firstRuns = true;        ///< the list of runs has not been shown since docks went to their places
  bool m_untouched = false;       ///< they stand as the first size has them
  double m_evaluationsShare = 0;  ///< of the window's height; 0: nobody has seen them in their dock
  QByteArray m_wanted;            ///< to be restored when the window has its size; empty: none
  /// The docks' state while they are hidden because nothing is open, so that they come back as they were; an empty
  /// state means the first size.
  std::optional<QByteArray> m_away;
};

}  // namespace foxscope::gui
