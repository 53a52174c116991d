#include "backend/base/csv_field.h"

namespace foxscope {

std::string csv_field(std::string_view text) {
  constexpr std::string_view kQuoted(",\"\r\n\0", 5);
  constexpr std::string_view kBlank = " \t";
  const bool bare = !text.empty() && text != "NA" && text.find_first_of(kQuoted) == std::string_view::npos &&
                    kBlank.find(text.front()) == std::string_view::npos &&
                    kBlank.find(text.back()) == std::string_view::npos;
  if (bare) return std::string(text);
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '\0') {
      quoted += "\\0";
      continue;
    }
    if (letter == '"') quoted += letter;
    quoted += letter;
  }
  return quoted + '"';
}

}  // namespace foxscope
