#include "app/gui/window/system_theme.h"

#include <QDBusConnection>
#include <QDBusMessage>
#include <QDBusPendingCallWatcher>
#include <QDBusPendingReply>
#include <QDBusVariant>

namespace foxscope::gui {
namespace {

constexpr char kService[] = "org.freedesktop.portal.Desktop";
constexpr char kPath[] = "/org/freedesktop/portal/desktop";
constexpr char kInterface[] = "org.freedesktop.portal.Settings";
constexpr char kGroup[] = "org.freedesktop.appearance";
constexpr char kKey[] = "color-scheme";
constexpr unsigned kPrefersDark = 1;

// Portals wrap the value in one variant or in two.
QVariant unwrapped(QVariant value) {
  while (value.canConvert<QDBusVariant>() && value.metaType() == QMetaType::fromType<QDBusVariant>()) {
    value = value.value<QDBusVariant>().variant();
  }
  return value;
}

}  // namespace

SystemTheme::SystemTheme(QObject* parent) : QObject(parent) {
  QDBusConnection bus = QDBusConnection::sessionBus();
  if (!bus.isConnected()) return;
  bus.connect(kService, kPath, kInterface, "SettingChanged", this, SLOT(takeChange(QString, QString, QDBusVariant)));
  QDBusMessage call = QDBusMessage::createMethodCall(kService, kPath, kInterface, "Read");
  call << QString(kGroup) << QString(kKey);
  auto* watcher = new QDBusPendingCallWatcher(bus.asyncCall(call), this);
  connect(watcher, &QDBusPendingCallWatcher::finished, this, [this, watcher] {
    const QDBusPendingReply<QDBusVariant> reply = *watcher;
    if (reply.isValid()) take(reply.value().variant());
    watcher->deleteLater();
  });
}

void SystemTheme::takeChange(const QString& group, const QString& key, const QDBusVariant& value) {
  if (group == kGroup && key == kKey) take(value.variant());
}

void SystemTheme::take(const QVariant& value) {
  const bool dark = unwrapped(value).toUInt() == kPrefersDark;
  if (dark == m_dark) return;
  m_dark = dark;
  emit changed();
}

}  // namespace foxscope::gui
