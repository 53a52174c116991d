#pragma once

#include <functional>

#include <QStringList>
#include <QWidget>

#include "app/gui/document/run.h"

class QVBoxLayout;

namespace foxscope::gui {

/// Messages of the program, newest below, each a line with a button that closes it. Errors and warnings stay until they
/// are closed; notes go when newer work begins. The same text is not shown twice.
class MessageBar : public QWidget {
  Q_OBJECT

 public:
  explicit MessageBar(QWidget* parent = nullptr);

  void show(const Message& message);
  /// With a button that does something about it.
  void show(const Message& message, const QString& button, const std::function<void()>& act);
  void clearNotes();
  /// The texts that are shown, oldest first.
  [[nodiscard]] QStringList texts() const;

 private:
  QVBoxLayout* m_lines = nullptr;
};

}  // namespace foxscope::gui
