#include "app/figure/map_figure.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <QApplication>
#include <QBuffer>
#include <QImage>
#include <fmt/format.h>
#include <qcustomplot.h>

#include "app/figure/colour_scale.h"
#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

constexpr double kLongSide = 900;      ///< screen pixels of the raster's longer side, nearly
constexpr double kMostOblong = 2.5;    ///< a flatter region is drawn higher than it is
constexpr double kPixelsPerFont = 46;  ///< the raster's longer side over the font's height

// Qt speaks of missing runtime folders and the like; nobody asked.
void ignoreMessage(QtMsgType /*type*/, const QMessageLogContext& /*context*/, const QString& /*text*/) {}

/// Qt without a display, for as long as a picture takes; an application that runs already is used as it is.
class OffscreenApplication {
 public:
  OffscreenApplication() {
    if (QCoreApplication::instance() != nullptr) return;
    setenv("QT_QPA_PLATFORM", "offscreen", 1);
    qInstallMessageHandler(ignoreMessage);
    m_application = std::make_unique<QApplication>(m_count, m_arguments);
  }

 private:
  int m_count = 1;
  char m_name[9] = "foxscope";
  char* m_arguments[2] = {m_name, nullptr};
  std::unique_ptr<QApplication> m_application;
};

/// An image that fills the axes, each of its pixels a crisp rectangle.
class RasterItem final : public QCPAbstractItem {
 public:
  RasterItem(QCustomPlot* plot, QImage image) : QCPAbstractItem(plot), m_image(std::move(image)) {}
  double selectTest(const QPointF& /*position*/, bool /*onlySelectable*/, QVariant* /*details*/) const override {
    return -1;
  }

 protected:
  void draw(QCPPainter* painter) override {
    painter->setRenderHint(QPainter::SmoothPixmapTransform, false);
    painter->drawImage(clipAxisRect()->rect(), m_image);
  }

 private:
  QImage m_image;
};

QColor toColor(const Rgb& colour) { return {colour.red, colour.green, colour.blue}; }

QImage paintRaster(const Image& image, const ScaledColours& colours) {
  QImage raster(static_cast<int>(image.columns), static_cast<int>(image.rows), QImage::Format_RGB32);
  const QRgb absent = toColor(kAbsent).rgb();
  const float* value = image.value.data();
  for (int row = 0; row < raster.height(); ++row) {
    auto* line = reinterpret_cast<QRgb*>(raster.scanLine(row));
    for (int column = 0; column < raster.width(); ++column, ++value) {
      if (std::isnan(*value)) {
        line[column] = absent;
        continue;
      }
      const Rgb colour = colourAt(*colours.map, colours.position(*value));
      line[column] = qRgb(colour.red, colour.green, colour.blue);
    }
  }
  return raster;
}

// Screen pixels of the raster: whole multiples of the image's pixels, in the region's proportions where they are mild.
QSize rasterSize(const MapRequest& request) {
  const auto rows = static_cast<double>(request.rows.size());
  const auto columns = static_cast<double>(request.columns.size());
  const double aspect = std::clamp(rows / columns, 1 / kMostOblong, kMostOblong);
  const double height = aspect >= 1 ? kLongSide : kLongSide * aspect;
  const double width = aspect >= 1 ? kLongSide / aspect : kLongSide;
  const auto multiple = [](double room, std::int64_t pixels) {
    const double times = std::max(1.0, std::round(room / static_cast<double>(pixels)));
    return static_cast<int>(times) * static_cast<int>(pixels);
  };
  return {multiple(width, request.pixel_columns), multiple(height, request.pixel_rows)};
}

std::string headText(const HeadOf& head) {
  return fmt::format("{}, layer {}, head {}", head.trace->info().name, head.layer, head.head);
}

