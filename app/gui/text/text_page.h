#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <QAbstractScrollArea>

#include "app/gui/document/selection.h"
#include "app/gui/text/text_layout.h"
#include "app/gui/text/text_tint.h"
#include "app/gui/text/tint_ramp.h"
#include "app/gui/views/expert_colours.h"

namespace foxscope::gui {

/// Places that a search found.
struct SearchHits {
  std::vector<Stretch> place;  ///< in order
  int current = -1;            ///< -1: none
};

/// The text of a run, flowing and tinted; paints the lines that are seen and nothing else. It knows cells and positions
/// of the reference run, and says what the mouse and the keys ask for; others decide what comes of it.
class TextPage : public QAbstractScrollArea {
  Q_OBJECT

 public:
  explicit TextPage(QWidget* parent = nullptr);
  ~TextPage() override;

  /// Shows another text, from its beginning; null: none. Tint, hits and pins of the old one are let go.
  void setShape(std::shared_ptr<const TextShape> shape);
  /// Null: no tint.
  void setTint(std::shared_ptr<const Tint> tint);
  void setPin(const Cursor& pin);
  void setHover(const Cursor& hover);
  void setView(const View& view);
  void setHits(SearchHits hits);

  /// Null where there is no text.
  [[nodiscard]] const TextLayout* textLayout() const { return m_layout.get(); }
  [[nodiscard]] const Tint* tint() const { return m_tint.get(); }
  /// Differs whenever lines, tint or colours do.
  [[nodiscard]] std::uint64_t revision() const { return m_revision; }
  [[nodiscard]] const Cursor& pin() const { return m_pin; }
  [[nodiscard]] const Cursor& hover() const { return m_hover; }
  [[nodiscard]] const View& view() const { return m_view; }
  [[nodiscard]] const SearchHits& hits() const { return m_hits; }
  /// The colour behind a cell; no valid one where the cell has no value.
  [[nodiscard]] QColor tintColour(std::int64_t cell) const;
  /// The cell's main rectangle, in the viewport's coordinates (also where that is outside); empty without a text.
  [[nodiscard]] QRectF cellRect(std::int64_t cell) const;
  /// The cell under a point of the viewport.
  [[nodiscard]] std::optional<std::int64_t> cellAt(const QPointF& point) const;
  /// Where the text begins, in the viewport's coordinates; beside it the margin.
  [[nodiscard]] QPointF origin() const;
  [[nodiscard]] double margin() const;
  /// Lines [begin, end) of which something is seen.
  [[nodiscard]] Range visibleLines() const;

  /// Scrolls, if need be, so that a part of the text is seen, with some lines around it.
  void showStretch(const Stretch& stretch);
  void showCell(std::int64_t cell);
  /// Scrolls so that a line is in the middle.
  void centreLine(std::int64_t line);

 signals:
  void cellHovered(std::optional<std::int64_t> cell);
  void queryPicked(std::int64_t position);
  void keyPicked(std::int64_t position);
  void readoutAsked(std::int64_t cell, const QPoint& globalPosition);
  void menuAsked(std::int64_t cell, const QPoint& globalPosition);
  /// Something that an overview shows is different: text, tint, pins, range, hits, or the part that is seen.
  void changed();

 protected:
  bool viewportEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  void scrollContentsBy(int dx, int dy) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;

 private:
  void showLines(const Range& lines);
  void layOut();
  void layOutKeepingPlace();
  void makeRamp();
  void setHoveredCell(std::optional<std::int64_t> cell);
  void updateCell(std::optional<std::int64_t> cell);
  [[nodiscard]] std::optional<std::int64_t> keyTarget(const QKeyEvent& event);
  [[nodiscard]] std::int64_t keyOrigin() const;
  [[nodiscard]] std::int64_t verticalTarget(std::int64_t from, std::int64_t lines);

  std::unique_ptr<TextLayout> m_layout;
  std::shared_ptr<const Tint> m_tint;
  std::unique_ptr<TintRamp> m_ramp;
  std::unique_ptr<ExpertColours> m_hues;  ///< of experts
  Cursor m_pin;
  Cursor m_hover;
  View m_view;
  SearchHits m_hits;
  std::optional<std::int64_t> m_hoveredCell;
  std::optional<QPointF> m_mouse;  ///< in the viewport; nothing while the mouse is elsewhere
  std::uint64_t m_revision = 0;
  std::optional<double> m_wantedX;  ///< of moves by line, kept over short lines
};

}  // namespace foxscope::gui
