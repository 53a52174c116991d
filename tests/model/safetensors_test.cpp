// Safetensors images, sound and broken. Every message that a broken file can give.

#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

std::string parse_error(const std::string& image) {
  return test::error_of([&] { parse_safetensors(std::as_bytes(std::span(image)), "weights.safetensors"); });
}

std::string header_error(const std::string& header, std::size_t data_bytes) {
  return parse_error(test::safetensors_image(header, std::string(data_bytes, '\0')));
}

TEST(Safetensors, ReadsEveryNumberFormat) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[1,3],"data_offsets":[8,14]},"c":{"dtype":"F16","shape":[],"data_offsets":[14,16]},)"
      R"("d":{"dtype":"I64","shape":[1],"data_offsets":[16,24]},"e":{"dtype":"I32","shape":[0,5],"data_offsets":[24,24]}}   )";
  const std::string image = test::safetensors_image(header, std::string(24, '\1'));
  const auto tensors = parse_safetensors(std::as_bytes(std::span(image)), "x");
  ASSERT_EQ(tensors.size(), 5U);
  EXPECT_EQ(tensors.at("b").shape, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(tensors.at("b").dtype, TensorDType::bf16);
  EXPECT_EQ(tensors.at("b").bytes.size(), 6U);
  EXPECT_EQ(tensors.at("c").elements(), 1);
  EXPECT_EQ(tensors.at("e").elements(), 0);
}

TEST(Safetensors, RefusesBrokenPrefixes) {
  EXPECT_PRED2(test::says, parse_error(""), (test::Parts{"weights.safetensors", "0 bytes are too few"}));
  EXPECT_PRED2(test::says, parse_error("1234567"), (test::Parts{"7 bytes are too few"}));
  std::string image = test::safetensors_image("{}", "");
  image[1] = 1;
  EXPECT_PRED2(test::says, parse_error(image), (test::Parts{"a header of 258 bytes is announced, the file has 10"}));
  image[1] = 0;
  image[4] = 2;  // 8.6 GB
  EXPECT_PRED2(test::says, parse_error(image), (test::Parts{"100 MB is the most"}));
  image[7] = '\xff';
  EXPECT_PRED2(test::says, parse_error(image), (test::Parts{"100 MB is the most"}));
}

TEST(Safetensors, RefusesBrokenHeaders) {
  EXPECT_PRED2(test::says, header_error("{", 0), (test::Parts{"the header is not JSON"}));
  EXPECT_PRED2(test::says, header_error("{\"a\": " + std::string(1 << 20, '['), 0),
               (test::Parts{"the header: lists and objects", "deeper than 256 levels"}));
  EXPECT_PRED2(test::says, header_error("[]", 0), (test::Parts{"the header is not a JSON object"}));
  const std::string entry = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_PRED2(test::says, header_error(R"({"a":)" + entry + R"(,"a":)" + entry + "}", 4),
               (test::Parts{"tensor a is listed twice"}));
  EXPECT_PRED2(test::says, header_error(R"({"a":5})", 0),
               (test::Parts{"tensor a: dtype, shape or data_offsets is missing"}));
  EXPECT_PRED2(test::says, header_error(R"({"a":{"dtype":"F32","shape":[1]}})", 4), (test::Parts{"is missing"}));
  EXPECT_PRED2(test::says, header_error(R"({"a\nb":5})", 0), (test::Parts{"tensor a?b"}));
}

TEST(Safetensors, RefusesBrokenEntries) {
  const auto with = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_PRED2(test::says, header_error(with(R"("F8_E4M3")", "[4]", "[0,4]"), 4),
               (test::Parts{"tensor w: dtype F8_E4M3 is not read"}));
  EXPECT_PRED2(test::says, header_error(with("7", "[4]", "[0,4]"), 4),
               (test::Parts{"dtype that is no string is not read"}));
  EXPECT_PRED2(test::says, header_error(with(R"("F32")", "4", "[0,4]"), 4), (test::Parts{"shape is not a list"}));
  EXPECT_PRED2(test::says, header_error(with(R"("F32")", "[-1]", "[0,4]"), 4),
               (test::Parts{"a size in shape is not a whole number"}));
  EXPECT_PRED2(test::says, header_error(with(R"("F32")", "[1.5]", "[0,4]"), 4), (test::Parts{"is not a whole number"}));
  EXPECT_PRED2(test::says, header_error(with(R"("F32")", "[1]", "[0]"), 4),
               (test::Parts{"data_offsets is not a pair"}));
  EXPECT_PRED2(test::says, header_error(with(R"("F32")", "[1]", "[0,1e3]"), 4),
               (test::Parts{"a data offset is not a whole number"}));
  EXPECT_PRED2(test::says, header_error(with(R"("F32")", "[1]", "[4,0]"), 4),
               (test::Parts{"data_offsets [4, 0] are reversed"}));
  EXPECT_PRED2(test::says, header_error(with(R"("F32")", "[2]", "[0,8]"), 4),
               (test::Parts{"reach beyond the file's 4 bytes of data"}));
  EXPECT_PRED2(test::says, header_error(with(R"("F32")", "[1]", "[0,18446744073709551615]"), 4),
               (test::Parts{"not a whole number"}));
  EXPECT_PRED2(test::says, header_error(with(R"("F32")", "[4294967296,4294967296]", "[0,4]"), 4),
               (test::Parts{"needs more bytes"}));
  EXPECT_PRED2(test::says, header_error(with(R"("F32")", "[9223372036854775807,2]", "[0,4]"), 4),
               (test::Parts{"needs more bytes"}));
  EXPECT_PRED2(test::says, header_error(with(R"("F32")", "[2]", "[0,4]"), 8),
               (test::Parts{"shape [2] of F32 takes 8 bytes"}));
}

