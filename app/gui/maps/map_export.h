#pragma once

#include <optional>
#include <string>

#include "app/figure/maps/map_figure.h"
#include "app/gui/maps/map_picture.h"

namespace foxscope::gui {

/// A pane's picture for a file: the export has the quantity, the range, the sides, the colours and the limits of the
/// screen, whatever its size is.
struct ShownMap {
  PicturePointer picture;  ///< exact
  Sides sides = Sides::left;
  double split = 0.5;  ///< where the second side begins, of the picture's width or height
  std::string title;   ///< names of all heads, as the list calls their runs

  /// The values of the screen, one for each of its pixels.
  [[nodiscard]] figure::MapFigure figure() const;
  /// The same for so many pixels, with entries pooled anew. @returns nothing if the job was stopped
  [[nodiscard]] std::optional<figure::MapFigure> figure(const PixelSize& pixels, const Job& job) const;

 private:
  [[nodiscard]] figure::MapFigure figureOf(const MapPicture& from) const;
};

}  // namespace foxscope::gui
