#pragma once

#include <QString>

namespace foxscope::gui {

/// Whether a path is on another machine: ssh://[USER@]HOST[:PORT]/PATH.
bool isRemote(const QString& path);

/// The machine of such a path, "USER@HOST:PORT"; empty for a path here.
QString hostOf(const QString& path);

/// The path on that machine; of a path here, the path.
QString pathThere(const QString& path);

/// The name of a file or folder, "run.h5", here or on another machine.
QString fileNameOf(const QString& path);

/// The URL of such a path as errors name it; of a path here, the path.
QString shownUrl(const QString& path);

/// The URL of a path on a machine.
/// @param host  as hostOf
/// @param path  from / or from ~/ on
QString urlOn(const QString& host, const QString& path);

/// Whether two paths are of the same file or folder. Here links are followed.
bool samePlace(const QString& path, const QString& other);

}  // namespace foxscope::gui
