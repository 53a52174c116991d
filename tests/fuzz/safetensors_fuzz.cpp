// Any bytes as a safetensors image: refused with a message, or every tensor lies whole inside the image.

#include <cstdint>
#include <cstdlib>
#include <functional>

#include "backend/base/error.h"
#include "backend/model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> image(reinterpret_cast<const std::byte*>(data), size);
  try {
    for (const auto& [name, tensor] : foxscope::parse_safetensors(image, "model.safetensors")) {
      if (tensor.elements() < 0) std::abort();
      if (tensor.bytes.empty()) continue;
      if (std::less<>()(tensor.bytes.data(), image.data())) std::abort();
      if (std::less<>()(image.data() + size, tensor.bytes.data() + tensor.bytes.size())) std::abort();
      if (tensor.bytes.size() % static_cast<std::size_t>(tensor.elements()) != 0) std::abort();
    }
  } catch (const foxscope::Error&) {
    // Refused, with a message: as it should be.
  }
  return 0;
}
