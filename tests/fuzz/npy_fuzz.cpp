// Any bytes as an array of numpy's, every number of which is read, and as an archive of the authors' losses.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backend/base/error.h"
#include "backend/data/npy.h"
#include "backend/eval/import.h"
#include "tests/fuzz/memory_file.h"

namespace {

void read_array(std::string_view bytes) {
  const foxscope::NpyArray array = foxscope::parse_npy(bytes, "array");
  std::size_t count = 1;
  for (const std::int64_t extent : array.shape) {
    if (extent < 0) std::abort();
    count *= static_cast<std::size_t>(extent);
  }
  if (count != array.count()) std::abort();
  double sum = 0;
  for (std::size_t n = 0; n < count; ++n) {
    sum += array.is_integer() ? static_cast<double>(array.integer(n)) : array.real(n);
  }
  static_cast<void>(sum);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile file;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (bytes.starts_with("PK")) {
      file.fill(data, size);
      static_cast<void>(foxscope::import_losses(file.path(), "model"));
    } else {
      read_array(bytes);
    }
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  return 0;
}
