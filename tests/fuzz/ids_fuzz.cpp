// Any bytes as a file of token ids.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backend/base/error.h"
#include "backend/text/token_ids.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t vocabulary_size = 8192;
  try {
    const foxscope::TokenIds ids =
        foxscope::read_token_ids({reinterpret_cast<const char*>(data), size}, "ids.json", vocabulary_size);
    if (ids.ids.empty() || (ids.labels && ids.labels->size() != ids.ids.size())) std::abort();
    for (const std::int32_t id : ids.ids) {
      if (id < 0 || id >= vocabulary_size) std::abort();
    }
  } catch (const foxscope::Error&) {
    // Refused, with a message: as it should be.
  }
  return 0;
}