// "8 x 8 tokens a pixel, largest entry", or that pixels are entries.
std::string resolutionText(const MapRequest& request) {
  const double rows = static_cast<double>(request.rows.size()) / static_cast<double>(request.pixel_rows);
  const double columns = static_cast<double>(request.columns.size()) / static_cast<double>(request.pixel_columns);
  if (rows == 1 && columns == 1) return "one entry a pixel";
  const char* reduction = "";
  switch (request.reduction) {
    case Reduction::max:
      reduction = "largest entry (max)";
      break;
    case Reduction::mean:
      reduction = "mean";
      break;
    case Reduction::min:
      reduction = "smallest entry (min)";
      break;
    case Reduction::absmax:
      reduction = "entry of largest size (absmax)";
      break;
  }
  return fmt::format("{} of {:.3g} x {:.3g} tokens a pixel", reduction, rows, columns);
}

/// Sets up axes, raster, colour bar and texts in a plot that is never shown.
class MapPlot {
 public:
  MapPlot(const MapFigure& figure, const ScaledColours& colours)
      : m_figure(figure), m_colours(colours), m_raster(rasterSize(figure.request)) {
    m_font = m_plot.font();
    m_font.setFamily("DejaVu Sans");
    m_font.setPixelSize(std::max(13, static_cast<int>(std::max(m_raster.width(), m_raster.height()) / kPixelsPerFont)));
    m_plot.setLocale(QLocale::c());
    m_plot.setBackground(Qt::white);
    const int border = m_font.pixelSize() / 2;
    m_plot.plotLayout()->setAutoMargins(QCP::msNone);
    m_plot.plotLayout()->setMargins(QMargins(border, border, border, border));
    addAxes();
    addColourBar();
    addTexts();
  }

  QImage paint() {
    // The raster's own size is fixed, margins depend on the labels: so the first layout says how large the plot is.
    const QSize size = m_plot.plotLayout()->minimumOuterSizeHint();
    m_plot.toPixmap(size.width(), size.height());
    const QSize settled = m_plot.plotLayout()->minimumOuterSizeHint();
    return m_plot.toPixmap(settled.width(), settled.height()).toImage();
  }

 private:
  void addAxes() {
    QCPAxisRect* rect = m_plot.axisRect();
    rect->setupFullAxesBox();
    rect->setSizeConstraintRect(QCPLayoutElement::scrInnerRect);
    rect->setMinimumSize(m_raster);
    rect->setMaximumSize(m_raster);
    setUpAxis(m_plot.xAxis, m_figure.request.columns, "key position (token)");
    setUpAxis(m_plot.yAxis, m_figure.request.rows, "query position (token)");
    m_plot.yAxis->setRangeReversed(true);
    for (QCPAxis* axis : {m_plot.xAxis2, m_plot.yAxis2}) axis->setTicks(false);
    new RasterItem(&m_plot, paintRaster(m_figure.image, m_colours));
  }

  // An entry's cell is centred at its position.
  void setUpAxis(QCPAxis* axis, const Range& range, const char* label) {
    axis->setRange(static_cast<double>(range.begin) - 0.5, static_cast<double>(range.end) - 0.5);
    axis->setNumberFormat("f");
    axis->setNumberPrecision(0);
    if (range.size() <= 10) {
      auto ticker = QSharedPointer<QCPAxisTickerFixed>::create();
      ticker->setTickStep(1);
      axis->setTicker(ticker);
    }
    axis->grid()->setVisible(false);
    axis->setLabel(label);
    style(axis);
    axis->setSubTicks(range.size() > 40);
  }

  void style(QCPAxis* axis) {
    const int tick = m_font.pixelSize() / 3;
    axis->setLabelFont(m_font);
    axis->setTickLabelFont(m_font);
    axis->setTickLength(0, tick);
    axis->setSubTickLength(0, tick / 2);
    axis->setTickLabelPadding(tick);
    axis->setLabelPadding(tick);
  }

