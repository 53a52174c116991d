#include "app/gui/maps/map_export.h"

#include <utility>

namespace foxscope::gui {
namespace {

/// The sides as they stand beside the dividing line.
/// By distance rows of the images lie across, and their columns upwards.
Image divided(const Image& first, const Image& second, Sides sides, double split, MapAxes axes) {
  Image both = first;
  for (std::int64_t row = 0; row < both.rows; ++row) {
    for (std::int64_t column = 0; column < both.columns; ++column) {
      double across = (static_cast<double>(column) + 0.5) / static_cast<double>(both.columns);
      double down = (static_cast<double>(row) + 0.5) / static_cast<double>(both.rows);
      if (axes == MapAxes::distance) across = std::exchange(down, 1 - across);
      const auto place = static_cast<std::size_t>(row * both.columns + column);
      if ((sides == Sides::splitVertically ? across : down) >= split) both.value[place] = second.value[place];
    }
  }
  return both;
}

}  // namespace

figure::MapFigure ShownMap::figure() const { return figureOf(*picture); }

std::optional<figure::MapFigure> ShownMap::figure(const PixelSize& pixels, const Job& job) const {
  PictureRequest request = picture->request;
  request.pixels = pixels;
  request.forColours = false;
  const auto made = makeExactPicture(request, job);
  return made ? std::optional(figureOf(**made)) : std::nullopt;
}

figure::MapFigure ShownMap::figureOf(const MapPicture& from) const {
  figure::MapFigure figure;
  figure.request = from.computed;
  const auto& values = from.values;
  if (values.size() > 1) {
    // Two sides share the axes of the screen, which are the reference run's.
    figure.request.rows = from.request.view.rows;
    const MapAxes axes = from.request.content.axes;
    if (axes == MapAxes::key) figure.request.columns = from.request.view.columns;
    figure.image = divided(*values[0], *values[1], sides, split, axes);
  } else {
    figure.image = *from.computedValues;
  }
  figure.request.pixel_rows = figure.image.rows;
  figure.request.pixel_columns = figure.image.columns;
  // Limits by the values of another raster would be others.
  const figure::ScaledColours& colours = picture->colours;
  figure.scale = colours.scale;
  figure.colours = {colours.map, colours.lower, colours.upper, colours.blankBelow};
  figure.title = title;
  return figure;
}

}  // namespace foxscope::gui
