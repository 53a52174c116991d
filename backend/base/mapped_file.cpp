#include "backend/base/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/regular_file.h"

namespace foxscope {

MappedFile::MappedFile(const std::filesystem::path& path, const std::string& what) {
  const RegularFile file(path, what);
  size_ = static_cast<std::size_t>(file.size());
  if (size_ == 0) return;
  void* mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (mapped == MAP_FAILED) {
    throw Error(fmt::format("{}: cannot be mapped into memory ({}): check the disk, or raise `ulimit -v`",
                            path.string(), std::generic_category().message(errno)));
  }
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace foxscope
