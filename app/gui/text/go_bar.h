#pragma once

#include <cstdint>
#include <optional>

#include <QWidget>

class QLabel;
class QLineEdit;

namespace foxscope::gui {

/// Asks for a position, as a number, a percentage of the text, or so many tokens behind what is pinned. Esc closes.
class GoBar : public QWidget {
  Q_OBJECT

 public:
  explicit GoBar(QWidget* parent = nullptr);

  /// Shows the bar for a text of this many positions and takes the keys.
  /// @param from  that "+500" counts from; nothing: it cannot be said
  void open(std::int64_t length, std::optional<std::int64_t> from);

 signals:
  void chosen(std::int64_t position);
  void closed();

 protected:
  bool event(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void accept();
  /// So many tokens behind m_from; nothing for what is no number, or beyond the text.
  [[nodiscard]] std::optional<std::int64_t> behindPin(const QString& number) const;

  QLineEdit* m_input;
  QLabel* m_hint;
  std::int64_t m_length = 0;
  std::optional<std::int64_t> m_from;
};

}  // namespace foxscope::gui
