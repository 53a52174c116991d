#include "backend/file/schema_check.h"

#include <nlohmann/json.hpp>

#include "tests/file/support.h"
#include "tests/limited_memory.h"

namespace foxscope::test {
namespace {

using SchemaCheckTest = FolderTest;
using Kind = SchemaFinding::Kind;

SchemaReport report_of(const std::filesystem::path& path) { return *check_schema(path, {}); }

/// Whether the check finds something that breaks the schema, or cannot open the file.
bool finds(const std::filesystem::path& path) {
  std::uint64_t broken = 0;
  const std::string message = error_of([&] { broken = report_of(path).broken; });
  return broken > 0 || !message.empty();
}

std::string text_of(const SchemaReport& report) {
  std::string text;
  for (const SchemaFinding& finding : report.findings) {
    text += fmt::format("{}: expected {}, found {}\n", finding.path, finding.expected, finding.found);
  }
  return text;
}

/// Everything that a run can keep.
KeepSet everything() {
  KeepSet keep;
  for (const KeepWord& word : kKeepWords) keep.insert(word.keep);
  return keep;
}

TEST_F(SchemaCheckTest, WhatFoxscopeWritesKeepsTheSchema) {
  KeepSet without_experts = everything();
  without_experts.erase(Keep::experts);
  const std::vector<SyntheticRun> runs = {
      {.name = "fox", .keep = everything()},
      {.name = "half", .dtype = DType::bfloat16, .keep = without_experts},
      {.name = "ids", .with_text = false},
      {.name = "open", .gated = false},
      {.name = "windows", .window_sizes = {9, 0}},
      {.name = "capped", .logit_cap = 2},
      {.name = "losses", .keep = {Keep::loss}},
      {.name = "hybrid", .keep = {Keep::gates, Keep::rows, Keep::query_key, Keep::values}, .mixers = all_mixers()},
      {.name = "newer", .keep = {Keep::gates, Keep::rows, Keep::query_key, Keep::values}, .mixers = newer_mixers()},
      {.name = "sinks", .mixers = sink_mixers()},
      {.name = "path", .mixers = path_mixers()}};
  for (const SyntheticRun& run : runs) {
    write_run(file("run.h5"), make_traces({run}));
    const SchemaReport report = report_of(file("run.h5"));
    EXPECT_EQ(report.broken + report.notes, 0U) << run.name << ": " << text_of(report);
    ASSERT_EQ(report.models.size(), 1U);
    EXPECT_TRUE(report.models[0].sums.has_value());
    const auto trace = RunFile::open(file("run.h5")).trace({});
    for (const ArraySpec& spec : kTraceArrays) {
      for (int index = 0; index < count_of(spec, trace->info().layers); ++index) {
        if (spec.repeat == Repeat::layers && !belongs_to(spec, trace->info().mixer(index))) continue;
        EXPECT_EQ(report.models[0].present.contains({spec.array, index}), trace->has(spec.array, index))
            << run.name << " " << path_of(spec, index);
      }
    }
  }
}

/// Models of a file need not be in the order of their names.
TEST_F(SchemaCheckTest, ModelsKeepTheirNames) {
  write_run(file("run.h5"),
            make_traces({{.name = "b", .length = 40}, {.name = "a", .length = 40, .keep = {Keep::loss}}}));
  const SchemaReport report = report_of(file("run.h5"));
  ASSERT_EQ(report.models.size(), 2U);
  for (const SchemaModel& model : report.models) {
    EXPECT_EQ(model.present.contains({TraceArray::query, 0}), model.info.name == "b") << model.info.name;
    ASSERT_TRUE(model.sums.has_value());
    EXPECT_EQ(model.sums->rows > 0, model.info.name == "b") << model.info.name;
  }
}

/// The check finds what readers refuse, and nothing in what they read, in files of other libraries too.
TEST_F(SchemaCheckTest, FindsWhatReadersRefuse) {
  write_run(file("good.h5"), make_traces({{.name = "fox"}, {.name = "other", .dtype = DType::bfloat16}}));
  const KeepSet keep = {Keep::gates, Keep::query_key, Keep::values};
  write_run(file("mixers.h5"), make_traces({{.name = "hybrid", .keep = keep, .mixers = all_mixers()}}));
  for (const auto& cases : {made_cases("make_odd_files.py", file("good.h5"), file("odd")),
                            made_cases("make_odd_mixers.py", file("mixers.h5"), file("odd-mixers"))}) {
    ASSERT_GE(cases.size(), 20U);
    for (const auto& entry : cases) {
      const std::filesystem::path path = entry["file"].get<std::string>();
      const std::string refused = error_of([&] { (void)RunFile::open(path); });
      // A file may be right to a reader that asks for less.
      if (!refused.empty()) {
        EXPECT_TRUE(finds(path)) << path << ": " << refused;
      } else if (entry["parts"].is_null()) {
        EXPECT_FALSE(finds(path)) << path << ": " << text_of(report_of(path));
      }
    }
  }
}

TEST_F(SchemaCheckTest, HostileFilesEndInLittleMemory) {
#ifdef FOXSCOPE_SANITIZED
  GTEST_SKIP() << "sanitizers reserve address space of their own";
#endif
  write_run(file("good.h5"), make_traces({{.length = 300}}));
  const auto cases = made_cases("make_hostile_files.py", file("good.h5"), file("hostile"));
  ASSERT_GT(cases.size(), 10U);
  for (const auto& entry : cases) {
    const std::filesystem::path path = entry["file"].get<std::string>();
    const LimitedMemory limited(std::size_t{400} << 20U);
    std::uint64_t broken = 0;
    std::size_t listed = 0;
    const std::string message = error_of([&] {
      const SchemaReport report = report_of(path);
      broken = report.broken;
      listed = report.findings.size();
    });
    EXPECT_TRUE(broken > 0 || !message.empty()) << path;
    EXPECT_LE(listed, 2 * SchemaReport::kMostFindings) << path;
  }
}

/// A damaged file is never worse than an Error, wherever it is damaged.
TEST_F(SchemaCheckTest, FlippedAndMissingBytesAreFoundOrChangeNothing) {
  write_run(file("good.h5"), make_traces({{.layers = 1, .heads = 2, .key_heads = 1, .length = 20}}));
  const std::string content = content_of(file("good.h5"));
  for (std::size_t at = 0; at < content.size(); at += 97) {
    std::string bad = content;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    write_content(file("bad.h5"), bad);
    const std::string refused = error_of([&] { (void)RunFile::open(file("bad.h5")); });
    if (refused.empty()) {
      EXPECT_EQ(error_of([&] { (void)report_of(file("bad.h5")); }), "") << "byte " << at;
    } else {
      EXPECT_TRUE(finds(file("bad.h5"))) << "byte " << at << ": " << refused;
    }
  }
  for (std::size_t size = 0; size < content.size(); size += 2011) {
    write_content(file("cut.h5"), content.substr(0, size));
    EXPECT_TRUE(finds(file("cut.h5"))) << size << " bytes";
  }
}

TEST_F(SchemaCheckTest, CanBeStopped) {
  write_run(file("run.h5"), make_traces({{}}));
  std::stop_source source;
  Job job;
  job.stop = source.get_token();
  EXPECT_TRUE(check_schema(file("run.h5"), job).has_value());
  source.request_stop();
  EXPECT_FALSE(check_schema(file("run.h5"), job).has_value());
}

TEST_F(SchemaCheckTest, AFileThatIsNoneIsAnError) {
  write_content(file("text.h5"), "hello");
  expect_error([&] { (void)report_of(file("text.h5")); }, {"text.h5", "is not an HDF5 file"});
  expect_error([&] { (void)report_of(file("missing.h5")); }, {"missing.h5", "cannot be opened"});
}

}  // namespace
}  // namespace foxscope::test
