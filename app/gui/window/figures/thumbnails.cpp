#include "app/gui/window/figures/thumbnails.h"

#include <QCryptographicHash>
#include <QDir>
#include <QFile>
#include <QStandardPaths>

namespace foxscope::gui {
namespace {

constexpr int kFiner = 2;  // for screens of twice the pixels

QDir folder() {
  return QDir(QStandardPaths::writableLocation(QStandardPaths::GenericCacheLocation) +
              QStringLiteral("/foxscope/pictures"));
}

QString fileOf(const QString& path) {
  const QByteArray hash = QCryptographicHash::hash(QDir::cleanPath(path).toUtf8(), QCryptographicHash::Sha256);
  return folder().filePath(QString::fromLatin1(hash.toHex().left(32)) + QStringLiteral(".png"));
}

}  // namespace

QImage thumbnailFrom(const QImage& shown) {
  if (shown.isNull()) return shown;
  return shown.scaled(kThumbnail * kFiner, Qt::KeepAspectRatioByExpanding, Qt::SmoothTransformation)
      .copy(QRect(QPoint(), kThumbnail * kFiner));
}

QPixmap thumbnailOf(const QString& path) {
  QPixmap picture(fileOf(path));
  picture.setDevicePixelRatio(kFiner);
  return picture;
}

void keepThumbnail(const QStringList& paths, const QImage& shown) {
  if (shown.isNull() || !folder().mkpath(QStringLiteral("."))) return;
  const QImage small = thumbnailFrom(shown);
  for (const QString& path : paths) small.save(fileOf(path), "PNG");
}

void forgetThumbnails(const QStringList& paths) {
  for (const QString& path : paths) QFile::remove(fileOf(path));
}

}  // namespace foxscope::gui
