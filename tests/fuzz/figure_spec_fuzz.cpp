// Any bytes as a figure that is written down.
#include <cstdint>
#include <string_view>

#include "app/figure/figure_spec.h"
#include "backend/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    // Without panels it is one figure.
    if (foxscope::figure::FigureParts::parse(text, "figure.json")) return 0;
    static_cast<void>(foxscope::figure::FigureSpec::parse(text, "figure.json"));
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  return 0;
}
