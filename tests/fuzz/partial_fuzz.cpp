// Any bytes as unfinished work that an evaluation goes on from. Checksums of records are made right again after a
// change, so that what lies behind them is reached.
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>

#include "backend/base/error.h"
#include "backend/eval/loss/loss_partial.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

constexpr std::size_t kHead = 8 + 64;  // the letters and the fingerprint
constexpr std::size_t kRecord = 20;    // model, window, tokens, checksums of the losses and of these

std::uint32_t number(const std::uint8_t* at) {
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  if (size > kHead && random() % 4 != 0) {
    size = kHead + LLVMFuzzerMutate(data + kHead, size - kHead, most - kHead);
  } else {
    size = LLVMFuzzerMutate(data, size, most);
  }
  for (std::size_t at = kHead; at + kRecord <= size;) {
    const std::size_t bytes = std::size_t{number(data + at + 8)} * 4;
    if (bytes > size - at - kRecord) break;
    const auto losses = bytes == 0 ? 0 : static_cast<std::uint32_t>(crc32_z(0, data + at + kRecord, bytes));
    std::memcpy(data + at + 12, &losses, sizeof losses);
    const auto head = static_cast<std::uint32_t>(crc32_z(0, data + at, 16));
    std::memcpy(data + at + 16, &head, sizeof head);
    at += kRecord + bytes;
  }
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::filesystem::path output = "/dev/shm/foxscope-fuzz-" + std::to_string(getpid()) + ".h5";
  const std::filesystem::path file = foxscope::partial_path(output);
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    std::size_t found = 0;
    const foxscope::LossPartial partial(output, std::string(64, '0'), false,
                                        [&](std::uint32_t, std::uint32_t, std::span<const float> losses) {
                                          found += kRecord + losses.size() * sizeof(float);
                                        });
    if (found > size) std::abort();
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  std::filesystem::remove(file);
  return 0;
}
