#include "backend/file/hdf5/hdf5_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

constexpr std::array<unsigned char, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
constexpr std::uint64_t kLargestSuperblock = 120;
/// A file's structure is read a few times at most while it is opened; small files may repeat themselves more.
constexpr std::uint64_t kMostReadings = 16;
constexpr std::uint64_t kAlwaysRead = std::uint64_t{16} << 20U;

}  // namespace

std::shared_ptr<const Hdf5File> Hdf5File::open(const std::filesystem::path& path) {
  const std::shared_ptr<Hdf5File> file(new Hdf5File(path));
  file->read_superblock();
  return file;
}

Hdf5File::Hdf5File(const std::filesystem::path& path) : name_(path.string()) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    throw Error(
        fmt::format("{}: cannot be opened ({}): check the path and its permissions", name_, std::strerror(errno)));
  }
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    throw Error(fmt::format("{}: is not a file: name a run file that `foxscope run` wrote", name_));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

Hdf5File::~Hdf5File() { close(descriptor_); }

void Hdf5File::read(std::uint64_t offset, std::span<std::byte> bytes, const std::string& object) const {
  if (offset > size_ || bytes.size() > size_ - offset) {
    fail_damaged(object, fmt::format("points outside the file, to {} bytes at {}", bytes.size(), offset));
  }
  while (!bytes.empty()) {
    const ssize_t got = pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(fmt::format("{}: cannot be read ({}): check the disk", name_, std::strerror(errno)));
    if (got == 0) throw Error(fmt::format("{}: was cut short while it was in use: write it again", name_));
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::vector<std::byte> Hdf5File::read(std::uint64_t offset, std::uint64_t size, const std::string& object) const {
  if (offset > size_ || size > size_ - offset) {
    fail_damaged(object, fmt::format("points outside the file, to {} bytes at {}", size, offset));
  }
  if (structure_bytes_.fetch_add(size, std::memory_order_relaxed) / kMostReadings > size_ + kAlwaysRead) {
    fail_damaged(object, "points to the same bytes again and again");
  }
  std::vector<std::byte> bytes(size);
  read(offset, bytes, object);
  return bytes;
}

std::vector<std::byte> Hdf5File::read_checked(std::uint64_t offset, std::uint64_t size,
                                              const std::string& object) const {
  if (size > size_) fail_damaged(object, fmt::format("points outside the file, to {} bytes at {}", size, offset));
  std::vector<std::byte> bytes = read(offset, size + kHdf5Checksum, object);
  const std::span<const std::byte> all(bytes);
  check(all.first(size), Hdf5Cursor(*this, object, all.subspan(size)).u32(), object);
  bytes.resize(size);
  return bytes;
}

void Hdf5File::check(std::span<const std::byte> bytes, std::uint32_t checksum, const std::string& object) const {
  if (hdf5_checksum(bytes) != checksum) fail_damaged(object, "its checksum does not fit its bytes");
}

void Hdf5File::fail_damaged(const std::string& object, const std::string& problem) const {
  throw Error(fmt::format("{}: {}: {}: {}", name_, object, problem, kHdf5Damaged));
}

void Hdf5File::fail_unsupported(const std::string& object, const std::string& feature, const char* remedy) const {
  throw Error(fmt::format("{}: {}: {}: {}", name_, object, feature, remedy));
}

void Hdf5File::check_end(std::uint64_t end) const {
  if (end > size_) {
    throw Error(fmt::format("{}: is cut short, {} of {} bytes: {}", name_, size_, end, kHdf5Remedy));
  }
}

void Hdf5File::read_superblock() {
  const std::string object = "superblock";
  const std::vector<std::byte> bytes = read(0, std::min(size_, kLargestSuperblock), object);
  if (bytes.size() < kSignature.size() || std::memcmp(bytes.data(), kSignature.data(), kSignature.size()) != 0) {
    throw Error(fmt::format("{}: is not an HDF5 file: name a run file that `foxscope run` wrote", name_));
  }
  Hdf5Cursor cursor(*this, object, bytes);
  cursor.skip(kSignature.size());
  const std::uint8_t version = cursor.u8();
  if (version > 3) fail_unsupported(object, fmt::format("version {} of the format", version));
  if (version < 2) cursor.skip(4);
  const std::uint8_t offset_size = cursor.u8();
  const std::uint8_t length_size = cursor.u8();
  if (offset_size != 8 || length_size != 8) fail_unsupported(object, "addresses of other than 8 bytes");
  cursor.skip(version == 0 ? 9 : version == 1 ? 13 : 1);
  if (cursor.u64() != 0) fail_unsupported(object, "a base address");
  cursor.skip(8);
  check_end(cursor.u64());
  if (version < 2) cursor.skip(16);  // driver information; name of the root group
  root_ = cursor.u64();
  if (version < 2) return;
  const std::size_t covered = bytes.size() - cursor.left();
  check(std::span(bytes).first(covered), cursor.u32(), object);
}

std::uint32_t hdf5_checksum(std::span<const std::byte> bytes) {
  constexpr std::size_t kBlock = 12;
  std::uint32_t a = 0xdeadbeefU + static_cast<std::uint32_t>(bytes.size());
  std::uint32_t b = a;
  std::uint32_t c = a;
  const auto add = [&](std::span<const std::byte> block) {
    std::array<std::uint32_t*, 3> words = {&a, &b, &c};
    for (std::size_t n = 0; n < block.size(); ++n) {
      *words[n / 4] += std::to_integer<std::uint32_t>(block[n]) << (8 * (n % 4));
    }
  };
  for (; bytes.size() > kBlock; bytes = bytes.subspan(kBlock)) {
    add(bytes.first(kBlock));
    a -= c, a ^= std::rotl(c, 4), c += b;
    b -= a, b ^= std::rotl(a, 6), a += c;
    c -= b, c ^= std::rotl(b, 8), b += a;
    a -= c, a ^= std::rotl(c, 16), c += b;
    b -= a, b ^= std::rotl(a, 19), a += c;
    c -= b, c ^= std::rotl(b, 4), b += a;
  }
  if (bytes.empty()) return c;
  add(bytes);
  c ^= b, c -= std::rotl(b, 14);
  a ^= c, a -= std::rotl(c, 11);
  b ^= a, b -= std::rotl(a, 25);
  c ^= b, c -= std::rotl(b, 16);
  a ^= c, a -= std::rotl(c, 4);
  b ^= a, b -= std::rotl(a, 14);
  c ^= b, c -= std::rotl(b, 24);
  return c;
}

void Hdf5Claims::claim(std::uint64_t address, std::uint64_t size, const std::string& object) {
  if (address > file_.size() || size > file_.size() - address) {
    file_.fail_damaged(object, fmt::format("points outside the file, to {} bytes at {}", size, address));
  }
  const auto after = end_.lower_bound(address);
  const bool meets_after = after != end_.end() && after->first < address + std::max<std::uint64_t>(size, 1);
  const bool meets_before = after != end_.begin() && std::prev(after)->second > address;
  if (meets_after || meets_before) {
    file_.fail_damaged(object, fmt::format("points twice to the bytes at {}", address));
  }
  end_.emplace_hint(after, address, address + size);
}

std::uint64_t Hdf5Cursor::number(std::size_t bytes) {
  std::uint64_t value = 0;
  const std::span<const std::byte> taken = take(bytes);
  for (std::size_t n = taken.size(); n-- > 0;) value = value << 8U | std::to_integer<std::uint64_t>(taken[n]);
  return value;
}

std::span<const std::byte> Hdf5Cursor::take(std::uint64_t bytes) {
  if (bytes > bytes_.size()) file_.fail_damaged(object_, "ends too early");
  const std::span<const std::byte> taken = bytes_.first(bytes);
  bytes_ = bytes_.subspan(bytes);
  return taken;
}

void Hdf5Cursor::signature(const char* letters) {
  if (std::memcmp(take(4).data(), letters, 4) != 0) {
    file_.fail_damaged(object_, fmt::format("its {} block is not where it should be", letters));
  }
}

}  // namespace foxscope
