#include "app/gui/maps/picture_shading.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/base/error.h"

namespace foxscope::gui {
namespace {

using figure::ColourScale;
using figure::Rgb;
using figure::ScaledColours;

/// Enough that the two colours beside a place differ by less than one step of a channel.
constexpr int kSteps = 4096;

QRgb rgbOf(const Rgb& colour) { return qRgb(colour.red, colour.green, colour.blue); }

/// Values to colours by table: a logarithm for each of a million pixels would take longer than the map.
class Shader {
 public:
  Shader(const ScaledColours& colours, const Shading& shading) : m_colours(colours), m_shading(shading) {
    for (int step = 0; step <= kSteps; ++step) {
      m_table.push_back(rgbOf(figure::colourAt(*colours.map, static_cast<double>(step) / kSteps)));
    }
    m_factor = kSteps / (colours.upper - colours.lower);
    if (colours.scale == ColourScale::logarithmic) m_factor = kSteps / std::log2(colours.upper / colours.lower);
  }

  void line(const float* values, std::int64_t count, QRgb* out) const {
    for (std::int64_t n = 0; n < count; ++n) out[n] = colour(values[n]);
  }

 private:
  [[nodiscard]] QRgb colour(float value) const {
    if (std::isnan(value)) return m_shading.absent;
    if (m_colours.blankBelow && (m_colours.hasSigns ? std::abs(value) : value) < *m_colours.blankBelow) {
      return m_shading.blank;
    }
    double place = 0;
    if (m_colours.scale == ColourScale::linear) {
      place = (value - m_colours.lower) * m_factor;
    } else if (value > 0) {
      place = std::log2(value / static_cast<float>(m_colours.lower)) * m_factor;
    }
    return m_table[static_cast<std::size_t>(std::lrint(std::clamp<double>(place, 0, kSteps)))];
  }

  const ScaledColours& m_colours;
  const Shading& m_shading;
  std::vector<QRgb> m_table;
  double m_factor = 0;
};

/// All values of all sides as one, for limits that hold for all; without a copy where there is one side.
Image joined(const std::vector<std::shared_ptr<const Image>>& images) {
  Image all{0, 1, {}};
  for (const auto& image : images) all.value.insert(all.value.end(), image->value.begin(), image->value.end());
  all.rows = static_cast<std::int64_t>(all.value.size());
  return all;
}

}  // namespace

ScaledColours coloursOf(const MapPicture& picture, const Shading& shading) {
  figure::MapFigure figure;
  figure.request = picture.computed;
  figure.image = joined(picture.values);
  figure.scale = shading.scale;
  figure.colours = shading.colours.choice();
  return figure::chooseColours(figure);
}

void paint(MapPicture& picture, kernels::Executor* executor) {
  const Shader shader(picture.colours, picture.request.shading);
  picture.images.clear();
  for (const auto& values : picture.values) {
    QImage image(static_cast<int>(values->columns), static_cast<int>(values->rows), QImage::Format_RGB32);
    if (image.isNull()) throw Error("no memory for the picture of a map: make the window smaller");
    uchar* const bits = image.bits();
    const auto stride = image.bytesPerLine();
    const auto line = [&](std::int64_t row) {
      shader.line(values->value.data() + row * values->columns, values->columns,
                  reinterpret_cast<QRgb*>(bits + row * stride));
    };
    if (executor != nullptr) {
      executor->run(values->rows, [&](std::int64_t row, int) { line(row); });
    } else {
      for (std::int64_t row = 0; row < values->rows; ++row) line(row);
    }
    picture.images.push_back(std::move(image));
  }
}

}  // namespace foxscope::gui
