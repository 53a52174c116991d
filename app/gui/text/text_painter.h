#pragma once

#include "app/gui/text/text_page.h"

class QPainter;
class QRect;

namespace foxscope::gui {

/// Paints a part of a page: the ground, and of the lines that lie in that part tints, search hits, text, and outlines
/// of the hovered and the pinned pair.
/// @param painter  of the page's viewport
/// @param part     in the viewport's coordinates
void paintPage(QPainter& painter, const TextPage& page, const QRect& part);

}  // namespace foxscope::gui