TEST(Safetensors, RefusesOverlapsAndGaps) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + first +
           R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(header_error(two("[0,4]", "[4,8]"), 8), "");
  EXPECT_EQ(header_error(two("[4,8]", "[0,4]"), 8), "");
  EXPECT_PRED2(test::says, header_error(two("[0,4]", "[2,6]"), 6), (test::Parts{"tensors a and b overlap"}));
  EXPECT_PRED2(test::says, header_error(two("[0,4]", "[0,4]"), 4), (test::Parts{"overlap"}));
  EXPECT_PRED2(test::says, header_error(two("[0,4]", "[6,10]"), 10),
               (test::Parts{"bytes 4 to 6 of the data, before tensor b"}));
  EXPECT_PRED2(test::says, header_error(two("[0,4]", "[4,8]"), 11),
               (test::Parts{"the last 3 bytes of the data belong to no tensor"}));
}

/// A flipped bit in the header gives an error of one line or another valid reading, never a crash.
TEST(Safetensors, SurvivesEveryFlippedBitOfAHeader) {
  const std::string image = test::safetensors_image(
      std::vector<test::NamedTensor>{{"model.a", {2, 2}, {1, 2, 3, 4}}, {"model.b", {3}, {5, 6, 7}}});
  std::size_t refused = 0;
  const std::size_t header_end = image.size() - 28;
  for (std::size_t bit = 0; bit < 8 * header_end; ++bit) {
    std::string flipped = image;
    flipped[bit / 8] = static_cast<char>(static_cast<unsigned char>(flipped[bit / 8]) ^ (1U << (bit % 8)));
    if (!parse_error(flipped).empty()) ++refused;
  }
  EXPECT_GT(refused, 4 * header_end);
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string image = test::safetensors_image(std::vector<test::NamedTensor>{{"a", {5}, {1, 2, 3, 4, 5}}});
  for (std::size_t size = 0; size < image.size(); ++size) EXPECT_NE(parse_error(image.substr(0, size)), "") << size;
  EXPECT_EQ(parse_error(image), "");
}

TEST(Safetensors, RefusesWhatIsNoFile) {
  const test::TemporaryFolder folder;
  EXPECT_PRED2(test::says, test::error_of([&] { SafetensorsFile file(folder.path() / "none.safetensors"); }),
               (test::Parts{"none.safetensors: no such file"}));
  EXPECT_PRED2(test::says, test::error_of([&] { SafetensorsFile file(folder.path()); }),
               (test::Parts{"is a folder, not a safetensors file"}));
  const std::filesystem::path pipe = folder.path() / "pipe.safetensors";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_PRED2(test::says, test::error_of([&] { SafetensorsFile file(pipe); }),
               (test::Parts{"pipe.safetensors: is a pipe (FIFO), not a regular file"}));
  folder.write("empty.safetensors", "");
  EXPECT_PRED2(test::says, test::error_of([&] { SafetensorsFile file(folder.path() / "empty.safetensors"); }),
               (test::Parts{"0 bytes are too few"}));
}

TEST(Safetensors, HeaderOfTenGigabytesCostsNothing) {
  const test::TemporaryFolder folder;
  std::string image(8, '\0');
  const std::uint64_t announced = 10'000'000'000;
  std::memcpy(image.data(), &announced, 8);
  folder.write("big.safetensors", image + "{}");
  EXPECT_PRED2(test::says, test::error_of([&] { SafetensorsFile file(folder.path() / "big.safetensors"); }),
               (test::Parts{"a header of 10000000000 bytes is announced"}));
}

}  // namespace
}  // namespace foxscope
