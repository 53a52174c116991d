#pragma once

#include <QLabel>
#include <QStackedWidget>
#include <QToolButton>

namespace foxscope::gui {

/// The content of a view, or in its place a line that says why there is none, perhaps with a button that does something
/// about it. At first it is the line, without words.
class MessagePages : public QStackedWidget {
  Q_OBJECT

 public:
  /// @param content  becomes the widget's own
  /// @param view     is filled, and must have no layout
  MessagePages(QWidget* content, QWidget* view);

  void showContent();
  /// @param remedy  the button below the line; null: there is none
  void showMessage(const QString& message, QAction* remedy = nullptr);
  /// The line; empty while the content is shown.
  [[nodiscard]] QString message() const;
  [[nodiscard]] QToolButton& remedy() const { return *m_remedy; }

 protected:
  void changeEvent(QEvent* event) override;

 private:
  QLabel* m_message;
  QToolButton* m_remedy;
};

}  // namespace foxscope::gui
