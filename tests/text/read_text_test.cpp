#include "backend/text/read_text.h"

#include <fcntl.h>
#include <unistd.h>

#include "backend/text/file_bytes.h"
#include "tests/text/helpers.h"

namespace foxscope::test {
namespace {

/// Standard input is this file while the object lives.
class StandardInput {
 public:
  explicit StandardInput(const std::filesystem::path& path) : saved_(::dup(STDIN_FILENO)) {
    const int file = ::open(path.c_str(), O_RDONLY);
    ::dup2(file, STDIN_FILENO);
    ::close(file);
  }
  ~StandardInput() {
    ::dup2(saved_, STDIN_FILENO);
    ::close(saved_);
  }
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

 private:
  int saved_;
};

TEST(ReadText, GivesTheBytesOfTheFile) {
  const TemporaryFolder folder;
  for (const std::string& text : {std::string(), std::string("a"), std::string("\xEF\xBB\xBF caf\xC3\xA9\r\n\t"),
                                  std::string((std::size_t{3} << 20) + 1, 'x')}) {
    write_bytes(folder / "text", text);
    EXPECT_EQ(read_text(folder / "text", InvalidUtf8::refuse), text);
    const StandardInput input(folder / "text");
    EXPECT_EQ(read_text("-", InvalidUtf8::refuse), text);
  }
}

TEST(ReadText, BytesThatAreNotUtf8) {
  const TemporaryFolder folder;
  write_bytes(folder / "text", "caf\xE9 au lait");
  const std::string refused = (folder / "text").string() +
                              ": the byte 0xE9 at offset 3 is not UTF-8; convert the text (for instance with iconv)";
  EXPECT_EQ(error_of([&] { read_text(folder / "text", InvalidUtf8::refuse); }), refused);
  EXPECT_EQ(error_of([&] { read_text(folder / "text", InvalidUtf8::offer); }),
            refused + ", or replace such bytes with --invalid-utf8 replace");
  EXPECT_EQ(read_text(folder / "text", InvalidUtf8::replace), "caf\xEF\xBF\xBD au lait");
}

TEST(ReadText, NulBytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "text", std::string("a\0b\0", 4));
  for (const InvalidUtf8 invalid : {InvalidUtf8::refuse, InvalidUtf8::replace}) {
    EXPECT_EQ(error_of([&] { read_text(folder / "text", invalid); }),
              (folder / "text").string() +
                  ": a NUL byte at offset 1, so this is no UTF-8 text; convert it (UTF-16: iconv -f UTF-16 -t UTF-8) "
                  "or give another file");
  }
}

TEST(ReadText, FilesThatCannotBeRead) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { read_text(folder / "none", InvalidUtf8::refuse); }),
            (folder / "none").string() + ": no such file; check the path of the text");
  EXPECT_EQ(error_of([&] { read_text(folder.path(), InvalidUtf8::refuse); }),
            folder.path().string() + ": is a folder, not a text file; name a file in it");
  write_bytes(folder / "file", "x");
  EXPECT_EQ(error_of([&] { read_text(folder / "file" / "beneath", InvalidUtf8::refuse); }),
            (folder / "file" / "beneath").string() +
                ": cannot open the text: Not a directory; check the path and its permissions");
  // A file that opens and then fails to be read: this process' own memory at address 0.
  EXPECT_EQ(error_of([&] { read_text("/proc/self/mem", InvalidUtf8::refuse); }),
            "/proc/self/mem: cannot read the text: Input/output error; check the file and its disk");
}

TEST(ReadText, UnreadableFile) {
  const TemporaryFolder folder;
  write_bytes(folder / "text", "x");
  std::filesystem::permissions(folder / "text", std::filesystem::perms::none);
  const bool root = ::geteuid() == 0;  // who may read everything
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const std::string message = error_of([&] { read_text(folder / "text", InvalidUtf8::refuse); });
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_EQ(message, (folder / "text").string() +
                         ": cannot open the text: Permission denied; check the path and its permissions");
}

TEST(ReadText, EndlessFilesEndAtTheLimit) {
  constexpr std::size_t limit = std::size_t{3} << 20;
  EXPECT_EQ(error_of([&] { read_input_bytes("/dev/zero", "text", limit); }),
            "/dev/zero: the text is larger than 3 MiB; give a smaller file, or a part of this one");
  const TemporaryFolder folder;
  write_bytes(folder / "text", std::string(limit, 'x'));
  EXPECT_EQ(read_file_bytes(folder / "text", "text", limit).size(), limit);
  write_bytes(folder / "text", std::string(limit + 1, 'x'));
  EXPECT_NE(error_of([&] { read_file_bytes(folder / "text", "text", limit); }), "");
}

}  // namespace
}  // namespace foxscope::test
