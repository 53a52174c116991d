#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <QJsonObject>
#include <QObject>
#include <QString>
#include <QUndoCommand>

namespace foxscope::gui {

/// The name of a step of the views, and whether it goes on with the one before it: heads that are chosen one after
/// the other are one step.
struct StepName {
  QString words;  ///< "choose a head"; empty: no step, as nobody undoes it
  bool goesOn = false;
};

/// The user's changes, in steps that are undone and done again. A step is made of commands, which change the
/// document, and of what differs in the state of the views. All that one input changes (a key that is held, a drag, a
/// turn of the wheel) is one step.
class UndoHistory : public QObject {
  Q_OBJECT

 public:
  static constexpr int kMostSteps = 200;
  /// Removed runs keep their memory for as long as they can come back.
  static constexpr int kMostHeavySteps = 20;
  enum class Weight { light, heavy };

  /// The state of what shows the document, by parts. Restoring is given the parts that differ.
  struct Views {
    std::function<QJsonObject()> save;
    std::function<void(const QJsonObject&)> restore;
    std::function<StepName(const QJsonObject& before, const QJsonObject& after)> name;
  };

  using QObject::QObject;
  ~UndoHistory() override;

  void setViews(Views views) { m_views = std::move(views); }
  /// Does a command, and keeps it. One that undoes what the last did (QUndoCommand::mergeWith) leaves neither.
  /// @param weight  heavy: it keeps runs in memory
  void push(QUndoCommand* command, Weight weight = Weight::light);
  /// An input of the user begins: what is changed until it ends is one step.
  void beginInput();
  /// Keeps the differences in the views since it began. Nothing where none has begun.
  void endInput();

  [[nodiscard]] bool canUndo() const { return m_done > 0; }
  [[nodiscard]] bool canRedo() const { return m_done < m_steps.size(); }
  [[nodiscard]] QString undoText() const { return canUndo() ? m_steps[m_done - 1].words : QString(); }
  [[nodiscard]] QString redoText() const { return canRedo() ? m_steps[m_done].words : QString(); }
  [[nodiscard]] int count() const { return static_cast<int>(m_steps.size()); }
  void undo();
  void redo();
  /// Forgets all steps.
  void clear();

 signals:
  void changed();  ///< what can be undone or done again

 private:
  struct Step {
    QString words;
    std::vector<std::unique_ptr<QUndoCommand>> commands;
    QJsonObject before;  ///< state of the views
    QJsonObject after;
    Weight weight = Weight::light;
    bool goesOn = false;
  };
  [[nodiscard]] QJsonObject shown() const { return m_views.save ? m_views.save() : QJsonObject(); }
  void restore(const QJsonObject& from, const QJsonObject& to);
  void forgetUndone();
  void add(Step step);

  Views m_views;
  std::deque<Step> m_steps;
  std::size_t m_done = 0;    ///< steps that are not undone
  bool m_input = false;      ///< one has begun
  bool m_joins = false;      ///< the last step belongs to it
  bool m_restoring = false;  ///< what is changed now is being undone or done again
  QJsonObject m_before;      ///< state of the views when the input began
};

/// Gives a third state the values of the second where the first two differ; the rest stays.
[[nodiscard]] QJsonValue patched(const QJsonValue& state, const QJsonValue& from, const QJsonValue& to);

}  // namespace foxscope::gui
