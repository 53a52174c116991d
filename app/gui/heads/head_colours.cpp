#include "app/gui/heads/head_colours.h"

#include <algorithm>
#include <cmath>

#include "app/figure/colour_map.h"
#include "app/gui/document/number_text.h"

namespace foxscope::gui {
namespace {

// An F or A of 1e-300 must not take the colours of all others.
constexpr double kMostDecades = 6;

/// As the axes of maps write numbers: 0.05, 2039, 10⁻⁶.
QString shortNumber(double value) {
  const double size = std::abs(value);
  if (size >= 1e3 && size < 1e5) return QString::number(value, 'f', 0);
  if (value == 0 || size >= 0.01) return numberOf(value, size < 1e5 ? 4 : 1);
  return numberOf(value, size >= 1e-4 ? 2 : 1);
}

}  // namespace

HeadColours::HeadColours(const HeadColouring& colouring, const std::vector<double>& values,
                         const figure::ColourMap& diverging)
    : m_diverging(colouring.kind == HeadColouring::Kind::difference || textOf(colouring.quantity).hasSigns),
      m_map(m_diverging ? &diverging : &figure::viridis()) {
  std::vector<double> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](double value) { return std::isfinite(value); });
  if (finite.empty()) return;
  const auto [least, most] = std::minmax_element(finite.begin(), finite.end());
  m_lower = *least;
  m_upper = *most;
  if (m_diverging) {
    m_upper = std::max(std::abs(m_lower), std::abs(m_upper));
    m_lower = -m_upper;
  } else if (textOf(colouring.quantity).isShare) {
    m_lower = 0;
    m_upper = 1;
  } else if (textOf(colouring.quantity).logarithmic && m_upper > 0) {
    m_logarithmic = true;
    // A distance of 0 has the colour of the smallest one that has a logarithm.
    double positive = m_upper;
    for (const double value : finite) positive = value > 0 ? std::min(positive, value) : positive;
    m_lower = std::max(positive, m_upper * std::pow(10.0, -kMostDecades));
  }
  if (!(m_upper > m_lower)) {
    m_upper += std::max(1e-9, std::abs(m_upper) * 0.1);
    m_lower -= m_logarithmic ? 0.1 * m_lower : std::max(1e-9, std::abs(m_lower) * 0.1);
  }
}

double HeadColours::placeOf(double value) const {
  if (m_logarithmic) return value <= 0 ? 0 : std::log(value / m_lower) / std::log(m_upper / m_lower);
  return (value - m_lower) / (m_upper - m_lower);
}

QColor HeadColours::at(double place) const {
  const figure::Rgb rgb = figure::colourAt(*m_map, place);
  return {rgb.red, rgb.green, rgb.blue};
}

QColor HeadColours::colour(double value) const {
  if (std::isnan(value) || empty()) return Qt::transparent;
  return at(std::isinf(value) ? (value > 0 ? 1 : 0) : placeOf(value));
}

std::vector<HeadColours::Tick> HeadColours::ticks() const {
  std::vector<Tick> ticks;
  if (empty()) return ticks;
  if (m_logarithmic) {
    for (double decade = std::floor(std::log10(m_lower)); decade <= std::ceil(std::log10(m_upper)); ++decade) {
      const double value = std::pow(10.0, decade);
      if (value >= m_lower * 0.999 && value <= m_upper * 1.001) ticks.push_back({placeOf(value), shortNumber(value)});
    }
    if (ticks.size() >= 2) return ticks;
    ticks.clear();
  }
  ticks.push_back({0, shortNumber(m_lower)});
  if (m_diverging) ticks.push_back({0.5, "0"});
  if (m_lower == 0 && m_upper == 1) ticks.push_back({0.5, shortNumber(0.5)});
  ticks.push_back({1, shortNumber(m_upper)});
  return ticks;
}

}  // namespace foxscope::gui
