#pragma once

#include <QAction>
#include <QDialog>
#include <QList>

namespace foxscope::gui {

/// The keys and the mouse's actions on one page (F1).
class ShortcutSheet : public QDialog {
  Q_OBJECT

 public:
  ShortcutSheet(const QList<QAction*>& actions, QWidget* parent);
};

}  // namespace foxscope::gui
