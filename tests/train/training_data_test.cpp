// Data of every kind by its path, and several of them.
#include "backend/train/training_data.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "tests/train/train_test_support.h"

namespace foxscope {
namespace {

using test::Ids;
namespace fs = std::filesystem;

class TrainingData : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_ / "tokenizer");
    test::write_bytes(folder_ / "tokenizer/tokenizer.json", test::small_tokenizer().dump());
    options_.length = 2;
    options_.vocabulary = 257;
    options_.texts = {folder_ / "tokenizer", 256, folder_ / "cache"};
  }
  fs::path write(const char* name, const std::string& bytes) {
    test::write_bytes(folder_ / name, bytes);
    return folder_ / name;
  }
  fs::path documents(const char* name, const std::string& shape, std::int32_t first) {
    Ids ids;
    for (std::int32_t n = 0; n < 8; ++n) ids.push_back(first + n);
    return write(name, test::npy_image("<i4", shape, test::bytes_of(ids)));
  }
  fs::path zarr() {
    fs::create_directory(folder_ / "z");
    write("z/.zarray",
          "{\"zarr_format\": 2, \"shape\": [5], \"chunks\": [5], \"dtype\": \"<i4\", \"order\": \"C\", "
          "\"compressor\": null, \"fill_value\": 0, \"filters\": null}");
    write("z/0", test::bytes_of(Ids{1, 2, 3, 4, 5}));
    return folder_ / "z";
  }
  std::unique_ptr<TokenRows> open(const std::vector<fs::path>& paths) {
    return open_training_data(paths, options_, {});
  }
  template <typename Expected = Error>
  std::string error(const std::vector<fs::path>& paths) {
    return test::replaced(test::error_of<Expected>([&] { open(paths); }), folder_.path().string() + "/", "");
  }

  test::TemporaryFolder folder_;
  TrainingDataOptions options_;
};

TEST_F(TrainingData, EveryKindByItsPath) {
  fs::create_directory(folder_ / "texts");
  write("texts/a.txt", "uvw");
  EXPECT_EQ(test::all_tokens(*open({write("a.txt", "abcde")})), (Ids{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(test::all_tokens(*open({folder_ / "texts"})), (Ids{'u', 'v'}));
  EXPECT_EQ(test::all_tokens(*open({zarr()})), (Ids{1, 2, 3, 4}));
  const auto rows = open({documents("a.npy", "(8,)", 1)});
  EXPECT_EQ(test::all_tokens(*rows), (Ids{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(rows->description(), (folder_ / "a.npy").string() + ": int32 [8], 4 rows of 2 tokens");
  const std::string header = "{\"t\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
  const fs::path tensor = write("a.safetensors", test::safetensors_image(header, test::bytes_of(Ids{7, 8})));
  EXPECT_EQ(test::all_tokens(*open({tensor})), (Ids{7, 8}));
  options_.tensor = "t";
  EXPECT_EQ(test::all_tokens(*open({folder_ / "a.npy", tensor})), (Ids{1, 2, 3, 4, 5, 6, 7, 8, 7, 8}));
}

TEST_F(TrainingData, SeveralFollowEachOtherAndAreNeverJoined) {
  const auto rows = open({write("a.txt", "abcde"), documents("a.npy", "(8,)", 1), write("b.txt", "fg")});
  EXPECT_EQ(rows->rows(), 7);
  EXPECT_EQ(rows->length(), 2);
  EXPECT_EQ(test::all_tokens(*rows), (Ids{'a', 'b', 'c', 'd', 1, 2, 3, 4, 5, 6, 7, 8, 'f', 'g'}));
  EXPECT_EQ(rows->description(), (folder_ / "a.txt").string() +
                                     ": 1 document, 5 tokens, 2 rows of 2 tokens, the last token dropped; " +
                                     (folder_ / "a.npy").string() + ": int32 [8], 4 rows of 2 tokens; " +
                                     (folder_ / "b.txt").string() + ": 1 document, 2 tokens, 1 row of 2 tokens");
  const auto turned = open({folder_ / "b.txt", folder_ / "a.npy", folder_ / "a.txt"});
  EXPECT_NE(turned->fingerprint(), rows->fingerprint());
  EXPECT_EQ(open({folder_ / "a.txt"})->fingerprint(), open({folder_ / "a.txt"})->fingerprint());
}

TEST_F(TrainingData, DocumentsOfEqualLengthStayDocuments) {
  const fs::path four = documents("four.npy", "(2, 4)", 0);
  const fs::path more = documents("more.npy", "(2, 4)", 100);
  const auto rows = open({four, more});
  EXPECT_EQ(rows->columns(), 2);
  Ids row(2);
  rows->read(2 * 2 + 1, row);  // column 1 of document 2, the first of the second file
  EXPECT_EQ(row, (Ids{102, 103}));
  EXPECT_EQ(open({four, documents("stream.npy", "(8,)", 0)})->columns(), 1);
  EXPECT_EQ(open({four, documents("eight.npy", "(1, 8)", 0)})->columns(), 1);
}

TEST_F(TrainingData, BadInput) {
  EXPECT_EQ(error<UsageError>({}), "--data: give texts or tokens to train on");
  EXPECT_EQ(error({folder_ / "none"}),
            "none: no such data: give texts (.txt, .jsonl, .jsonl.xz, .jsonl.gz, a folder of them) or tokens (.npy, "
            ".safetensors, the folder of a zarr array)");
  EXPECT_EQ(error({write("a.pdf", "x")}),
            "a.pdf: is not a corpus: corpus files end in .txt, .jsonl, .jsonl.xz and .jsonl.gz");
  fs::create_directory(folder_ / "empty");
  EXPECT_NE(error({folder_ / "empty"}).find("empty: the folder holds no corpus files"), std::string::npos);
  const fs::path text = write("a.txt", "abc");
  options_.length = 0;
  EXPECT_EQ(error<UsageError>({text}), "--length 0: use a number of tokens from 1");
  options_.length = 2;
  options_.tensor = "t";
  EXPECT_EQ(error<UsageError>({text}), "--tensor t: no data file is a .safetensors file: leave it out");
  options_.tensor.reset();
  options_.texts.tokenizer.clear();
  EXPECT_EQ(error<UsageError>({text}), "a.txt: texts need a --tokenizer: give the folder of one");
}

TEST_F(TrainingData, AStoppedJobGivesNothing) {
  std::stop_source source;
  source.request_stop();
  Job job;
  job.stop = source.get_token();
  EXPECT_EQ(open_training_data({write("a.txt", "abc")}, options_, job), nullptr);
}

TEST_F(TrainingData, DocumentsOfOneLengthSayHowLongRowsAre) {
  const std::string a = documents("a.npy", "(2, 4)", 0).string();
  const std::string b = documents("b.npy", "(2, 4)", 9).string();
  const std::string long_ones = documents("long.npy", "(1, 8)", 0).string();
  const std::string stream = documents("stream.npy", "(8,)", 0).string();
  const std::string text = write("a.txt", "abc").string();
  EXPECT_EQ(length_of_arrays({a}, ""), 4);
  EXPECT_EQ(length_of_arrays({a, b}, ""), 4);
  EXPECT_EQ(length_of_arrays({long_ones}, ""), 8);
  for (const std::vector<std::string>& paths :
       std::vector<std::vector<std::string>>{{},
                                             {stream},
                                             {text},
                                             {a, text},
                                             {a, long_ones},
                                             {zarr().string()},
                                             {a, (folder_ / "missing.npy").string()}}) {
    EXPECT_EQ(length_of_arrays(paths, ""), std::nullopt);
  }
}

}  // namespace
}  // namespace foxscope
