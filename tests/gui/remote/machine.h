#pragma once

#include <QString>

#include "tests/gui/document/document_support.h"
#include "tests/gui/support.h"
#include "tests/gui/window/window_shown.h"

namespace foxscope::gui::test {

/// A machine named "box" that is this one: FOXSCOPE_SSH names a script that starts the program, and can be told to
/// fail. It goes away with the test, with all of its agents.
class Machine {
 public:
  Machine();
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Files of the machine, and what the script notes down.
  Folder folder;
  [[nodiscard]] QString url(const QString& name = {}) const;
  static QString urlOf(const QString& path) { return QStringLiteral("ssh://box") + path; }

  /// Whether ssh reaches it.
  void setReachable(bool reachable) const;
  /// Agents that were started, the last one last.
  [[nodiscard]] QList<qint64> agents() const;
  /// Ends the last agent, as if the network had gone.
  void cut() const;
  /// Lets the last agent do nothing, or go on.
  void freeze() const;
  void thaw() const;
};

/// The window with a machine, whose connections are looked at more often than by a user's.
struct RemoteWindow : Window {
  explicit RemoteWindow(const QSize& size = {1400, 900}) : Window(source("resources/demo.json"), size) {
    document().machines().setPace({10, 50, 100'000});
    window.trainings().setPace(20);
  }
  bool open(const QString& url) {
    document().open({url});
    return QTest::qWaitFor([&] { return !document().busy(); }, kPatience) && settle();
  }
  [[nodiscard]] QStringList lines() const;
  /// Whether a line of the machines' bar begins so, soon.
  bool shows(const QString& words);
  /// Presses the button of the first line.
  void pressButton();
  bool showsNoLine();
};

}  // namespace foxscope::gui::test
