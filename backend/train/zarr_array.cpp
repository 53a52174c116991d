#include "backend/train/zarr_array.h"

#include <blosc.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/base/regular_file.h"
#include "backend/base/sha256.h"
#include "backend/model/weights/safetensors.h"
#include "backend/text/file_bytes.h"
#include "backend/text/json_reading.h"

namespace foxscope {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t kLargestMetadata = std::size_t{1} << 20;
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 56;
constexpr std::int64_t kHashedChunks = 256;
constexpr std::size_t kHashedBytes = std::size_t{1} << 16;
constexpr const char* kAgain = "the file is damaged or was cut short: copy or download it again";
constexpr const char* kConvert = "write it again as zarr format 2 in C order, without filters";

struct ZarrType {
  const char* name;
  IdType type;
  std::int64_t least;
  std::int64_t most;
};
template <typename T>
constexpr ZarrType zarr_type(const char* name, IdType type) {
  return {name, type, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}
constexpr std::array<ZarrType, 4> kZarrTypes = {
    {zarr_type<std::int16_t>("<i2", IdType::int16), zarr_type<std::uint16_t>("<u2", IdType::uint16),
     zarr_type<std::int32_t>("<i4", IdType::int32), zarr_type<std::int64_t>("<i8", IdType::int64)}};

const ZarrType& parse_type(const json* dtype, const std::string& name) {
  const std::string word = dtype != nullptr && dtype->is_string() ? dtype->get<std::string>() : "";
  const auto* const found =
      std::find_if(kZarrTypes.begin(), kZarrTypes.end(), [&](const ZarrType& type) { return word == type.name; });
  if (found == kZarrTypes.end()) {
    throw Error(fmt::format("{}: dtype {} is not read: token ids are <i2, <u2, <i4 or <i8", name, in_quotes(word)));
  }
  return *found;
}

/// Sizes of one or two axes, each at least `least`.
std::vector<std::int64_t> parse_sizes(const json* sizes, const char* key, std::int64_t least, const std::string& name) {
  std::vector<std::int64_t> result;
  if (sizes != nullptr && sizes->is_array()) {
    for (const json& size : *sizes) {
      const bool sound = size.is_number_unsigned() && size.get<std::uint64_t>() <= std::uint64_t{kMostNumbers};
      if (!sound || size.get<std::int64_t>() < least) break;
      result.push_back(size.get<std::int64_t>());
    }
    if (result.size() == sizes->size() && (result.size() == 1 || result.size() == 2)) return result;
  }
  throw Error(fmt::format("{}: {} is not a list of one or two sound sizes: tokens are [tokens] or [documents, tokens]",
                          name, key));
}

/// The product; nothing where it is more than kMostNumbers.
std::optional<std::int64_t> product(const std::vector<std::int64_t>& sizes) {
  std::int64_t result = 1;
  for (const std::int64_t size : sizes) {
    if (__builtin_mul_overflow(result, size, &result) || result > kMostNumbers) return std::nullopt;
  }
  return result;
}

/// Fills up to bytes.size() bytes from the beginning of a file.
/// @returns how many there are
std::size_t read_beginning(const RegularFile& file, std::span<char> bytes, const std::string& name) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.descriptor(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error(fmt::format("{}: cannot read the chunk of tokens: {}; check the file and its disk", name,
                              std::generic_category().message(errno)));
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace

bool is_zarr(const fs::path& folder) {
  std::error_code failed;
  const auto has = [&](const char* file) { return fs::exists(folder / file, failed); };
  return has(".zarray") || has(".zgroup") || has("zarr.json");
}

ZarrArray::ZarrArray(const fs::path& folder, std::size_t largest_chunk) : folder_(folder) {
  std::error_code failed;
  if (!fs::exists(folder / ".zarray", failed)) {
    if (fs::exists(folder / "zarr.json", failed)) {
      throw Error(fmt::format("{}: is zarr format 3, and only format 2 is read: {}", folder.string(), kConvert));
    }
    throw Error(
        fmt::format("{}: is a group of zarr, not an array: give the folder of one of its arrays, which holds "
                    ".zarray",
                    folder.string()));
  }
  metadata_ = read_file_bytes(folder / ".zarray", "zarr metadata", kLargestMetadata);
  parse(metadata_, (folder / ".zarray").string(), largest_chunk);
}

void ZarrArray::parse(const std::string& content, const std::string& name, std::size_t largest_chunk) {
  const json metadata = parse_json(content, name);
  if (!metadata.is_object()) throw Error(fmt::format("{}: is not a JSON object: {}", name, kAgain));
  const json* format = member(metadata, "zarr_format");
  if (format == nullptr || *format != 2) throw Error(fmt::format("{}: is not zarr format 2: {}", name, kConvert));
  const json* order = member(metadata, "order");
  if (order == nullptr || *order != "C") throw Error(fmt::format("{}: is not in C order: {}", name, kConvert));
  const json* filters = member(metadata, "filters");
  if (filters != nullptr && !(filters->is_array() && filters->empty())) {
    throw Error(fmt::format("{}: has filters, which are not read: {}", name, kConvert));
  }
  const std::string separator = text_member(metadata, "dimension_separator", name);
  if (separator == "/") {
    separator_ = '/';
  } else if (!separator.empty() && separator != ".") {
    throw Error(fmt::format("{}: dimension_separator {} is neither . nor /: {}", name, in_quotes(separator), kConvert));
  }

  const ZarrType& type = parse_type(member(metadata, "dtype"), name);
  type_ = type.type;
  shape_ = parse_sizes(member(metadata, "shape"), "shape", 0, name);
  chunk_shape_ = parse_sizes(member(metadata, "chunks"), "chunks", 1, name);
  if (chunk_shape_.size() != shape_.size()) {
    throw Error(fmt::format("{}: shape {} and chunks {} have not the same axes: {}", name, shape_text(shape_),
                            shape_text(chunk_shape_), kAgain));
  }
  const auto chunk_numbers = product(chunk_shape_);
  if (!chunk_numbers || static_cast<std::uint64_t>(*chunk_numbers) > largest_chunk / size_of(type_)) {
    throw Error(fmt::format("{}: chunks {} of {} are larger than {} MiB: write it again with smaller chunks", name,
                            shape_text(chunk_shape_), to_string(type_),
                            std::max<std::size_t>(1, largest_chunk >> 20U)));
  }
  if (!product(shape_)) throw Error(fmt::format("{}: shape {} is too large: {}", name, shape_text(shape_), kAgain));
  chunk_bytes_ = static_cast<std::size_t>(*chunk_numbers) * size_of(type_);
  for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
    chunk_counts_.push_back((shape_[axis] + chunk_shape_[axis] - 1) / chunk_shape_[axis]);
  }

  const json* compressor = member(metadata, "compressor");
  if (compressor != nullptr) {
    const std::string id = compressor->is_object() ? text_member(*compressor, "id", name) : "";
    if (id != "blosc" && id != "zstd") {
      throw Error(fmt::format("{}: chunks compressed by {} are not read, only by blosc or zstd, or as they are: {}",
                              name, in_quotes(id), kConvert));
    }
    compressor_ = id == "blosc" ? Compressor::blosc : Compressor::zstd;
  }
  const json* fill = member(metadata, "fill_value");
  if (fill != nullptr) {
    if (!fill->is_number_integer() || *fill < type.least || *fill > type.most) {
      throw Error(fmt::format("{}: fill_value is no {}: {}", name, to_string(type_), kAgain));
    }
    fill_value_ = fill->get<std::int64_t>();
  }
}

fs::path ZarrArray::chunk_file(std::span<const std::int64_t> index) const {
  return folder_ / fmt::format("{}", fmt::join(index, std::string(1, separator_)));
}

void ZarrArray::decompress(std::span<const char> file, std::span<std::byte> numbers, const std::string& name) const {
  const auto check = [&](bool sound) {
    if (!sound) throw Error(fmt::format("{}: the chunk cannot be decompressed; {}", name, kAgain));
  };
  const auto check_size = [&](std::uint64_t size) {
    if (size != numbers.size()) {
      throw Error(fmt::format("{}: the chunk has {} bytes where chunks {} of {} have {}; {}", name, size,
                              shape_text(chunk_shape_), to_string(type_), numbers.size(), kAgain));
    }
  };
  switch (compressor_) {
    case Compressor::none:
      check_size(file.size());
      std::memcpy(numbers.data(), file.data(), file.size());
      return;
    case Compressor::blosc: {
      std::size_t size = 0;
      check(file.size() >= BLOSC_MIN_HEADER_LENGTH && blosc_cbuffer_validate(file.data(), file.size(), &size) == 0);
      check_size(size);
      const int done = blosc_decompress_ctx(file.data(), numbers.data(), numbers.size(), 1);
      check(done >= 0 && static_cast<std::size_t>(done) == numbers.size());
      return;
    }
    case Compressor::zstd: {
      const std::size_t done = ZSTD_decompress(numbers.data(), numbers.size(), file.data(), file.size());
      if (ZSTD_isError(done) == 0U) return check_size(done);
      const unsigned long long size = ZSTD_getFrameContentSize(file.data(), file.size());
      if (size != ZSTD_CONTENTSIZE_ERROR && size != ZSTD_CONTENTSIZE_UNKNOWN) check_size(size);
      check(false);
    }
  }
}

std::unique_ptr<std::byte[]> ZarrArray::read_chunk(std::span<const std::int64_t> index) const {
  const fs::path file = chunk_file(index);
  std::error_code failed;
  if (!fs::exists(fs::status(file, failed))) {
    if (!fill_value_) {
      throw Error(
          fmt::format("{}: the chunk is missing, and the array has no fill value: copy or download it", file.string()));
    }
    log_line(LogCategory::file,
             [&] { return fmt::format("{}: missing, filled with {}", file.string(), *fill_value_); });
    auto numbers = std::make_unique_for_overwrite<std::byte[]>(chunk_bytes_);
    const std::size_t size = size_of(type_);
    for (std::size_t at = 0; at < chunk_bytes_; at += size) std::memcpy(numbers.get() + at, &*fill_value_, size);
    return numbers;
  }
  // Data that cannot be compressed grows by little.
  const std::string bytes = read_file_bytes(file, "chunk of tokens", chunk_bytes_ + chunk_bytes_ / 8 + (1U << 16U));
  auto numbers = std::make_unique_for_overwrite<std::byte[]>(chunk_bytes_);
  decompress(bytes, {numbers.get(), chunk_bytes_}, file.string());
  return numbers;
}

std::string ZarrArray::fingerprint() const {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(metadata_)));
  const std::int64_t chunks = *product(chunk_counts_);
  const std::int64_t hashed = std::min(chunks, kHashedChunks);
  std::vector<char> beginning(kHashedBytes);
  for (std::int64_t n = 0; n < hashed; ++n) {
    // The first, the last, and what lies between them, without a product that overflows.
    const std::int64_t steps = std::max<std::int64_t>(1, hashed - 1);
    const std::int64_t chunk = (chunks - 1) / steps * n + (chunks - 1) % steps * n / steps;
    std::vector<std::int64_t> index{chunk};
    if (chunk_counts_.size() == 2) index = {chunk / chunk_counts_[1], chunk % chunk_counts_[1]};
    const fs::path file = chunk_file(index);
    std::error_code failed;
    std::string head = "missing";
    std::size_t size = 0;
    if (fs::exists(fs::status(file, failed))) {
      const RegularFile opened(file, "chunk of tokens");
      head = std::to_string(opened.size());
      size = read_beginning(opened, beginning, file.string());
    }
    hash.update(std::as_bytes(std::span(head)));
    hash.update(std::as_bytes(std::span(beginning).first(size)));
  }
  return hash.finish();
}

}  // namespace foxscope
