// Any bytes as a safetensors image: refused with a message, or every tensor lies whole inside the image. The same bytes
// as the tensors of a run.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "backend/base/error.h"
#include "backend/data/tensor_run.h"
#include "backend/model/weights/safetensors.h"
#include "tests/fuzz/json_growth.h"
#include "tests/fuzz/memory_file.h"

/// The header is changed as JSON, behind a length that is made right again.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  std::uint64_t length = 0;
  if (size >= sizeof length) std::memcpy(&length, data, sizeof length);
  if (random() % 3 == 0 || length == 0 || length > size - sizeof length) return LLVMFuzzerMutate(data, size, most);
  const std::string all(reinterpret_cast<const char*>(data) + sizeof length, size - sizeof length);
  const std::string header = grow_json(all.substr(0, length), most - sizeof length, random);
  const std::string changed = header + all.substr(length);
  const std::size_t kept = std::min(changed.size(), most - sizeof length);
  length = header.size();
  std::memcpy(data, &length, sizeof length);
  std::memcpy(data + sizeof length, changed.data(), kept);
  return sizeof length + kept;
}

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
  static MemoryFile file;
  file.fill(data, size);
  try {
    (void)foxscope::read_tensor_run(file.path(), {.name = "fuzz"}, {});
  } catch (const foxscope::Error&) {
    // Likewise.
  }
  return 0;
}
