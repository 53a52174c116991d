#pragma once

#include <span>
#include <string>

namespace foxscope::figure {

/// A width that a figure has in print, of a column or of the text.
struct Venue {
  const char* word;    ///< what --width calls it
  const char* length;  ///< with its unit
  const char* title;   ///< in a list of widths; null: another venue has the same
};
std::span<const Venue> venues();

/// "140mm", "5.5in", "397pt", or a venue's word, in millimetres.
/// @throws UsageError naming the option and what is understood
double parseLength(const std::string& option, const std::string& text);

/// Lists the venues, "neurips 5.5in, ...", for a help text.
std::string lengthPresets();

}  // namespace foxscope::figure
