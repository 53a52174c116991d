#include "app/gui/document/remote/remote_place.h"

#include <optional>

#include <QFileInfo>

#include "backend/agent/remote_path.h"
#include "backend/base/error.h"

namespace foxscope::gui {
namespace {

std::optional<agent::RemotePath> placeOf(const QString& path) {
  if (!isRemote(path)) return std::nullopt;
  try {
    return agent::parse_remote_path(path.toStdString());
  } catch (const Error&) {
    return std::nullopt;  // who opens it says why
  }
}

}  // namespace

bool isRemote(const QString& path) { return agent::is_remote(path.toStdString()); }

QString hostOf(const QString& path) {
  const auto place = placeOf(path);
  return place ? QString::fromStdString(place->host.words()) : QString();
}

QString pathThere(const QString& path) {
  const auto place = placeOf(path);
  return place ? QString::fromStdString(place->path) : path;
}

QString fileNameOf(const QString& path) { return QFileInfo(pathThere(path)).fileName(); }

QString shownUrl(const QString& path) {
  const auto place = placeOf(path);
  return place ? QString::fromStdString(place->url()) : path;
}

QString urlOn(const QString& host, const QString& path) {
  agent::RemotePath place = agent::parse_remote_path("ssh://" + host.toStdString() + "/");
  place.path = path.toStdString();
  return QString::fromStdString(place.url());
}

bool samePlace(const QString& path, const QString& other) {
  if (isRemote(path) || isRemote(other)) return path == other;
  const QString canonical = QFileInfo(path).canonicalFilePath();
  return !canonical.isEmpty() && canonical == QFileInfo(other).canonicalFilePath();
}

}  // namespace foxscope::gui
