#include "app/gui/window/settings.h"

#include <QDir>
#include <QLoggingCategory>

namespace foxscope::gui {
namespace {

Q_LOGGING_CATEGORY(settingsLog, "foxscope.settings", QtWarningMsg)

constexpr int kMostRecent = 10;
constexpr char kTheme[] = "theme";
constexpr char kRecent[] = "recent";
constexpr char kRemotePlaces[] = "remote_places";
constexpr int kMostRemotePlaces = 8;
constexpr char kState[] = "window/state";
constexpr char kGeometry[] = "window/geometry";
constexpr char kFolder[] = "folder";
constexpr char kExportWidth[] = "export/width";
constexpr char kExportFont[] = "export/font";
constexpr char kExportDpi[] = "export/dpi";

}  // namespace

Settings::Settings() : m_values(QSettings::IniFormat, QSettings::UserScope, "foxscope", "foxscope") {
  qCDebug(settingsLog).noquote() << m_values.fileName() << "holds" << m_values.allKeys().join(QStringLiteral(", "));
}

ThemeChoice Settings::theme() const {
  const QString name = m_values.value(kTheme).toString();
  if (name == "light") return ThemeChoice::light;
  return name == "dark" ? ThemeChoice::dark : ThemeChoice::system;
}

void Settings::setTheme(ThemeChoice theme) {
  m_values.setValue(kTheme, theme == ThemeChoice::system ? "system" : theme == ThemeChoice::light ? "light" : "dark");
}

QStringList Settings::recent() const { return m_values.value(kRecent).toStringList(); }

void Settings::addRecent(const QString& path) {
  QStringList paths = recent();
  paths.removeAll(path);
  paths.prepend(path);
  m_values.setValue(kRecent, paths.mid(0, kMostRecent));
}

void Settings::clearRecent() { m_values.remove(kRecent); }

QStringList Settings::remotePlaces() const { return m_values.value(kRemotePlaces).toStringList(); }

void Settings::addRemotePlace(const QString& url) {
  QStringList places = remotePlaces();
  places.removeAll(url);
  places.prepend(url);
  m_values.setValue(kRemotePlaces, places.mid(0, kMostRemotePlaces));
}

QByteArray Settings::windowState() const { return m_values.value(kState).toByteArray(); }

QByteArray Settings::windowGeometry() const { return m_values.value(kGeometry).toByteArray(); }

void Settings::setWindow(const QByteArray& state, const QByteArray& geometry) {
  m_values.setValue(kState, state);
  m_values.setValue(kGeometry, geometry);
  qCDebug(settingsLog).noquote() << m_values.fileName() << "takes the places of docks and the window's size";
}

QString Settings::folder() const { return m_values.value(kFolder, QDir::homePath()).toString(); }

void Settings::setFolder(const QString& folder) { m_values.setValue(kFolder, folder); }

Settings::ExportSizes Settings::exportSizes() const {
  ExportSizes sizes;
  sizes.widthMm = m_values.value(kExportWidth, sizes.widthMm).toDouble();
  sizes.dpi = m_values.value(kExportDpi, sizes.dpi).toInt();
  if (m_values.contains(kExportFont)) sizes.fontPt = m_values.value(kExportFont).toDouble();
  return sizes;
}

void Settings::setExportSizes(const ExportSizes& sizes) {
  m_values.setValue(kExportWidth, sizes.widthMm);
  m_values.setValue(kExportDpi, sizes.dpi);
  if (sizes.fontPt) {
    m_values.setValue(kExportFont, *sizes.fontPt);
  } else {
    m_values.remove(kExportFont);
  }
}

}  // namespace foxscope::gui
