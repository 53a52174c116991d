#include "app/figure/page/pdf_metadata.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace foxscope::figure {
namespace {

constexpr std::size_t kEntrySize = 20;  ///< bytes of a line of the cross-reference table (PDF 1.4, 3.4.3)

constexpr std::string_view kCreator = "/Creator (foxscope)\n";  ///< Qt writes it in UTF-16

/// The file is not as Qt 6.4 writes it.
struct UnknownForm {};

/// Bytes that take the place of others.
struct Edit {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string text;
};

std::size_t find(std::string_view text, std::string_view word, std::size_t from) {
  const std::size_t place = text.find(word, from);
  if (place == std::string_view::npos) throw UnknownForm{};
  return place;
}

std::size_t numberAfter(std::string_view text, std::string_view word, std::size_t from) {
  std::size_t place = find(text, word, from) + word.size();
  while (place < text.size() && (text[place] == ' ' || text[place] == '\n')) ++place;
  std::size_t value = 0;
  const auto [end, failed] = std::from_chars(text.data() + place, text.data() + text.size(), value);
  if (failed != std::errc()) throw UnknownForm{};
  return value;
}

// A text string of PDF: UTF-16, big endian with its mark, in hexadecimal.
std::string textString(std::string_view utf8) {
  std::string text = "<FEFF";
  for (std::size_t place = 0; place < utf8.size();) {
    const auto lead = static_cast<unsigned char>(utf8[place]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    std::uint32_t code = length == 1 ? lead : lead & (0xffU >> (length + 1));
    for (std::size_t next = 1; next < length && place + next < utf8.size(); ++next) {
      code = code << 6 | (static_cast<unsigned char>(utf8[place + next]) & 0x3fU);
    }
    place += length;
    if (code < 0x10000) {
      text += fmt::format("{:04X}", code);
    } else {
      text += fmt::format("{:04X}{:04X}", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
    }
  }
  return text + ">";
}

std::string informationObject(std::size_t number, const PdfMetadata& metadata) {
  return fmt::format("{} 0 obj\n<<\n/Title {}\n/Subject {}\n/Keywords {}\n{}>>\nendobj\n", number,
                     textString(metadata.title), textString(metadata.subject), textString(metadata.keywords), kCreator);
}

// A subset's font is to be named with its tag everywhere (PDF 1.4, 5.5.3); Qt forgets it outside the descriptor.
std::vector<Edit> fontNames(std::string_view pdf, std::size_t end) {
  constexpr std::string_view kDescriptor = "/FontName /";
  constexpr std::string_view kBase = "/BaseFont /";
  std::vector<Edit> edits;
  std::map<std::string, std::string> tagged;
  const auto nameAt = [&](std::size_t place) { return std::string(pdf.substr(place, find(pdf, "\n", place) - place)); };
  for (std::size_t place = pdf.find(kDescriptor); place < end; place = pdf.find(kDescriptor, place + 1)) {
    const std::string name = nameAt(place + kDescriptor.size());
    tagged[name.substr(name.find('+') + 1)] = name;
  }
  for (std::size_t place = pdf.find(kBase); place < end; place = pdf.find(kBase, place + 1)) {
    const std::string name = nameAt(place + kBase.size());
    const auto known = tagged.find(name);
    if (known == tagged.end()) continue;
    edits.push_back({place + kBase.size(), place + kBase.size() + name.size(), known->second});
  }
  return edits;
}

/// Where the objects of a file begin, by their numbers.
std::vector<std::size_t> offsetsOf(std::string_view pdf, std::size_t entries, std::size_t size, std::size_t table) {
  std::vector<std::size_t> offsets{0};
  for (std::size_t number = 1; number < size; ++number) {
    const std::string_view entry = pdf.substr(entries + number * kEntrySize, kEntrySize);
    std::size_t offset = 0;
    const auto [end, failed] = std::from_chars(entry.data(), entry.data() + 10, offset);
    const bool used = failed == std::errc() && end == entry.data() + 10 && entry.substr(10) == " 00000 n \n";
    if (!used || offset >= table || !pdf.substr(offset).starts_with(fmt::format("{} 0 obj", number))) {
      throw UnknownForm{};
    }
    offsets.push_back(offset);
  }
  return offsets;
}

std::string patched(const std::string& pdf, const PdfMetadata& metadata) {
  const std::size_t trailer = pdf.rfind("trailer");
  if (trailer == std::string::npos) throw UnknownForm{};
  const std::size_t table = numberAfter(pdf, "startxref", trailer);
  const std::size_t size = numberAfter(pdf, "/Size", trailer);
  const std::size_t information = numberAfter(pdf, "/Info", trailer);
  const std::string section = fmt::format("xref\n0 {}\n", size);
  const std::size_t entries = table + section.size();
  const bool whole = table < trailer && pdf.compare(table, section.size(), section) == 0 &&
                     size <= (trailer - table) / kEntrySize && entries + size * kEntrySize <= trailer;
  if (!whole || information == 0 || information >= size) throw UnknownForm{};
  const std::vector<std::size_t> offsets = offsetsOf(pdf, entries, size, table);

  constexpr std::string_view kEnd = "endobj\n";
  const std::size_t begin = offsets[information];
  const std::size_t box = find(pdf, "/MediaBox [", 0);
  const std::size_t boxEnd = find(pdf, "]", box) + 1;
  const double pageHeight = std::ceil(metadata.heightPt);
  std::vector<Edit> edits = fontNames(pdf, table);
  edits.push_back({begin, find(pdf, kEnd, begin) + kEnd.size(), informationObject(information, metadata)});
  edits.push_back({box, boxEnd,
                   fmt::format("/MediaBox [0 {:.4f} {:.4f} {:.4f}]", pageHeight - metadata.heightPt, metadata.widthPt,
                               pageHeight)});
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) { return a.begin < b.begin; });

  std::string result;
  std::size_t copied = 0;
  for (const Edit& edit : edits) {
    result += pdf.substr(copied, edit.begin - copied) + edit.text;
    copied = edit.end;
  }
  result += pdf.substr(copied, table - copied);
  const std::size_t newTable = result.size();
  result += pdf.substr(table, entries - table) + pdf.substr(entries, kEntrySize);
  for (std::size_t index = 1; index < size; ++index) {
    std::size_t offset = offsets[index];
    for (const Edit& edit : edits) {
      if (edit.begin < offsets[index]) offset += edit.text.size() - (edit.end - edit.begin);
    }
    result += fmt::format("{:010} 00000 n \n", offset);
  }
  const std::size_t start = find(pdf, "startxref", trailer);
  return result + pdf.substr(trailer, start - trailer) + fmt::format("startxref\n{}\n%%EOF\n", newTable);
}

}  // namespace

std::optional<std::string> withMetadata(const std::string& pdf, const PdfMetadata& metadata) {
  try {
    return patched(pdf, metadata);
  } catch (const UnknownForm&) {
    return std::nullopt;
  }
}

std::optional<std::string> pdfNote(const std::string& file) {
  if (!file.starts_with("%PDF") || file.find(kCreator) != std::string::npos) return std::nullopt;
  return "this version of Qt writes PDF in a form of its own: the file's creation date is not fixed, and its page is "
         "rounded up to whole points";
}

}  // namespace foxscope::figure
