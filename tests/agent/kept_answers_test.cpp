#include "backend/agent/kept_answers.h"

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/agent/fields.h"
#include "tests/temporary_folder.h"

namespace foxscope::test {
namespace {

namespace fs = std::filesystem;
using agent::KeptAnswers;

const agent::RemoteHost kBox{"", "box", 0};

agent::Message request_of(int number) {
  agent::Message request = agent::request_for("map");
  agent::put(request, "number", number);
  return request;
}

agent::Message answer_of(int number, std::size_t bytes = 1000) {
  agent::Message answer;
  std::vector<float> values(bytes / sizeof(float));
  for (std::size_t n = 0; n < values.size(); ++n) values[n] = static_cast<float>((n * 2654435761U + number) % 10007);
  agent::put(answer, "answer", values);
  return answer;
}

std::vector<float> values_of(const std::optional<agent::Message>& answer) {
  return answer ? agent::take<std::vector<float>>(*answer, "answer") : std::vector<float>{};
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  return entries;
}

TEST(KeptAnswers, AreFoundByMachineAndRequest) {
  KeptAnswers kept;
  EXPECT_FALSE(kept.find(kBox, request_of(1)));
  kept.keep(kBox, request_of(1), answer_of(1));
  EXPECT_EQ(values_of(kept.find(kBox, request_of(1))), values_of(answer_of(1)));
  EXPECT_FALSE(kept.find(kBox, request_of(2)));
  EXPECT_FALSE(kept.find({"ann", "box", 0}, request_of(1)));
  agent::Message with_part = request_of(1);
  agent::put(with_part, "edges", std::vector<std::int64_t>{1, 2});
  EXPECT_FALSE(kept.find(kBox, with_part));
  agent::Message other_part = request_of(1);
  agent::put(other_part, "edges", std::vector<std::int64_t>{1, 3});
  kept.keep(kBox, with_part, answer_of(2));
  EXPECT_FALSE(kept.find(kBox, other_part));
}

TEST(KeptAnswers, InAFolderAreThereForTheNextStart) {
  const TemporaryFolder folder;
  KeptAnswers first;
  first.use_folder(folder / "answers");
  first.keep(kBox, request_of(1), answer_of(1));
  first.keep_older(kBox, request_of(2), answer_of(2));
  KeptAnswers second;
  EXPECT_FALSE(second.find(kBox, request_of(1)));
  second.use_folder(folder / "answers");
  EXPECT_EQ(values_of(second.find(kBox, request_of(1))), values_of(answer_of(1)));
  EXPECT_EQ(values_of(second.find_older(kBox, request_of(2))), values_of(answer_of(2)));
  second.forget_older(kBox, request_of(2));
  EXPECT_FALSE(first.find_older(kBox, request_of(2)));
  struct stat status {};
  ASSERT_EQ(stat((folder / "answers").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);  // what a run holds is nobody else's
}

TEST(KeptAnswers, ThatAreDamagedAreTakenAway) {
  const TemporaryFolder folder;
  KeptAnswers writer;
  writer.use_folder(folder / "answers");
  writer.keep(kBox, request_of(1), answer_of(1));
  const std::vector<fs::path> entries = entries_of(folder / "answers");
  ASSERT_EQ(entries.size(), 1U);
  std::ifstream file(entries[0], std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(file), {});
  file.close();
  std::vector<std::string> damaged{"", "x", whole.substr(0, whole.size() / 2), whole + "x", std::string(5000, '\0')};
  for (std::size_t at = 0; at < whole.size(); at += 97) {
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 4);
  }
  for (const std::string& bytes : damaged) {
    std::ofstream(entries[0], std::ios::binary) << bytes;
    KeptAnswers reader;
    reader.use_folder(folder / "answers");
    EXPECT_FALSE(reader.find(kBox, request_of(1)));
  }
  EXPECT_FALSE(fs::exists(entries[0]) && fs::file_size(entries[0]) > 0);
  std::ofstream(folder / "elsewhere", std::ios::binary) << whole;
  fs::remove(entries[0]);
  fs::create_symlink(folder / "elsewhere", entries[0]);
  KeptAnswers reader;
  reader.use_folder(folder / "answers");
  EXPECT_FALSE(reader.find(kBox, request_of(1)));  // a link may lead anywhere
  EXPECT_TRUE(fs::exists(folder / "elsewhere"));
}

TEST(KeptAnswers, TakeNoMoreThanTheirShareAndTheOldestGo) {
  const TemporaryFolder folder;
  constexpr std::uint64_t kMost = 200'000;
  KeptAnswers kept;
  kept.use_folder(folder / "answers", kMost);
  const auto now = fs::file_time_type::clock::now();
  for (int number = 0; number < 100; ++number) {
    kept.keep(kBox, request_of(number), answer_of(number, 20'000));
    std::uint64_t bytes = 0;
    for (const fs::path& entry : entries_of(folder / "answers")) {
      bytes += fs::file_size(entry);
      // Each is older than the next, whatever the clock's steps are.
      const auto age = now - fs::last_write_time(entry);
      if (age < std::chrono::minutes(1)) fs::last_write_time(entry, now - std::chrono::hours(1000 - number));
    }
    EXPECT_LE(bytes, kMost + kMost / 8);
  }
  KeptAnswers later;
  later.use_folder(folder / "answers", kMost);
  EXPECT_TRUE(later.find(kBox, request_of(99)));
  EXPECT_FALSE(later.find(kBox, request_of(0)));
}

TEST(KeptAnswers, AreLeftOutWhereTheFolderCannotBe) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  KeptAnswers kept;
  kept.use_folder(folder / "file" / "answers");
  kept.keep(kBox, request_of(1), answer_of(1));
  EXPECT_TRUE(kept.find(kBox, request_of(1)));  // in memory
  fs::create_symlink(folder / "file", folder / "link");
  kept.use_folder(folder / "link");
  kept.keep(kBox, request_of(2), answer_of(2));
  EXPECT_EQ(entries_of(folder / ".").size(), 2U);
}

TEST(KeptAnswers, OfMoreThanAFewMegabytesAreNotKept) {
  KeptAnswers kept;
  kept.keep(kBox, request_of(1), answer_of(1, KeptAnswers::kMostBytes + 8));
  EXPECT_FALSE(kept.find(kBox, request_of(1)));
  for (int number = 0; number < 20; ++number) kept.keep(kBox, request_of(number), answer_of(number, 5'000'000));
  EXPECT_TRUE(kept.find(kBox, request_of(19)));
  EXPECT_FALSE(kept.find(kBox, request_of(0)));
}

}  // namespace
}  // namespace foxscope::test
