// Against the `tokenizers` package: tokenizer_peer.py says which tokenizers and texts.

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/text/helpers.h"

namespace foxscope::test {
namespace {

/// What tokenizer_peer.py wrote, made once for all tests of this file.
class Peer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    const std::string command = std::string(FOXSCOPE_TEST_PYTHON) + " " + FOXSCOPE_SOURCE_DIR +
                                "/tests/text/tokenizer_peer.py " + FOXSCOPE_TEST_DATA "/tokenizer/tokenizer.json " +
                                folder_->path().string();
    status_ = WEXITSTATUS(std::system(command.c_str()));
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override {
    if (status_ == 77) GTEST_SKIP() << "the Python package tokenizers is missing: ./dev test installs it";
    ASSERT_EQ(status_, 0);
  }

  static inline std::unique_ptr<TemporaryFolder> folder_;
  static inline int status_ = -1;
};

struct Case {
  std::string text;
  std::vector<std::int32_t> id;
  std::vector<std::int32_t> first;
  std::vector<std::int32_t> last;
};

/// Reads the cases of one file, one after the other.
class Cases {
 public:
  explicit Cases(std::string bytes) : bytes_(std::move(bytes)) {}
  bool next(Case& one) {
    if (at_ >= bytes_.size()) return false;
    const auto size = static_cast<std::size_t>(number());
    one.text = bytes_.substr(at_, size);
    at_ += size;
    const auto count = static_cast<std::size_t>(number());
    for (std::vector<std::int32_t>* values : {&one.id, &one.first, &one.last}) {
      values->resize(count);
      for (std::int32_t& value : *values) value = number();
    }
    return true;
  }

 private:
  std::int32_t number() {
    std::int32_t value = 0;
    std::memcpy(&value, bytes_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }
  std::string bytes_;
  std::size_t at_ = 0;
};

/// The character to which each byte belongs.
std::vector<std::int32_t> characters_of(const std::string& text) {
  std::vector<std::int32_t> character(text.size());
  std::int32_t count = -1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80) ++count;
    character[i] = count;
  }
  return character;
}

void expect_equal(const Tokenizer& tokenizer, const Case& expected) {
  const Tokens tokens = tokenizer.encode(expected.text);
  ASSERT_EQ(tokens.id, expected.id) << testing::PrintToString(expected.text);
  const std::vector<std::int32_t> character = characters_of(expected.text);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto begin = static_cast<std::size_t>(tokens.byte_start[i]);
    const auto end = static_cast<std::size_t>(tokens.byte_end[i]);
    ASSERT_LE(begin, end);
    if (begin == end) continue;  // a prefixed space, to which the package gives the next character
    ASSERT_EQ(character[begin], expected.first[i]) << testing::PrintToString(expected.text) << " token " << i;
    ASSERT_EQ(character[end - 1] + 1, expected.last[i]) << testing::PrintToString(expected.text) << " token " << i;
  }
}

void compare(const std::filesystem::path& tokenizer_file, const std::filesystem::path& cases_file, bool escaping,
             int at_least) {
  const Tokenizer tokenizer = Tokenizer::from_json(read_bytes(tokenizer_file), tokenizer_file.string(), escaping);
  Cases cases(read_bytes(cases_file));
  Case one;
  int count = 0;
  for (; cases.next(one); ++count) {
    expect_equal(tokenizer, one);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GE(count, at_least);
}

TEST_F(Peer, EqualOnRandomStringsAndEveryCharacter) {
  for (const auto& [kind, at_least] : {std::pair{"plain", 100'000},
                                       {"characters", 2000},
                                       {"prefix", 10'000},
                                       {"whole", 10'000},
                                       {"added", 10'000},
                                       {"added-prefix", 10'000},
                                       {"shuffled", 10'000},
                                       {"ignore-merges", 10'000}}) {
    SCOPED_TRACE(kind);
    const std::string name = (folder_->path() / kind).string();
    compare(name + ".json", name + ".bin", false, at_least);
  }
  SCOPED_TRACE("escaped");
  compare(*folder_ / "plain.json", *folder_ / "plain.escaped.bin", true, 25'000);
}

}  // namespace
}  // namespace foxscope::test
