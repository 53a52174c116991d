#include "backend/text/file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "backend/base/error.h"
#include "backend/base/regular_file.h"

namespace foxscope {
namespace {

/// A file descriptor that is closed at the end, standard input excepted.
class Input {
 public:
  explicit Input(const std::filesystem::path& path)
      : descriptor_(path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Input() {
    if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

std::string reason(int code) { return std::generic_category().message(code); }

[[noreturn]] void fail_reading(const std::string& name, const std::string& what, int code) {
  throw Error(name + ": cannot read the " + what + ": " + reason(code) + "; check the file and its disk");
}

[[noreturn]] void fail_too_large(const std::string& name, const std::string& what, std::size_t limit) {
  const std::size_t mebibytes = limit >> 20;
  const std::string most = mebibytes > 0 ? std::to_string(mebibytes) + " MiB" : std::to_string(limit) + " bytes";
  throw Error(name + ": the " + what + " is larger than " + most + "; give a smaller file, or a part of this one");
}

/// @param size  bytes that are expected; 0 where that is not known
std::string read_all(int descriptor, std::uint64_t size, const std::string& name, const std::string& what,
                     std::size_t limit) {
  if (size > limit) fail_too_large(name, what, limit);
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(size) + 1);
  constexpr std::size_t step = std::size_t{1} << 20;
  while (true) {
    const std::size_t used = bytes.size();
    const std::size_t room = bytes.capacity() > used ? bytes.capacity() - used : step;
    bytes.resize(used + std::min(room, step));
    const ssize_t got = ::read(descriptor, bytes.data() + used, bytes.size() - used);
    const int code = errno;
    bytes.resize(used + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return bytes;
    if (got < 0 && code != EINTR) fail_reading(name, what, code);
    if (bytes.size() > limit) fail_too_large(name, what, limit);
  }
}

}  // namespace

std::string read_file_bytes(const std::filesystem::path& path, const std::string& what, std::size_t limit) {
  const RegularFile file(path, what);
  return read_all(file.descriptor(), file.size(), path.string(), what, limit);
}

std::string read_input_bytes(const std::filesystem::path& path, const std::string& what, std::size_t limit) {
  const std::string name = path == "-" ? "standard input" : path.string();
  const Input input(path);
  if (input.descriptor() < 0) throw_not_opened(name, what, errno);
  struct stat status {};
  if (::fstat(input.descriptor(), &status) != 0) fail_reading(name, what, errno);
  if (S_ISDIR(status.st_mode)) throw_folder(name, what);
  const auto size = S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
  return read_all(input.descriptor(), size, name, what, limit);
}

}  // namespace foxscope
