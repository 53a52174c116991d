// Token arrays of .npy and .safetensors files: what is read of them, and what is said of those that do not fit.
#include "backend/train/token_array.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "tests/train/train_test_support.h"

namespace foxscope {
namespace {

using test::Ids;
using test::npy_image;

constexpr std::int64_t kArrayVocabulary = 100;

class TokenArray : public testing::Test {
 protected:
  std::filesystem::path write(const char* name, const std::string& bytes) {
    test::write_bytes(folder_ / name, bytes);
    return folder_ / name;
  }
  static std::unique_ptr<TokenRows> open(const std::filesystem::path& file, std::int64_t length,
                                         const std::optional<std::string>& tensor = {}) {
    return rows_of(map_id_array(file, tensor), length, kArrayVocabulary, "array");
  }
  /// What is said of a file, without its folder.
  template <typename Expected = Error>
  std::string error(const std::filesystem::path& file, std::int64_t length,
                    const std::optional<std::string>& tensor = {}) {
    return test::replaced(test::error_of<Expected>([&] { test::all_tokens(*open(file, length, tensor)); }),
                          folder_.path().string() + "/", "");
  }

  test::TemporaryFolder folder_;
};

std::string int32_data(std::int32_t count) {
  Ids ids;
  for (std::int32_t n = 0; n < count; ++n) ids.push_back(n);
  return test::bytes_of(ids);
}

TEST_F(TokenArray, StreamsAreCutAndTheirEndIsDropped) {
  const auto file = write("a.npy", npy_image("<i4", "(11,)", int32_data(11)));
  const auto rows = open(file, 4);
  EXPECT_EQ(rows->rows(), 2);
  EXPECT_EQ(rows->length(), 4);
  EXPECT_EQ(rows->columns(), 1);
  EXPECT_EQ(rows->description(), "array, 2 rows of 4 tokens, the last 3 tokens dropped");
  EXPECT_EQ(test::all_tokens(*rows), (Ids{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(open(file, 11)->description(), "array, 1 row of 11 tokens");
}

TEST_F(TokenArray, OfAFileThatIsCutShortNoZerosAreRead) {
  const auto file = write("a.npy", npy_image("<i4", "(8,)", int32_data(8)));
  const auto size = std::filesystem::file_size(file);
  const auto rows = open(file, 4);
  const auto said = [&] {
    return test::replaced(test::error_of<Error>([&] { test::all_tokens(*rows); }), folder_.path().string() + "/", "");
  };
  std::filesystem::resize_file(file, size - 4);
  EXPECT_EQ(said(), fmt::format("a.npy: was cut short from {} to {} bytes while it was being read: put the whole file "
                                "back",
                                size, size - 4));
  std::filesystem::remove(file);
  EXPECT_EQ(said(), "") << "the bytes of a file that was removed stay";
  write("a.npy", "x");
  EXPECT_EQ(said(), "") << "another file of the name";
}

TEST_F(TokenArray, DocumentsAreRowsOrColumns) {
  const auto file = write("a.npy", npy_image("<i4", "(2, 6)", int32_data(12)));
  EXPECT_EQ(open(file, 6)->columns(), 1);
  const auto rows = open(file, 3);
  EXPECT_EQ(rows->rows(), 4);
  EXPECT_EQ(rows->columns(), 2);
  EXPECT_EQ(rows->description(), "array, 4 rows of 3 tokens in 2 columns");
}

TEST_F(TokenArray, TheOnlyTensorOfIntegersNeedsNoName) {
  const std::string floats = "\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}";
  const auto one = write(
      "one.safetensors",
      test::safetensors_image("{" + floats + ",\"ids\":{\"dtype\":\"I32\",\"shape\":[6],\"data_offsets\":[4,28]}}",
                              "1234" + int32_data(6)));
  EXPECT_EQ(test::all_tokens(*open(one, 3)), (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(test::all_tokens(*open(one, 3, "ids")), (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(error<UsageError>(one, 3, "is"),
            "--tensor is: one.safetensors has no such tensor, only f (F32 [1]), ids (I32 [6])");
  EXPECT_EQ(error(one, 3, "f"), "one.safetensors: f: is F32: token ids are I32 or I64: store it as I64");

  const auto two = write("two.safetensors",
                         test::safetensors_image("{\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
                                                 "\"b\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
                                                 std::string(8, '\0') + int32_data(2)));
  EXPECT_EQ(error<UsageError>(two, 1),
            "two.safetensors: holds several tensors of integers: choose one with --tensor: a (I64 [1]), b (I32 [2])");
  EXPECT_EQ(test::all_tokens(*open(two, 2, "b")), (Ids{0, 1}));

  const auto none = write("none.safetensors", test::safetensors_image("{" + floats + "}", "1234"));
  EXPECT_EQ(error(none, 1), "none.safetensors: has no tensor of token ids, which are I32 or I64: it holds f (F32 [1])");
  const auto empty = write("empty.safetensors", test::safetensors_image("{}", ""));
  EXPECT_EQ(error(empty, 1), "empty.safetensors: has no tensor of token ids, which are I32 or I64: it holds none");
  EXPECT_EQ(error<UsageError>(empty, 1, "a"), "--tensor a: empty.safetensors has no such tensor, only none");
}

TEST_F(TokenArray, ArraysThatAreNoRows) {
  const auto file = write("a.npy", npy_image("<i4", "(2, 12)", int32_data(24)));
  EXPECT_EQ(error(file, 5),
            "a.npy: its documents of 12 tokens are not whole rows of 5: use a --length that divides them, such as "
            "12, 6, 4, 3, 2, 1");
  EXPECT_EQ(error(file, 24),
            "a.npy: its documents of 12 tokens are not whole rows of 24: use a --length that divides them, such as "
            "12, 6, 4, 3, 2, 1");
  EXPECT_EQ(error<UsageError>(file, 0), "--length 0: use a number of tokens from 1");
  EXPECT_EQ(error(write("a.npy", npy_image("<i4", "(3,)", int32_data(3))), 4),
            "a.npy: holds 3 tokens, not one row of 4: use a --length of 3 or less, or more data");
  EXPECT_EQ(error(write("a.npy", npy_image("<i4", "(0,)", "")), 4),
            "a.npy: has the shape [0]: holds no tokens: name data that hold some");
  EXPECT_EQ(error(write("a.npy", npy_image("<i4", "(5, 0)", "")), 4),
            "a.npy: has the shape [5, 0]: holds no tokens: name data that hold some");
  EXPECT_EQ(error(write("a.npy", npy_image("<i4", "()", int32_data(1))), 1),
            "a.npy: has the shape []: tokens have one axis, [tokens], or two, [documents, tokens]");
  EXPECT_EQ(error(write("a.npy", npy_image("<i4", "(1, 1, 2)", int32_data(2))), 1),
            "a.npy: has the shape [1, 1, 2]: tokens have one axis, [tokens], or two, [documents, tokens]");
}

TEST_F(TokenArray, BadFiles) {
  EXPECT_EQ(error(write("a.npy", npy_image("<f4", "(2,)", "12345678")), 1),
            "a.npy: holds reals: token ids are int16, uint16, int32 or int64: save it again with numpy.save(..., "
            "ids.astype('uint16'))");
  EXPECT_NE(error(write("a.npy", npy_image(">i4", "(2,)", "12345678")), 1).find("'>i4' are not read"),
            std::string::npos);
  EXPECT_NE(error(write("a.npy", npy_image("<i4", "(2,)", "1234567")), 1).find("7 bytes where its shape asks for 8"),
            std::string::npos);
  EXPECT_NE(error(write("a.npy", npy_image("<i4", "(2, 1)", "12345678", "True")), 1).find("Fortran order"),
            std::string::npos);
  EXPECT_NE(error(write("a.npy", ""), 1).find("a.npy: is not an array in numpy's format"), std::string::npos);
  EXPECT_NE(error(folder_ / "none.npy", 1).find("none.npy: no such file"), std::string::npos);
  EXPECT_NE(error(write("a.safetensors", "123"), 1).find("3 bytes are too few"), std::string::npos);
}

TEST_F(TokenArray, TokensOutsideTheVocabulary) {
  for (const std::int64_t bad : {-1, 100, 32'767}) {
    const std::vector<std::int16_t> ids = {0, 1, 2, 99, 4, static_cast<std::int16_t>(bad), 6, 200};
    EXPECT_EQ(error(write("a.npy", npy_image("<i2", "(2, 4)", test::bytes_of(ids))), 4),
              fmt::format(
                  "a.npy: the id {} at position 1 of row 1 is outside the model's vocabulary (0 to 99); use the ids of "
                  "this model's tokenizer",
                  bad));
  }
  const std::vector<std::uint16_t> unsigned_ids = {0, 40'000};
  EXPECT_NE(error(write("a.npy", npy_image("<u2", "(2,)", test::bytes_of(unsigned_ids))), 1)
                .find("the id 40000 at position 0 of row 1 is"),
            std::string::npos);
  // What is below the vocabulary in its last 32 bits only.
  const std::vector<std::int64_t> wide = {(std::int64_t{1} << 32) + 5, std::numeric_limits<std::int64_t>::min()};
  EXPECT_NE(error(write("a.npy", npy_image("<i8", "(2,)", test::bytes_of(wide))), 2)
                .find("the id 4294967301 at position 0 of row 0 is"),
            std::string::npos);
}

TEST_F(TokenArray, FingerprintsAreOfTheContent) {
  const auto fingerprint = [&](const std::string& image) { return open(write("a.npy", image), 1)->fingerprint(); };
  const std::string plain = fingerprint(npy_image("<i4", "(6,)", int32_data(6)));
  EXPECT_EQ(plain, open(write("b.npy", npy_image("<i4", "(6,)", int32_data(6))), 3)->fingerprint());
  EXPECT_NE(plain, fingerprint(npy_image("<i4", "(2, 3)", int32_data(6))));
  EXPECT_NE(plain, fingerprint(npy_image("<u2", "(12,)", int32_data(6))));
  std::string other = int32_data(6);
  other.back() = 1;
  EXPECT_NE(plain, fingerprint(npy_image("<i4", "(6,)", other)));
}

TEST_F(TokenArray, FingerprintsOfLargeArraysSeeAllOfTheirParts) {
  std::vector<std::byte> bytes((std::size_t{65} << 20U) + 2);
  const auto fingerprint = [&] {
    return rows_of({"large", IdType::int16, {static_cast<std::int64_t>(bytes.size()) / 2}, bytes, nullptr}, 1, 100, "")
        ->fingerprint();
  };
  std::set<std::string> seen = {fingerprint()};
  for (const std::size_t at : {std::size_t{0}, bytes.size() - 1, bytes.size() / 3}) {
    bytes[at] = std::byte{1};
    EXPECT_TRUE(seen.insert(fingerprint()).second) << at;
  }
}

}  // namespace
}  // namespace foxscope
