#pragma once

#include <optional>

#include <QSettings>
#include <QStringList>

namespace foxscope::gui {

enum class ThemeChoice { system, light, dark };

/// The settings that the program remembers between windows, in $XDG_CONFIG_HOME/foxscope/foxscope.ini.
class Settings {
 public:
  Settings();

  [[nodiscard]] ThemeChoice theme() const;
  void setTheme(ThemeChoice theme);

  /// Paths opened lately, newest first, at most ten.
  [[nodiscard]] QStringList recent() const;
  void addRecent(const QString& path);
  void clearRecent();

  /// Folders on other machines where something was opened lately, as URLs, newest first, at most eight.
  [[nodiscard]] QStringList remotePlaces() const;
  void addRemotePlace(const QString& url);

  /// Places of docks and toolbars, and the window's size; empty before the first time.
  [[nodiscard]] QByteArray windowState() const;
  [[nodiscard]] QByteArray windowGeometry() const;
  void setWindow(const QByteArray& state, const QByteArray& geometry);

  /// Folder where the last file was opened or saved.
  [[nodiscard]] QString folder() const;
  void setFolder(const QString& folder);

  /// Sizes of the figure that was exported last; at first the sizes for a text's whole width.
  struct ExportSizes {
    double widthMm = 139.7;
    std::optional<double> fontPt = std::nullopt;  ///< absent: by the width
    int dpi = 300;
  };
  [[nodiscard]] ExportSizes exportSizes() const;
  void setExportSizes(const ExportSizes& sizes);

 private:
  QSettings m_values;
};

}  // namespace foxscope::gui
