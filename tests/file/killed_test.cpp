#include <fcntl.h>
#include <sys/syscall.h>

#include <atomic>
#include <csignal>

#include "tests/file/support.h"

namespace {

/// The process kills itself when so many more system calls that change files have been made; 0: never.
std::atomic<int> calls_to_live = 0;

void count_call() {
  if (calls_to_live > 0 && --calls_to_live == 0) raise(SIGKILL);
}

}  // namespace

// These stand before the C library's: each step of a write is a moment at which the process can be killed.
extern "C" {

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  count_call();
  return syscall(SYS_pwrite64, descriptor, data, bytes, offset);
}

int ftruncate(int descriptor, off_t length) noexcept {
  count_call();
  return static_cast<int>(syscall(SYS_ftruncate, descriptor, length));
}

int fsync(int descriptor) {
  count_call();
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  count_call();
  return static_cast<int>(syscall(SYS_linkat, from_folder, from, to_folder, to, flags));
}

int rename(const char* from, const char* to) noexcept {
  count_call();
  return static_cast<int>(syscall(SYS_rename, from, to));
}
}

namespace foxscope::test {
namespace {

using KilledTest = FolderTest;

/// Runs `work` in a child process that is killed at its call number `moment`; whether it was.
bool killed_at(int moment, const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    calls_to_live = moment;
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

TEST_F(KilledTest, AtAnyMomentLeavesNothingOrAWholeFile) {
  const Traces traces = make_traces({{.length = 400}});
  write_run(file("good.h5"), traces);
  const std::string good = content_of(file("good.h5"));
  int moment = 1;
  bool killed = true;
  for (; killed; ++moment) {
    std::filesystem::remove(file("run.h5"));
    killed = killed_at(moment, [&] { write_run(file("run.h5"), traces); });
    EXPECT_TRUE(!std::filesystem::exists(file("run.h5")) || content_of(file("run.h5")) == good) << moment;
    EXPECT_EQ(entries(), std::filesystem::exists(file("run.h5")) ? 2U : 1U) << moment;
  }
  EXPECT_GT(moment, 20);
  EXPECT_EQ(content_of(file("run.h5")), good);
}

TEST_F(KilledTest, AtAnyMomentLeavesTheOldFileOrAWholeNewOne) {
  const Traces traces = make_traces({{.length = 40}});
  write_run(file("good.h5"), traces);
  const std::string good = content_of(file("good.h5"));
  bool killed = true;
  for (int moment = 1; killed; ++moment) {
    write_content(file("run.h5"), "old");
    killed = killed_at(moment, [&] { write_run(file("run.h5"), traces); });
    const std::string found = content_of(file("run.h5"));
    EXPECT_TRUE(found == "old" || found == good) << moment;
  }
  EXPECT_EQ(content_of(file("run.h5")), good);
}

}  // namespace
}  // namespace foxscope::test
