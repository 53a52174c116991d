#include "backend/base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <system_error>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/regular_file.h"

namespace foxscope {
namespace {

/// Files that are mapped, for the handler, which may take no lock. More than so many are not named.
constexpr std::size_t kNamedFiles = 1024;
std::array<std::atomic<const MappedFile*>, kNamedFiles> mapped_files;

void say_which_file_was_cut(int /*signal*/, siginfo_t* info, void* /*context*/) {
  for (const auto& entry : mapped_files) {
    const MappedFile* const file = entry.load();
    if (file == nullptr || !file->holds(info->si_addr)) continue;
    const std::string& line = file->line_when_cut();
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    ::_exit(1);
  }
  // A fault in other memory has the system's default action when the access is tried again.
  std::signal(SIGBUS, SIG_DFL);
}

void handle_cut_files() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = say_which_file_was_cut;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGBUS, &action, nullptr);
  });
}

std::string line_about(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return fmt::format("foxscope: {}: was cut short while it was being read: put the whole file back, and start again\n",
                     name);
}

}  // namespace

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
  line_ = line_about(path.string());
  handle_cut_files();
  for (auto& entry : mapped_files) {
    const MappedFile* none = nullptr;
    if (entry.compare_exchange_strong(none, this)) break;
  }
}

MappedFile::~MappedFile() {
  for (auto& entry : mapped_files) {
    const MappedFile* own = this;
    if (entry.compare_exchange_strong(own, nullptr)) break;
  }
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace foxscope
