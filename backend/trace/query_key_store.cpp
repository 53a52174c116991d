#include "backend/trace/query_key_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/measures.h"
#include "kernels/cuda/device.h"

namespace foxscope {
namespace {

/// Descriptor of a new file without a name in `folder`; -1 with errno on failure.
int open_unnamed_file(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return descriptor;
  std::string name = (folder / "foxscope-XXXXXX").string();
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

}  // namespace

QueryKeyStore::QueryKeyStore(const Shape& shape, DType dtype, Parts parts)
    : shape_(shape), dtype_(dtype), parts_(std::move(parts)) {
  std::size_t elements = 0;
  for (int layer = 0; layer < shape_.layers; ++layer) {
    for (const Part part : parts_) {
      begins_.push_back(elements);
      elements += elements_of(spec_of(part), shape_, layer);
    }
  }
}

int QueryKeyStore::heads(Part part, int layer) const {
  return static_cast<int>(shape_of(spec_of(part), shape_, layer).front());
}

int QueryKeyStore::channels(Part part, int layer) const {
  return static_cast<int>(shape_of(spec_of(part), shape_, layer).back());
}

std::span<const float> QueryKeyStore::rows(Part part, int layer, int head, std::int64_t begin, std::int64_t end,
                                           std::vector<float>& scratch) const {
  assert(layer >= 0 && layer < shape_.layers);
  assert(has(part) && head >= 0 && head < heads(part, layer));
  assert(begin >= 0 && begin <= end && end <= shape_.length);
  thread_local std::vector<std::byte> raw;
  const std::span<const std::byte> bytes = raw_rows(part, layer, head, begin, end, raw);
  const auto count = static_cast<std::size_t>((end - begin) * channels(part, layer));
  assert(bytes.size() == count * size_of(dtype_));
  if (dtype_ == DType::float32 && bytes.data() != raw.data()) {
    return {reinterpret_cast<const float*>(bytes.data()), count};
  }
  scratch.resize(count);
  if (dtype_ == DType::float32) {
    std::memcpy(scratch.data(), bytes.data(), bytes.size());
  } else {
    for (std::size_t n = 0; n < count; ++n) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 2 * n, 2);
      scratch[n] = from_bfloat16(bits);
    }
  }
  return scratch;
}

std::size_t QueryKeyStore::bytes(const Shape& shape, DType dtype, const Parts& parts) {
  std::size_t bytes = 0;
  for (const Part part : parts) bytes += bytes_of(spec_of(part), shape, dtype);
  return bytes;
}

std::size_t QueryKeyStore::offset(Part part, int layer, int head, std::int64_t row) const {
  const auto place = static_cast<std::size_t>(std::ranges::find(parts_, part) - parts_.begin());
  const std::size_t rows =
      static_cast<std::size_t>(head) * static_cast<std::size_t>(shape_.length) + static_cast<std::size_t>(row);
  return (begins_[static_cast<std::size_t>(layer) * parts_.size() + place] +
          rows * static_cast<std::size_t>(channels(part, layer))) *
         size_of(dtype_);
}

StoredWords words_of(const QueryKeyStore::Parts& parts) {
  const bool values = std::ranges::find(parts, TraceArray::value) != parts.end();
  if (!values) return {"queries and keys", "qk"};
  return parts.size() == 1 ? StoredWords{"values", "values"} : StoredWords{"queries, keys and values", "qk and values"};
}

HostQueryKeyStore::HostQueryKeyStore(const Shape& shape, DType dtype, std::size_t memory_budget,
                                     const std::filesystem::path& spill_folder, std::optional<int> gpu, Parts parts)
    : RunQueryKeyStore(shape, dtype, std::move(parts)),
      size_(bytes(shape, dtype, this->parts())),
      in_file_(size_ > memory_budget),
      folder_(spill_folder) {
  if (size_ == 0) return;
  if (gpu && !in_file_) {
    try {
      pinned_ = std::make_unique<kernels::cuda::PinnedBuffer>(size_, *gpu);
      data_ = static_cast<std::byte*>(pinned_->data());
      return;
    } catch (const std::bad_alloc&) {
      data_ = nullptr;  // pageable memory does the same, only slower
    }
  }
  const StoredWords held = words_of(this->parts());
  const double gib = gibibytes(size_);
  void* mapped = MAP_FAILED;
  if (in_file_) {
    const int descriptor = open_unnamed_file(spill_folder);
    // Space is claimed at once: a full disk met later, through the mapping, would be a signal and not an error.
    const int full = descriptor < 0 ? errno : posix_fallocate(descriptor, 0, static_cast<off_t>(size_));
    if (full == 0) mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (descriptor >= 0) close(descriptor);
    if (mapped == MAP_FAILED) {
      throw Error(
          fmt::format("{}: no room for a temporary file of {:.2f} GiB with {} ({}): free space there, "
                      "set TMPDIR, use --length, or leave {} out of --keep",
                      spill_folder.string(), gib, held.title, std::strerror(full != 0 ? full : errno), held.words));
    }
  } else {
    mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      throw Error(fmt::format("no memory for {:.2f} GiB of {}: use --length, or leave {} out of --keep", gib,
                              held.title, held.words));
    }
    madvise(mapped, size_, MADV_HUGEPAGE);
  }
  data_ = static_cast<std::byte*>(mapped);
}

HostQueryKeyStore::~HostQueryKeyStore() {
  if (data_ != nullptr && pinned_ == nullptr) munmap(data_, size_);
}

const char* HostQueryKeyStore::where() const { return in_file_ ? "temporary file" : "memory"; }

std::string HostQueryKeyStore::note() const {
  if (!in_file_) return {};
  return fmt::format("{} take {:.1f} GiB and are held in a temporary file in {}", words_of(parts()).title,
                     gibibytes(size_), folder_.string());
}

std::span<const std::byte> HostQueryKeyStore::raw_rows(Part part, int layer, int head, std::int64_t begin,
                                                       std::int64_t end, std::vector<std::byte>& /*scratch*/) const {
  return {data_ + offset(part, layer, head, begin),
          static_cast<std::size_t>((end - begin) * channels(part, layer)) * size_of(dtype())};
}

std::span<std::byte> HostQueryKeyStore::layer(Part part, int layer) {
  if (!has(part)) return {};
  return {data_ + offset(part, layer, 0, 0), elements_of(spec_of(part), shape(), layer) * size_of(dtype())};
}

}  // namespace foxscope
