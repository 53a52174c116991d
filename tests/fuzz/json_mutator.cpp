// Linked into every fuzzer whose input is JSON.
#include "tests/fuzz/json_growth.h"

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return mutate_json(data, size, most, seed);
}
