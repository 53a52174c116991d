#pragma once

#include <array>

#include <QWidget>

namespace foxscope::gui {

/// A pane's reading under the cursor, part by part.
struct PaneReading {
  QString value;     ///< "0.0123"
  QString query;     ///< "i 2012 ␣the"
  QString key;       ///< "j 1999 ␣fox"
  QString distance;  ///< "i−j 13"
  QString whole;     ///< all of it, and what the pixel makes of the entry
  bool operator==(const PaneReading&) const = default;
};

/// The end of a pane's header: value, query, key and distance in columns that stand still while the pointer moves, as
/// many as there is room for; all of it in the tooltip.
class PaneReadout : public QWidget {
  Q_OBJECT

 public:
  explicit PaneReadout(QWidget* parent = nullptr);

  void setReading(const PaneReading& reading);
  [[nodiscard]] const PaneReading& reading() const { return m_reading; }
  /// Room for the value.
  [[nodiscard]] QSize sizeHint() const override;
  /// Room for the value, query and key.
  [[nodiscard]] int roomyWidth() const;
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  /// Widths of the columns in this order: value, query, key, distance; 0: not shown.
  [[nodiscard]] std::array<int, 4> columns() const;
  [[nodiscard]] QFont usedFont() const;

  PaneReading m_reading;
};

}  // namespace foxscope::gui
