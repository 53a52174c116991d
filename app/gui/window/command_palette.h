#pragma once

#include <QAction>
#include <QDialog>
#include <QLineEdit>
#include <QList>
#include <QListWidget>

namespace foxscope::gui {

/// All commands of the window in one list that is narrowed down by typing (Ctrl+K). Every typed word has to occur in a
/// command's text or shortcut, in any order.
class CommandPalette : public QDialog {
  Q_OBJECT

 public:
  CommandPalette(const QList<QAction*>& actions, QWidget* parent);
  [[nodiscard]] QStringList shownTexts() const;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;

 private:
  void narrow(const QString& typed);
  void perform();

  QList<QAction*> m_actions;
  QLineEdit* m_input = nullptr;
  QListWidget* m_list = nullptr;
};

/// An action's text without the ampersands of menus and the dots of dialogs.
QString plainText(const QAction& action);

}  // namespace foxscope::gui
