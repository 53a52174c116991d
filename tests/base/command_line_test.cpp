// What published files say of paths and of the command that made them.
#include "backend/base/command_line.h"

#include <cstdio>
#include <filesystem>
#include <memory>

#include <gtest/gtest.h>

namespace foxscope {
namespace {

TEST(WithoutFolder, IsTheLastComponent) {
  for (const char* path : {"run.h5", "/home/anna/run.h5", "../run.h5", "./run.h5", "a/../run.h5", "/run.h5",
                           "a//run.h5", "run.h5/", "/home/anna/run.h5/.", "/home/anna/run.h5/x/.."}) {
    EXPECT_EQ(without_folder(path), "run.h5") << path;
  }
}

TEST(WithoutFolder, NamesTheWorkingFolderAndThoseAboveIt) {
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(without_folder("."), here.filename());
  EXPECT_EQ(without_folder("./"), here.filename());
  EXPECT_EQ(without_folder(".."), here.parent_path().filename());
  EXPECT_EQ(without_folder("../."), here.parent_path().filename());
}

TEST(WithoutFolder, KeepsWhatHasNoComponents) {
  for (const char* path : {"", "/", "-"}) EXPECT_EQ(without_folder(path), path);
}

// What a shell makes of a line is the reference.
TEST(QuotedCommandLine, AShellTakesItApartAgain) {
  const std::vector<std::string> words = {
      "printf", "%s|", "plain", "two words", "it's", "", "$HOME `id` \\ \"x\"", "a;b&c", "*.h5 ~", "line\nend"};
  const std::string line = quoted_command_line(words);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(line.c_str(), "r"), pclose);
  ASSERT_TRUE(pipe);
  std::string said(1000, '\0');
  said.resize(std::fread(said.data(), 1, said.size(), pipe.get()));
  std::string expected;
  for (std::size_t n = 2; n < words.size(); ++n) expected += words[n] + '|';
  EXPECT_EQ(said, expected) << line;
}

TEST(QuotedCommandLine, LeavesPlainWordsAlone) {
  const std::vector<std::string> words = {"foxscope", "run", "--model=fox", "-o", "run.h5", "0:100"};
  EXPECT_EQ(quoted_command_line(words), "foxscope run --model=fox -o run.h5 0:100");
}

}  // namespace
}  // namespace foxscope
