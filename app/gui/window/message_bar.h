#pragma once

#include <functional>

#include <QStringList>
#include <QWidget>

#include "app/gui/document/runs/run.h"

class QVBoxLayout;

namespace foxscope::gui {

/// Messages of the program, newest below, each a card with a button that closes it, over the lower edge of its parent:
/// what is shown there keeps its place. Errors and warnings stay until they are closed; notes go by themselves, unless
/// the mouse is on them, and when newer work begins. The same text is not shown twice.
class MessageBar : public QWidget {
  Q_OBJECT

 public:
  explicit MessageBar(QWidget& parent);

  void show(const Message& message);
  /// Shows a message with a button that does something about it.
  void show(const Message& message, const QString& button, const std::function<void()>& act);
  void clearNotes();
  /// Takes a text away that is no longer true.
  void remove(const QString& text);
  /// The texts that are shown, oldest first.
  [[nodiscard]] QStringList texts() const;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  bool event(QEvent* event) override;

 private:
  /// Places the bar at the lower edge of the parent, as wide as a line is read well.
  void place();

  QVBoxLayout* m_lines = nullptr;
};

}  // namespace foxscope::gui
