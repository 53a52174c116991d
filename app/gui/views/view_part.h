#pragma once

#include <QAction>
#include <QJsonObject>
#include <QList>

namespace foxscope::gui {

/// The interface that the window needs of each view, beside showing itself: a share of the session file, commands for
/// menus and the command palette, and whether what it shows is final.
class ViewPart {
 public:
  ViewPart() = default;
  ViewPart(const ViewPart&) = delete;
  ViewPart& operator=(const ViewPart&) = delete;
  virtual ~ViewPart() = default;

  /// The view's share of a session. Runs are named by their name, never by their number.
  [[nodiscard]] virtual QJsonObject saveState() const = 0;
  /// Takes over what fits and leaves the rest as it is; may come before the runs that it speaks of.
  virtual void restoreState(const QJsonObject& state) = 0;
  /// Commands of the view, with text, tooltip, and shortcut; owned by the view.
  [[nodiscard]] virtual QList<QAction*> commands() const { return {}; }
  /// False while what is shown is coarse, old, or about to be asked for; whether work is done is looked at beside it.
  [[nodiscard]] virtual bool isSettled() const { return true; }
};

}  // namespace foxscope::gui
