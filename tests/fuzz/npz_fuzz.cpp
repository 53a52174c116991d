// Any bytes as an .npz archive of losses; bytes that do not begin as an archive are the array in one, whose sizes and
// checksum are right, so that what is fuzzed is what lies behind them.
#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>

#include "backend/base/error.h"
#include "backend/eval/import.h"
#include "tests/fuzz/memory_file.h"

namespace {

void put(std::string& bytes, std::uint64_t value, int count) {
  for (; count > 0; --count, value >>= 8U) bytes += static_cast<char>(value);
}

/// An archive with one array, not compressed.
std::string archive_of(std::string_view array) {
  constexpr std::string_view kName = "val/loss_per_token.npy";
  const std::uint64_t checksum =
      crc32(0, reinterpret_cast<const unsigned char*>(array.data()), static_cast<unsigned>(array.size()));
  std::string entry;
  put(entry, 20, 2);  // version
  put(entry, 0, 8);   // flags, method, time, date
  put(entry, checksum, 4);
  put(entry, array.size(), 4);
  put(entry, array.size(), 4);
  put(entry, kName.size(), 2);
  put(entry, 0, 2);
  std::string bytes = "PK\x03\x04" + entry + std::string(kName) + std::string(array);
  const std::size_t directory = bytes.size();
  bytes += "PK\x01\x02";
  put(bytes, 20, 2);
  bytes += entry;
  put(bytes, 0, 14);  // comment, disk, attributes, place of the entry
  bytes += kName;
  const std::size_t length = bytes.size() - directory;
  bytes += "PK\x05\x06";
  put(bytes, 0, 4);
  put(bytes, 1, 2);
  put(bytes, 1, 2);
  put(bytes, length, 4);
  put(bytes, directory, 4);
  put(bytes, 0, 2);
  return bytes;
}

void check(const foxscope::LossEvaluation& evaluation) {
  const foxscope::EvaluatedModel& model = evaluation.models.at(0);
  const auto& tokens = model.windows->tokens;
  if (std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0}) != std::ssize(model.losses.loss)) std::abort();
  for (const float loss : model.losses.loss) {
    if (!std::isfinite(loss)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile file;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string archive = bytes.starts_with("PK") ? std::string(bytes) : archive_of(bytes);
  file.fill(reinterpret_cast<const std::uint8_t*>(archive.data()), archive.size());
  try {
    check(foxscope::import_losses(file.path(), "model"));
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  return 0;
}
