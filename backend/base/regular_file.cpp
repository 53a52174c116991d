#include "backend/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe (FIFO)";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

void throw_not_opened(const std::string& name, const std::string& what, int error_number) {
  if (error_number == ENOENT) throw Error(fmt::format("{}: no such file; check the path of the {}", name, what));
  throw Error(fmt::format("{}: cannot open the {}: {}; check the path and its permissions", name, what,
                          std::generic_category().message(error_number)));
}

void throw_folder(const std::string& name, const std::string& what) {
  throw Error(fmt::format("{}: is a folder, not a {} file; name a file in it", name, what));
}

RegularFile::RegularFile(const std::filesystem::path& path, const std::string& what) {
  struct stat status {};
  // A device is not even opened: that alone makes some of them act. O_NONBLOCK is for what takes its place meanwhile.
  const bool openable = ::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
  if (openable) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) throw_not_opened(path.string(), what, errno);
    if (::fstat(descriptor_, &status) != 0) status.st_mode = 0;
  }
  if (S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  if (descriptor_ >= 0) ::close(descriptor_);
  if (S_ISDIR(status.st_mode)) throw_folder(path.string(), what);
  throw Error(fmt::format("{}: is {}, not a regular file; give the {} as a file of its own", path.string(),
                          kind_of(status.st_mode), what));
}

RegularFile::~RegularFile() { ::close(descriptor_); }

}  // namespace foxscope
