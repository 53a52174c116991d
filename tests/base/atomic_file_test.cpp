#include "backend/base/atomic_file.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace foxscope {
namespace {

namespace fs = std::filesystem;

/// A folder of its own for each test, removed afterwards.
class AtomicFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}));
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

std::string content_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_plainly(const fs::path& path, const std::string& content) { std::ofstream(path) << content; }

void write_atomically(const fs::path& path, const std::string& content, bool overwrite) {
  AtomicFile file(path, overwrite);
  file.write(content.data(), content.size());
  file.commit();
}

void expect_error(const std::function<void()>& work, const std::vector<std::string>& parts) {
  const std::string message = test::error_of(work);
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
}

constexpr int kPassed = 0;
constexpr int kFailed = 1;
constexpr int kSkipped = 77;

/// Exit status of a child process that runs `work`: what must not touch this process (limits, users, mounts).
int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int message_holds(const std::string& message, const std::string& part) {
  if (message.find(part) != std::string::npos) return kPassed;
  fprintf(stderr, "message: %s\n", message.c_str());
  return kFailed;
}

TEST_F(AtomicFileTest, AppearsOnlyWhenCommitted) {
  const fs::path path = folder_ / "out.bin";
  AtomicFile file(path, false);
  file.write("fox", 3);
  file.write("scope", 5);
  EXPECT_FALSE(fs::exists(path));
  file.commit();
  EXPECT_EQ(content_of(path), "foxscope");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(AtomicFileTest, LeavesNothingWithoutCommit) {
  {
    AtomicFile file(folder_ / "out.bin", false);
    file.write("fox", 3);
  }
  EXPECT_EQ(entries(), 0U);
}

TEST_F(AtomicFileTest, HasThePermissionsThatTheUmaskGives) {
  const mode_t old = umask(0027);
  write_atomically(folder_ / "out.bin", "fox", false);
  umask(old);
  struct stat status {};
  ASSERT_EQ(stat((folder_ / "out.bin").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST_F(AtomicFileTest, CanBeOpenedByItsPathWhileUnfinished) {
  AtomicFile file(folder_ / "out.bin", false);
  { std::ofstream(file.path(), std::ios::binary) << "by another library"; }
  file.commit();
  EXPECT_EQ(content_of(folder_ / "out.bin"), "by another library");
}

TEST_F(AtomicFileTest, WritesAtOffsets) {
  AtomicFile file(folder_ / "out.bin", false);
  EXPECT_EQ(file.try_write_at(3, "scope", 5), 0);
  EXPECT_EQ(file.try_write_at(0, "fox", 3), 0);
  file.commit();
  EXPECT_EQ(content_of(folder_ / "out.bin"), "foxscope");
}

TEST_F(AtomicFileTest, RefusesToOverwriteUnlessTold) {
  const fs::path path = folder_ / "out.bin";
  write_plainly(path, "old");
  expect_error([&] { AtomicFile(path, false); }, {path.string(), "exists already", "--force"});
  EXPECT_EQ(content_of(path), "old");
  write_atomically(path, "new", true);
  EXPECT_EQ(content_of(path), "new");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(AtomicFileTest, KeepsTheOldFileWhenDropped) {
  const fs::path path = folder_ / "out.bin";
  write_plainly(path, "old");
  {
    AtomicFile file(path, true);
    file.write("new", 3);
  }
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(AtomicFileTest, DoesNotReplaceWhatWasCreatedMeanwhile) {
  const fs::path path = folder_ / "out.bin";
  AtomicFile file(path, false);
  file.write("new", 3);
  write_plainly(path, "another's");
  expect_error([&] { file.commit(); }, {path.string(), "created meanwhile", "--force"});
  EXPECT_EQ(content_of(path), "another's");
}

TEST_F(AtomicFileTest, FollowsSymbolicLinks) {
  write_plainly(folder_ / "real.bin", "old");
  fs::create_symlink("real.bin", folder_ / "link.bin");
  expect_error([&] { AtomicFile(folder_ / "link.bin", false); }, {"--force"});
  write_atomically(folder_ / "link.bin", "new", true);
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.bin"));
  EXPECT_EQ(content_of(folder_ / "real.bin"), "new");

  fs::create_symlink("not-there.bin", folder_ / "dangling.bin");
  write_atomically(folder_ / "dangling.bin", "made", false);
  EXPECT_EQ(content_of(folder_ / "not-there.bin"), "made");

  fs::create_symlink("circle.bin", folder_ / "circle.bin");
  expect_error([&] { AtomicFile(folder_ / "circle.bin", true); }, {"circle of symbolic links"});
}

TEST_F(AtomicFileTest, SaysWhatIsWrongWithTheTarget) {
  expect_error([&] { AtomicFile(folder_, true); }, {folder_.string(), "is a folder"});
  expect_error([&] { AtomicFile(folder_ / "", true); }, {"is a folder"});
  expect_error([&] { AtomicFile("", true); }, {"empty"});
  expect_error([&] { AtomicFile(folder_ / "missing" / "out.bin", false); }, {"missing", "does not exist", "create it"});
  expect_error([&] { AtomicFile("/dev/null", true); }, {"/dev/null", "not a regular file"});
}

TEST_F(AtomicFileTest, WritesIntoTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_atomically("out.bin", "fox", false);
  write_atomically("out.bin", "new", true);
  fs::current_path(before);
  EXPECT_EQ(content_of(folder_ / "out.bin"), "new");
}

TEST_F(AtomicFileTest, SaysThatAFolderCannotBeWrittenTo) {
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  const int status = in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && seteuid(kNobody) != 0) return kSkipped;
    return message_holds(test::error_of([&] { AtomicFile(folder_ / "out.bin", false); }), "choose a folder");
  });
  fs::permissions(folder_, fs::perms::owner_all);
  if (status == kSkipped) GTEST_SKIP() << "cannot become another user here";
  EXPECT_EQ(status, kPassed);
}

TEST_F(AtomicFileTest, SaysThatAFileMayNotBeSoLarge) {
  write_plainly(folder_ / "out.bin", "old");
  const int status = in_child([&] {
    const struct rlimit limit { 4096, 4096 };
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string big(1 << 20, 'x');
    if (message_holds(test::error_of([&] { AtomicFile(folder_ / "out.bin", true).require_space(1 << 20); }),
                      "limited to") != kPassed) {
      return kFailed;
    }
    return message_holds(test::error_of([&] { write_atomically(folder_ / "out.bin", big, true); }), "ulimit -f");
  });
  EXPECT_EQ(status, kPassed);
  EXPECT_EQ(content_of(folder_ / "out.bin"), "old");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(AtomicFileTest, SaysThatTheDiskIsFull) {
  const int status = in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=256k") != 0) {
      return kSkipped;
    }
    write_plainly(folder_ / "out.bin", "old");
    const std::string big(1 << 20, 'x');
    if (message_holds(test::error_of([&] { AtomicFile(folder_ / "out.bin", true).require_space(1 << 20); }),
                      "the disk has") != kPassed ||
        message_holds(test::error_of([&] { write_atomically(folder_ / "out.bin", big, true); }), "the disk is full") !=
            kPassed) {
      return kFailed;
    }
    return content_of(folder_ / "out.bin") == "old" && entries() == 1 ? kPassed : kFailed;
  });
  if (status == kSkipped) GTEST_SKIP() << "cannot mount a small file system here";
  EXPECT_EQ(status, kPassed);
}

/// Without /proc a file without a name could never get one: a temporary name is used.
TEST_F(AtomicFileTest, WorksWithATemporaryName) {
  const int status = in_child([&] {
    if (chroot(folder_.c_str()) != 0 || chdir("/") != 0) return kSkipped;
    const auto count = [] { return std::distance(fs::directory_iterator("/"), fs::directory_iterator{}); };
    {
      AtomicFile file("/out.bin", false);
      file.write("dropped", 7);
      if (count() != 1 || fs::exists("/out.bin") || !fs::exists(file.path())) return kFailed;
    }
    if (count() != 0) return kFailed;
    write_atomically("/out.bin", "first", false);
    if (content_of("/out.bin") != "first" || count() != 1) return kFailed;
    write_atomically("/out.bin", "second", true);
    if (content_of("/out.bin") != "second" || count() != 1) return kFailed;
    AtomicFile late("/late.bin", false);
    write_plainly("/late.bin", "another's");
    return message_holds(test::error_of([&] { late.commit(); }), "created meanwhile");
  });
  if (status == kSkipped) GTEST_SKIP() << "cannot change the root folder here";
  EXPECT_EQ(status, kPassed);
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
}

/// For a child: from now on its file system knows no files without names.
bool forbid_nameless_files() {
  constexpr std::uint32_t kNameless = O_TMPFILE & ~O_DIRECTORY;
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
                          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
                          BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kNameless, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(AtomicFileTest, UnfinishedFilesWithANameCanBeRemoved) {
  const int status = in_child([&] {
    if (!forbid_nameless_files()) return kSkipped;
    write_plainly(folder_ / "old.bin", "old");
    AtomicFile fresh(folder_ / "fresh.bin", false);
    AtomicFile replacing(folder_ / "old.bin", true);
    AtomicFile finished(folder_ / "finished.bin", false);
    finished.commit();
    { const AtomicFile dropped(folder_ / "dropped.bin", false); }
    if (!fs::exists(fresh.path()) || !fs::exists(replacing.path()) || entries() != 4) _exit(kFailed);
    remove_unfinished_files();
    // Not to be destroyed any more: nothing is, after that.
    const bool removed = entries() == 2 && fs::exists(folder_ / "finished.bin");
    _exit(removed && content_of(folder_ / "old.bin") == "old" ? kPassed : kFailed);
  });
  if (status == kSkipped) GTEST_SKIP() << "cannot filter system calls here";
  EXPECT_EQ(status, kPassed);
}

/// With and without a name on the way.
class Replacing : public AtomicFileTest, public testing::WithParamInterface<bool> {
 protected:
  /// `work` returns kPassed, kFailed or kSkipped.
  void check(const std::function<int()>& work) {
    const int status = in_child([&] {
      if (GetParam() && !forbid_nameless_files()) return kSkipped;
      umask(0022);
      return work();
    });
    if (status == kSkipped) GTEST_SKIP() << "needs a right or a file system that is not there";
    EXPECT_EQ(status, kPassed);
  }
  [[nodiscard]] fs::path path() const { return folder_ / "out.bin"; }
};

TEST_P(Replacing, KeepsThePermissions) {
  check([&] {
    for (const mode_t mode : {0600U, 0640U, 0664U, 0444U, 0755U}) {
      fs::remove(path());
      write_plainly(path(), "old");
      chmod(path().c_str(), mode);
      write_atomically(path(), "new", true);
      if (mode_of(path()) != mode || content_of(path()) != "new") return kFailed;
    }
    // What was there when it began may be gone, or another's, when it ends.
    AtomicFile file(path(), true);
    chmod(path().c_str(), 0604);
    file.commit();
    return mode_of(path()) == 0604 ? kPassed : kFailed;
  });
}

TEST_P(Replacing, IsPrivateUntilItIsFinished) {
  check([&] {
    write_plainly(path(), "old");
    chmod(path().c_str(), 0600);
    const AtomicFile file(path(), true);
    struct stat status {};
    fstat(file.descriptor(), &status);
    return (status.st_mode & 0777U) == 0600 ? kPassed : kFailed;
  });
}

TEST_P(Replacing, KeepsOwnerAndGroupWhereThatIsAllowed) {
  check([&] {
    constexpr uid_t kUser = 54321;
    constexpr gid_t kGroup = 54322;
    write_plainly(path(), "old");
    chmod(path().c_str(), 0660);
    if (chown(path().c_str(), kUser, kGroup) != 0) return kSkipped;
    write_atomically(path(), "new", true);
    struct stat status {};
    stat(path().c_str(), &status);
    if (status.st_uid != kUser || status.st_gid != kGroup || mode_of(path()) != 0660) return kFailed;

    // Somebody who is not in the group: their own group does not get its rights.
    if (chown(folder_.c_str(), kUser, kUser) != 0 || setgroups(0, nullptr) != 0 || setgid(kUser) != 0 ||
        setuid(kUser) != 0) {
      return kSkipped;
    }
    write_atomically(path(), "newer", true);
    stat(path().c_str(), &status);
    return status.st_gid == kUser && mode_of(path()) == 0600 ? kPassed : kFailed;
  });
}

/// The group's bits of a file with an access control list are the most that anybody on the list may do: as plain
/// permissions they would give it to the group.
TEST_P(Replacing, KeepsTheAccessControlList) {
  check([&] {
    struct Entry {
      std::uint16_t tag, permissions;
      std::uint32_t id;
    };
    constexpr std::uint32_t kNobody = 0xffffffff;
    // Version 2: owner rw, user 12345 r, group nothing, mask r, others nothing.
    const struct {
      std::uint32_t version = 2;
      Entry entries[5] = {{1, 6, kNobody}, {2, 4, 12345}, {4, 0, kNobody}, {16, 4, kNobody}, {32, 0, kNobody}};
    } list;
    constexpr const char* kName = "system.posix_acl_access";
    write_plainly(path(), "old");
    if (setxattr(path().c_str(), kName, &list, sizeof list, 0) != 0) return kSkipped;
    write_atomically(path(), "new", true);
    char kept[sizeof list] = {};
    if (getxattr(path().c_str(), kName, kept, sizeof kept) != sizeof list) return kFailed;
    return std::memcmp(kept, &list, sizeof list) == 0 && mode_of(path()) == 0640 ? kPassed : kFailed;
  });
}

INSTANTIATE_TEST_SUITE_P(Names, Replacing, testing::Bool(), [](const auto& named) {
  return std::string(named.param ? "WithATemporaryName" : "WithoutAName");
});

TEST_F(AtomicFileTest, KilledAtAnyMomentLeavesTheOldFileOrTheNew) {
  const fs::path path = folder_ / "out.bin";
  const std::string old(100'000, 'o');
  const std::string fresh(300'000, 'n');
  for (int moment = 0; moment < 60; ++moment) {
    write_plainly(path, old);
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      AtomicFile file(path, true);
      for (std::size_t begin = 0; begin < fresh.size(); begin += 10'000) {
        // One byte for each step: the parent kills after as many steps as it likes.
        if (write(ready[1], "s", 1) != 1) _exit(1);
        file.write(fresh.data() + begin, 10'000);
      }
      file.commit();
      if (write(ready[1], "e", 1) != 1) _exit(1);
      pause();
    }
    close(ready[1]);
    char step = 0;
    for (int n = 0; n <= moment && step != 'e'; ++n) ASSERT_EQ(read(ready[0], &step, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ready[0]);
    const std::string found = content_of(path);
    EXPECT_TRUE(found == old || found == fresh);
    if (step != 'e') {
      // One that was killed between the new file's own name and the old one's leaves that name: nobody could remove it.
      EXPECT_LE(entries(), 2U);
      for (const auto& entry : fs::directory_iterator(folder_)) fs::remove(entry.path());
      continue;
    }
    EXPECT_EQ(found, fresh);
    EXPECT_EQ(entries(), 1U);
  }
}

}  // namespace
}  // namespace foxscope
