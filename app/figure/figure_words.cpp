#include "app/figure/figure_words.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figure/figure_length.h"
#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

AxisLimits parseLimits(const std::string& option, const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto lower = numberIn<double>(std::string_view(text).substr(0, colon));
  const auto upper =
      colon == std::string::npos ? std::nullopt : numberIn<double>(std::string_view(text).substr(colon + 1));
  if (!lower || !upper) throw UsageError(fmt::format("{} {}: write A:B, as in 2.5:4", option, text));
  return {*lower, *upper};
}

Rgb parseColour(const std::string& option, const std::string& text) {
  unsigned value = 0;
  const auto [end, failed] = std::from_chars(text.data() + 1, text.data() + text.size(), value, 16);
  if (text.size() != 7 || text[0] != '#' || failed != std::errc() || end != text.data() + text.size()) {
    throw UsageError(fmt::format("{} {}: write a colour as #RRGGBB, for instance #2d466c", option, text));
  }
  return {static_cast<std::uint8_t>(value >> 16), static_cast<std::uint8_t>(value >> 8),
          static_cast<std::uint8_t>(value)};
}

/// "NAME=TEXT" as a pair.
std::pair<std::string, std::string> parsePair(const std::string& option, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError(fmt::format("{} {}: write NAME=..., with a name that the figure has", option, text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::pair<std::string, CurveLook> parseLook(const std::string& text) {
  const auto [name, look] = parsePair("--look", text);
  const std::size_t colon = look.find(':');
  const auto colour = numberIn<int>(std::string_view(look).substr(0, colon));
  const auto change =
      colon == std::string::npos ? std::optional(0) : numberIn<int>(std::string_view(look).substr(colon + 1));
  if (!colour || !change || *colour < 0 || *change < 0) {
    throw UsageError(
        fmt::format("--look {}: write NAME=COLOUR or NAME=COLOUR:STYLE in whole numbers from 0, as in fox=0:1", text));
  }
  return {name, {*colour, *change}};
}

constexpr std::array<std::pair<const char*, FigureFormat::Kind>, 4> kFormats{{{"pdf", FigureFormat::Kind::pdf},
                                                                              {"svg", FigureFormat::Kind::svg},
                                                                              {"png", FigureFormat::Kind::png},
                                                                              {"csv", FigureFormat::Kind::csv}}};

FigureFormat::Kind kindOf(const FigureSpec& spec) {
  const std::string output = spec.text("output");
  const std::string ending = std::filesystem::path(output).extension().string();
  const std::string format = spec.text("format");
  for (const auto& [word, kind] : kFormats) {
    if (format.empty() ? ending.substr(std::min<std::size_t>(1, ending.size())) == word : format == word) return kind;
  }
  if (!format.empty()) throw UsageError(fmt::format("--format {}: use pdf, svg, png or csv", format));
  throw UsageError(fmt::format(
      "{}: cannot tell the format from the name: use .pdf, .svg, .png or .csv, or say it by --format", output));
}

std::optional<AxisLimits> axisOf(const FigureSpec& spec, const std::string& option) {
  if (!spec.has(option)) return std::nullopt;
  return parseLimits("--" + option, spec.text(option));
}

std::vector<double> numbersOf(const FigureSpec& spec, std::string_view option) {
  std::vector<double> numbers;
  for (const std::string& text : spec.list(option)) numbers.push_back(numberIn<double>(text).value());
  return numbers;
}

}  // namespace

Range parseRange(const std::string& option, const std::string& text, std::int64_t length) {
  return parseRange(option, text, {0, length}, "positions", "the text's length");
}

Range parseRange(const std::string& option, const std::string& text, const Range& within, std::string_view of,
                 std::string_view end_of) {
  if (text.empty()) return within;
  const std::size_t colon = text.find(':');
  const auto end = [&](std::string_view word, std::int64_t otherwise) {
    return word.empty() ? std::optional(otherwise) : numberIn<std::int64_t>(word);
  };
  const auto first = end(std::string_view(text).substr(0, colon), within.begin);
  const auto last =
      colon == std::string::npos ? std::nullopt : end(std::string_view(text).substr(colon + 1), within.end);
  if (!first || !last || *first < 0 || *last < 0) {
    throw UsageError(fmt::format("{} {}: write A:B for the {} from A up to, not including, B", option, text, of));
  }
  if (*first < within.begin || *first >= *last || *last > within.end) {
    throw UsageError(
        fmt::format("{} {}: use {} with {} <= A < B <= {}, {}", option, text, of, within.begin, within.end, end_of));
  }
  return {*first, *last};
}

std::pair<std::optional<double>, std::optional<double>> parseOpenLimits(const std::string& option,
                                                                        const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto end = [&](std::string_view word) {
    const auto value = numberIn<double>(word);
    if (colon == std::string::npos || (!value && !word.empty())) {
      throw UsageError(fmt::format("{} {}: write A:B, A: or :B, as in 1e-4:1", option, text));
    }
    return value;
  };
  const auto lower = end(std::string_view(text).substr(0, colon));
  return {lower, end(std::string_view(text).substr(colon + 1))};
}

const ColourMap* parseColourMap(const std::string& name, Diverging diverging) {
  if (name.empty()) return nullptr;
  for (const NamedColourMap& one : namedColourMaps()) {
    if (name == one.name) return one.map;
  }
  if (diverging == Diverging::offered && name == "diverging") return &figure::diverging();
  throw UsageError(fmt::format("--colours {}: use viridis, cividis, magma{}", name,
                               diverging == Diverging::offered ? ", grey or diverging" : " or grey"));
}

HeadIndex parseHead(const std::string& option, const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto layer = numberIn<int>(std::string_view(text).substr(0, colon));
  const auto head = colon == std::string::npos ? std::nullopt : numberIn<int>(std::string_view(text).substr(colon + 1));
  if (!layer || !head) throw UsageError(fmt::format("{} {}: write LAYER:HEAD, as in 2:1", option, text));
  return {*layer, *head};
}

std::string wordOf(const HeadIndex& head) { return fmt::format("{}:{}", head.layer, head.head); }

std::string wordOf(const Range& range) { return fmt::format("{}:{}", range.begin, range.end); }

std::optional<double> numberOf(const FigureSpec& spec, std::string_view option) {
  return numberIn<double>(spec.text(option));
}

std::optional<std::int64_t> integerOf(const FigureSpec& spec, std::string_view option) {
  return numberIn<std::int64_t>(spec.text(option));
}

std::optional<HeadIndex> headOf(const FigureSpec& spec, const std::string& option) {
  const std::string text = spec.text(option);
  return text.empty() ? std::nullopt : std::optional(parseHead("--" + option, text));
}

std::optional<Range> rangeOf(const FigureSpec& spec, const std::string& option, std::int64_t length) {
  const std::string text = spec.text(option);
  return text.empty() ? std::nullopt : std::optional(parseRange("--" + option, text, length));
}

std::optional<std::int64_t> trainLengthOf(const FigureSpec& spec) {
  const auto length = integerOf(spec, "train-length");
  if (length && *length < 1) throw UsageError(fmt::format("--train-length {}: use a number of tokens", *length));
  return length;
}

std::vector<Quantity> quantitiesOf(const FigureSpec& spec) {
  std::vector<Quantity> quantities;
  for (const std::string& name : spec.list("quantity")) {
    const Quantity quantity = quantity_from_string(name);
    if (std::ranges::find(quantities, quantity) != quantities.end()) {
      throw UsageError(fmt::format("--quantity: {} stands there twice: leave one out", name));
    }
    quantities.push_back(quantity);
  }
  return quantities;
}

const ColourMap* coloursOf(const FigureSpec& spec) { return parseColourMap(spec.text("colours")); }

std::vector<ColourLimits> limitsOf(const FigureSpec& spec) {
  std::vector<ColourLimits> limits;
  for (const std::string& text : spec.list("limits")) {
    const auto [quantity, ends] = parsePair("--limits", text);
    const auto [lower, upper] = parseOpenLimits("--limits", ends);
    limits.push_back({quantity_from_string(quantity), lower, upper});
  }
  return limits;
}

std::size_t placeOf(const FigureSpec& spec, const std::string& option, std::initializer_list<const char*> words) {
  const std::string word = spec.text(option, *words.begin());
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  throw UsageError(fmt::format("--{} {}: use {} or {}", option, word, fmt::join(words.begin(), words.end() - 1, ", "),
                               *(words.end() - 1)));
}

CurveChoice curvesOf(const FigureSpec& spec) {
  CurveChoice choice;
  choice.xLimits = axisOf(spec, "x-limits");
  choice.yLimits = axisOf(spec, "y-limits");
  choice.xTicks = numbersOf(spec, "x-ticks");
  choice.yTicks = numbersOf(spec, "y-ticks");
  choice.order = spec.list("legend");
  for (const std::string& text : spec.list("colour")) {
    const auto [name, colour] = parsePair("--colours", text);
    choice.colours.emplace_back(name, parseColour("--colours", colour));
  }
  return choice;
}

FigureStyle styleOf(const FigureSpec& spec, const std::string& command) {
  FigureStyle style;
  FigureFormat& format = style.format;
  format.kind = kindOf(spec);
  if (spec.has("width")) format.widthMm = parseLength("--width", spec.text("width"));
  if (spec.has("height")) format.heightMm = parseLength("--height", spec.text("height"));
  if (const auto dpi = integerOf(spec, "dpi")) format.dpi = static_cast<int>(*dpi);
  format.fontFamily = spec.text("font");
  format.fontSizePt = numberOf(spec, "font-size");
  format.lineWidthPt = numberOf(spec, "line-width");
  if (spec.has("svg-text")) {
    if (format.kind != FigureFormat::Kind::svg) {
      throw UsageError(fmt::format("--svg-text: {} is no .svg: leave the option out", spec.text("output")));
    }
    format.svgText = FigureFormat::SvgText::text;
  }
  style.title = spec.text("title");
  style.legend = choiceOf<LegendPlace>(spec, "legend-at", {"auto", "above", "none"});
  if (spec.has("no-letters")) style.letters = PanelLetters::none;
  for (const std::string& label : spec.list("label")) style.labels.push_back(parsePair("--label", label));
  for (const std::string& look : spec.list("look")) style.looks.push_back(parseLook(look));
  style.command = command;
  requireValid(format);
  return style;
}

}  // namespace foxscope::figure
