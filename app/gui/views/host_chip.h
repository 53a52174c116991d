#pragma once

#include <QFontMetrics>
#include <QPainter>
#include <QPalette>
#include <QRect>
#include <QString>

namespace foxscope::gui {

/// The chip beside the name of a run that lies on another machine: the machine's name in an outline.
/// @returns its width, at most 16 letters; 0 for an empty name
int hostChipWidth(const QString& host, const QFontMetrics& metrics);
/// Paints it at the right end of a place.
void paintHostChip(QPainter& painter, const QRect& place, const QString& host, const QPalette& palette);

}  // namespace foxscope::gui
