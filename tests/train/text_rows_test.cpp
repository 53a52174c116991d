// Texts as rows of tokens, and the cache that keeps them.
#include "backend/train/text_rows.h"

#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/train/token_array.h"
#include "kernels/executor.h"
#include "tests/eval/eval_test_support.h"
#include "tests/train/train_test_support.h"

namespace foxscope {
namespace {

using test::Ids;
namespace fs = std::filesystem;

constexpr std::int32_t kBos = 256;
constexpr std::int64_t kTextVocabulary = 257;

class TextRows : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_ / "tokenizer");
    test::write_bytes(folder_ / "tokenizer/tokenizer.json", test::small_tokenizer().dump());
    options_ = {folder_ / "tokenizer", kBos, folder_ / "cache/of/tokens"};
  }
  fs::path write(const char* name, const std::string& bytes) {
    test::write_bytes(folder_ / name, bytes);
    return folder_ / name;
  }
  std::unique_ptr<TokenRows> open(const fs::path& corpus, std::int64_t length = 1, const Job& job = {}) {
    return open_text_rows(corpus, length, kTextVocabulary, options_, job);
  }
  /// The stream of a corpus.
  Ids tokens(const fs::path& corpus) { return test::all_tokens(*open(corpus)); }
  std::string error(const fs::path& corpus, std::int64_t length = 1, std::int64_t vocabulary = kTextVocabulary) {
    return test::replaced(test::error_of([&] { open_text_rows(corpus, length, vocabulary, options_, {}); }),
                          folder_.path().string() + "/", "");
  }
  [[nodiscard]] std::vector<fs::path> cached() const {
    std::vector<fs::path> files;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(options_.cache_folder, failed)) files.push_back(entry.path());
    return files;
  }
  /// Whether opening a corpus leaves the only file of the cache as it is.
  bool is_kept(const fs::path& corpus) {
    struct stat before {};
    struct stat after {};
    EXPECT_EQ(stat(cached().at(0).c_str(), &before), 0);
    open(corpus);
    EXPECT_EQ(cached().size(), 1);
    EXPECT_EQ(stat(cached().at(0).c_str(), &after), 0);
    return before.st_ino == after.st_ino;
  }

  test::TemporaryFolder folder_;
  TextOptions options_;
};

