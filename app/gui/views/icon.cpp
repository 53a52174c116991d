#include "app/gui/views/icon.h"

#include <QFile>
#include <QGuiApplication>
#include <QIconEngine>
#include <QPainter>
#include <QPalette>
#include <QSvgRenderer>

namespace foxscope::gui {
namespace {

QByteArray drawingOf(const QString& name) {
  QFile file(QStringLiteral(":/icons/%1.svg").arg(name));
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

QPixmap painted(const QByteArray& drawing, const QSize& size, qreal ratio) {
  QPixmap pixmap(size * ratio);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  QSvgRenderer(drawing).render(&painter);
  painter.end();
  pixmap.setDevicePixelRatio(ratio);
  return pixmap;
}

/// Draws when it is asked to, in the colours of then.
class ThemedEngine : public QIconEngine {
 public:
  explicit ThemedEngine(QByteArray drawing) : m_drawing(std::move(drawing)) {}

  void paint(QPainter* painter, const QRect& rect, QIcon::Mode mode, QIcon::State /*state*/) override {
    QSvgRenderer(coloured(mode)).render(painter, rect);
  }
  QPixmap pixmap(const QSize& size, QIcon::Mode mode, QIcon::State /*state*/) override {
    return painted(coloured(mode), size, 1);
  }
  QPixmap scaledPixmap(const QSize& size, QIcon::Mode mode, QIcon::State /*state*/, qreal /*ratio*/) override {
    return painted(coloured(mode), size, 1);
  }
  [[nodiscard]] QIconEngine* clone() const override { return new ThemedEngine(*this); }

 private:
  [[nodiscard]] QByteArray coloured(QIcon::Mode mode) const {
    const auto group = mode == QIcon::Disabled ? QPalette::Disabled : QPalette::Active;
    const auto role = mode == QIcon::Selected ? QPalette::HighlightedText : QPalette::ButtonText;
    QByteArray drawing = m_drawing;
    return drawing.replace("#000", QGuiApplication::palette().color(group, role).name().toLatin1());
  }

  QByteArray m_drawing;
};

}  // namespace

QIcon themedIcon(const QString& name) { return QIcon(new ThemedEngine(drawingOf(name))); }

QIcon programIcon() {
  QIcon icon;
  const QByteArray drawing = drawingOf(QStringLiteral("foxscope"));
  for (const int side : {16, 24, 32, 48, 64, 128, 256}) icon.addPixmap(painted(drawing, {side, side}, 1));
  return icon;
}

}  // namespace foxscope::gui
