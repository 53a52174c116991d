#include "backend/base/sha256.h"

#include <gtest/gtest.h>

namespace foxscope {
namespace {

// Vectors of FIPS 180-2, appendix B.
TEST(Sha256, AgreesWithTheStandardsVectors) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesArePieced) {
  const std::string text(1000, 'x');
  for (const std::size_t piece : {1U, 7U, 64U, 999U}) {
    Sha256 hash;
    for (std::size_t begin = 0; begin < text.size(); begin += piece) {
      hash.update(std::as_bytes(std::span(text)).subspan(begin, std::min(piece, text.size() - begin)));
    }
    EXPECT_EQ(hash.finish(), sha256(text));
  }
}

}  // namespace
}  // namespace foxscope
