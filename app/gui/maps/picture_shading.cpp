#include "app/gui/maps/picture_shading.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

using figure::ColourScale;
using figure::Rgb;
using figure::ScaledColours;

/// Enough that the two colours beside a place differ by less than one step of a channel.
constexpr int kSteps = 4096;

/// Bits for log2 between two powers of 2; enough for kSteps over one of them.
constexpr int kMantissaBits = 12;

/// log2 of the numbers from 1 to 2, each the middle of its step.
const std::vector<float>& mantissaLogarithms() {
  static const std::vector<float> table = [] {
    constexpr int kCount = 1 << kMantissaBits;
    std::vector<float> values;
    values.reserve(kCount);
    for (int n = 0; n < kCount; ++n) values.push_back(std::log2(1 + (static_cast<float>(n) + 0.5F) / kCount));
    return values;
  }();
  return table;
}

QRgb rgbOf(const Rgb& colour) { return qRgb(colour.red, colour.green, colour.blue); }

/// Values to colours by table, and logarithms too where a step of theirs is not seen: a logarithm for each of a million
/// pixels would take longer than the map.
class Shader {
 public:
  Shader(const ScaledColours& colours, const Shading& shading) : m_colours(colours), m_shading(shading) {
    for (int step = 0; step <= kSteps; ++step) {
      m_table.push_back(rgbOf(figure::colourAt(*colours.map, static_cast<double>(step) / kSteps)));
    }
    m_factor = kSteps / (colours.upper - colours.lower);
    m_offset = colours.lower;
    if (colours.scale == ColourScale::linear) return;
    const double octaves = std::log2(colours.upper / colours.lower);
    m_precise = octaves < 1;
    m_factor = kSteps / octaves;
    m_offset = std::log2(colours.lower);
  }

  void line(const float* values, std::int64_t count, QRgb* out) const {
    for (std::int64_t n = 0; n < count; ++n) out[n] = colour(values[n]);
  }

 private:
  [[nodiscard]] float logarithm(float value) const {
    constexpr int kShift = std::numeric_limits<float>::digits - 1 - kMantissaBits;
    constexpr int kOffset = 1 - std::numeric_limits<float>::min_exponent + 1;
    if (m_precise) return std::log2(value);
    const auto bits = std::bit_cast<std::uint32_t>(value) >> kShift;
    return static_cast<float>(static_cast<int>(bits >> kMantissaBits) - kOffset) +
           m_logarithms[bits & ((1U << kMantissaBits) - 1)];
  }

  [[nodiscard]] QRgb colour(float value) const {
    if (std::isnan(value)) return m_shading.absent;
    if (m_colours.blankBelow && (m_colours.hasSigns ? std::abs(value) : value) < *m_colours.blankBelow) {
      return m_shading.blank;
    }
    double place = 0;
    if (m_colours.scale == ColourScale::linear) {
      place = (value - m_offset) * m_factor;
    } else if (value > 0) {
      place = (logarithm(value) - m_offset) * m_factor;
    }
    const double nearest = std::clamp<double>(place, 0, kSteps) + 0.5;
    return m_table[index_of(nearest)];
  }

  const ScaledColours& m_colours;
  const Shading& m_shading;
  const std::vector<float>& m_logarithms = mantissaLogarithms();
  std::vector<QRgb> m_table;
  double m_factor = 0;
  double m_offset = 0;  ///< the lower limit, or its log2
  bool m_precise = false;
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
  ScaledColours colours = figure::chooseColours(figure);
  if (!shading.steps || figure.colours.lower || figure.colours.upper) return colours;
  figure.colours.lower = std::min(colours.lower, shading.steps->first);
  figure.colours.upper = std::max(colours.upper, shading.steps->second);
  return figure::chooseColours(figure);
}

void paint(MapPicture& picture, kernels::Executor* executor) {
  const Shader shader(picture.colours, picture.request.shading);
  picture.images.clear();
  for (const auto& pooled : picture.values) {
    const bool byDistance = picture.request.content.axes == MapAxes::distance;
    const auto values = byDistance ? std::make_shared<const Image>(drawn_by_distance(*pooled)) : pooled;
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
