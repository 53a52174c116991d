#pragma once

#include <optional>
#include <span>
#include <string>

#include "app/figure/figure_format.h"

namespace foxscope::figure {

/// A width that a figure has in print, of a column or of the text.
struct Venue {
  const char* word;    ///< what --width calls it
  const char* length;  ///< with its unit
  const char* title;   ///< in a list of widths; null: another venue has the same
  const char* height;  ///< of the text on a page, with its unit; null: not known
};
std::span<const Venue> venues();

/// "140mm", "5.5in", "397pt", or a venue's word, in millimetres.
/// @throws UsageError naming the option and what is understood
double parseLength(const std::string& option, const std::string& text);

/// A note for a figure that is higher than the text of a page of the venue whose width it has.
/// @param height  points
std::optional<std::string> heightNote(const FigureFormat& format, double height);

/// Lists the venues, "neurips 5.5in, ...", for a help text.
std::string lengthPresets();

}  // namespace foxscope::figure
