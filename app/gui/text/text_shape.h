#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <QFont>
#include <QString>

#include "app/gui/text/text_cells.h"
#include "backend/base/job.h"

namespace foxscope::gui {

/// A character as readers see it (with its accents), the least thing that is drawn.
struct Cluster {
  std::int32_t character = 0;  ///< where it begins, in QString's units
  std::int32_t byte = 0;       ///< where it begins in the UTF-8
  float left = 0;              ///< from the left edge of its atom
  float width = 0;
};

/// The pieces that lines are put together from.
struct Atom {
  enum class Kind : std::uint8_t {
    word,     ///< drawn
    blank,    ///< a blank or a tab; may hang over the right edge
    lineEnd,  ///< ends its line, shown by a sign
    unseen,   ///< a control or format character, shown by a sign
  };
  std::int32_t cluster = 0;  ///< its first
  float width = 0;
  Kind kind = Kind::word;
  bool mayBreakBefore = false;
  /// Direction of its paragraph: of the first letter in it that has one.
  Qt::LayoutDirection paragraph = Qt::LeftToRight;
  /// Direction of its own first letter that has one; LayoutDirectionAuto: of its neighbours.
  Qt::LayoutDirection direction = Qt::LayoutDirectionAuto;
};

/// A text measured in one font: all that is needed to break it into lines of any width. Immutable.
struct TextShape {
  std::shared_ptr<const TextCells> cells;
  QFont font;
  QString text;
  std::vector<Cluster> cluster;  ///< one more than there are: the end
  std::vector<Atom> atom;        ///< likewise
  double lineHeight = 0;
  double ascent = 0;  ///< baseline below the top of its line

  /// The place in the UTF-8 of a place in QString's units.
  [[nodiscard]] double byteOf(qsizetype character) const;
  /// Whether a cluster's parts stand from right to left.
  [[nodiscard]] bool runsLeft(const Cluster& cluster) const;
  /// The cluster that holds a place in the UTF-8.
  [[nodiscard]] std::int32_t clusterAt(double byte) const;
};

/// Measures a text; every different word once. Units are those of the font on a screen of scale 1.
/// @returns nothing if the job was stopped
std::optional<TextShape> shapeText(std::shared_ptr<const TextCells> cells, const QFont& font, const Job& job);

}  // namespace foxscope::gui
