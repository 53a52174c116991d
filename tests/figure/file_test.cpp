#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <QGuiApplication>
#include <QXmlStreamReader>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/figure/maps/map_figure.h"
#include "backend/base/error.h"
#include "tests/figure/random_run.h"
#include "tests/figure/rendering.h"

// What other programs find in the files: sizes, fonts, texts, where they come from.

namespace foxscope::test {
namespace {

using figure::FigureFormat;
using Kind = figure::FigureFormat::Kind;

const figure::MapFigure& figure_of_run() {
  static const figure::MapFigure made = map_figure(random_run(60), Quantity::attention, {0, 60}, {0, 60});
  return made;
}

/// Names, attributes and text of an SVG's elements; fails the test where it is no XML.
struct SvgContent {
  QStringList elements;
  QString title, description, width, height, viewBox;
  explicit SvgContent(const std::string& svg) {
    QXmlStreamReader reader(QByteArray::fromStdString(svg));
    while (!reader.atEnd()) {
      if (reader.readNext() != QXmlStreamReader::StartElement) continue;
      const QString name = reader.name().toString();
      elements.append(name);
      if (name == "svg") {
        width = reader.attributes().value("width").toString();
        height = reader.attributes().value("height").toString();
        viewBox = reader.attributes().value("viewBox").toString();
      }
      if (name == "title") title = reader.readElementText();
      if (name == "desc") description = reader.readElementText();
    }
    EXPECT_FALSE(reader.hasError()) << reader.errorString().toStdString();
  }
};

TEST(File, TheSameFigureGivesTheSameBytes) {
  for (const Kind kind : {Kind::png, Kind::svg, Kind::pdf}) {
    const std::string first = drawMap(figure_of_run(), {.kind = kind});
    EXPECT_EQ(drawMap(figure_of_run(), {.kind = kind}), first);
  }
}

TEST(File, AnotherThreadDrawsTheSameWhileAnApplicationRuns) {
  int count = 1;
  std::string name = "test";
  char* arguments[] = {name.data(), nullptr};
  setenv("QT_QPA_PLATFORM", "offscreen", 1);
  const QGuiApplication application(count, arguments);
  for (const Kind kind : {Kind::png, Kind::svg, Kind::pdf}) {
    const std::string here = drawMap(figure_of_run(), {.kind = kind});
    std::string first;
    std::string second;
    std::thread one([&] { first = drawMap(figure_of_run(), {.kind = kind}); });
    std::thread two([&] { second = drawMap(figure_of_run(), {.kind = kind}); });
    one.join();
    two.join();
    EXPECT_EQ(first, here);
    EXPECT_EQ(second, here);
  }
}

TEST(File, AFileHasTheSizeThatWasAskedFor) {
  for (const auto& [width, height] : {std::pair{139.7, 100.0}, {140.0, 121.3}, {83.3, 83.3}, {300.0, 290.0}}) {
    FigureFormat format{.kind = Kind::png, .widthMm = width, .heightMm = height};
    const auto page = QImage::fromData(QByteArray::fromStdString(drawMap(figure_of_run(), format)), "PNG");
    EXPECT_NEAR(page.width(), width / 25.4 * 300, 0.5);
    EXPECT_NEAR(page.height(), height / 25.4 * 300, 0.5);
    EXPECT_NEAR(page.dotsPerMeterX(), 300 / 0.0254, 0.5);

    format.kind = Kind::pdf;
    const std::string info = output_of("pdfinfo " + in_file(drawMap(figure_of_run(), format), ".pdf"));
    const std::string line = info.substr(info.find("Page size:") + 10);
    std::size_t read = 0;
    EXPECT_NEAR(std::stod(line, &read), width / 25.4 * 72, 0.01) << info;
    EXPECT_NEAR(std::stod(line.substr(line.find(" x ") + 3)), height / 25.4 * 72, 0.01) << info;

    format.kind = Kind::svg;
    const SvgContent svg(drawMap(figure_of_run(), format));
    EXPECT_EQ(svg.width.toStdString(), fmt::format("{:.4f}mm", width));
    EXPECT_EQ(svg.height.toStdString(), fmt::format("{:.4f}mm", height));
    EXPECT_EQ(svg.viewBox.toStdString(), fmt::format("0 0 {:.4f} {:.4f}", width, height));
  }
}

TEST(File, WithoutAHeightThePageEndsWithItsContent) {
  const QImage page = rendered(drawMap(figure_of_run(), {}), Kind::png, 300);
  int lowest = 0;
  for (int y = 0; y < page.height(); ++y) {
    for (int x = 0; x < page.width(); ++x) lowest = page.pixel(x, y) == qRgb(255, 255, 255) ? lowest : y;
  }
  EXPECT_LT(page.height() - lowest, 40);
}

TEST(File, APdfEmbedsTrueTypeSubsets) {
  const std::string path = in_file(drawMap(figure_of_run(), {.kind = Kind::pdf}), ".pdf");
  const std::string fonts = output_of("pdffonts " + path);
  EXPECT_NE(fonts.find("+DejaVuSans "), std::string::npos) << fonts;
  EXPECT_NE(fonts.find("CID TrueType      Identity-H       yes yes yes"), std::string::npos) << fonts;
  EXPECT_EQ(fonts.find("Type 3"), std::string::npos) << fonts;
  const std::string text = output_of("pdftotext -layout " + path + " -");
  for (const char* word : {"random, layer 0, head 0", "attention: a pixel is an entry", "key position (token)", "10⁻¹",
                           "grey: nothing, since a query sees no later key"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in " << text;
  }
  EXPECT_EQ(output_of("pdftocairo -svg " + path + " - 2>&1 | grep -ci 'error' || true"), "0\n");
}

TEST(File, APlainMapHasNoWordsButThoseOfItsAxes) {
  auto map = figure_of_run();
  map.plain = true;
  const std::string bare = text_of(drawMap(map, {.kind = Kind::pdf}));
  for (const char* word : {"random", "a pixel", "grey"}) EXPECT_EQ(bare.find(word), std::string::npos) << bare;
  EXPECT_NE(bare.find("key position (token)"), std::string::npos) << bare;
  map.title = "A title";
  EXPECT_NE(text_of(drawMap(map, {.kind = Kind::pdf})).find("A title"), std::string::npos);
}

TEST(File, APdfSaysWhereItComesFromAndHasNoDate) {
  const std::string pdf = drawMap(figure_of_run(), {.kind = Kind::pdf});
  const std::string info = output_of("pdfinfo " + in_file(pdf, ".pdf") + " 2>&1");
  for (const char* word : {"Title:           random, layer 0, head 0: attention", "queries: 0:60", "logarithmic from",
                           "model: random", "text: ", "command: foxscope map <a & \"b\">", "Pages:           1"}) {
    EXPECT_NE(info.find(word), std::string::npos) << word << " in " << info;
  }
  EXPECT_EQ(info.find("CreationDate"), std::string::npos);
  EXPECT_EQ(info.find("rror"), std::string::npos);
  EXPECT_EQ(pdf.find("/CreationDate"), std::string::npos);
}

TEST(File, AnSvgHasTextAsPathsCrispPixelsAndItsOrigin) {
  const std::string content = drawMap(figure_of_run(), {.kind = Kind::svg});
  const SvgContent svg(content);
  EXPECT_FALSE(svg.elements.contains("text"));
  EXPECT_TRUE(svg.elements.contains("path"));
  EXPECT_EQ(svg.elements.count("image"), 2);
  EXPECT_NE(content.find("image-rendering:pixelated"), std::string::npos);
  EXPECT_EQ(content.find("optimizeSpeed"), std::string::npos);
  EXPECT_NE(content.find("data:image/png;base64,"), std::string::npos);
  EXPECT_EQ(svg.title.toStdString(), "random, layer 0, head 0: attention");
  EXPECT_TRUE(svg.description.contains("command: foxscope map <a & \"b\">")) << svg.description.toStdString();
  EXPECT_TRUE(svg.description.contains("keys: 0:60"));
}

TEST(File, APngSaysWhereItComesFrom) {
  const auto page = QImage::fromData(QByteArray::fromStdString(drawMap(figure_of_run(), {})), "PNG");
  EXPECT_EQ(page.text("Title").toStdString(), "random, layer 0, head 0: attention");
  EXPECT_EQ(page.text("Command").toStdString(), figure_of_run().command);
  EXPECT_TRUE(page.text("Description").contains("quantity: attention"));
}

}  // namespace
}  // namespace foxscope::test
