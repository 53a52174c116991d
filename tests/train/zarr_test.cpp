// Arrays of zarr that are damaged, hostile, or of a kind that is not read.
#include <blosc.h>
#include <zstd.h>

#include <array>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/train/zarr_array.h"
#include "backend/train/zarr_rows.h"
#include "tests/train/train_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;
using test::Ids;

class Zarr : public testing::Test {
 protected:
  /// Two documents of four tokens, int32, in chunks of one document's half.
  static json metadata() {
    return {{"zarr_format", 2}, {"shape", {2, 4}},       {"chunks", {1, 2}}, {"dtype", "<i4"},
            {"order", "C"},     {"compressor", nullptr}, {"fill_value", 0},  {"filters", nullptr}};
  }
  void write(const json& metadata) { write(".zarray", metadata.dump()); }
  void write(const char* name, const std::string& bytes) { test::write_bytes(folder_ / name, bytes); }
  /// What is said when all rows of 4 are read.
  std::string error() const {
    return test::replaced(test::error_of([this] {
                            test::all_tokens(*rows_of(std::make_unique<const ZarrArray>(folder_.path()), 4, 100));
                          }),
                          folder_.path().string(), "Z");
  }
  /// What is said of metadata that are changed in one key.
  std::string error(const char* key, const json& value) {
    json changed = metadata();
    if (value.is_discarded()) {
      changed.erase(key);
    } else {
      changed[key] = value;
    }
    write(changed);
    return error();
  }
  std::string chunk_error(const std::string& bytes) {
    write("1.0", bytes);
    return error();
  }

  test::TemporaryFolder folder_;
};

std::string blosc(const std::string& data, const char* codec = "lz4") {
  std::string result(data.size() + BLOSC_MAX_OVERHEAD, '\0');
  result.resize(static_cast<std::size_t>(
      blosc_compress_ctx(5, 1, 4, data.size(), data.data(), result.data(), result.size(), codec, 0, 1)));
  return result;
}

std::string zstd(const std::string& data) {
  std::string result(ZSTD_compressBound(data.size()), '\0');
  result.resize(ZSTD_compress(result.data(), result.size(), data.data(), data.size(), 3));
  return result;
}

TEST_F(Zarr, MissingChunksAreFilledAndSaidSo) {
  write(metadata());
  write("0.1", test::bytes_of(Ids{5, 6}));
  const test::LoggedLines lines;
  EXPECT_EQ(test::all_tokens(*rows_of(std::make_unique<const ZarrArray>(folder_.path()), 4, 100)),
            (Ids{0, 0, 5, 6, 0, 0, 0, 0}));
  EXPECT_TRUE(lines.say("1.0: missing, filled with 0"));
  json other = metadata();
  other["fill_value"] = nullptr;
  write(other);
  EXPECT_EQ(error(), "Z/0.0: the chunk is missing, and the array has no fill value: copy or download it");
}

TEST_F(Zarr, IsToldByItsFiles) {
  EXPECT_FALSE(is_zarr(folder_.path()));
  write("zarr.json", "{}");
  EXPECT_TRUE(is_zarr(folder_.path()));
  EXPECT_EQ(error(),
            "Z: is zarr format 3, and only format 2 is read: write it again as zarr format 2 in C order, "
            "without filters");
  std::filesystem::remove(folder_ / "zarr.json");
  write(".zgroup", "{\"zarr_format\": 2}");
  EXPECT_TRUE(is_zarr(folder_.path()));
  EXPECT_EQ(error(), "Z: is a group of zarr, not an array: give the folder of one of its arrays, which holds .zarray");
}

TEST_F(Zarr, BadMetadata) {
  const std::string convert = ": write it again as zarr format 2 in C order, without filters";
  const std::string again = ": the file is damaged or was cut short: copy or download it again";
  const std::string name = "Z/.zarray: ";
  const json absent(json::value_t::discarded);
  write(".zarray", "{\"shape\": ");
  EXPECT_NE(error().find("not valid JSON"), std::string::npos);
  write(".zarray", "[2]");
  EXPECT_EQ(error(), name + "is not a JSON object" + again);
  for (const json& value : {json(3), json("2"), absent}) {
    EXPECT_EQ(error("zarr_format", value), name + "is not zarr format 2" + convert);
  }
  for (const json& value : {json("F"), json(nullptr)}) {
    EXPECT_EQ(error("order", value), name + "is not in C order" + convert);
  }
  EXPECT_EQ(error("filters", {{{"id", "delta"}}}), name + "has filters, which are not read" + convert);
  EXPECT_EQ(error("dimension_separator", ":"), name + "dimension_separator ':' is neither . nor /" + convert);
  EXPECT_EQ(error("dtype", "<f4"), name + "dtype '<f4' is not read: token ids are <i2, <u2, <i4 or <i8");
  EXPECT_EQ(error("dtype", ">u2"), name + "dtype '>u2' is not read: token ids are <i2, <u2, <i4 or <i8");
  EXPECT_EQ(error("dtype", {{"a", "<i2"}}), name + "dtype '' is not read: token ids are <i2, <u2, <i4 or <i8");
  const std::string sizes = " is not a list of one or two sound sizes: tokens are [tokens] or [documents, tokens]";
  for (const json& value :
       {json{2, -4}, json{2, 4.0}, json{1, 2, 3}, json::array(), json(8), json{2, 1ULL << 60}, json{2, "4"}, absent}) {
    EXPECT_EQ(error("shape", value), name + "shape" + sizes);
    EXPECT_EQ(error("chunks", value), name + "chunks" + sizes);
  }
  EXPECT_EQ(error("chunks", {1, 0}), name + "chunks" + sizes);
  EXPECT_EQ(error("shape", {0, 4}), "Z: has the shape [0, 4]: holds no tokens: name data that hold some");
  EXPECT_EQ(error("chunks", {2}), name + "shape [2, 4] and chunks [2] have not the same axes" + again);
  EXPECT_EQ(error("shape", {1LL << 40, 1LL << 40}), name + "shape [1099511627776, 1099511627776] is too large" + again);
  EXPECT_EQ(error("chunks", {1 << 20, 1 << 20}),
            name + "chunks [1048576, 1048576] of int32 are larger than 256 MiB: write it again with smaller chunks");
  EXPECT_EQ(error("chunks", {1LL << 50, 1LL << 50}),
            name +
                "chunks [1125899906842624, 1125899906842624] of int32 are larger than 256 MiB: write it again with "
                "smaller chunks");
  EXPECT_EQ(error("compressor", {{"id", "lzma"}}),
            name + "chunks compressed by 'lzma' are not read, only by blosc or zstd, or as they are" + convert);
  EXPECT_EQ(error("compressor", "blosc"),
            name + "chunks compressed by '' are not read, only by blosc or zstd, or as they are" + convert);
  for (const json& value : {json("a"), json(0.5), json(1LL << 32)}) {
    EXPECT_EQ(error("fill_value", value), name + "fill_value is no int32" + again);
  }
  write(".zarray", std::string((1 << 20) + 1, ' '));
  EXPECT_NE(error().find("is larger than 1 MiB"), std::string::npos);
}

