#pragma once

#include <vector>

#include <QFrame>
#include <QPointer>
#include <QString>

class QLabel;
class QPushButton;

namespace foxscope::gui {

/// A walk through the window: each step outlines one part of it and says in two sentences what it is for. It lies over
/// the window until it is ended (Escape, End, or the last step).
class Tour : public QWidget {
  Q_OBJECT

 public:
  struct Step {
    QPointer<QWidget> part;
    QString title;
    QString text;
  };
  /// @param steps  those whose part is hidden are left out; it deletes itself when it has ended
  Tour(std::vector<Step> steps, QWidget& window);

  [[nodiscard]] int step() const { return m_step; }
  [[nodiscard]] int steps() const { return static_cast<int>(m_steps.size()); }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  /// The window's shortcuts of the tour's own keys wait until it has ended.
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  void go(int step);
  /// Lays the card beside the part that it speaks of.
  void place();
  [[nodiscard]] QRect partRect() const;

  std::vector<Step> m_steps;
  int m_step = 0;
  QFrame* m_card;
  QLabel* m_title;
  QLabel* m_text;
  QLabel* m_count;
  QPushButton* m_back;
  QPushButton* m_next;
};

}  // namespace foxscope::gui
