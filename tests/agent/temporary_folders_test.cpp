#include "backend/agent/temporary_folders.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/agent/peers.h"
#include "tests/temporary_folder.h"

namespace foxscope::test {
namespace {

/// Makes folders in a process that is killed: one that goes with it, and one that it has left for good.
void leave_folders() {
  const pid_t child = fork();
  if (child == 0) {
    std::ofstream(agent::make_temporary_folder() / "atlas.h5") << "a copy";
    std::ofstream(agent::make_folder_of_client() / "run.h5") << "unfinished";
    const std::filesystem::path kept = agent::make_folder_of_client();
    std::ofstream(kept / "kept.h5") << "done";
    if (agent::leave_temporary_folder(kept)) raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

std::set<std::string> files_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.insert(entry.path().filename().string());
  }
  return names;
}

std::size_t entries_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(TemporaryFolders, FoldersOfKilledProcessesAreRemoved) {
  const TemporaryFolder place;
  const Variable temporary("TMPDIR", place.text());
  leave_folders();
  leave_folders();
  EXPECT_EQ(entries_in(place.path()), 6U);
  agent::remove_left_folders();
  EXPECT_EQ(entries_in(place.path()), 2U);
  EXPECT_EQ(files_in(place.path()), std::set<std::string>{"kept.h5"});
}

TEST(TemporaryFolders, WhatHasNotBeenLeftByAKilledProcessStays) {
  const TemporaryFolder place;
  const TemporaryFolder elsewhere;
  const Variable temporary("TMPDIR", place.text());
  const std::filesystem::path held = agent::make_temporary_folder();
  const std::filesystem::path of_client = agent::make_folder_of_client();
  const std::filesystem::path of_others = place / "foxscope-agent-x";
  const std::filesystem::path link = place / "foxscope-link";
  std::ofstream(held / "atlas.h5") << "a copy";
  std::filesystem::create_directory(of_others);
  elsewhere.write("kept.txt", "kept");
  std::filesystem::permissions(elsewhere.path(), std::filesystem::perms::sticky_bit,
                               std::filesystem::perm_options::add);
  std::filesystem::create_directory_symlink(elsewhere.path(), link);
  agent::remove_left_folders();
  EXPECT_TRUE(std::filesystem::exists(held / "atlas.h5"));
  EXPECT_TRUE(std::filesystem::exists(of_client));
  EXPECT_TRUE(std::filesystem::exists(of_others));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::exists(elsewhere / "kept.txt"));
  agent::remove_temporary_folders();
  EXPECT_FALSE(std::filesystem::exists(held));
  EXPECT_FALSE(std::filesystem::exists(of_client));
}

}  // namespace
}  // namespace foxscope::test
