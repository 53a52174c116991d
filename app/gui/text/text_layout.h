#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <QPointF>
#include <QRectF>

#include "app/gui/text/text_shape.h"
#include "backend/base/index.h"

namespace foxscope::gui {

/// A measured text broken into lines of one width: where every cell is, and which cell is where. Coordinates begin at
/// the left end of the first line; lines are lineHeight() apart.
class TextLayout {
 public:
  TextLayout(std::shared_ptr<const TextShape> shape, double width);

  [[nodiscard]] const TextShape& shape() const { return *m_shape; }
  [[nodiscard]] const TextCells& cells() const { return *m_shape->cells; }
  [[nodiscard]] const std::shared_ptr<const TextShape>& sharedShape() const { return m_shape; }
  [[nodiscard]] std::int64_t lineCount() const { return static_cast<std::int64_t>(m_lines.size()) - 1; }
  [[nodiscard]] double lineHeight() const { return m_shape->lineHeight; }

  /// A part of an atom on a line: the whole, or what fitted of a long word. In the order of the text; where they stand
  /// follows from the directions of the paragraph and of its words (UAX #9, with words in the place of characters), and
  /// paragraphs that run from right to left end at the right edge.
  struct Piece {
    std::int32_t atom = 0;
    std::int32_t begin = 0;  ///< clusters
    std::int32_t end = 0;
    double left = 0;
    double right = 0;
  };
  [[nodiscard]] std::vector<Piece> pieces(std::int64_t line) const;

  /// A cell's share of a line, in the order of the text.
  struct Span {
    std::int64_t cell = 0;
    double left = 0;
    double right = 0;
  };
  [[nodiscard]] std::vector<Span> spans(std::int64_t line) const;

  /// Rectangles of the height of a line that cover a stretch of the text; one a line, but for writing that runs from
  /// right to left.
  [[nodiscard]] std::vector<QRectF> rects(const Stretch& stretch) const;
  /// The same of a cell.
  [[nodiscard]] std::vector<QRectF> cellRects(std::int64_t cell) const;
  /// The largest of these: where the cell is, when its blank still hangs on the line before.
  [[nodiscard]] QRectF mainRect(std::int64_t cell) const;

  [[nodiscard]] std::int64_t lineOfByte(double byte) const;
  /// The line of the cell's main rectangle.
  [[nodiscard]] std::int64_t lineOfCell(std::int64_t cell) const;
  /// The first cell that begins on or reaches into a line; for line = lineCount(), one past the last cell.
  [[nodiscard]] std::int64_t firstCell(std::int64_t line) const;

  /// The cell under a point; nothing beside the text.
  [[nodiscard]] std::optional<std::int64_t> cellAt(const QPointF& point) const;
  /// The cell that is nearest to x among those that are on a line (lineOfCell), if there are any.
  [[nodiscard]] std::optional<std::int64_t> nearestCell(std::int64_t line, double x) const;

 private:
  struct Line {
    std::int32_t cluster = 0;
    std::int32_t atom = 0;  ///< the one that holds the cluster
  };
  class Breaker;

  template <typename Visit>
  void eachCluster(std::int64_t line, const Visit& visit) const;
  [[nodiscard]] const Line& lineAt(std::int64_t line) const { return m_lines[index_of(line)]; }

  /// Moves pieces, which stand in the order of the text, to where they are read.
  void placeByDirection(std::vector<Piece>& pieces) const;

  std::shared_ptr<const TextShape> m_shape;
  double m_width;
  std::vector<Line> m_lines;  ///< one more than there are: the end
};

}  // namespace foxscope::gui
