#pragma once

#include <QImage>
#include <QPixmap>
#include <QSize>
#include <QString>
#include <QStringList>

namespace foxscope::gui {

/// Logical pixels of a small picture of what the window showed of a file.
inline constexpr QSize kThumbnail(96, 60);

/// A small picture of a large one, for screens of twice the pixels.
QImage thumbnailFrom(const QImage& shown);
/// The picture kept of a path, in $XDG_CACHE_HOME/foxscope/pictures; null where there is none.
QPixmap thumbnailOf(const QString& path);
/// Keeps a picture of what the window shows for these paths. That it cannot be written is no failure: it is a cache.
void keepThumbnail(const QStringList& paths, const QImage& shown);
/// Removes the pictures of these paths.
void forgetThumbnails(const QStringList& paths);

}  // namespace foxscope::gui
