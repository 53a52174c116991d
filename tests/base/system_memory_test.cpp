// What a container leaves of memory, on made-up trees of /proc and /sys.
#include "backend/base/system_memory.h"

#include <cstdlib>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "tests/temporary_folder.h"

namespace foxscope {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

class SystemMemoryTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const { temporary_.write(name, content); }
  /// A group of version 2 below sys/fs/cgroup.
  void group(const std::string& name, const std::string& limit, std::int64_t used, const std::string& stat = "") const {
    write("sys/fs/cgroup/" + name + "/memory.max", limit + "\n");
    write("sys/fs/cgroup/" + name + "/memory.current", std::to_string(used) + "\n");
    write("sys/fs/cgroup/" + name + "/memory.stat", stat);
  }
  void member_of(const std::string& lines) const { write("proc/self/cgroup", lines); }
  [[nodiscard]] std::optional<std::int64_t> left() const { return left_of_control_groups(root_); }

  const test::TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
};

TEST_F(SystemMemoryTest, ReadsWhatTheSystemHas) {
  EXPECT_EQ(left_of_system(root_), std::nullopt);
  write("proc/meminfo", "MemTotal:        8000 kB\nMemFree:         1000 kB\nMemAvailable:    5000 kB\n");
  EXPECT_EQ(left_of_system(root_), 5000 * 1024);
  write("proc/meminfo", "MemTotal:        8000 kB\nMemFree:         1000 kB\n");
  EXPECT_EQ(left_of_system(root_), std::nullopt);
}

TEST_F(SystemMemoryTest, NothingIsSaidWhereThereIsNoLimit) {
  EXPECT_EQ(left(), std::nullopt);  // no such files at all
  member_of("0::/user.slice\n");
  EXPECT_EQ(left(), std::nullopt);
  group("user.slice", "max", 3 * kGiB);
  EXPECT_EQ(left(), std::nullopt);
  member_of("no colons\n0:one\n\n");
  EXPECT_EQ(left(), std::nullopt);
}

/// Files that were read stay in memory until it is needed for something else.
TEST_F(SystemMemoryTest, CachesOfTheGroupAreNotUsedUp) {
  member_of("0::/\n");
  const std::string cache = std::to_string(kGiB);
  group("", std::to_string(4 * kGiB), 7 * kGiB / 2,
        "anon 100\nfile 3000000000\ninactive_anon 5\nactive_file " + cache + "\ninactive_file " + cache +
            "\nslab_reclaimable 4096\nslab_unreclaimable 777\n");
  EXPECT_EQ(left(), kGiB / 2 + 2 * kGiB + 4096);
  group("", std::to_string(4 * kGiB), 5 * kGiB, "anon 100\n");  // a limit that was lowered since
  EXPECT_EQ(left(), 0);
  group("", std::to_string(4 * kGiB), kGiB, "inactive_file 999999999999\n");  // counted a moment later than the sum
  EXPECT_EQ(left(), 4 * kGiB);
}

TEST_F(SystemMemoryTest, TheTightestGroupOnTheWayCounts) {
  member_of("0::/a/b/c\n");
  group("a", std::to_string(8 * kGiB), kGiB);
  group("a/b", std::to_string(3 * kGiB), kGiB);
  group("a/b/c", "max", kGiB);
  group("other", std::to_string(kGiB), kGiB);
  EXPECT_EQ(left(), 2 * kGiB);
  group("a", std::to_string(8 * kGiB), 7 * kGiB);  // others in it have taken the rest
  EXPECT_EQ(left(), kGiB);
  group("a/b/c", std::to_string(kGiB), kGiB / 2);
  EXPECT_EQ(left(), kGiB / 2);
  fs::remove(root_ / "sys/fs/cgroup/a/b/c/memory.current");
  EXPECT_EQ(left(), kGiB);
}

/// A container with a view of its own, one that sees the host's paths over its own mount, and one moved out of its
/// view.
TEST_F(SystemMemoryTest, OfAContainerTheMountIsTheGroup) {
  group("", std::to_string(2 * kGiB), kGiB, "inactive_file 1000\n");
  for (const char* path : {"0::/\n", "0::/system.slice/docker-0123.scope\n", "0::/../../elsewhere\n"}) {
    member_of(path);
    EXPECT_EQ(left(), kGiB + 1000) << path;
  }
}

TEST_F(SystemMemoryTest, ReadsVersion1) {
  member_of("5:cpu,cpuacct:/\n4:memory:/docker/0123\n1:name=systemd:/\n0::/\n");
  const std::string unlimited = "9223372036854771712\n";
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", unlimited);
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(20 * kGiB));
  EXPECT_GT(left().value_or(0), 1'000'000 * kGiB);
  const std::string own = "sys/fs/cgroup/memory/docker/0123/";
  write(own + "memory.limit_in_bytes", std::to_string(4 * kGiB));
  write(own + "memory.usage_in_bytes", std::to_string(4 * kGiB));
  write(own + "memory.stat", "cache 1\ninactive_file 5\ntotal_active_file 7000\ntotal_inactive_file 90000\n");
  EXPECT_EQ(left(), 97000);
  // A hierarchy that memory shares with another controller.
  member_of("4:cpuset,memory:/docker/0123\n");
  EXPECT_EQ(left(), 97000);
  member_of("4:memory_of_another_kind:/docker/0123\n");
  EXPECT_EQ(left(), std::nullopt);
}

TEST_F(SystemMemoryTest, ReadsVersion2BesideVersion1) {
  member_of("4:cpu:/\n0::/user\n");
  group("unified/user", std::to_string(2 * kGiB), kGiB);
  EXPECT_EQ(left(), kGiB);
}

TEST(AvailableMemory, IsThatOfThisMachine) {
  EXPECT_GT(available_memory(), 0);
  const auto system = left_of_system("/");
  // Other programs end and begin meanwhile.
  EXPECT_LE(available_memory(), 2 * system.value_or(std::numeric_limits<std::int64_t>::max() / 2));
}

}  // namespace
}  // namespace foxscope
