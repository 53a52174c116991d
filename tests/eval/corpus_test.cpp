// Documents of corpora of every kind, and what is said of those that cannot be read.
#include "backend/data/corpus.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/eval/eval_test_support.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

class Corpus : public testing::Test {
 protected:
  Pairs documents(const std::string& name = "") {
    CorpusReader reader(name.empty() ? folder_.path() : folder_.path() / name);
    Pairs result;
    std::int64_t before = 0;
    while (const auto document = reader.next()) {
      result.emplace_back(document->name, document->text);
      EXPECT_GE(reader.bytes_done(), before);
      before = reader.bytes_done();
    }
    EXPECT_EQ(reader.bytes_done(), reader.total_bytes());
    return result;
  }
  std::string error(const std::string& name) {
    return test::error_of([&] {
      CorpusReader reader(folder_.path() / name, 1 << 20);
      while (reader.next()) {
      }
    });
  }
  std::string error_in(const std::string& name, const std::string& content) {
    folder_.write(name, content);
    return error(name);
  }

  test::TemporaryFolder folder_;
};

const std::string kLines =
    "{\"id\": \"fox\", \"title\": \"T\", \"text\": \"The fox.\\nRan \\u00e9 \\ud83e\\udd8a\"}\r\n"
    "  \n"
    "{\"title\": \"Only\\na title\", \"text\": \"\"}\n"
    "{\"id\": 7, \"text\": \"n\"}\n"
    "\n"
    "{\"text\": \"last\", \"id\": \"\"}";
const Pairs kDocuments = {
    {"fox", "The fox.\nRan \xc3\xa9 \xf0\x9f\xa6\x8a"}, {"Only a title", ""}, {"7", "n"}, {"NAME:6", "last"}};

Pairs named(const std::string& name) {
  Pairs expected = kDocuments;
  expected.back().first = name + ":6";
  return expected;
}

TEST_F(Corpus, OfFilesThatGrowNoMoreIsTakenInThanThereIs) {
  for (const std::string name : {"lines.jsonl", "book.txt"}) {
    folder_.write(name, kLines);
    CorpusReader reader(folder_.path() / name);
    folder_.write(name, kLines + "\n" + kLines);
    while (reader.next()) EXPECT_LE(reader.bytes_done(), reader.total_bytes());
    EXPECT_EQ(reader.total_bytes(), static_cast<std::int64_t>(2 * kLines.size() + 1));
  }
}

TEST_F(Corpus, ALineIsADocument) {
  folder_.write("a.jsonl", kLines);
  EXPECT_EQ(documents("a.jsonl"), named("a.jsonl"));
  folder_.write("b.jsonl.xz", test::xz(kLines));
  EXPECT_EQ(documents("b.jsonl.xz"), named("b.jsonl.xz"));
  folder_.write("c.jsonl.gz", test::gzip(kLines));
  EXPECT_EQ(documents("c.jsonl.gz"), named("c.jsonl.gz"));
}

TEST_F(Corpus, CompressedFilesMayFollowEachOther) {
  const std::string first = kLines.substr(0, 40);
  const std::string second = kLines.substr(40);
  folder_.write("c.jsonl.gz", test::gzip(first) + test::gzip(second));
  EXPECT_EQ(documents("c.jsonl.gz"), named("c.jsonl.gz"));
  folder_.write("c.jsonl.xz", test::xz(first) + test::xz(second));
  EXPECT_EQ(documents("c.jsonl.xz"), named("c.jsonl.xz"));
}