/// Tokens of the byte tokenizer.
Ids ids_of(const std::string& text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

/// Documents joined by BOS.
Ids joined(const std::vector<std::string>& documents) {
  Ids ids;
  for (const std::string& document : documents) {
    if (!ids.empty()) ids.push_back(kBos);
    const Ids own = ids_of(document);
    ids.insert(ids.end(), own.begin(), own.end());
  }
  return ids;
}

std::string lines_of(const std::vector<std::string>& documents) {
  std::string lines;
  for (const std::string& document : documents) lines += nlohmann::json{{"text", document}}.dump() + "\n";
  return lines;
}

/// More than a batch of documents, of very different lengths.
std::vector<std::string> many_documents() {
  std::vector<std::string> documents;
  for (int n = 0; n < 300; ++n) {
    documents.push_back(fmt::format("{} ", n) + std::string(static_cast<std::size_t>(n % 7 == 0 ? 100'000 : n), 'a'));
  }
  return documents;
}

TEST_F(TextRows, DocumentsAreJoinedByOneBos) {
  const std::vector<std::string> documents = {"The fox", "", "ran.", "\xc3\xa9"};
  const Ids expected = joined({"The fox", "ran.", "\xc3\xa9"});
  EXPECT_EQ(tokens(write("a.jsonl", lines_of(documents))), expected);
  EXPECT_EQ(tokens(write("b.jsonl.xz", test::xz(lines_of(documents)))), expected);
  EXPECT_EQ(tokens(write("c.jsonl.gz", test::gzip(lines_of(documents)))), expected);
  EXPECT_EQ(tokens(write("d.jsonl", lines_of({"", "The fox", "ran.", "\xc3\xa9", ""}))), expected);
  EXPECT_EQ(tokens(write("one.txt", "The fox")), ids_of("The fox"));
  fs::create_directory(folder_ / "folder");
  write("folder/2.txt", "ran.");
  write("folder/1.txt", "The fox");
  write("folder/3.jsonl", lines_of({"\xc3\xa9"}));
  EXPECT_EQ(tokens(folder_ / "folder"), expected);
}

TEST_F(TextRows, TheStreamIsCutIntoRows) {
  const fs::path corpus = write("a.jsonl", lines_of({"abcd", "efgh", "ij"}));
  const auto rows = open(corpus, 5);
  EXPECT_EQ(rows->rows(), 2);
  EXPECT_EQ(rows->columns(), 1);
  EXPECT_EQ(test::all_tokens(*rows), (Ids{'a', 'b', 'c', 'd', kBos, 'e', 'f', 'g', 'h', kBos}));
  EXPECT_EQ(rows->description(),
            corpus.string() + ": 3 documents, 12 tokens, 2 rows of 5 tokens, the last 2 tokens dropped");
  EXPECT_EQ(rows->fingerprint(), open(corpus, 4)->fingerprint());
}

TEST_F(TextRows, ThreadsDoNotMatter) {
  const std::vector<std::string> documents = many_documents();
  const fs::path corpus = write("a.jsonl", lines_of(documents));
  for (const int threads : {1, 3}) {
    fs::remove_all(options_.cache_folder);
    kernels::ThreadPool pool(threads);
    Job job;
    job.executor = &pool;
    EXPECT_EQ(test::all_tokens(*open(corpus, 1, job)), joined(documents));
  }
}

TEST_F(TextRows, MoreTextThanABatchHolds) {
  const std::string large(std::size_t{7} << 20U, 'x');
  const std::vector<std::string> documents = {large, "a", large, large, "b", "c", large};
  const fs::path corpus = write("a.jsonl.gz", test::gzip(lines_of(documents)));
  kernels::ThreadPool pool(1);
  std::vector<std::int64_t> done;
  Job job;
  job.executor = &pool;
  job.report = [&](const Progress& progress) {
    if (progress.stage == "making tokens") done.push_back(progress.done);
    EXPECT_LE(progress.done, progress.total);
  };
  const auto rows = open(corpus, 1024, job);
  EXPECT_EQ(rows->rows(), (4 * (std::int64_t{7} << 20U) + 3 + 6) / 1024);
  EXPECT_GT(done.size(), 1);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  const Ids expected = joined(documents);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end() - static_cast<std::ptrdiff_t>(expected.size() % 1024),
                         test::all_tokens(*rows).begin()));
}

TEST_F(TextRows, TokensAreMadeOnceForEachCorpusTokenizerAndBos) {
  const fs::path corpus = write("a.jsonl", lines_of({"ab", "cd"}));
  const std::string fingerprint = open(corpus)->fingerprint();
  EXPECT_TRUE(is_kept(corpus));
  // Under another name, and in a folder.
  fs::create_directory(folder_ / "folder");
  fs::copy(corpus, folder_ / "folder/b.jsonl");
  EXPECT_TRUE(is_kept(folder_ / "folder"));

  write("a.jsonl", lines_of({"ab", "ce"}));
  EXPECT_NE(open(corpus)->fingerprint(), fingerprint);
  EXPECT_EQ(cached().size(), 2);
  options_.bos = 0;
  EXPECT_EQ(tokens(corpus), (Ids{'a', 'b', 0, 'c', 'e'}));
  EXPECT_EQ(cached().size(), 3);
  test::write_bytes(folder_ / "tokenizer/tokenizer.json", test::small_tokenizer({{"c", "e"}}).dump());
  EXPECT_EQ(tokens(corpus), (Ids{'a', 'b', 0, 256}));
  EXPECT_EQ(cached().size(), 4);
  test::write_bytes(folder_ / "tokenizer/tokenizer_config.json", "{}");
  open(corpus);
  EXPECT_EQ(cached().size(), 5);
}

TEST_F(TextRows, TheCutBetweenFilesIsPartOfTheKey) {
  fs::create_directory(folder_ / "folder");
  write("folder/1.txt", "ab");
  write("folder/2.txt", "cd");
  EXPECT_EQ(tokens(folder_ / "folder"), joined({"ab", "cd"}));
  write("folder/1.txt", "abc");
  write("folder/2.txt", "d");
  EXPECT_EQ(tokens(folder_ / "folder"), joined({"abc", "d"}));
}

TEST_F(TextRows, ADamagedOrForeignFileIsMadeAnew) {
  const fs::path corpus = write("a.jsonl", lines_of({"ab", "cd"}));
  const Ids expected = tokens(corpus);
  const fs::path file = cached().at(0);
  const std::string good = test::read_bytes(file);
  const fs::path other = write("b.jsonl", lines_of({"ef"}));
  tokens(other);
  const std::vector<fs::path> both = cached();
  const fs::path other_file = both[0] == file ? both[1] : both[0];
  const std::string foreign = test::read_bytes(other_file);
  fs::remove(other_file);

  std::string flipped = good;
  flipped[1024] = 'x';
  const std::string origin_begin = "{\"documents\"";
  std::string no_number = good;
  no_number[good.find(origin_begin) + origin_begin.size() + 1] = 'x';
  const std::string only_tokens =
      test::safetensors_image("{\"tokens\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "1234");
  for (const std::string& bad :
       {flipped, good.substr(0, good.size() - 1), good + "1", std::string(), foreign, no_number, only_tokens}) {
    test::write_bytes(file, bad);
    const test::LoggedLines lines;
    EXPECT_EQ(tokens(corpus), expected);
    EXPECT_TRUE(lines.say(file.string() + ": made anew: "));
    EXPECT_EQ(test::read_bytes(file), good);
    EXPECT_TRUE(is_kept(corpus));
  }
}

TEST_F(TextRows, OnlyItsUserReadsTheCache) {
  const mode_t before = umask(0);
  const fs::path corpus = write("a.txt", "ab");
  open(corpus);
  const auto mode_of = [](const fs::path& path) { return static_cast<int>(fs::status(path).permissions()); };
  EXPECT_EQ(mode_of(options_.cache_folder), 0700);
  EXPECT_EQ(mode_of(cached().at(0)), 0600);
  // A cache that was readable for others is so no more.
  fs::permissions(options_.cache_folder, fs::perms::all);
  fs::permissions(cached().at(0), fs::perms::all);
  open(write("b.txt", "cd"));
  EXPECT_EQ(mode_of(options_.cache_folder), 0700);
  for (const fs::path& file : cached()) EXPECT_EQ(mode_of(file), 0600);
  umask(before);
}

TEST_F(TextRows, WhatWasUsedLongestAgoLeavesAFullCache) {
  const std::string text(1000, 'x');
  const fs::path a = write("a.txt", text);
  open(a);
  const fs::path file_of_a = cached().at(0);
  const std::uint64_t bytes = fs::file_size(file_of_a);
  options_.cache_bytes = 2 * bytes;
  open(write("b.txt", text + "b"));  // the cache takes 4 bytes more than it may
  EXPECT_EQ(cached().size(), 1);
  EXPECT_FALSE(fs::exists(file_of_a));
  options_.cache_bytes = 3 * bytes;
  open(a);
  test::write_bytes(options_.cache_folder / "notes.txt", "of the user");
  const auto an_hour_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const fs::path& file : cached()) fs::last_write_time(file, an_hour_ago);
  open(a);  // is used now
  open(write("c.txt", text + "c"));
  EXPECT_TRUE(fs::exists(file_of_a));
  EXPECT_TRUE(fs::exists(options_.cache_folder / "notes.txt"));
  EXPECT_EQ(cached().size(), 3) << "a, c and the user's own file";
  options_.cache_bytes = 1;
  EXPECT_NE(open(a), nullptr);
  EXPECT_TRUE(fs::exists(file_of_a)) << "what is in use stays";
  EXPECT_EQ(cached().size(), 2);
}

TEST_F(TextRows, AFileOfTheCacheIsDataToo) {
  const fs::path corpus = write("a.jsonl", lines_of({"ab", "cd"}));
  const Ids expected = tokens(corpus);
  const auto rows = rows_of(map_id_array(cached().at(0), std::nullopt), 1, kTextVocabulary, "");
  EXPECT_EQ(test::all_tokens(*rows), expected);
}

TEST_F(TextRows, AStoppedJobLeavesNothing) {
  const fs::path corpus = write("a.jsonl", lines_of(many_documents()));
  for (const char* stage : {"reading the corpus", "making tokens"}) {
    std::stop_source source;
    Job job;
    job.stop = source.get_token();
    job.report = [&](const Progress& progress) {
      if (progress.stage == stage) source.request_stop();
    };
    EXPECT_EQ(open(corpus, 1, job), nullptr) << stage;
    EXPECT_TRUE(cached().empty()) << stage;
  }
  std::stop_source source;
  source.request_stop();
  Job job;
  job.stop = source.get_token();
  EXPECT_EQ(open(corpus, 1, job), nullptr);
}

TEST_F(TextRows, BadCorpora) {
  EXPECT_NE(error(folder_ / "none.txt").find("none.txt: no such corpus"), std::string::npos);
  EXPECT_EQ(error(write("empty.jsonl", "\n")), "empty.jsonl: the corpus holds no documents: give one with text");
  EXPECT_EQ(error(write("empty.txt", "")), "empty.txt: holds no text: name a file or a folder that holds some");
  EXPECT_EQ(error(write("short.txt", "abc"), 4),
            "short.txt: holds 3 tokens, not one row of 4: use a --length of 3 or less, or more data");
  EXPECT_EQ(error(write("bad.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n")),
            "bad.jsonl: line 2: has no string under \"text\": a line is an object such as {\"text\": \"...\"}");
  const std::string packed = test::xz(lines_of({"a"}));
  EXPECT_NE(error(write("cut.jsonl.xz", packed.substr(0, packed.size() - 4))).find("cut short"), std::string::npos);
}

TEST_F(TextRows, AnErrorBehindTheFirstBatchLeavesNoFile) {
  std::string lines;
  for (int n = 0; n < 5; ++n) lines += lines_of({std::string(std::size_t{7} << 20U, 'x')});
  EXPECT_NE(error(write("bad.jsonl", lines + "[]\n")).find("bad.jsonl: line 6: has no string"), std::string::npos);
  EXPECT_TRUE(cached().empty());
}

TEST_F(TextRows, ATokenizerThatDoesNotFit) {
  const fs::path corpus = write("a.txt", "ab\xc3\xa9");
  const std::string unfit =
      "a.txt: the tokenizer in tokenizer makes the token 195, outside the model's vocabulary of 150 ids: use the "
      "tokenizer that belongs to the model";
  options_.bos = 0;
  EXPECT_EQ(error(corpus, 1, 150), unfit);
  EXPECT_TRUE(cached().empty());
  open(corpus);
  EXPECT_EQ(cached().size(), 1);
  EXPECT_EQ(error(corpus, 1, 150), unfit);
  EXPECT_EQ(error(corpus, 1, 196), "");
}

TEST_F(TextRows, BadBosTokenizerAndCache) {
  const fs::path corpus = write("a.txt", "ab");
  for (const std::int32_t bos : {-1, 257}) {
    options_.bos = bos;
    EXPECT_EQ(error(corpus), fmt::format("BOS {}: the model's vocabulary has ids 0 to 256: correct bos_token_id", bos));
  }
  options_.bos = kBos;
  options_.tokenizer = folder_ / "none";
  EXPECT_EQ(error(corpus),
            "none: holds no tokenizer: put tokenizer.json, or vocab.json and merges.txt, of the checkpoint there");
  options_.tokenizer = folder_ / "tokenizer";
  options_.cache_folder = folder_ / "a.txt/tokens";
  EXPECT_EQ(error(corpus),
            "a.txt/tokens: cannot make the folder for tokens: Not a directory: set XDG_CACHE_HOME to a folder that you "
            "may write to");
}

TEST(TokenCacheFolder, IsThatOfTheDesktop) {
  const std::string cache = std::getenv("XDG_CACHE_HOME") == nullptr ? "" : std::getenv("XDG_CACHE_HOME");
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  setenv("HOME", "/home/fox", 1);
  setenv("XDG_CACHE_HOME", "/fast", 1);
  EXPECT_EQ(token_cache_folder(), "/fast/foxscope/tokens");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(token_cache_folder(), "/home/fox/.cache/foxscope/tokens");
  setenv("HOME", home.c_str(), 1);
  if (!cache.empty()) setenv("XDG_CACHE_HOME", cache.c_str(), 1);
}

}  // namespace
}  // namespace foxscope
