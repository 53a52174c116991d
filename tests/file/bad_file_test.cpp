#include <sys/mman.h>
#include <sys/resource.h>

#include <random>

#include <nlohmann/json.hpp>

#include "backend/file/run_check.h"
#include "tests/file/support.h"

namespace foxscope::test {
namespace {

using BadFileTest = FolderTest;

/// A file in memory: thousands of versions of it cost no disk.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("run.h5", MFD_CLOEXEC)) {}
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void set(std::string_view content) {
    ASSERT_EQ(ftruncate(descriptor_, 0), 0);
    ASSERT_EQ(pwrite(descriptor_, content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
  }
  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

std::string message_of_reading(const std::filesystem::path& path) {
  return error_of([&path] { read_everything(path); });
}

TEST_F(BadFileTest, OddFilesAreReadOrRefusedWithTheReason) {
  const Traces traces = make_traces({{.name = "fox"}, {.name = "other", .dtype = DType::bfloat16}});
  write_run(file("good.h5"), traces);
  const auto cases = made_cases("make_odd_files.py", file("good.h5"), file("odd"));
  ASSERT_GT(cases.size(), 70U);
  for (const auto& entry : cases) {
    const std::filesystem::path path = entry["file"].get<std::string>();
    const std::string message = message_of_reading(path);
    if (entry["parts"].is_null()) {
      EXPECT_EQ(message, "") << path;
      if (message.empty() && entry.contains("same")) {
        const RunFile opened = RunFile::open(path);
        for (std::size_t n = 0; n < traces.size(); ++n) expect_equal(*traces[n], *opened.traces[n]);
      }
      continue;
    }
    EXPECT_EQ(message.rfind(path.string(), 0), 0U) << path << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const auto& part : entry["parts"]) {
      EXPECT_NE(message.find(part.get<std::string>()), std::string::npos)
          << path << ": " << message << " lacks " << part;
    }
  }
}

/// A file that contradicts itself opens when it is asked for, and its runs say so.
TEST_F(BadFileTest, WhatContradictsItselfOpensUnchecked) {
  const Traces traces = make_traces({{.name = "fox"}, {.name = "other", .dtype = DType::bfloat16}});
  write_run(file("good.h5"), traces);
  run_python("make_odd_files.py", {file("good.h5").string(), file("odd").string()});
  for (const char* name : {"c-wrong-sign", "c-rises", "c-other", "lse-off", "scale-one", "window-other"}) {
    const std::filesystem::path path = file("odd") / fmt::format("{}.h5", name);
    EXPECT_NE(message_of_reading(path), "") << name;
    const RunFile opened = RunFile::open(path, RunCheck::none);
    for (const auto& trace : opened.traces) EXPECT_TRUE(trace->info().unchecked);
    EXPECT_EQ(opened.traces[0]->cumulative_log_gate(0, 3).size(), 37U) << name;
  }
  EXPECT_FALSE(RunFile::open(file("good.h5")).traces[0]->info().unchecked);
}

/// A glance is at what few bytes tell; the whole check at all rows that it names.
TEST_F(BadFileTest, AGlanceLooksAtShortRunsWhole) {
  write_run(file("short.h5"), make_traces({{.length = 300}}));
  write_run(file("long.h5"), make_traces({{.layers = 1, .length = 40'000, .keep = {Keep::gates}}}));
  const auto layers_seen = [](const std::filesystem::path& path, const CheckExtent& extent) {
    const auto trace = RunFile::open(path, RunCheck::none).trace({});
    return check_run(*trace, path.string(), extent, {});
  };
  const RunCheckReport glance = layers_seen(file("short.h5"), kGlance);
  EXPECT_TRUE(glance.whole);
  EXPECT_EQ(glance.layers, 2);
  EXPECT_EQ(glance.gates, 8);
  EXPECT_EQ(glance.rows, 2 * 4 * 4);
  EXPECT_LT(glance.largest_error, 1e-5);
  EXPECT_FALSE(layers_seen(file("long.h5"), kGlance).whole);
  EXPECT_TRUE(layers_seen(file("long.h5"), kWholeCheck).whole);
}

TEST_F(BadFileTest, OddMixersAreRefusedWithTheReason) {
  const KeepSet keep = {Keep::gates, Keep::query_key, Keep::values};
  write_run(file("good.h5"), make_traces({{.name = "hybrid", .keep = keep, .mixers = all_mixers()}}));
  const auto cases = made_cases("make_odd_mixers.py", file("good.h5"), file("odd"));
  ASSERT_GE(cases.size(), 20U);
  for (const auto& entry : cases) {
    const std::filesystem::path path = entry["file"].get<std::string>();
    // What contradicts itself or is no number is seen when the file is opened.
    const std::string message = error_of([&path] { RunFile::open(path); });
    if (entry["parts"].empty()) {
      EXPECT_EQ(message, "") << path;
      continue;
    }
    EXPECT_EQ(message.rfind(path.string(), 0), 0U) << path << ": " << message;
    for (const auto& part : entry["parts"]) {
      EXPECT_NE(message.find(part.get<std::string>()), std::string::npos)
          << path << ": " << message << " lacks " << part;
    }
  }
}

TEST_F(BadFileTest, AMissingArrayOfAMixerIsNamed) {
  const KeepSet keep = {Keep::gates, Keep::query_key, Keep::values};
  write_run(file("good.h5"), make_traces({{.name = "hybrid", .keep = keep, .mixers = all_mixers()}}));
  run_python("make_odd_mixers.py", {file("good.h5").string(), file("odd").string()});
  const auto message_of = [&](const char* array, int layer, const auto& read) {
    const auto trace = RunFile::open(file("odd") / fmt::format("no-{}.h5", array)).trace({});
    EXPECT_FALSE(trace->has_attention(layer)) << array;
    EXPECT_EQ(name_of(spec_of(trace->lacking(layer).value_or(TraceArray::query))), array);
    return error_of([&] { read(*trace); });
  };
  EXPECT_EQ(message_of("beta", 3, [](const Trace& trace) { (void)trace.beta(3, 0); }),
            "model 'hybrid': layer 3 has queries and keys but no beta: run again with 'qk' in --keep");
  EXPECT_EQ(message_of("erase_read", 7, [](const Trace& trace) { (void)trace.erase_read(7, 1); }),
            "model 'hybrid': layer 7 has queries and keys but no erase_read: run again with 'qk' in --keep");
  EXPECT_EQ(message_of("erase_write", 7, [](const Trace& trace) { (void)trace.erase_write(7, 1); }),
            "model 'hybrid': layer 7 has queries and keys but no erase_write: run again with 'qk' in --keep");
  EXPECT_EQ(message_of("decay_rate", 5, [](const Trace& trace) { (void)trace.cumulative_log_decay(5, 1); }),
            "model 'hybrid': layer 5 has gates but no decay_rate: run again with 'gates' in --keep");
}

TEST_F(BadFileTest, WhatIsNoRunFileIsRefused) {
  expect_error([&] { RunFile::open(file("missing.h5")); }, {"missing.h5", "cannot be opened", "No such file"});
  expect_error([&] { RunFile::open(folder_); }, {folder_.string(), "is not a file"});
  write_content(file("empty.h5"), "");
  expect_error([&] { RunFile::open(file("empty.h5")); }, {"empty.h5", "is not an HDF5 file", "foxscope run"});
  write_content(file("text.h5"), std::string(1000, 'x'));
  expect_error([&] { RunFile::open(file("text.h5")); }, {"text.h5", "is not an HDF5 file"});
}

TEST_F(BadFileTest, TruncatedFilesAreErrors) {
  write_run(file("good.h5"), make_traces({{}}));
  MemoryFile cut;
  const std::string good = content_of(file("good.h5"));
  const auto check = [&](std::size_t size) {
    cut.set(std::string_view(good).substr(0, size));
    const std::string message = message_of_reading(cut.path());
    EXPECT_FALSE(message.empty()) << size;
    const bool with_length = size >= 48;  // where the header says how long the file is
    EXPECT_EQ(message.find("is cut short") != std::string::npos, with_length) << size << ": " << message;
  };
  for (std::size_t size = 0; size < 200; ++size) check(size);
  for (std::size_t size = 200; size < good.size(); size += good.size() / 500) check(size);
  check(good.size() - 1);
}

/// Every byte of the metadata, with several values; what then is read may be different, but is read or refused.
TEST_F(BadFileTest, FlippedBytesAreReadOrRefused) {
  write_run(file("good.h5"), make_traces({{.layers = 1, .heads = 2, .key_heads = 1, .head_dim = 4, .length = 300}}));
  const std::string good = content_of(file("good.h5"));
  MemoryFile file_of_bad;
  std::mt19937 random(1);
  std::size_t refused = 0;
  constexpr std::size_t kTries = 6000;
  for (std::size_t n = 0; n < kTries; ++n) {
    std::string bad = good;
    const std::size_t flips = 1 + random() % 3;
    for (std::size_t flip = 0; flip < flips; ++flip) {
      const std::size_t place = n < kTries / 2 ? n * good.size() / (kTries / 2) : random() % good.size();
      const char values[] = {'\0', '\xff', static_cast<char>(bad[place] ^ (1 << random() % 8)),
                             static_cast<char>(random())};
      bad[place] = values[random() % 4];
    }
    file_of_bad.set(bad);
    refused += message_of_reading(file_of_bad.path()).empty() ? 0U : 1U;
  }
  EXPECT_GT(refused, kTries / 100);
}

/// Exit status of a child process that runs `work`.
int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(BadFileTest, AFullDiskIsAnErrorAndLeavesTheOldFile) {
  const Traces traces = make_traces({{.length = 400}});
  write_content(file("run.h5"), "old");
  // Wherever the space ends: before the first byte, in the metadata, in q and k.
  for (const rlim_t limit_bytes : {rlim_t{0}, rlim_t{1000}, rlim_t{50'000}, rlim_t{90'000}, rlim_t{120'000}}) {
    const int status = in_child([&] {
      const struct rlimit limit { limit_bytes, limit_bytes };
      setrlimit(RLIMIT_FSIZE, &limit);
      const std::string message = error_of([&] { write_run_file(file("run.h5"), traces, {}, Overwrite::force, {}); });
      return message.find("ulimit -f") != std::string::npos && message.find("run.h5") != std::string::npos ? 0 : 1;
    });
    EXPECT_EQ(status, 0) << limit_bytes;
    EXPECT_EQ(content_of(file("run.h5")), "old");
    EXPECT_EQ(entries(), 1U);
  }
}

}  // namespace
}  // namespace foxscope::test
