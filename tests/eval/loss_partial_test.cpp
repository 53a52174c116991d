// Where unfinished work may be written to. That it is gone on with is tested through the command line.
#include "backend/eval/loss/loss_partial.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHead = 72;            // letters and fingerprint
constexpr std::size_t kRecord = 16 + 3 * 4;  // numbers and losses of open()

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
  /// Bytes of the file.
  [[nodiscard]] std::string content() const {
    std::ifstream file(partial(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
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

TEST_F(LossPartialTest, EndsAtARecordThatIsDamaged) {
  for (int n = 0; n < 3; ++n) EXPECT_EQ(open(), n);
  const std::string whole = content();
  ASSERT_EQ(whole.size(), kHead + 3 * kRecord);
  // Each byte of the second record: the numbers of its model and window, its size, its checksum and its losses.
  for (std::size_t byte = 0; byte < kRecord; ++byte) {
    std::string damaged = whole;
    damaged[kHead + kRecord + byte] ^= 1;
    folder_.write("eval.h5.partial", damaged);
    EXPECT_EQ(open(), 1) << byte;
    EXPECT_EQ(content(), whole.substr(0, kHead + 2 * kRecord)) << byte;
  }
  for (std::size_t cut = 1; cut < kRecord; ++cut) {
    folder_.write("eval.h5.partial", whole.substr(0, whole.size() - cut));
    EXPECT_EQ(open(), 2) << cut;
  }
}

TEST_F(LossPartialTest, EndsAtZerosThatACrashLeaves) {
  open();
  const std::string whole = content();
  for (const std::size_t zeros : {1, 15, 16, 17, 4096}) {
    folder_.write("eval.h5.partial", whole + std::string(zeros, '\0'));
    EXPECT_EQ(open(), 1) << zeros;
    EXPECT_EQ(content().size(), kHead + 2 * kRecord) << zeros;
  }
}

TEST_F(LossPartialTest, LeavesWorkOfAnotherVersionUnlessToldTo) {
  open();
  const std::string other = "FOXPART1" + content().substr(8);
  folder_.write("eval.h5.partial", other);
  EXPECT_EQ(
      test::error_of([&] { open(); }),
      partial().string() +
          ": holds unfinished work of another version of Foxscope: finish it with that version, delete it, or use "
          "--force to start anew");
  EXPECT_EQ(content(), other);
  EXPECT_EQ(open(true), 0);
  EXPECT_EQ(open(), 1);
}

TEST_F(LossPartialTest, NamesTheFileWhoseRecordIsRefused) {
  open();
  const auto refuse = [](std::uint32_t, std::uint32_t, std::span<const float>) { throw Error("too few"); };
  EXPECT_EQ(test::error_of([&] { LossPartial(folder_.path() / "eval.h5", std::string(64, 'f'), false, refuse); }),
            partial().string() + ": too few: delete it to start anew");
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