  void addColourBar() {
    auto* bar = new QCPColorScale(&m_plot);
    m_plot.plotLayout()->addElement(0, 1, bar);
    bar->setType(QCPAxis::atRight);
    bar->setBarWidth(m_font.pixelSize() * 5 / 4);
    QCPColorGradient gradient;
    gradient.clearColorStops();
    constexpr int kStops = 256;
    for (int stop = 0; stop < kStops; ++stop) {
      const double position = stop / (kStops - 1.0);
      gradient.setColorStopAt(position, toColor(colourAt(*m_colours.map, position)));
    }
    bar->setGradient(gradient);
    if (m_colours.scale == ColourScale::logarithmic) {
      bar->setDataScaleType(QCPAxis::stLogarithmic);
      bar->axis()->setTicker(QSharedPointer<QCPAxisTickerLog>::create());
      bar->axis()->setNumberFormat("eb");
      bar->axis()->setNumberPrecision(0);
    }
    bar->setDataRange(QCPRange(m_colours.lower, m_colours.upper));
    bar->setLabel(QString::fromStdString(m_colours.label));
    style(bar->axis());
    bar->axis()->setLabelFont(fitted(m_font, bar->label(), m_raster.height()));
    auto* group = new QCPMarginGroup(&m_plot);
    m_plot.axisRect()->setMarginGroup(QCP::msTop | QCP::msBottom, group);
    bar->setMarginGroup(QCP::msTop | QCP::msBottom, group);
  }

  void addTexts() {
    const MapRequest& request = m_figure.request;
    std::string title = headText(request.head);
    if (request.minus) title += "  minus  " + headText(*request.minus);
    std::vector<std::string> notes;
    if (!m_colours.note.empty()) notes.push_back(m_colours.note);
    const auto& value = m_figure.image.value;
    if (std::any_of(value.begin(), value.end(), [](float pixel) { return std::isnan(pixel); })) {
      const bool window = request.head.trace->info().window_size > 0;
      notes.push_back(std::string("grey: the key comes after the query") + (window ? " or is outside the window" : ""));
    }
    QFont bold = m_font;
    bold.setBold(true);
    addText(0, title, bold);
    addText(1, fmt::format("{}: {}", to_string(request.quantity), resolutionText(request)), m_font);
    for (const std::string& note : notes) addText(m_plot.plotLayout()->rowCount(), note, m_font);
  }

  // One line over the full width, smaller where it would not fit.
  void addText(int row, const std::string& text, const QFont& wanted) {
    QCPLayoutGrid* layout = m_plot.plotLayout();
    const QString line = QString::fromStdString(text);
    const QFont font = fitted(wanted, line, m_raster.width() + 8 * m_font.pixelSize());
    if (row < layout->rowCount()) layout->insertRow(row);
    auto* element = new QCPTextElement(&m_plot, line, font);
    layout->addElement(row, 0, element);
  }

  static QFont fitted(QFont font, const QString& line, int room) {
    const int width = QFontMetrics(font).horizontalAdvance(line);
    if (width > room) font.setPixelSize(std::max(9, font.pixelSize() * room / width));
    return font;
  }

  const MapFigure& m_figure;
  const ScaledColours& m_colours;
  QSize m_raster;
  QFont m_font;
  QCustomPlot m_plot;
};

}  // namespace

void requireDrawing() {}

std::string drawPng(const MapFigure& figure) {
  const OffscreenApplication application;
  const ScaledColours colours = chooseColours(figure);
  QImage picture = MapPlot(figure, colours).paint();
  if (picture.isNull()) throw Error("drawing: the picture is too large for Qt: choose a smaller --size");
  picture.setText("Software", "foxscope");
  picture.setText("Title", QString::fromStdString(headText(figure.request.head)));
  picture.setText("Command", QString::fromStdString(figure.command));
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  if (!picture.save(&buffer, "PNG")) throw Error("drawing: Qt has no PNG writer: install Debian's libqt6gui6");
  return bytes.toStdString();
}

}  // namespace foxscope::figure
