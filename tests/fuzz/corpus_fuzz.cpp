// Any bytes as a corpus of lines of JSON: as they are, or compressed by gzip or xz where they begin so. The text inside
// is changed as JSON and packed again, so that changes reach what lies behind a checksum.
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "backend/base/error.h"
#include "backend/data/corpus.h"
#include "tests/fuzz/json_growth.h"

namespace {

constexpr std::size_t kMostText = 1 << 20;
constexpr std::size_t kLongestDocument = 1 << 16;

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }
bool is_xz(std::string_view bytes) {
  return bytes.starts_with(
      "\xfd"
      "7zXZ");
}

std::optional<std::string> unpacked(std::string_view bytes) {
  std::string text(kMostText, '\0');
  if (is_gzip(bytes)) {
    z_stream stream{};
    if (inflateInit2(&stream, 31) != Z_OK) std::abort();
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(text.data());
    stream.avail_out = static_cast<uInt>(text.size());
    const int status = inflate(&stream, Z_FINISH);
    text.resize(text.size() - stream.avail_out);
    inflateEnd(&stream);
    return status == Z_STREAM_END ? std::optional(text) : std::nullopt;
  }
  std::uint64_t memory = std::uint64_t{1} << 26;
  std::size_t in = 0;
  std::size_t out = 0;
  const lzma_ret status =
      lzma_stream_buffer_decode(&memory, 0, nullptr, reinterpret_cast<const std::uint8_t*>(bytes.data()), &in,
                                bytes.size(), reinterpret_cast<std::uint8_t*>(text.data()), &out, text.size());
  text.resize(out);
  return status == LZMA_OK ? std::optional(text) : std::nullopt;
}

std::string packed(const std::string& text, bool gzip) {
  std::string bytes(text.size() + text.size() / 8 + 4096, '\0');
  if (gzip) {
    z_stream stream{};
    if (deflateInit2(&stream, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
    stream.avail_out = static_cast<uInt>(bytes.size());
    deflate(&stream, Z_FINISH);
    bytes.resize(bytes.size() - stream.avail_out);
    deflateEnd(&stream);
    return bytes;
  }
  std::size_t out = 0;
  if (lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()),
                              text.size(), reinterpret_cast<std::uint8_t*>(bytes.data()), &out,
                              bytes.size()) != LZMA_OK) {
    std::abort();
  }
  bytes.resize(out);
  return bytes;
}

/// A folder of this process that goes with it.
const std::filesystem::path& folder() {
  static const struct Folder {
    std::filesystem::path path;
    Folder() : path("/dev/shm/foxscope-fuzz-" + std::to_string(getpid())) { std::filesystem::create_directory(path); }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
  } made;
  return made.path;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!is_gzip(bytes) && !is_xz(bytes)) return mutate_json(data, size, most, seed);
  const std::optional<std::string> text = random() % 4 == 0 ? std::nullopt : unpacked(bytes);
  if (!text) return LLVMFuzzerMutate(data, size, most);
  const std::string again = packed(grow_json(*text, kMostText / 2, random), is_gzip(bytes));
  if (again.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, again.data(), again.size());
  return again.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::filesystem::path file = folder() / (is_gzip(bytes) ? "corpus.jsonl.gz"
                                                 : is_xz(bytes) ? "corpus.jsonl.xz"
                                                                : "corpus.jsonl");
  std::ofstream(file, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(size));
  try {
    foxscope::CorpusReader reader(file, kLongestDocument);
    while (const std::optional<foxscope::CorpusDocument> document = reader.next()) {
      if (document->text.size() > kLongestDocument) std::abort();
    }
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  std::filesystem::remove(file);
  return 0;
}
