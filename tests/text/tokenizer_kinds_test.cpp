// Tokenizers as published Transformers have them against the `tokenizers` package: tokenizer_kinds_peer.py says which.

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "tests/text/peer_cases.h"

namespace foxscope::test {
namespace {

/// What tokenizer_kinds_peer.py wrote, made once for all tests of this file.
class KindsPeer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    made_ = std::make_unique<TemporaryFolder>();
    const std::string command = std::string(FOXSCOPE_TEST_PYTHON) + " " + FOXSCOPE_SOURCE_DIR +
                                "/tests/text/tokenizer_kinds_peer.py " + FOXSCOPE_SOURCE_DIR "/resources/texts " +
                                made_->path().string();
    result_ = WEXITSTATUS(std::system(command.c_str()));
  }
  static void TearDownTestSuite() { made_.reset(); }
  void SetUp() override {
    if (result_ == 77) GTEST_SKIP() << "the Python package tokenizers is missing: ./dev test installs it";
    ASSERT_EQ(result_, 0);
  }
  [[nodiscard]] static std::vector<std::string> kinds() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(made_->path())) {
      if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  [[nodiscard]] static std::string file(const std::string& kind, const char* ending) {
    return read_bytes(made_->path() / (kind + ending));
  }
  [[nodiscard]] static Tokenizer tokenizer(const std::string& kind) {
    return Tokenizer::from_json(file(kind, ".json"), kind + ".json");
  }

  static inline std::unique_ptr<TemporaryFolder> made_;
  static inline int result_ = -1;
};

TEST_F(KindsPeer, EqualIdsPlacesAndTexts) {
  const std::vector<std::string> names = kinds();
  for (const char* published : {"llama3", "qwen2", "gpt-neox", "llama2", "mistral"}) {
    EXPECT_TRUE(std::binary_search(names.begin(), names.end(), published)) << published;
  }
  int many = 0;
  for (const std::string& kind : names) {
    SCOPED_TRACE(kind);
    const Tokenizer one = tokenizer(kind);
    Cases cases(file(kind, ".bin"));
    Case expected;
    int count = 0;
    for (; cases.next(expected); ++count) {
      expect_equal(one, expected);
      if (testing::Test::HasFatalFailure()) return;
      ASSERT_EQ(replace_invalid_utf8(one.decode(expected.id)), cases.text()) << testing::PrintToString(expected.text);
    }
    EXPECT_GE(count, 2000);
    many += count >= 100'000 ? 1 : 0;
  }
  EXPECT_EQ(many, 5);
}

/// Where the package puts U+FFFD for every byte of a run of byte tokens that is not a text, the program keeps the
/// bytes.
TEST_F(KindsPeer, EqualTextsOfAnyIds) {
  int compared = 0;
  for (const std::string& kind : kinds()) {
    SCOPED_TRACE(kind);
    const Tokenizer one = tokenizer(kind);
    Cases cases(file(kind, ".parts.bin"));
    const bool falls_back = file(kind, ".json").find("\"ByteFallback\"") != std::string::npos;
    while (cases.any_left()) {
      const auto count = static_cast<std::size_t>(cases.numbers(1)[0]);
      const std::vector<std::int32_t> ids = cases.numbers(count);
      const std::string expected = cases.text();
      const std::string text = one.decode(ids);
      ++compared;
      if (falls_back && find_invalid_utf8(text)) continue;
      ASSERT_EQ(replace_invalid_utf8(text), expected) << testing::PrintToString(ids);
    }
  }
  EXPECT_GE(compared, 50'000);
}

}  // namespace
}  // namespace foxscope::test