TEST_F(Zarr, AShapeThatIsNoRows) {
  json other = metadata();
  other["shape"] = {2, 6};
  write(other);
  EXPECT_EQ(error(),
            "Z: its documents of 6 tokens are not whole rows of 4: use a --length that divides them, such as "
            "6, 3, 2, 1");
}

TEST_F(Zarr, BadChunks) {
  const std::string again = "; the file is damaged or was cut short: copy or download it again";
  const std::string damaged = "Z/1.0: the chunk cannot be decompressed" + again;
  const auto wrong_size = [&](int bytes) {
    return "Z/1.0: the chunk has " + std::to_string(bytes) + " bytes where chunks [1, 2] of int32 have 8" + again;
  };
  const std::string good = test::bytes_of(Ids{5, 6});
  write(metadata());
  EXPECT_EQ(chunk_error(good), "");
  EXPECT_EQ(chunk_error(good.substr(1)), wrong_size(7));
  EXPECT_EQ(chunk_error(good + "1"), wrong_size(9));
  EXPECT_EQ(chunk_error(""), wrong_size(0));
  EXPECT_NE(chunk_error(std::string(1 << 20, '1')).find("1.0: the chunk of tokens is larger than"), std::string::npos);

  json packed = metadata();
  packed["compressor"] = {{"id", "blosc"}, {"cname", "lz4"}, {"clevel", 5}, {"shuffle", 1}};
  write(packed);
  for (const char* codec : {"lz4", "zstd"}) {
    const std::string whole = blosc(good, codec);
    EXPECT_EQ(chunk_error(whole), "");
    for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_EQ(chunk_error(whole.substr(0, size)), damaged);
    EXPECT_EQ(chunk_error(blosc(good + good, codec)), wrong_size(16));
    EXPECT_EQ(chunk_error(blosc(good.substr(4), codec)), wrong_size(4));
  }
  EXPECT_EQ(chunk_error(good + good + good), damaged);

  packed["compressor"] = {{"id", "zstd"}, {"level", 3}};
  write(packed);
  const std::string whole = zstd(good);
  EXPECT_EQ(chunk_error(whole), "");
  for (std::size_t size = 1; size < whole.size(); ++size) EXPECT_EQ(chunk_error(whole.substr(0, size)), damaged);
  EXPECT_EQ(chunk_error(zstd(good + good)), wrong_size(16));
  EXPECT_EQ(chunk_error(zstd(good.substr(4))), wrong_size(4));
  EXPECT_EQ(chunk_error(good), damaged);
  // A frame of a gigabyte in some thirty kilobytes is not unpacked.
  EXPECT_NE(chunk_error(zstd(std::string(1 << 24, '\0'))).find("has 16777216 bytes"), std::string::npos);
}

TEST_F(Zarr, FoldersInPlaceOfFiles) {
  write(metadata());
  std::filesystem::create_directory(folder_ / "0.0");
  EXPECT_EQ(error(), "Z/0.0: is a folder, not a chunk of tokens file; name a file in it");
  std::filesystem::remove(folder_ / ".zarray");
  std::filesystem::create_directory(folder_ / ".zarray");
  EXPECT_EQ(error(), "Z/.zarray: is a folder, not a zarr metadata file; name a file in it");
}

TEST_F(Zarr, TokensOutsideTheVocabulary) {
  write(metadata());
  write("1.1", test::bytes_of(Ids{5, 100}));
  EXPECT_EQ(error(),
            "Z/1.1: the id 100 at position 3 of row 1 is outside the model's vocabulary (0 to 99); use the ids of "
            "this model's tokenizer");
}

}  // namespace
}  // namespace foxscope
