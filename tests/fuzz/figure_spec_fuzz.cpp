// Any bytes as a figure that is written down.
#include <cstdint>
#include <string_view>

#include "app/figure/figure_spec.h"
#include "backend/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    static_cast<void>(foxscope::figure::FigureSpec::parse({reinterpret_cast<const char*>(data), size}, "figure.json"));
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  return 0;
}
