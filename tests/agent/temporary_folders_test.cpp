#include "backend/agent/temporary_folders.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "tests/agent/peers.h"
#include "tests/temporary_folder.h"

namespace foxscope::test {
namespace {

/// Makes a folder of copies in a process that is killed.
void leave_a_copy() {
  const pid_t child = fork();
  if (child == 0) {
    std::ofstream(agent::make_folder_of_copies() / "atlas.h5") << "a copy";
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

std::size_t entries_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(TemporaryFolders, CopiesOfKilledProcessesAreRemoved) {
  const TemporaryFolder place;
  const Variable temporary("TMPDIR", place.text());
  leave_a_copy();
  leave_a_copy();
  EXPECT_EQ(entries_in(place.path()), 2U);
  agent::remove_left_copies();
  EXPECT_EQ(entries_in(place.path()), 0U);
}

TEST(TemporaryFolders, WhatIsNoLeftCopyStays) {
  const TemporaryFolder place;
  const TemporaryFolder elsewhere;
  const Variable temporary("TMPDIR", place.text());
  const std::filesystem::path held = agent::make_folder_of_copies();
  const std::filesystem::path other = agent::make_temporary_folder();
  const std::filesystem::path link = place / "foxscope-copies-link";
  std::ofstream(held / "atlas.h5") << "a copy";
  elsewhere.write("kept.txt", "kept");
  std::filesystem::create_directory_symlink(elsewhere.path(), link);
  agent::remove_left_copies();
  EXPECT_TRUE(std::filesystem::exists(held / "atlas.h5"));
  EXPECT_TRUE(std::filesystem::exists(other));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::exists(elsewhere / "kept.txt"));
  agent::remove_temporary_folders();
  EXPECT_FALSE(std::filesystem::exists(held));
}

}  // namespace
}  // namespace foxscope::test
