#pragma once

#include <vector>

#include <QJsonObject>
#include <QObject>
#include <QString>
#include <QTimer>

class QAction;

namespace foxscope::gui {

class RunList;
class ViewPart;

/// Makes what the user changes in the views steps of the history, beside what is changed in the document: the chosen
/// head, the pins, and the state that each view keeps in a session. An input (a key until it is let go, a drag, a turn
/// of the wheel) is one step, which is named as the command that it was. Zooms, sizes, and the tabs in front have ways
/// back of their own, and are no steps.
class ViewHistory : public QObject {
  Q_OBJECT

 public:
  struct Part {
    QString key;    ///< in session files
    QString words;  ///< "tint the text": what is changed in it
    ViewPart* view = nullptr;
  };
  /// Follows all input of the application from now on.
  ViewHistory(RunList& runs, std::vector<Part> parts);
  ~ViewHistory() override;

  /// A step that a command makes is named as it.
  void nameBy(QAction& command);

 signals:
  void inputEnded();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void begin();
  void end();
  [[nodiscard]] QJsonObject state() const;
  void restore(const QJsonObject& state);

  RunList& m_runs;
  std::vector<Part> m_parts;
  QString m_command;  ///< that the input was; empty: none
  bool m_open = false;
  bool m_released = false;  ///< the key or button that began it
  QTimer m_ending;          ///< when what was posted meanwhile is done
};

}  // namespace foxscope::gui
