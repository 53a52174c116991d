// Where unfinished work may be written to. That it is gone on with is tested through the command line.
#include "backend/eval/loss/loss_partial.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
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
constexpr std::size_t kRecord = 20 + 3 * 4;  // numbers and losses of open()

class LossPartialTest : public testing::Test {
 protected:
  /// @returns the number of records that were found
  int open(bool start_anew = false) {
    int records = 0;
    const auto count = [&](std::uint32_t, std::uint32_t, std::span<const float>) { ++records; };
    LossPartial partial(folder_.path() / "eval.h5", std::string(64, 'f'), start_anew, count, note());
    const std::vector<float> losses = {1, 2, 3};
    partial.append(0, 0, losses);
    return records;
  }
  /// Bytes of the file.
  [[nodiscard]] std::string content() const {
    std::ifstream file(partial(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  LossPartial::Note note() {
    return [this](const std::string& text) { notes_.push_back(text); };
  }
  [[nodiscard]] std::string error() {
    return test::error_of([&] { open(true); });
  }
  [[nodiscard]] fs::path partial() const { return folder_.path() / "eval.h5.partial"; }
  [[nodiscard]] fs::path other() const { return folder_.path() / "other"; }
  test::TemporaryFolder folder_;
  std::vector<std::string> notes_;
};

TEST_F(LossPartialTest, IsItsOwnersAlone) {
  const mode_t old = umask(0);
  EXPECT_EQ(open(), 0);
  umask(old);
  EXPECT_EQ(fs::status(partial()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(open(), 1);
  EXPECT_EQ(open(), 2);
}

TEST_F(LossPartialTest, LeavesOutARecordThatIsDamaged) {
  for (int n = 0; n < 3; ++n) EXPECT_EQ(open(), n);
  EXPECT_EQ(notes_, std::vector<std::string>());
  const std::string whole = content();
  const std::string sound = whole.substr(0, kHead + kRecord);
  for (std::size_t byte = 0; byte < kRecord; ++byte) {
    std::string damaged = whole;
    damaged[kHead + kRecord + byte] ^= 1;
    folder_.write("eval.h5.partial", damaged);
    notes_.clear();
    EXPECT_EQ(open(), 2) << byte;
    EXPECT_EQ(notes_, (std::vector<std::string>{partial().string() +
                                                ": 1 of 3 parts is damaged: what it held is computed again"}))
        << byte;
    EXPECT_EQ(content(), whole) << byte;  // two that were sound, and a new one like them
  }
  folder_.write("eval.h5.partial", sound + std::string(kRecord, 'x') + sound.substr(kHead) + "damaged, to the end");
  notes_.clear();
  EXPECT_EQ(open(), 2);
  EXPECT_EQ(notes_, (std::vector<std::string>{partial().string() +
                                              ": 1 of 3 parts is damaged: what it held is computed again"}));
  notes_.clear();
  EXPECT_EQ(open(), 3);
  EXPECT_EQ(notes_, std::vector<std::string>());
}

TEST_F(LossPartialTest, EndsAtARecordThatIsCutShort) {
  for (int n = 0; n < 3; ++n) EXPECT_EQ(open(), n);
  const std::string whole = content();
  for (std::size_t cut = 1; cut < kRecord; ++cut) {
    folder_.write("eval.h5.partial", whole.substr(0, whole.size() - cut));
    EXPECT_EQ(open(), 2) << cut;
    EXPECT_EQ(content(), whole) << cut;
  }
  EXPECT_EQ(notes_, std::vector<std::string>());
}

TEST_F(LossPartialTest, PutsRecordsTogetherOnceTheyAreTwiceAsLarge) {
  const fs::path output = folder_.path() / "eval.h5";
  float sum = 0;
  const auto take = [&](std::uint32_t, std::uint32_t, std::span<const float> losses) { sum += losses[0]; };
  const auto all = [&](const LossPartial::Found& add) { add(0, 0, std::vector<float>{sum, 2, 3}); };
  for (int process = 0; process < 2; ++process) {
    sum = 0;
    LossPartial partial(output, std::string(64, 'f'), false, take);
    EXPECT_EQ(sum, 50 * process);
    for (int n = 0; n < 50; ++n) {
      sum += 1;
      partial.append(0, 0, std::vector<float>{1, 2, 3});
      partial.put_together(all);
      EXPECT_LE(fs::file_size(output.string() + ".partial"), 2 * (kHead + kRecord));
      // Nobody else can have the new file either.
      EXPECT_PRED2(test::says, error(), (test::Parts{"another process is working on it"}));
    }
  }
  EXPECT_EQ(fs::status(partial()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(LossPartialTest, GoesOnWithoutKeepingOnAFullDisk) {
  open();
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{kHead + 2 * kRecord + 30, old.rlim_max};
  {
    LossPartial partial(
        folder_.path() / "eval.h5", std::string(64, 'f'), false, [](auto...) {}, note());
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int n = 0; n < 4; ++n) partial.append(0, 0, std::vector<float>{1, 2, 3});
  }
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(notes_,
            (std::vector<std::string>{partial().string() +
                                      ": cannot write the unfinished work: File too large; the work goes on, and what "
                                      "is computed from now on is lost if it is interrupted"}));
  EXPECT_EQ(content().size(), kHead + 2 * kRecord);
  EXPECT_EQ(open(), 2);
}

TEST_F(LossPartialTest, EndsAtZerosThatACrashLeaves) {
  open();
  const std::string whole = content();
  for (const std::size_t zeros : {1, 19, 20, 21, 4096}) {
    folder_.write("eval.h5.partial", whole + std::string(zeros, '\0'));
    EXPECT_EQ(open(), 1) << zeros;
    EXPECT_EQ(content().size(), kHead + 2 * kRecord) << zeros;
  }
}

TEST_F(LossPartialTest, LeavesWorkOfAnotherVersionUnlessToldTo) {
  open();
  const std::string other = "FOXPART2" + content().substr(8);
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
