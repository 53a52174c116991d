#pragma once

#include <QObject>

class QDBusVariant;

namespace foxscope::gui {

/// Whether the desktop asks for dark colours, by the portal that desktops answer on (Qt 6.4 does not know it). Light
/// until an answer comes, and where none does.
class SystemTheme : public QObject {
  Q_OBJECT

 public:
  explicit SystemTheme(QObject* parent = nullptr);
  [[nodiscard]] bool dark() const { return m_dark; }

 signals:
  void changed();

 private slots:
  void takeChange(const QString& group, const QString& key, const QDBusVariant& value);

 private:
  void take(const QVariant& value);
  bool m_dark = false;
};

}  // namespace foxscope::gui
