#pragma once

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/figure/figure_spec.h"
#include "app/figure/figure_style.h"
#include "app/figure/heads/head_choice.h"
#include "app/figure/maps/map_figure.h"

// Values of the options of figures and maps.

namespace foxscope::figure {

/// A number that is the whole text; else nothing.
template <typename Number>
std::optional<Number> numberIn(std::string_view text) {
  Number value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "A:B", "A:" or ":B" within a range; an empty text is all of it.
/// @param of   what the numbers are, as in "positions"
/// @param end  what the range's end is, as in "the text's length"
/// @throws UsageError naming the option and what is allowed
Range parseRange(const std::string& option, const std::string& text, const Range& within, std::string_view of,
                 std::string_view end);
/// The same of positions of a text: within [0, length).
Range parseRange(const std::string& option, const std::string& text, std::int64_t length);

/// "A:B", "A:" or ":B".
/// @throws UsageError naming the option and what is understood
std::pair<std::optional<double>, std::optional<double>> parseOpenLimits(const std::string& option,
                                                                        const std::string& text);

/// Whether the map of differences may be chosen for any quantity.
enum class Diverging { offered, left };
/// Null for an empty name: by quantity.
/// @throws UsageError naming those that exist
const ColourMap* parseColourMap(const std::string& name, Diverging diverging = Diverging::left);

/// "L:H" as a head.
/// @throws UsageError naming the option
HeadIndex parseHead(const std::string& option, const std::string& text);
/// A head and a range as options take them.
std::string wordOf(const HeadIndex& head);
std::string wordOf(const Range& range);

/// The value of an option in a spec; nothing where it is absent.
/// @throws UsageError naming the option, what is understood and the names that exist
std::optional<double> numberOf(const FigureSpec& spec, std::string_view option);
std::optional<std::int64_t> integerOf(const FigureSpec& spec, std::string_view option);
std::optional<HeadIndex> headOf(const FigureSpec& spec, const std::string& option);
std::optional<Range> rangeOf(const FigureSpec& spec, const std::string& option, std::int64_t length);
/// The place of an option's word among these; 0 where it is not there.
std::size_t placeOf(const FigureSpec& spec, const std::string& option, std::initializer_list<const char*> words);
/// The same of an enumeration, whose words stand in its order.
template <typename Enum>
Enum choiceOf(const FigureSpec& spec, const std::string& option, std::initializer_list<const char*> words) {
  return static_cast<Enum>(placeOf(spec, option, words));
}
/// --train-length.
std::optional<std::int64_t> trainLengthOf(const FigureSpec& spec);
/// --quantity, --colours and --limits.
std::vector<Quantity> quantitiesOf(const FigureSpec& spec);
const ColourMap* coloursOf(const FigureSpec& spec);
std::vector<ColourLimits> limitsOf(const FigureSpec& spec);
/// Limits and ticks of axes, order and colours of curves.
CurveChoice curvesOf(const FigureSpec& spec);

/// @param command  how to make the figure again
/// @throws UsageError for what cannot be understood and sizes that figures cannot have
FigureStyle styleOf(const FigureSpec& spec, const std::string& command);

}  // namespace foxscope::figure
