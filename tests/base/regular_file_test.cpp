#include "backend/base/regular_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace foxscope {
namespace {

namespace fs = std::filesystem;

class RegularFileTest : public testing::Test {
 protected:
  static std::string error(const fs::path& path) {
    return test::error_of([&] { const RegularFile file(path, "tokenizer"); });
  }
  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(RegularFileTest, OpensAFileAndALinkToOne) {
  std::ofstream(folder_ / "file") << "content";
  fs::create_symlink("file", folder_ / "link");
  for (const char* name : {"file", "link"}) {
    const RegularFile file(folder_ / name, "tokenizer");
    EXPECT_EQ(file.size(), 7U);
    char content[8] = {};
    EXPECT_EQ(read(file.descriptor(), content, sizeof content), 7);
    EXPECT_STREQ(content, "content");
  }
}

TEST_F(RegularFileTest, SaysWhatIsInItsPlace) {
  const fs::path path = folder_ / "tokenizer.json";
  EXPECT_EQ(error(path), path.string() + ": no such file; check the path of the tokenizer");
  EXPECT_EQ(error(folder_), folder_.string() + ": is a folder, not a tokenizer file; name a file in it");
  EXPECT_EQ(error("/dev/null/x"),
            "/dev/null/x: cannot open the tokenizer: Not a directory; check the path and its permissions");
  const std::string rest = ", not a regular file; give the tokenizer as a file of its own";
  EXPECT_EQ(error("/dev/zero"), "/dev/zero: is a device" + rest);
  // Nobody writes into it: to open it as a file would wait for ever.
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(error(path), path.string() + ": is a pipe (FIFO)" + rest);
  fs::create_symlink("tokenizer.json", folder_ / "link");
  EXPECT_EQ(error(folder_ / "link"), (folder_ / "link").string() + ": is a pipe (FIFO)" + rest);

  const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{AF_UNIX, {}};
  const std::string name = folder_ / "socket";
  ASSERT_LT(name.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, name.c_str(), name.size());
  ASSERT_EQ(bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(error(name), name + ": is a socket" + rest);
  close(descriptor);
}

}  // namespace
}  // namespace foxscope
