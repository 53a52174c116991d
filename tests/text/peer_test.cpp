// Against the `tokenizers` package: tokenizer_peer.py says which tokenizers and texts.

#include "tests/text/peer_cases.h"

namespace foxscope::test {
namespace {

class Peer : public PythonPeer<Peer> {
 public:
  static std::string script() { return "tokenizer_peer.py " FOXSCOPE_TEST_DATA "/tokenizer/tokenizer.json"; }
};

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
