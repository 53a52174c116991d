#pragma once

#include <QWidget>

class QLabel;
class QLineEdit;
class QToolButton;

namespace foxscope::gui {

/// The search in the text: the words to find, and their number of hits. Esc closes.
class FindBar : public QWidget {
  Q_OBJECT

 public:
  explicit FindBar(QWidget* parent = nullptr);

  [[nodiscard]] QString words() const;
  [[nodiscard]] Qt::CaseSensitivity sensitivity() const;
  /// "3 of 17"; -1 where none is current.
  void showCount(int current, int count);
  void showSearching();
  /// Shows the bar and takes the keys.
  void open();

 signals:
  void changed();  ///< words or case
  void next();
  void previous();
  void closed();

 protected:
  bool event(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  QLineEdit* m_words;
  QToolButton* m_case;
  QLabel* m_count;
};

}  // namespace foxscope::gui
