#include "app/figure/page/page.h"

#include <cmath>
#include <cstdlib>
#include <memory>

#include <QBuffer>
#include <QGuiApplication>
#include <QHashFunctions>
#include <QPageLayout>
#include <QPdfWriter>
#include <QSvgGenerator>
#include <fmt/format.h>

#include "app/figure/figure_measures.h"
#include "app/figure/page/axis_drawing.h"
#include "app/figure/page/pdf_metadata.h"
#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

// Qt speaks of missing runtime folders and the like; nobody asked.
void ignoreMessage(QtMsgType /*type*/, const QMessageLogContext& /*context*/, const QString& /*text*/) {}

int dotsOf(double points, const FigureFormat& format) {
  return std::max(1, static_cast<int>(std::lround(points * dotsPerPoint(format))));
}

// PDF viewers draw an image on every dot that it touches: rounding must not make it touch the next.
constexpr double kPdfInsetDots = 0.02;

// Qt's rasteriser takes a time that grows with the square of a line's crossings with itself, 23 s for noise over 6000
// points: such lines are drawn in pieces of this many points.
constexpr qsizetype kPngLine = 32;

const QColor kMarkColour(200, 0, 0);

void paint(QPaintDevice& device, double unitsPerPoint, const std::function<void(QPainter&)>& draw) {
  QPainter painter;
  if (!painter.begin(&device)) throw Error("drawing: Qt cannot paint a page of this size: choose fewer dpi");
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setRenderHint(QPainter::LosslessImageRendering);
  painter.scale(unitsPerPoint, unitsPerPoint);
  draw(painter);
}

std::string pngPage(const FigureFormat& format, const QSizeF& size, const FigureOrigin& origin,
                    const std::function<void(Canvas&)>& draw) {
  QImage picture(dotsOf(size.width(), format), dotsOf(size.height(), format), QImage::Format_RGB32);
  if (picture.isNull()) throw Error("drawing: there is no memory for this picture: choose fewer dpi");
  picture.fill(Qt::white);
  paint(picture, dotsPerPoint(format), [&](QPainter& painter) {
    Canvas canvas(painter, {.lineAtOnce = kPngLine});
    draw(canvas);
  });
  constexpr double kMetresPerInch = kMillimetresPerInch / 1000;
  picture.setDotsPerMeterX(static_cast<int>(std::lround(format.dpi / kMetresPerInch)));
  picture.setDotsPerMeterY(picture.dotsPerMeterX());
  picture.setText("Software", "foxscope");
  picture.setText("Title", QString::fromStdString(origin.title));
  picture.setText("Description", QString::fromStdString(origin.factsText("\n")));
  picture.setText("Command", QString::fromStdString(origin.command));
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  if (!picture.save(&buffer, "PNG")) throw Error("drawing: Qt has no PNG writer: install Debian's libqt6gui6");
  return bytes.toStdString();
}

// Text for XML, in the metadata of PDF and of SVG.
QString escaped(const std::string& text) { return QString::fromStdString(text).toHtmlEscaped(); }

// XMP (ISO 16684-1): what remains of the origin where the document information is Qt's own.
// It stands in the file as it is written here: without slashes nobody takes a title for a key of PDF.
QByteArray xmpPacket(const std::string& title, const std::string& keywords) {
  const auto text = [](const std::string& words) { return escaped(words).replace('/', QStringLiteral("&#47;")); };
  return QStringLiteral(
             "<?xpacket begin=\"\uFEFF\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?>\n"
             "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\">\n"
             "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">\n"
             "<rdf:Description rdf:about=\"\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\" "
             "xmlns:pdf=\"http://ns.adobe.com/pdf/1.3/\">\n"
             "<dc:title><rdf:Alt><rdf:li xml:lang=\"x-default\">%1</rdf:li></rdf:Alt></dc:title>\n"
             "<pdf:Keywords>%2</pdf:Keywords>\n"
             "</rdf:Description>\n</rdf:RDF>\n</x:xmpmeta>\n<?xpacket end=\"r\"?>\n")
      .arg(text(title), text(keywords))
      .toUtf8();
}

std::string pdfPage(const FigureFormat& format, const QSizeF& size, const FigureOrigin& origin,
                    const std::function<void(Canvas&)>& draw) {
  // Fonts are embedded in the order of a hash table, which else differs from one start of the program to the next.
  QHashSeed::setDeterministicGlobalSeed();
  std::string keywords = origin.factsText("; ");
  if (!origin.command.empty()) keywords += "; command: " + origin.command;
  QByteArray bytes;
  {
    QBuffer buffer(&bytes);
    buffer.open(QIODevice::WriteOnly);
    QPdfWriter writer(&buffer);
    writer.setResolution(format.dpi);
    writer.setTitle(QString::fromStdString(origin.title));
    writer.setCreator(QStringLiteral("foxscope"));
    writer.setDocumentXmpMetadata(xmpPacket(origin.title, keywords));
    const QSizeF whole(std::ceil(size.width()), std::ceil(size.height()));
    writer.setPageSize(QPageSize(whole, QPageSize::Point, QStringLiteral("figure"), QPageSize::ExactMatch));
    writer.setPageMargins(QMarginsF(0, 0, 0, 0));
    paint(writer, dotsPerPoint(format), [&](QPainter& painter) {
      Canvas canvas(painter, {.textAs = Canvas::TextAs::glyphs, .imageInset = kPdfInsetDots / dotsPerPoint(format)});
      draw(canvas);
    });
  }
  std::string pdf = bytes.toStdString();
  auto known = withMetadata(
      pdf, {origin.title, "made by foxscope, facts in the keywords", keywords, size.width(), size.height()});
  return known ? std::move(*known) : pdf;
}

