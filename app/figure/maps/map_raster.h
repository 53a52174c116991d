#pragma once

#include <QImage>
#include <QSizeF>

#include "app/figure/colour_scale.h"
#include "backend/map/map.h"

namespace foxscope::figure {

/// The map in colours, every pixel repeated, as a raster of this size.
/// @throws Error where there is no memory for it
QImage paintRaster(const Image& image, const ScaledColours& colours, const QSize& size);

/// The scale's colours from its upper limit at the top to its lower at the bottom, as a raster of this size in dots.
QImage paintColourBar(const ScaledColours& colours, const QSizeF& dots);

}  // namespace foxscope::figure
