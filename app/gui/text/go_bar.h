#pragma once

#include <cstdint>

#include <QWidget>

class QLabel;
class QLineEdit;

namespace foxscope::gui {

/// Asks for a position, as a number, a percentage of the text, or a distance from where one is ("+500"). Esc closes.
class GoBar : public QWidget {
  Q_OBJECT

 public:
  explicit GoBar(QWidget* parent = nullptr);

  /// Shows the bar for a text of this many positions and takes the keys.
  /// @param from  that distances are counted from
  void open(std::int64_t length, std::int64_t from);

 signals:
  void chosen(std::int64_t position);
  void closed();

 protected:
  bool event(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void accept();

  QLineEdit* m_input;
  QLabel* m_hint;
  std::int64_t m_length = 0;
  std::int64_t m_from = 0;
};

}  // namespace foxscope::gui
