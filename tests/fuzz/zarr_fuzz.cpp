// Any bytes as an array of zarr: `.zarray` up to a line feed, behind it every chunk. What is read of it stays within
// what it says of itself.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backend/base/error.h"
#include "backend/train/zarr_array.h"
#include "backend/train/zarr_rows.h"
#include "tests/fuzz/json_growth.h"

namespace {

constexpr std::size_t kLargestChunk = 1 << 20;
constexpr std::size_t kLargestMetadata = 1 << 16;
constexpr std::int64_t kLongestRow = 4096;
constexpr std::int64_t kVocabulary = 50'257;

std::size_t end_of_metadata(std::string_view bytes) { return std::min(bytes.find('\n'), bytes.size()); }

/// A folder of this process that goes with it.
class Folder {
 public:
  Folder() : path_("/dev/shm/foxscope-fuzz-zarr-" + std::to_string(getpid())) {
    std::filesystem::create_directories(path_ / "nested/0");
    std::filesystem::create_directories(path_ / "flat");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  /// The array that the bytes are.
  [[nodiscard]] std::filesystem::path fill(std::string_view bytes) const {
    const std::string_view metadata = bytes.substr(0, end_of_metadata(bytes));
    const std::string_view chunk = bytes.substr(std::min(bytes.size(), metadata.size() + 1));
    const bool nested = metadata.find('/') != std::string_view::npos;
    const std::filesystem::path array = path_ / (nested ? "nested" : "flat");
    write(array / ".zarray", metadata);
    for (const char* name : {"0.0", "0.1", "1.0", nested ? "0/0" : "0", nested ? "0/1" : "1"}) {
      write(array / name, chunk);
    }
    return array;
  }

 private:
  static void write(const std::filesystem::path& file, std::string_view bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::filesystem::path path_;
};

/// The first rows and the last, as far as they can be read.
void read_rows(const std::filesystem::path& folder, std::int64_t length) {
  const auto rows =
      foxscope::rows_of(std::make_unique<const foxscope::ZarrArray>(folder, kLargestChunk), length, kVocabulary, 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
  for (const std::int64_t row : {std::int64_t{0}, std::min<std::int64_t>(1, rows->rows() - 1), rows->rows() - 1}) {
    try {
      rows->read(row, tokens);
    } catch (const foxscope::Error&) {
      continue;
    }
    for (const std::int32_t token : tokens) {
      if (token < 0 || token >= kVocabulary) std::abort();
    }
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t end = end_of_metadata(bytes);
  if (random() % 3 == 0) {
    const std::string changed =
        grow_json(bytes.substr(0, end), std::min(most, kLargestMetadata), random) + bytes.substr(end);
    if (changed.size() <= most) {
      std::memcpy(data, changed.data(), changed.size());
      return changed.size();
    }
  }
  // Half of the rest are changes of chunks only.
  const std::size_t begin = random() % 2 == 0 ? std::min(size, end + 1) : 0;
  if (begin == most) return LLVMFuzzerMutate(data, size, most);
  return begin + LLVMFuzzerMutate(data + begin, size - begin, most - begin);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const auto array = folder.fill({reinterpret_cast<const char*>(data), size});
  try {
    const foxscope::ZarrArray zarr(array, kLargestChunk);
    if (zarr.chunk_bytes() > kLargestChunk) std::abort();
    static_cast<void>(zarr.fingerprint());
    read_rows(array, 1);
    const std::int64_t whole = zarr.shape().back();
    if (whole > 1 && whole <= kLongestRow) read_rows(array, whole);
    if (whole > 2 && whole <= kLongestRow && whole % 2 == 0) read_rows(array, whole / 2);
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  return 0;
}
