#include "tests/figure/rendering.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace foxscope::test {
namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / fmt::format("foxscope-figure-{}", getpid());
  int files = 0;
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

// The longest black line along a row or column: of letters and ticks it is short.
int longest_black(const QImage& page, int from, int to, const std::function<QPoint(int)>& at) {
  int longest = 0;
  int length = 0;
  for (int place = from; place < to; ++place) {
    const QColor colour = page.pixelColor(at(place));
    const bool black = colour.red() < 40 && colour.green() < 40 && colour.blue() < 40;
    length = black ? length + 1 : 0;
    longest = std::max(longest, length);
  }
  return longest;
}

}  // namespace

std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t size = fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), size);
  EXPECT_EQ(pclose(pipe), 0) << command << " (./dev test installs poppler-utils and librsvg2-bin)";
  return output;
}

std::string in_file(const std::string& content, const std::string& ending) {
  static Folder folder;
  const std::string path = (folder.path / fmt::format("{}{}", ++folder.files, ending)).string();
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

QImage rendered(const std::string& content, figure::FigureFormat::Kind kind, int dpi) {
  using Kind = figure::FigureFormat::Kind;
  std::string png = content;
  if (kind == Kind::pdf) png = output_of(fmt::format("pdftoppm -r {} -png {}", dpi, in_file(content, ".pdf")));
  if (kind == Kind::svg) png = output_of(fmt::format("rsvg-convert -d {0} -p {0} {1}", dpi, in_file(content, ".svg")));
  QImage page;
  EXPECT_TRUE(page.loadFromData(QByteArray::fromStdString(png), "PNG"));
  return page.convertToFormat(QImage::Format_RGB32);
}

QRect raster_of(const QImage& page) {
  const auto row = [&](int y) {
    return longest_black(page, 0, page.width(), [y](int x) { return QPoint(x, y); }) > 0.08 * page.width();
  };
  int top = 0;
  while (top < page.height() && !row(top)) ++top;
  while (top < page.height() && row(top)) ++top;
  int bottom = top;
  while (bottom < page.height() && !row(bottom)) ++bottom;
  const auto column = [&](int x) {
    return longest_black(page, top, bottom, [x](int y) { return QPoint(x, y); }) > 0.9 * (bottom - top);
  };
  int left = 0;
  while (left < page.width() && !column(left)) ++left;
  while (left < page.width() && column(left)) ++left;
  int right = left;
  while (right < page.width() && !column(right)) ++right;
  return {left, top, right - left, bottom - top};
}

figure::MapFigure map_figure(const std::shared_ptr<const Trace>& run, Quantity quantity, Range rows, Range columns) {
  figure::MapFigure figure;
  figure.request.head = {run, 0, 0};
  figure.request.quantity = quantity;
  figure.request.reduction = default_reduction(quantity, false);
  figure.request.rows = rows;
  figure.request.columns = columns;
  figure.request.pixel_rows = rows.size();
  figure.request.pixel_columns = columns.size();
  figure.image = *compute_map(figure.request, {});
  figure.scale = figure::defaultScale(figure.request);
  figure.command = "foxscope map <a & \"b\">";
  return figure;
}

std::string text_of(const std::string& pdf) { return output_of("pdftotext -layout " + in_file(pdf, ".pdf") + " -"); }

figure::FigureStyle style_of(figure::FigureFormat::Kind kind) {
  figure::FigureStyle style;
  style.format.kind = kind;
  return style;
}

}  // namespace foxscope::test
