#include "app/figure/figure_length.h"

#include <array>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "app/figure/figure_format.h"
#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

// Widths from the venues' style files and guides for authors.
constexpr std::array kVenues{Venue{"neurips", "5.5in", "NeurIPS, ICLR: text width"},
                             Venue{"iclr", "5.5in", nullptr},
                             Venue{"half", "2.65in", "NeurIPS, ICLR: half"},
                             Venue{"icml", "3.25in", "ICML: column"},
                             Venue{"icml-wide", "6.75in", "ICML: page"},
                             Venue{"acl", "77mm", "ACL: column"},
                             Venue{"acl-wide", "160mm", "ACL: page"},
                             Venue{"aaai", "3.3125in", "AAAI: column"},
                             Venue{"aaai-wide", "7in", "AAAI: page"},
                             Venue{"nature", "89mm", "Nature: column"},
                             Venue{"nature-wide", "183mm", "Nature: page"},
                             Venue{"slide", "10in", "slide"}};

}  // namespace

std::span<const Venue> venues() { return kVenues; }

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
