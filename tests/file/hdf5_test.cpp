#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/file/hdf5/hdf5_dataset.h"
#include "backend/file/hdf5/hdf5_file.h"
#include "tests/file/support.h"
#include "tests/limited_memory.h"

namespace foxscope::test {
namespace {

using Hdf5Test = FolderTest;

/// Values published with the algorithm (lookup3.c, driver5) and of blocks that the HDF5 library wrote.
TEST(Hdf5Checksum, IsThatOfJenkins) {
  const auto of = [](std::string_view text) { return hdf5_checksum(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of(""), 0xdeadbeefU);
  EXPECT_EQ(of("Four score and seven years ago"), 0x17770551U);
}

const std::vector<SyntheticRun>& runs() {
  static const std::vector<SyntheticRun> runs = {{.name = "fox", .length = 300},
                                                 {.name = "other", .length = 300, .dtype = DType::bfloat16}};
  return runs;
}

/// Every kind of chunk index with and without filters, links and attributes in dense and compact form, dimension
/// scales, strings of variable length, bfloat16.
TEST_F(Hdf5Test, TheNewestFormIsReadAndHoldsTheSame) {
  const Traces traces = make_traces(runs());
  write_run(file("good.h5"), traces);
  run_python("make_newest_files.py", {file("good.h5").string(), file("newest").string()});
  const auto signatures = nlohmann::json::parse(content_of(file("newest") / "signatures.json"));
  std::set<std::string> met;
  for (const auto& [form, blocks] : signatures.items()) {
    const RunFile opened = RunFile::open(file("newest") / (form + ".h5"));
    ASSERT_EQ(opened.traces.size(), traces.size()) << form;
    for (std::size_t n = 0; n < traces.size(); ++n) expect_equal(*traces[n], *opened.traces[n]);
    for (const auto& block : blocks) met.insert(block);
  }
  EXPECT_EQ(met, (std::set<std::string>{"OHDR", "OCHK", "BTHD", "BTLF", "BTIN", "FRHP", "FHDB", "FHIB", "FAHD", "FADB",
                                        "EAHD", "EAIB", "EADB", "EASB"}));
}

/// Numbers of a dataset as bytes, from one of them on; NaN has one form here.
template <typename T>
void expect_same_numbers(const Hdf5Dataset& found, const Hdf5Dataset& expected) {
  const auto same = [](T a, T b) { return a == b || (a != a && b != b); };
  EXPECT_TRUE(std::ranges::equal(found.values<T>(), expected.values<T>(), same)) << found.path();
  for (const auto& [begin, count] : {std::pair<std::uint64_t, std::uint64_t>{0, 1}, {3, 60}, {57, 200}}) {
    EXPECT_TRUE(std::ranges::equal(found.values<T>(begin, count), expected.values<T>(begin, count), same))
        << found.path() << " from " << begin;
  }
}

TEST_F(Hdf5Test, WhatWasNeverWrittenIsTheFillValueAsInH5py) {
  run_python("make_unwritten_files.py", {file("unwritten").string()});
  for (const char* const version : {"earliest", "latest"}) {
    const auto opened = Hdf5File::open(file("unwritten") / fmt::format("{}.h5", version));
    const Hdf5Object root(opened, opened->root(), "/");
    const Hdf5Object gaps = root.child("gaps");
    EXPECT_EQ(gaps.names().size(), 4 * (1 + 8 * 4)) << version;
    for (const std::string& name : gaps.names()) {
      SCOPED_TRACE(fmt::format("{} {}", version, name));
      const Hdf5Dataset found(gaps.child(name));
      const Hdf5Dataset expected(root.child("values").child(name));
      ASSERT_EQ(found.form(), expected.form());
      if (name.ends_with("_five")) {
        expect_same_numbers<std::int32_t>(found, expected);
      } else if (name.ends_with("_nan")) {
        expect_same_numbers<float>(found, expected);
      } else {
        expect_same_numbers<double>(found, expected);
        EXPECT_EQ(found.is_zero(), expected.is_zero());
      }
      if (!name.starts_with("contiguous")) continue;
      EXPECT_EQ(found.stored_bytes(), 0U);
      EXPECT_NE(error_of([&] { (void)found.offset(); }).find("its numbers were never written"), std::string::npos);
    }
  }
}

/// Whether two runs hold the same, without a word of where they differ.
bool reads_the_same(const Traces& traces, const RunFile& opened) {
  if (opened.traces.size() != traces.size()) return false;
  for (std::size_t n = 0; n < traces.size(); ++n) {
    const Trace& a = *traces[n];
    const Trace& b = *opened.traces[n];
    if (*a.tokens() != *b.tokens() || !std::equal(a.per_token_loss().begin(), a.per_token_loss().end(),
                                                  b.per_token_loss().begin(), b.per_token_loss().end())) {
      return false;
    }
    for (int layer = 0; layer < a.info().layers; ++layer) {
      for (const TraceArray array : {TraceArray::cumulative_log_gate, TraceArray::log_normalizer}) {
        const auto left = a.source().read(array, layer);
        const auto right = b.source().read(array, layer);
        if ((left == nullptr) != (right == nullptr) || (left && *left != *right)) return false;
      }
    }
  }
  return true;
}

TEST_F(Hdf5Test, ADamagedBlockOfTheNewestFormIsAnErrorOrChangesNothing) {
  const Traces traces = make_traces(runs());
  write_run(file("good.h5"), traces);
  run_python("make_newest_files.py", {file("good.h5").string(), file("newest").string()});
  const auto signatures = nlohmann::json::parse(content_of(file("newest") / "signatures.json"));
  std::map<std::string, int> refused;
  for (const auto& [form, blocks] : signatures.items()) {
    const std::string content = content_of(file("newest") / (form + ".h5"));
    for (const std::string block : blocks) {
      // Some of all: a file of small chunks has thousands.
      std::vector<std::size_t> places;
      for (std::size_t at = content.find(block); at != std::string::npos; at = content.find(block, at + 1)) {
        places.push_back(at);
      }
      for (std::size_t n = 0; n < places.size(); n += 1 + places.size() / 6) {
        std::string bad = content;
        bad[places[n] + 7] ^= 0x10;
        write_content(file("bad.h5"), bad);
        bool same = false;
        const std::string message = error_of([&] { same = reads_the_same(traces, RunFile::open(file("bad.h5"))); });
        EXPECT_TRUE(same || !message.empty()) << form << " " << block << " at " << places[n];
        if (message.find("its checksum does not fit its bytes") != std::string::npos) ++refused[block];
      }
    }
  }
  // Where the sum has to differ, and not a size or an address that comes first.
  for (const char* block : {"OHDR", "BTLF", "FADB", "EADB", "EAIB", "FHDB", "FAHD", "EAHD"}) {
    EXPECT_GT(refused[block], 0) << block;
  }
}

TEST_F(Hdf5Test, ADamagedSuperblockOfTheNewestFormIsAnError) {
  write_run(file("good.h5"), make_traces({{}}));
  run_python("make_newest_files.py", {file("good.h5").string(), file("newest").string()});
  std::string content = content_of(file("newest") / "fixed.h5");
  content[11] ^= 1;  // flags
  write_content(file("bad.h5"), content);
  expect_error([&] { RunFile::open(file("bad.h5")); }, {"bad.h5", "superblock", "checksum", "damaged"});
}

/// What may be used beyond what the process has: some times the longest of these files.
constexpr std::size_t kAllowed = std::size_t{400} << 20U;

TEST_F(Hdf5Test, HostileFilesAreRefusedInLittleMemory) {
#ifdef FOXSCOPE_SANITIZED
  GTEST_SKIP() << "sanitizers reserve address space of their own";
#endif
  write_run(file("good.h5"), make_traces({{.length = 300}}));
  const auto cases = made_cases("make_hostile_files.py", file("good.h5"), file("hostile"));
  ASSERT_GT(cases.size(), 10U);
  for (const auto& entry : cases) {
    const std::filesystem::path path = entry["file"].get<std::string>();
    EXPECT_LT(std::filesystem::file_size(path), 10U << 20U) << path;
    std::string message;
    {
      const LimitedMemory limited(kAllowed);
      message = error_of([&] { read_everything(path); });
    }
    EXPECT_EQ(message.rfind(path.string(), 0), 0U) << path << ": " << message;
    for (const auto& part : entry["parts"]) {
      EXPECT_NE(message.find(part.get<std::string>()), std::string::npos)
          << path << ": " << message << " lacks " << part;
    }
  }
}

TEST_F(Hdf5Test, OpeningCanBeStopped) {
  write_run(file("run.h5"), make_traces({{}}));
  std::stop_source source;
  Job job;
  job.stop = source.get_token();
  EXPECT_TRUE(RunFile::open(file("run.h5"), job).has_value());
  source.request_stop();
  EXPECT_FALSE(RunFile::open(file("run.h5"), job).has_value());
}

/// A model without gates has zeros for c: its layers take the memory of one.
TEST_F(Hdf5Test, LayersOfZerosShareTheirMemory) {
  const Traces traces =
      make_traces({{.name = "open", .layers = 3, .length = 20'000, .gated = false, .keep = {Keep::loss, Keep::gates}}});
  write_run(file("run.h5"), traces);
  const RunFile opened = RunFile::open(file("run.h5"));
  expect_equal(*traces[0], *opened.traces[0]);
  const Trace& trace = *opened.traces[0];
  EXPECT_EQ(trace.cumulative_log_gate(0, 1).data(), trace.cumulative_log_gate(2, 1).data());
}

}  // namespace
}  // namespace foxscope::test
