// One writer of a folder at a time, for as long as it lives.
#include "backend/train/folder_lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "tests/text/helpers.h"

namespace foxscope {
namespace {

std::string refusal(const std::filesystem::path& folder) {
  return test::error_of<Error>([&] { const FolderLock second(folder); });
}

TEST(FolderLock, KeepsASecondOneOutAndNamesTheFirst) {
  const test::TemporaryFolder folder;
  {
    const FolderLock first(folder.path());
    EXPECT_TRUE(first.held());
    char host[256] = "";
    ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
    const std::string said = refusal(folder.path());
    EXPECT_TRUE(
        said.starts_with(fmt::format("{}: process {} on {}, since 2", folder.path().string(), ::getpid(), host)))
        << said;
    EXPECT_TRUE(
        said.ends_with("trains there, and a training's folder has one writer: wait until it has ended, or stop it"))
        << said;
    EXPECT_EQ(refusal(folder.path()), said);  // asking does not give it up
  }
  EXPECT_TRUE(FolderLock(folder.path()).held());
}

TEST(FolderLock, IsLostWithItsFile) {
  const test::TemporaryFolder folder;
  const FolderLock lock(folder.path());
  EXPECT_NO_THROW(lock.require_there());
  std::filesystem::remove(folder / "lock");
  const auto said = [&] { return test::error_of<Error>([&] { lock.require_there(); }); };
  EXPECT_NE(said().find("lock: was removed while this process trained"), std::string::npos) << said();
  const FolderLock another(folder.path());
  EXPECT_NE(said().find("another one may train there"), std::string::npos) << said();
  EXPECT_NO_THROW(another.require_there());
}

TEST(FolderLock, OfAProcessThatIsGoneHoldsNobody) {
  const test::TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder.path());
    ::_exit(lock.held() ? 0 : 1);  // as a kill: nothing is given back
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_FALSE(test::read_bytes(folder / "lock").empty());
  EXPECT_TRUE(FolderLock(folder.path()).held());
}

TEST(FolderLock, AHolderThatCannotBeRead) {
  const test::TemporaryFolder folder;
  const FolderLock first(folder.path());
  test::write_bytes(folder / "lock", "{\"process\": \"none\"");
  EXPECT_TRUE(refusal(folder.path()).starts_with(folder.path().string() + ": another process trains there"));
}

TEST(FolderLock, AFolderThatIsMissing) {
  const test::TemporaryFolder folder;
  const std::string said = refusal(folder / "missing");
  EXPECT_EQ(said, (folder / "missing/lock").string() +
                      ": cannot be opened: No such file or directory: check the folder, and that you may write to it");
}

}  // namespace
}  // namespace foxscope
