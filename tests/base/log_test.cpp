// Lines for someone who looks for a mistake: made only where there is a reader, and whole from any thread.
#include "backend/base/log.h"

#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace foxscope {
namespace {

TEST(Log, MakesNoLineWithoutAReader) {
  bool made = false;
  const auto line = [&made] {
    made = true;
    return "read";
  };
  log_line(LogCategory::file, line);
  EXPECT_FALSE(made);
  EXPECT_FALSE(logging());
  {
    const LogReader reader([](std::string_view) {});
    EXPECT_TRUE(logging());
    log_line(LogCategory::file, line);
    EXPECT_TRUE(made);
  }
  made = false;
  log_line(LogCategory::file, line);
  write_log(LogCategory::file, "nobody hears this");
  EXPECT_FALSE(made);
}

TEST(Log, NamesTheCategory) {
  std::vector<std::string> lines;
  const LogReader reader([&lines](std::string_view line) { lines.emplace_back(line); });
  for (const LogCategory category : {LogCategory::file, LogCategory::text, LogCategory::model, LogCategory::map,
                                     LogCategory::eval, LogCategory::window}) {
    log_line(category, [] { return std::string("a line"); });
  }
  const std::vector<std::string> expected = {"[file] a line", "[text] a line", "[model] a line",
                                             "[map] a line",  "[eval] a line", "[window] a line"};
  EXPECT_EQ(lines, expected);
}

TEST(Log, KeepsLinesOfManyThreadsWhole) {
  constexpr int kThreads = 8;
  constexpr int kLines = 200;
  std::multiset<std::string> lines;
  {
    const LogReader reader([&lines](std::string_view line) { lines.emplace(line); });
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([thread] {
        for (int n = 0; n < kLines; ++n) {
          log_line(LogCategory::map, [thread] { return std::string(40, static_cast<char>('a' + thread)); });
        }
      });
    }
  }
  ASSERT_EQ(lines.size(), kThreads * kLines);
  for (int thread = 0; thread < kThreads; ++thread) {
    EXPECT_EQ(lines.count("[map] " + std::string(40, static_cast<char>('a' + thread))), kLines);
  }
}

/// Release builds have no asserts; whoever builds with a sanitizer looks for mistakes and keeps them.
TEST(LogDeathTest, ASecondReaderIsAFlawWhereAssertsAreKept) {
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a build without asserts";
#else
  const LogReader first([](std::string_view) {});
  EXPECT_DEATH(LogReader([](std::string_view) {}), "somebody reads along already");
#endif
}

}  // namespace
}  // namespace foxscope
