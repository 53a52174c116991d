#pragma once

#include <memory>
#include <string>
#include <vector>

#include <QImage>
#include <QRect>

#include "app/figure/figure_style.h"
#include "app/figure/maps/map_figure.h"

namespace foxscope::test {

/// What a shell command prints; fails the test where its status is not 0.
std::string output_of(const std::string& command);

/// The words of a PDF, its lines laid out as on the page (pdftotext).
std::string text_of(const std::string& pdf);

/// The default style in a format.
figure::FigureStyle style_of(figure::FigureFormat::Kind kind);

/// The file's page as pixels at this resolution, rendered by a program that is not Qt (a PNG is only decoded).
QImage rendered(const std::string& content, figure::FigureFormat::Kind kind, int dpi);

/// The content in a file of its own; the path. It lives until the test program ends.
std::string in_file(const std::string& content, const std::string& ending);

/// Inside of the frame of a map's raster, found by its black lines.
QRect raster_of(const QImage& page);

/// A map of one head of a random run, computed by the backend.
figure::MapFigure map_figure(const std::shared_ptr<const Trace>& run, Quantity quantity, Range rows, Range columns);

}  // namespace foxscope::test