std::string svgDescription(const FigureOrigin& origin) {
  std::string description = origin.factsText("\n");
  if (!origin.command.empty()) description += "\ncommand: " + origin.command;
  return description;
}

// Qt's first element has sizes of whole dots and escapes nothing in titles.
QString svgHead(const QSizeF& size, const FigureOrigin& origin) {
  constexpr double kMillimetresPerPoint = kMillimetresPerInch / kPointsPerInch;
  const std::string width = fmt::format("{:.4f}", size.width() * kMillimetresPerPoint);
  const std::string height = fmt::format("{:.4f}", size.height() * kMillimetresPerPoint);
  return QString::fromStdString(
             fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                         "<svg width=\"{0}mm\" height=\"{1}mm\" viewBox=\"0 0 {0} {1}\" version=\"1.1\" "
                         "xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\">\n",
                         width, height)) +
         "<title>" + escaped(origin.title) + "</title>\n<desc>" + escaped(svgDescription(origin)) + "</desc>\n";
}

std::string svgPage(const FigureFormat& format, const QSizeF& size, const FigureOrigin& origin,
                    const std::function<void(Canvas&)>& draw) {
  QByteArray bytes;
  {
    QBuffer buffer(&bytes);
    buffer.open(QIODevice::WriteOnly);
    QSvgGenerator generator;
    generator.setOutputDevice(&buffer);
    generator.setResolution(format.dpi);
    generator.setSize(QSize(dotsOf(size.width(), format), dotsOf(size.height(), format)));
    generator.setTitle(escaped(origin.title));
    generator.setDescription(escaped(svgDescription(origin)));
    paint(generator, kMillimetresPerInch / kPointsPerInch, [&](QPainter& painter) {
      const bool text = format.svgText == FigureFormat::SvgText::text;
      Canvas canvas(painter, {.textAs = text ? Canvas::TextAs::glyphs : Canvas::TextAs::outlines});
      canvas.fill(QRectF(QPointF(0, 0), size), Qt::white);
      draw(canvas);
    });
  }
  QString text = QString::fromUtf8(bytes);
  const qsizetype body = text.indexOf("<defs>");
  // Without a body the head of another version of Qt stays as it is.
  if (body >= 0) text = svgHead(size, origin) + text.mid(body);
  // Qt's value is no longer in the standard, and viewers smooth the picture all the same.
  text.replace("image-rendering=\"optimizeSpeed\"", "style=\"image-rendering:crisp-edges;image-rendering:pixelated\"");
  return text.toStdString();
}

std::string pageOf(const FigureFormat& format, const QSizeF& size, const FigureOrigin& origin,
                   const std::function<void(Canvas&)>& draw) {
  switch (format.kind) {
    case FigureFormat::Kind::png:
      return pngPage(format, size, origin, draw);
    case FigureFormat::Kind::svg:
      return svgPage(format, size, origin, draw);
    case FigureFormat::Kind::pdf:
      return pdfPage(format, size, origin, draw);
    case FigureFormat::Kind::csv:
      break;  // no page is painted
  }
  return {};
}

std::string markedPage(const FigureFormat& format, const QSizeF& size, const FigureOrigin& origin,
                       const std::function<void(Canvas&)>& draw) {
  TextStyle style = textStyleOf(format);
  style.colour = kMarkColour;
  const double width = size.width() - 2 * em::kBorder * style.size;
  const std::vector<QString> lines = wrapped(origin.mark, style, width);
  const double line = em::kLine * style.size;
  const double height = std::ceil(size.height() + static_cast<double>(lines.size()) * line);
  return pageOf(format, {size.width(), height}, origin, [&](Canvas& canvas) {
    draw(canvas);
    double baseline = size.height() + 0.5 * style.size;
    for (const QString& text : lines) {
      canvas.text(text, {{size.width() / 2, baseline}, Align::centre}, fitted(style, lines, width));
      baseline += line;
    }
  });
}

}  // namespace

struct OffscreenApplication::Own {
  int count = 1;
  char name[9] = "foxscope";
  char* arguments[2] = {name, nullptr};
  std::unique_ptr<QGuiApplication> application;
};

OffscreenApplication::OffscreenApplication() {
  if (QCoreApplication::instance() != nullptr) return;
  setenv("QT_QPA_PLATFORM", "offscreen", 1);
  qInstallMessageHandler(ignoreMessage);
  m_own = std::make_unique<Own>();
  m_own->application = std::make_unique<QGuiApplication>(m_own->count, m_own->arguments);
}

OffscreenApplication::~OffscreenApplication() = default;

std::string paintPage(const FigureFormat& format, const QSizeF& size, const FigureOrigin& origin,
                      const std::function<void(Canvas&)>& draw) {
  const double longer = std::max(size.width(), size.height()) * dotsPerPoint(format);
  if (longer > kMostDots) {
    throw UsageError(fmt::format("figure: {:.0f} dots on a side are more than {:.0f}: use a smaller width or fewer dpi",
                                 longer, kMostDots));
  }
  if (!origin.mark.empty()) return markedPage(format, size, origin, draw);
  return pageOf(format, size, origin, draw);
}

}  // namespace foxscope::figure
