#pragma once

#include <optional>
#include <string>

namespace foxscope::figure {

/// The metadata of a PDF, UTF-8.
struct PdfMetadata {
  std::string title;
  std::string subject;
  std::string keywords;
  double widthPt = 0;  ///< page size; Qt wrote it rounded up to whole points
  double heightPt = 0;
};

/// Replaces the document information of a PDF that QPdfWriter wrote, and the size of its page, measured from the upper
/// left corner; names subsets of fonts as such. Qt writes the time of day, so that no two files would be equal: here
/// the file has no date.
/// @returns nothing where the file does not have the form that Qt 6.4 writes: it is a figure as it is
std::optional<std::string> withMetadata(const std::string& pdf, const PdfMetadata& metadata);

/// A note on a figure's file: a line where it is a PDF that withMetadata did not know.
std::optional<std::string> pdfNote(const std::string& file);

}  // namespace foxscope::figure
