// What the Python scripts of this folder write, and what is expected of it.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "tests/text/helpers.h"

namespace foxscope::test {

/// What a script of this folder wrote for the tests of one file, made once.
/// @tparam Own  has script(), the script's name and its arguments before the folder it writes to
template <typename Own>
class PythonPeer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    const std::string command = std::string(FOXSCOPE_TEST_PYTHON) + " " + FOXSCOPE_SOURCE_DIR + "/tests/text/" +
                                Own::script() + " " + folder_->path().string();
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
    one.text = text();
    const auto count = static_cast<std::size_t>(number());
    for (std::vector<std::int32_t>* values : {&one.id, &one.first, &one.last}) *values = numbers(count);
    return true;
  }
  [[nodiscard]] bool any_left() const { return at_ < bytes_.size(); }
  std::string text() {
    const auto size = static_cast<std::size_t>(number());
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  std::vector<std::int32_t> numbers(std::size_t count) {
    std::vector<std::int32_t> values(count);
    for (std::int32_t& value : values) value = number();
    return values;
  }
  std::int32_t number() {
    std::int32_t value = 0;
    std::memcpy(&value, bytes_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

/// The character to which each byte belongs.
inline std::vector<std::int32_t> characters_of(const std::string& text) {
  std::vector<std::int32_t> character(text.size());
  std::int32_t count = -1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80) ++count;
    character[i] = count;
  }
  return character;
}

inline void expect_equal(const Tokenizer& tokenizer, const Case& expected) {
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

}  // namespace foxscope::test
