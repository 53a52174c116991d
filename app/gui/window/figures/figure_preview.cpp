#include "app/gui/window/figures/figure_preview.h"

#include <algorithm>
#include <cmath>

#include <QLabel>
#include <QPainter>
#include <QVBoxLayout>

namespace foxscope::gui {
namespace {

constexpr int kPreview = 1;
constexpr int kRestOfChanges = 150;  ///< ms
constexpr int kEdge = 12;            ///< pixels around the page
constexpr double kLeastDpi = 36;
constexpr double kMostDpi = 600;
constexpr double kDotsOfScreen = 96;

}  // namespace

FigurePreview::FigurePreview(JobRunner& jobs, QWidget* parent)
    : QWidget(parent), m_jobs(jobs), m_caption(new QLabel(this)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(kEdge, kEdge, kEdge, kEdge / 2);
  layout->addStretch(1);
  m_caption->setAlignment(Qt::AlignCenter);
  m_caption->setWordWrap(true);
  m_caption->setTextFormat(Qt::PlainText);
  m_caption->setTextInteractionFlags(Qt::TextSelectableByMouse);
  m_caption->setAccessibleName(tr("Size of the page"));
  layout->addWidget(m_caption);
  setMinimumSize(240, 200);
  setAccessibleName(tr("Preview"));
  m_rest.setSingleShot(true);
  m_rest.setInterval(kRestOfChanges);
  connect(&m_rest, &QTimer::timeout, this, &FigurePreview::ask);
}

void FigurePreview::setPage(DrawPage draw, const figure::FigureFormat& format) {
  m_draw = std::move(draw);
  m_format = format;
  m_settled = false;
  m_words.clear();
  m_jobs.cancel(this, kPreview);
  m_rest.start();
}

void FigurePreview::setPicture(const QImage& picture, const QString& caption) {
  m_draw = nullptr;
  m_rest.stop();
  m_jobs.cancel(this, kPreview);
  m_settled = true;
  m_words.clear();
  m_picture = picture;
  m_caption->setText(caption);
  update();
}

void FigurePreview::setWords(const QString& words) {
  setPicture({}, {});
  m_words = words;
  update();
}

QString FigurePreview::caption() const { return m_words.isEmpty() ? m_caption->text() : m_words; }

QRectF FigurePreview::room() const {
  return QRectF(rect()).adjusted(kEdge, kEdge, -kEdge, -kEdge - m_caption->height());
}

// Asks for a preview with at least the dots of the file: limits of colours that follow the picture depend on how fine
// that is.
void FigurePreview::ask() {
  if (!m_draw) return;
  figure::FigureFormat format = m_format;
  format.kind = figure::FigureFormat::Kind::png;
  format.svgText = figure::FigureFormat::SvgText::outlines;
  const double inches = format.widthMm / figure::kMillimetresPerInch;
  const double dots = std::max(room().width() * devicePixelRatioF() / inches, static_cast<double>(m_format.dpi));
  format.dpi = static_cast<int>(std::clamp(dots, kLeastDpi, kMostDpi));
  m_caption->setText(tr("drawing …"));
  JobRunner::Request<std::string> request;
  request.work = [draw = m_draw, format](const Job& job) { return draw(format, job); };
  request.done = [this, dpi = format.dpi](const std::string& png) { take(png, dpi); };
  request.failed = [this](const QString& message) { setWords(message); };
  m_jobs.submit(this, kPreview, std::move(request));
}

void FigurePreview::take(const std::string& png, double dpi) {
  m_picture = QImage::fromData(QByteArrayView(png.data(), static_cast<qsizetype>(png.size())), "PNG");
  m_settled = true;
  // Dots are whole, lengths are not: the width is as it was asked for.
  const double width = m_format.widthMm / figure::kMillimetresPerInch;
  const double height = m_picture.height() / dpi;
  const auto millimetres = [](double inches) { return QString::number(inches * figure::kMillimetresPerInch, 'f', 1); };
  const QSizeF shown = QSizeF(m_picture.size()).scaled(room().size(), Qt::KeepAspectRatio);
  m_caption->setText(
      tr("%1 × %2 mm, %3 × %4 in, seen at %5 %")
          .arg(millimetres(width), millimetres(height), QString::number(width, 'f', 2), QString::number(height, 'f', 2))
          .arg(std::lround(100 * shown.width() / (width * kDotsOfScreen))));
  update();
}

void FigurePreview::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  if (!m_draw) return;
  m_settled = false;
  m_rest.start();
}

void FigurePreview::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().color(QPalette::Midlight));
  const QRectF inside = room();
  if (!m_words.isEmpty() || m_picture.isNull()) {
    painter.setPen(palette().color(QPalette::WindowText));
    painter.drawText(inside, Qt::AlignCenter | Qt::TextWordWrap, m_words);
    return;
  }
  const QSizeF size = QSizeF(m_picture.size()).scaled(inside.size(), Qt::KeepAspectRatio);
  const QRectF page(inside.center() - QPointF(size.width(), size.height()) / 2, size);
  painter.setRenderHint(QPainter::SmoothPixmapTransform);
  painter.drawImage(page, m_picture);
  painter.setPen(palette().color(QPalette::Shadow));
  painter.drawRect(page.adjusted(-0.5, -0.5, 0.5, 0.5));
}

}  // namespace foxscope::gui
