#include "app/figure/figure_length.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "app/figure/figure_format.h"
#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

// Widths and heights from the venues' style files and guides for authors.
constexpr std::array kVenues{Venue{"neurips", "5.5in", "NeurIPS, ICLR: text width", "9in"},
                             Venue{"iclr", "5.5in", nullptr, "9in"},
                             Venue{"half", "2.65in", "NeurIPS, ICLR: half", "9in"},
                             Venue{"icml", "3.25in", "ICML: column", "9in"},
                             Venue{"icml-wide", "6.75in", "ICML: page", "9in"},
                             Venue{"acl", "77mm", "ACL: column", "247mm"},
                             Venue{"acl-wide", "160mm", "ACL: page", "247mm"},
                             Venue{"aaai", "3.3125in", "AAAI: column", "9in"},
                             Venue{"aaai-wide", "7in", "AAAI: page", "9in"},
                             Venue{"nature", "89mm", "Nature: column", "247mm"},
                             Venue{"nature-wide", "183mm", "Nature: page", "247mm"},
                             Venue{"slide", "10in", "slide", nullptr}};

}  // namespace

std::span<const Venue> venues() { return kVenues; }

std::optional<std::string> heightNote(const FigureFormat& format, double height) {
  constexpr double kNear = 0.1;  // millimetres
  const double millimetres = height / kPointsPerInch * kMillimetresPerInch;
  for (const Venue& venue : kVenues) {
    if (venue.height == nullptr || std::abs(parseLength("--width", venue.word) - format.widthMm) > kNear) continue;
    if (millimetres <= parseLength("--height", venue.height) + kNear) return std::nullopt;
    const std::string_view title = venue.title;
    const bool inches = std::string_view(venue.height).ends_with("in");
    return fmt::format(
        "the figure is {:.{}f}{} high, and the text of a page is {} ({}): draw less of it, or in several "
        "figures",
        inches ? millimetres / kMillimetresPerInch : millimetres, inches ? 1 : 0, inches ? "in" : "mm", venue.height,
        title.substr(0, title.find(':')));
  }
  return std::nullopt;
}

std::string lengthPresets() {
  std::string text;
  for (const Venue& venue : kVenues) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", venue.word, venue.length);
  return text;
}

double parseLength(const std::string& option, const std::string& text) {
  std::string_view length = text;
  for (const Venue& venue : kVenues) {
    if (text == venue.word) length = venue.length;
  }
  const std::string_view unit = length.size() < 2 ? "" : length.substr(length.size() - 2);
  const char* last = length.data() + length.size() - unit.size();
  double number = 0;
  const auto [end, failed] = std::from_chars(length.data(), last, number);
  const bool valid = failed == std::errc() && end == last;
  if (valid && unit == "mm") return number;
  if (valid && unit == "in") return number * kMillimetresPerInch;
  if (valid && unit == "pt") return number * kMillimetresPerInch / kPointsPerInch;
  throw UsageError(fmt::format("{} {}: write a length with its unit, as in 140mm or 5.5in, or one of {}", option, text,
                               lengthPresets()));
}

}  // namespace foxscope::figure