TEST_F(Corpus, LinesLongerThanAnyBuffer) {
  std::string lines;
  Pairs expected;
  for (int n = 1; n < 20; ++n) {
    const std::string text(static_cast<std::size_t>(n) * 50'000, static_cast<char>('a' + n));
    lines += fmt::format("{{\"id\": {}, \"text\": \"{}\"}}\n", n, text);
    expected.emplace_back(std::to_string(n), text);
  }
  folder_.write("a.jsonl.xz", test::xz(lines));
  EXPECT_EQ(documents("a.jsonl.xz"), expected);
  folder_.write("a.jsonl.gz", test::gzip(lines));
  EXPECT_EQ(documents("a.jsonl.gz"), expected);
}

TEST_F(Corpus, AFolderIsReadInTheOrderOfPaths) {
  std::filesystem::create_directories(folder_.path() / "sub/.hidden");
  folder_.write("b.txt", "B");
  folder_.write("sub/c.txt", "C");
  folder_.write("a.jsonl", "{\"text\": \"A\"}\n");
  folder_.write(".d.txt", "D");
  folder_.write("sub/.hidden/e.txt", "E");
  folder_.write("notes.md", "F");
  EXPECT_EQ(documents(), (Pairs{{"a.jsonl:1", "A"}, {"b.txt", "B"}, {"sub/c.txt", "C"}}));
  EXPECT_EQ(documents("b.txt"), (Pairs{{"b.txt", "B"}}));
}

TEST_F(Corpus, BadCorpora) {
  using test::says;
  EXPECT_TRUE(says(error("none.txt"), {"none.txt", "no such corpus", ".jsonl.xz"}));
  EXPECT_TRUE(says(error_in("a.pdf", "x"), {"a.pdf", "is not a corpus"}));
  std::filesystem::create_directory(folder_.path() / "empty");
  EXPECT_TRUE(says(error("empty"), {"empty", "holds no corpus files"}));
  EXPECT_TRUE(says(error_in("empty.jsonl", "\n \n"), {"empty.jsonl", "holds no documents"}));
}

TEST_F(Corpus, BadLines) {
  using test::says;
  const std::string good = "{\"text\": \"a\"}\n";
  EXPECT_TRUE(says(error_in("a.jsonl", good + "{\"text\": "), {"a.jsonl: line 2", "not valid JSON"}));
  EXPECT_TRUE(says(error_in("a.jsonl", good + "\n{\"txt\": 1}"), {"a.jsonl: line 3", "no string under \"text\""}));
  EXPECT_TRUE(says(error_in("a.jsonl", "[1]\n"), {"a.jsonl: line 1", "no string under \"text\""}));
  EXPECT_TRUE(says(error_in("a.jsonl", "{\"text\": null}"), {"a.jsonl: line 1", "no string under \"text\""}));
  EXPECT_TRUE(says(error_in("a.jsonl", "{\"text\": \"\\ud800\"}"), {"a.jsonl: line 1", "not valid JSON"}));
  EXPECT_TRUE(says(error_in("a.jsonl", good + "{\"text\": \"\xff\"}"), {"a.jsonl: line 2: byte 10 is not UTF-8"}));
  EXPECT_TRUE(says(error_in("a.txt", "ab\xff"), {"a.txt", "0xFF", "offset 2"}));
  const std::string large = "{\"text\": \"" + std::string(2 << 20, 'x') + "\"}";
  EXPECT_TRUE(says(error_in("a.jsonl", good + large), {"a.jsonl: line 2 is longer than 1 MiB", "smaller"}));
  EXPECT_TRUE(says(error_in("a.jsonl.xz", test::xz(good + large)), {"a.jsonl.xz: line 2 is longer than 1 MiB"}));
  EXPECT_TRUE(says(error_in("a.txt", large), {"a.txt: is longer than 1 MiB"}));
}

TEST_F(Corpus, BadCompression) {
  using test::says;
  for (const bool is_xz : {true, false}) {
    const std::string name = is_xz ? "a.jsonl.xz" : "a.jsonl.gz";
    const std::string whole = is_xz ? test::xz(kLines) : test::gzip(kLines);
    for (const std::size_t size : {std::size_t{0}, std::size_t{20}, whole.size() / 2, whole.size() - 1}) {
      EXPECT_TRUE(says(error_in(name, whole.substr(0, size)), {name, "cut short"})) << size;
    }
    std::string flipped = whole;
    flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 0x10);
    EXPECT_TRUE(says(error_in(name, flipped), {name, is_xz ? "(xz)" : "(gzip)", "damaged"}));
    EXPECT_TRUE(says(error_in(name, kLines), {name, "is not compressed by"}));
  }
}

}  // namespace
}  // namespace foxscope
