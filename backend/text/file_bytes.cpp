#include "backend/text/file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "backend/base/error.h"

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
  throw Error(name + ": the " + what + " is larger than " + std::to_string(limit >> 20) +
              " MiB; give a smaller file, or a part of this one");
}

}  // namespace

std::string read_file_bytes(const std::filesystem::path& path, const std::string& what, std::size_t limit) {
  const std::string name = path == "-" ? "standard input" : path.string();
  const Input input(path);
  struct stat information {};
  if (input.descriptor() < 0) {
    if (errno == ENOENT) throw Error(name + ": no such file; check the path of the " + what);
    throw Error(name + ": cannot open the " + what + ": " + reason(errno) + "; check the path and its permissions");
  }
  if (::fstat(input.descriptor(), &information) == 0 && S_ISDIR(information.st_mode)) {
    throw Error(name + ": is a folder, not a " + what + " file; name a file in it");
  }
  std::string bytes;
  if (S_ISREG(information.st_mode)) {
    bytes.reserve(std::min(static_cast<std::size_t>(information.st_size), limit) + 1);
  }
  constexpr std::size_t step = std::size_t{1} << 20;
  while (true) {
    const std::size_t used = bytes.size();
    const std::size_t room = bytes.capacity() > used ? bytes.capacity() - used : step;
    bytes.resize(used + std::min(room, step));
    const ssize_t got = ::read(input.descriptor(), bytes.data() + used, bytes.size() - used);
    bytes.resize(used + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return bytes;
    if (got < 0 && errno != EINTR) fail_reading(name, what, errno);
    if (bytes.size() > limit) fail_too_large(name, what, limit);
  }
}

}  // namespace foxscope
