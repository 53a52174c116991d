// Tokenizers as published Transformers have them against the `tokenizers` package: tokenizer_kinds_peer.py says which.

#include <algorithm>

#include "tests/text/peer_cases.h"

namespace foxscope::test {
namespace {

class KindsPeer : public PythonPeer<KindsPeer> {
 public:
  static std::string script() { return "tokenizer_kinds_peer.py " FOXSCOPE_SOURCE_DIR "/resources/texts"; }

 protected:
  [[nodiscard]] static std::vector<std::string> kinds() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_->path())) {
      if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  [[nodiscard]] static std::string file(const std::string& kind, const char* ending) {
    return read_bytes(folder_->path() / (kind + ending));
  }
  [[nodiscard]] static Tokenizer tokenizer(const std::string& kind) {
    return Tokenizer::from_json(file(kind, ".json"), kind + ".json");
  }
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
