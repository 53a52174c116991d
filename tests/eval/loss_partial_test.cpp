// Where unfinished work may be written to. That it is gone on with is tested through the command line.
#include "backend/eval/loss/loss_partial.h"

#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include <gtest/gtest.h>

#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

namespace fs = std::filesystem;

class LossPartialTest : public testing::Test {
 protected:
  /// @returns the number of records that were found
  int open(bool start_anew = false) const {
    int records = 0;
    LossPartial partial(folder_.path() / "eval.h5", std::string(64, 'f'), start_anew,
                        [&](std::uint32_t, std::uint32_t, std::span<const float>) { ++records; });
    const std::vector<float> losses = {1, 2, 3};
    partial.append(0, 0, losses);
    return records;
  }
  [[nodiscard]] std::string error() const {
    return test::error_of([&] { open(true); });
  }
  [[nodiscard]] fs::path partial() const { return folder_.path() / "eval.h5.partial"; }
  [[nodiscard]] fs::path other() const { return folder_.path() / "other"; }
  test::TemporaryFolder folder_;
};

TEST_F(LossPartialTest, IsItsOwnersAlone) {
  const mode_t old = umask(0);
  EXPECT_EQ(open(), 0);
  umask(old);
  EXPECT_EQ(fs::status(partial()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(open(), 1);
  EXPECT_EQ(open(), 2);
}

TEST_F(LossPartialTest, FollowsNoLink) {
  folder_.write("other", "");
  fs::create_symlink("other", partial());
  EXPECT_EQ(error(), partial().string() +
                         ": is a symbolic link, and unfinished work is not written through one: remove it, or choose "
                         "another name for -o");
  EXPECT_EQ(fs::file_size(other()), 0U);
  fs::remove(other());
  EXPECT_NE(error(), "");
  EXPECT_FALSE(fs::exists(other()));  // nor makes what the link points to
}

TEST_F(LossPartialTest, OverwritesNoFileOfAnotherName) {
  folder_.write("other", "");
  fs::create_hard_link(other(), partial());
  EXPECT_EQ(error(), partial().string() +
                         ": has another name too (a hard link), whose file would be overwritten: remove it or move it "
                         "away, or choose another name for -o");
  EXPECT_EQ(fs::file_size(other()), 0U);
}

TEST_F(LossPartialTest, RefusesWhatIsNoFile) {
  ASSERT_EQ(mkfifo(partial().c_str(), 0600), 0);
  EXPECT_EQ(error(),
            partial().string() + ": is not a regular file: remove it or move it away, or choose another name for -o");
  fs::remove(partial());
  fs::create_directory(partial());
  EXPECT_PRED2(test::says, error(), (test::Parts{"eval.h5.partial: cannot open the unfinished work: Is a directory"}));
}

TEST_F(LossPartialTest, RefusesAnotherUsersFile) {
  open();
  if (chown(partial().c_str(), 54321, 54321) != 0) GTEST_SKIP() << "cannot give files away here";
  EXPECT_EQ(error(),
            partial().string() + ": belongs to another user: remove it or move it away, or choose another name for -o");
}

}  // namespace
}  // namespace foxscope
