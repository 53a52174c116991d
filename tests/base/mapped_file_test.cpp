#include "backend/base/mapped_file.h"

#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace foxscope {
namespace {

class Mapped : public testing::Test {
 protected:
  ~Mapped() override { std::filesystem::remove(file_); }
  std::string content(const std::string& bytes) {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes;
    const MappedFile mapped(file_, "model");
    return {reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size()};
  }

  std::filesystem::path file_ = testing::TempDir() + "foxscope-mapped-" + std::to_string(getpid());
};

TEST_F(Mapped, HoldsTheBytesOfTheFile) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{100'001}}) {
    std::string bytes(size, 'x');
    if (size > 0) bytes.back() = 'y';
    EXPECT_EQ(content(bytes), bytes);
  }
}

TEST_F(Mapped, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(test::error_of([&] { MappedFile(file_, "model"); }),
            file_.string() + ": no such file; check the path of the model");
  EXPECT_EQ(test::error_of([] { MappedFile("/", "model"); }), "/: is a folder, not a model file; name a file in it");
}

TEST_F(Mapped, SaysWhichFileWasCutShortMeanwhile) {
  std::ofstream(file_, std::ios::binary) << std::string(100'000, 'x');
  const auto read_behind_the_end = [this] {
    const MappedFile whole(file_, "model");
    std::filesystem::resize_file(file_, 4096);
    const volatile std::byte* const bytes = whole.bytes().data();
    static_cast<void>(bytes[90'000]);
  };
  EXPECT_EXIT(read_behind_the_end(), testing::ExitedWithCode(1),
              "^foxscope: " + file_.string() +
                  ": was cut short while it was being read: put the whole file back, and start again\n$");
}

/// Other memory behind the end of a file is not taken for the mapped one.
TEST_F(Mapped, LeavesOtherFaultsToTheSystem) {
  std::ofstream(file_, std::ios::binary) << std::string(100'000, 'x');
  const auto fault = [this] {
    const MappedFile whole(file_, "model");
    raise(SIGBUS);
    raise(SIGBUS);
  };
  EXPECT_EXIT(fault(), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace foxscope
