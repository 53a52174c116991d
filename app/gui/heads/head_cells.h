#pragma once

#include <optional>

#include <QWidget>

#include "app/gui/document/runs/run_list.h"

namespace foxscope::gui {

/// Cells of heads, of which one is chosen: by a click, which the right button does too before its menu opens, or by the
/// arrow keys. Hovering marks a cell and describes its head.
class HeadCells : public QWidget {
  Q_OBJECT

 public:
  explicit HeadCells(RunList& runs, QWidget* parent = nullptr);

  [[nodiscard]] virtual std::optional<HeadChoice> headAt(const QPoint& place) const = 0;
  /// Where a head is drawn; empty where it is not.
  [[nodiscard]] virtual QRect cell(const HeadChoice& head) const = 0;
  /// The tooltip of a head; empty: none.
  [[nodiscard]] virtual QString description(const HeadChoice& head) const = 0;

  [[nodiscard]] bool hasHeightForWidth() const override { return true; }

 signals:
  /// Where the chosen head is, which has to be seen.
  void shown(const QRect& place);

 protected:
  /// The head that an arrow key leads to from one, which need not be drawn; nothing: it leads nowhere.
  [[nodiscard]] virtual std::optional<HeadChoice> beside(const HeadChoice& head, Qt::Key arrow) const = 0;
  [[nodiscard]] const std::optional<HeadChoice>& hovered() const { return m_hovered; }

  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool event(QEvent* event) override;

 private:
  void showChosen();

  RunList& m_list;
  std::optional<HeadChoice> m_hovered;
};

}  // namespace foxscope::gui
