#include <cmath>
#include <cstring>
#include <thread>

#include "backend/base/sha256.h"
#include "backend/file/hdf5/hdf5_object.h"
#include "backend/map/map.h"
#include "backend/trace/recorder.h"
#include "tests/file/support.h"

namespace foxscope::test {
namespace {

using RunFileTest = FolderTest;
using Part = QueryKeyStore::Part;

const KeepSet kEverything = parse_keep(keep_words(","));

/// What the format must carry: number formats, grouped heads, sizes at both ends, and every choice of --keep.
std::vector<SyntheticRun> variants() {
  std::vector<SyntheticRun> runs(1);
  runs.push_back({.name = "bf16", .dtype = DType::bfloat16});
  runs.push_back({.name = "ungated", .gated = false});
  runs.push_back({.name = "ungated-chunks", .length = 700, .gated = false});
  runs.push_back({.name = "window", .window_size = 5});
  runs.push_back({.name = "windows", .window_sizes = {0, 5}});
  runs.push_back({.name = "losses-of-windows", .window_sizes = {3, 0}, .keep = {Keep::loss}});
  runs.push_back({.name = "capped", .logit_cap = 0.7});
  runs.push_back({.name = "one-token", .length = 1});
  runs.push_back({.name = "several-chunks", .layers = 1, .heads = 3, .key_heads = 1, .head_dim = 4, .length = 700});
  runs.push_back({.name = "everything", .keep = kEverything});
  runs.push_back({.name = "ids", .with_text = false});
  for (const Keep part : kEverything) runs.push_back({.name = "only", .keep = {part}});
  runs.push_back({.name = "nothing", .keep = {}});
  runs.push_back({.name = "hybrid", .keep = kEverything, .mixers = all_mixers()});
  runs.push_back({.name = "hybrid-bf16", .length = 700, .dtype = DType::bfloat16, .mixers = all_mixers()});
  runs.push_back({.name = "newer", .keep = kEverything, .mixers = newer_mixers()});
  runs.push_back({.name = "newer-losses", .keep = {Keep::loss}, .mixers = newer_mixers()});
  runs.push_back({.name = "sinks", .mixers = sink_mixers()});
  runs.push_back({.name = "path", .mixers = path_mixers()});
  runs.push_back({.name = "hybrid-losses", .keep = {Keep::loss}, .mixers = all_mixers()});
  return runs;
}

TEST_F(RunFileTest, ReopensAsTheTraceThatWasWritten) {
  for (const SyntheticRun& run : variants()) {
    SCOPED_TRACE(run.name);
    const Traces traces = make_traces({run});
    write_run(file("run.h5"), traces);
    const RunFile opened = RunFile::open(file("run.h5"));
    ASSERT_EQ(opened.traces.size(), 1U);
    expect_equal(*traces[0], *opened.traces[0]);
    EXPECT_EQ(opened.command_line, "foxscope run -o x.h5");
    EXPECT_EQ(opened.created, "2026-11-21T12:00:00Z");
    EXPECT_FALSE(opened.program_version.empty());
  }
}

TEST_F(RunFileTest, TheSchemaIsTheOldestThatReadsARunAsItIs) {
  const auto schema = [&](const SyntheticRun& run) {
    write_run(file("run.h5"), make_traces({run}));
    const auto written = Hdf5File::open(file("run.h5"));
    return Hdf5Object(written, written->root(), "/").integer_attribute("foxscope_schema").value_or(0);
  };
  EXPECT_EQ(schema({}), 1);
  EXPECT_EQ(schema({.window_size = 5}), 1);
  EXPECT_EQ(schema({.mixers = all_mixers()}), 2);
  EXPECT_EQ(schema({.window_sizes = {0, 5}}), 3);
  EXPECT_EQ(schema({.logit_cap = 0.7}), 3);
  EXPECT_EQ(schema({.mixers = sink_mixers()}), 3);
  EXPECT_EQ(schema({.mixers = path_mixers()}), 3);
  EXPECT_EQ(schema({.mixers = newer_mixers()}), 3);
}

TEST_F(RunFileTest, MapsOfAReopenedFileEqualThoseOfTheLiveRun) {
  const SyntheticRun runs[] = {{.length = 130},
                               {.length = 130, .dtype = DType::bfloat16},
                               {.length = 130, .mixers = path_mixers()},
                               {.length = 130, .dtype = DType::bfloat16, .mixers = path_mixers()}};
  for (const SyntheticRun& run : runs) {
    const Traces traces = make_traces({run});
    write_run(file("run.h5"), traces);
    const auto opened = RunFile::open(file("run.h5")).trace({});
    for (const Quantity quantity : {Quantity::forget, Quantity::log_forget, Quantity::logits, Quantity::attention,
                                    Quantity::attention_without_gate, Quantity::gate_effect}) {
      MapRequest request;
      request.quantity = quantity;
      request.reduction = default_reduction(quantity, false);
      request.rows = {3, 129};
      request.columns = {0, 130};
      request.pixel_rows = 50;
      request.pixel_columns = 41;
      request.head = {traces[0], 1, 3};
      const std::optional<Image> live = compute_map(request, {});
      request.head.trace = opened;
      const std::optional<Image> read = compute_map(request, {});
      ASSERT_TRUE(live && read);
      EXPECT_EQ(std::memcmp(live->value.data(), read->value.data(), live->value.size() * sizeof(float)), 0)
          << to_string(quantity);
    }
  }
}

/// Files that were written before values, gradients and `long_name` were known.
TEST_F(RunFileTest, OlderFilesOpen) {
  for (const auto& [name, kept] : {std::pair("small", "loss,gates,rows,qk"), std::pair("loss", "loss"),
                                   std::pair("wide", "ungated,logits,hidden")}) {
    const std::string path = fmt::format("{}/tests/fuzz/corpus/run_file/{}", FOXSCOPE_SOURCE_DIR, name);
    EXPECT_NE(read_everything(path), 0) << name;
    const auto trace = RunFile::open(path).traces.front();
    const KeepSet keep = parse_keep(kept);
    for (const ArraySpec& spec : kTraceArrays) {
      const bool kept_then = keep.contains(spec.keep) && belongs_to(spec, trace->info().mixer(0));
      EXPECT_EQ(trace->has(spec.array), kept_then) << name << ": " << spec.path;
    }
    expect_error([&] { static_cast<void>(trace->log_forget_gradient(0, 0)); }, {"did not keep saliency"});
  }
}

/// Weights that are not numbers give a run that is none; its file says so instead of failing to open.
TEST_F(RunFileTest, NotANumberReopens) {
  const auto source = make_trace({.length = 900});
  Recorder recorder(source->info(), {Keep::loss, Keep::rows}, nullptr);
  for (float& loss : recorder.per_token_loss()) loss = std::nanf("");
  for (int layer = 0; layer < source->info().layers; ++layer) {
    for (float& value : recorder.log_normalizer(layer)) value = std::nanf("");
  }
  const Traces traces = {recorder.finish(source->text(), source->tokens())};
  write_run(file("run.h5"), traces);
  expect_equal(*traces[0], *RunFile::open(file("run.h5")).trace({}));
}

TEST_F(RunFileTest, AFileOfAFileIsEqual) {
  const Traces traces = make_traces({{.keep = kEverything}});
  write_run(file("first.h5"), traces);
  write_run(file("second.h5"), RunFile::open(file("first.h5")).traces);
  EXPECT_EQ(content_of(file("first.h5")), content_of(file("second.h5")));
}

TEST_F(RunFileTest, TheSameRunGivesTheSameBytes) {
  write_run(file("first.h5"), make_traces({{.length = 300}, {.name = "other", .length = 300, .gated = false}}));
  write_run(file("second.h5"), make_traces({{.length = 300}, {.name = "other", .length = 300, .gated = false}}));
  EXPECT_EQ(content_of(file("first.h5")), content_of(file("second.h5")));
}

TEST_F(RunFileTest, SaysWhenItWasMade) {
  ASSERT_TRUE(write_run_file(file("run.h5"), make_traces({{}}), {"command", ""}, Overwrite::refuse, {}));
  const std::string created = RunFile::open(file("run.h5")).created;
  ASSERT_EQ(created.size(), 20U);
  EXPECT_EQ(created[4], '-');
  EXPECT_EQ(created[10], 'T');
  EXPECT_EQ(created.back(), 'Z');
}

TEST_F(RunFileTest, ModelsWithEqualTokensShareThem) {
  write_run(file("run.h5"), make_traces({{.name = "b"}, {.name = "a", .gated = false}}));
  const RunFile opened = RunFile::open(file("run.h5"));
  ASSERT_EQ(opened.traces.size(), 2U);
  EXPECT_EQ(opened.traces[0]->info().name, "b");
  EXPECT_EQ(opened.traces[1]->info().name, "a");
  EXPECT_EQ(opened.traces[0]->tokens(), opened.traces[1]->tokens());
  EXPECT_EQ(opened.traces[0]->text(), opened.traces[1]->text());
}

TEST_F(RunFileTest, GivesATraceByName) {
  write_run(file("one.h5"), make_traces({{.name = "fox"}}));
  const RunFile one = RunFile::open(file("one.h5"));
  EXPECT_EQ(one.trace({})->info().name, "fox");
  EXPECT_EQ(one.trace("fox")->info().name, "fox");
  EXPECT_THROW(static_cast<void>(one.trace("wolf")), UsageError);
  expect_error([&] { static_cast<void>(one.trace("wolf")); }, {"'wolf'", "it holds fox"});

  write_run(file("two.h5"), make_traces({{.name = "fox"}, {.name = "transformer"}}));
  const RunFile two = RunFile::open(file("two.h5"));
  EXPECT_EQ(two.trace("transformer")->info().name, "transformer");
  EXPECT_THROW(static_cast<void>(two.trace({})), UsageError);
  expect_error([&] { static_cast<void>(two.trace({})); }, {"several models", "--model", "fox, transformer"});
}

TEST_F(RunFileTest, SeveralThreadsReadOneFile) {
  const Traces traces = make_traces({{.length = 200}});
  write_run(file("run.h5"), traces);
  const auto opened = RunFile::open(file("run.h5")).trace({});
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&] {
      std::vector<float> left;
      std::vector<float> right;
      for (std::int64_t row = 0; row + 10 <= 200; row += 10) {
        const auto a = traces[0]->query_key()->rows(Part::key, 1, 1, row, row + 10, left);
        const auto b = opened->query_key()->rows(Part::key, 1, 1, row, row + 10, right);
        EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
        EXPECT_EQ(traces[0]->cumulative_log_gate(1, 2)[0], opened->cumulative_log_gate(1, 2)[0]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RunFileTest, SeveralThreadsWriteFiles) {
  const Traces traces = make_traces({{}});
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&, n] { write_run(file(fmt::format("{}.h5", n)), traces); });
  }
  for (std::thread& thread : threads) thread.join();
  for (int n = 1; n < 4; ++n) EXPECT_EQ(content_of(file("0.h5")), content_of(file(fmt::format("{}.h5", n))));
}

TEST_F(RunFileTest, ReportsItsProgressAndTime) {
  std::int64_t last = -1;
  std::int64_t total = 0;
  Job job;
  job.report = [&](const Progress& progress) {
    EXPECT_GE(progress.done, last);
    last = progress.done;
    total = progress.total;
  };
  double seconds = -1;
  ASSERT_TRUE(write_run_file(file("run.h5"), make_traces({{}}), {}, Overwrite::refuse, job, &seconds));
  EXPECT_EQ(last, total);
  EXPECT_GT(total, 0);
  EXPECT_GT(seconds, 0);
}

/// The run of make_trace over the first tokens of its text.
std::shared_ptr<const Trace> limited_trace(const std::string& name, std::int64_t length) {
  const auto longer = make_trace({.name = name});
  const TokenTable& tokens = *longer->tokens();
  TokenTable first;
  first.id.assign(tokens.id.begin(), tokens.id.begin() + length);
  first.input_id.assign(tokens.input_id.begin(), tokens.input_id.begin() + length);
  first.byte_start.assign(tokens.byte_start.begin(), tokens.byte_start.begin() + length);
  first.byte_end.assign(tokens.byte_end.begin(), tokens.byte_end.begin() + length);
  first.string.assign(tokens.string.begin(), tokens.string.begin() + length);
  Text part = part_read(*longer->text(), first.byte_end.back());
  part.sha256 = sha256(part.content);
  TraceInfo info = longer->info();
  info.length = length;
  Recorder recorder(info, {Keep::loss}, nullptr);
  return recorder.finish(std::make_shared<const Text>(part), std::make_shared<const TokenTable>(first));
}

TEST_F(RunFileTest, HoldsThePartOfTheTextThatWasRead) {
  const Traces runs = {limited_trace("a", 20), limited_trace("b", 12)};
  write_run(file("run.h5"), {runs[1]});
  const auto alone = RunFile::open(file("run.h5")).trace({});
  EXPECT_EQ(alone->text()->content, runs[1]->text()->content);
  EXPECT_EQ(alone->text()->sha256, runs[1]->text()->sha256);
  EXPECT_EQ(alone->text()->unread_bytes, runs[1]->text()->unread_bytes);
  EXPECT_EQ(alone->text()->cut_word, runs[1]->text()->cut_word);
  EXPECT_GT(alone->text()->unread_bytes, 0);
  EXPECT_EQ(*alone->tokens(), *runs[1]->tokens());
  // Of runs that read to different places of one text the file holds what any of them read.
  for (const Traces& order : {runs, Traces{runs[1], runs[0]}}) {
    write_run_file(file("both.h5"), order, {}, Overwrite::force, {});
    const RunFile both = RunFile::open(file("both.h5"));
    for (const auto& trace : both.traces) {
      EXPECT_EQ(trace->text()->content, runs[0]->text()->content);
      EXPECT_EQ(trace->text()->unread_bytes, runs[0]->text()->unread_bytes);
    }
  }
  // A text that is read whole has neither attribute.
  write_run_file(file("whole.h5"), make_traces({{}}), {}, Overwrite::force, {});
  EXPECT_EQ(RunFile::open(file("whole.h5")).trace({})->text()->unread_bytes, 0);
}

TEST_F(RunFileTest, AStoppedWriteLeavesNothing) {
  std::stop_source stop;
  stop.request_stop();
  Job job;
  job.stop = stop.get_token();
  EXPECT_FALSE(write_run_file(file("run.h5"), make_traces({{}}), {}, Overwrite::refuse, job));
  EXPECT_EQ(entries(), 0U);
}

TEST_F(RunFileTest, RefusesWhatItCannotWrite) {
  const auto write = [this](const Traces& traces) {
    return [this, traces] { write_run_file(file("run.h5"), traces, {}, Overwrite::refuse, {}); };
  };
  expect_error(write({}), {"run.h5", "no runs"});
  expect_error(write(make_traces({{.name = "a/b"}})), {"'a/b'", "letters, digits"});
  expect_error(write(make_traces({{.name = ".."}})), {"'..'", "letters, digits"});
  expect_error(write(make_traces({{.name = ""}})), {"''", "letters, digits"});
  expect_error(write(make_traces({{.name = "fox"}, {.name = "fox"}})), {"two models", "'fox'", "NAME=DIR"});
  expect_error(write(make_traces({{.name = "a"}, {.name = "b", .length = 12}})), {"different texts", "'a'", "'b'"});
  expect_error(write(make_traces({{.name = "a"}, {.name = "b", .with_text = false}})), {"different texts"});
  EXPECT_EQ(entries(), 0U);
  write_run(file("run.h5"), make_traces({{}}));
  expect_error(write(make_traces({{}})), {"run.h5", "exists already", "--force"});
}

TEST_F(RunFileTest, SaysThatTheQueriesWereNotKept) {
  write_run(file("run.h5"), make_traces({{.keep = {Keep::loss}}}));
  const auto opened = RunFile::open(file("run.h5")).trace({});
  expect_error([&] { static_cast<void>(opened->require_query_key()); }, {"queries and keys", "'qk'"});
  expect_error([&] { static_cast<void>(opened->cumulative_log_gate(0, 0)); }, {"gates", "--keep"});
}

TEST_F(RunFileTest, AFileCutShortWhileInUseIsAnError) {
  write_run(file("run.h5"), make_traces({{}}));
  const auto opened = RunFile::open(file("run.h5")).trace({});
  std::filesystem::resize_file(file("run.h5"), 100);
  std::vector<float> scratch;
  expect_error([&] { opened->query_key()->rows(Part::query, 0, 0, 0, 5, scratch); }, {"run.h5", "cut short"});
}

}  // namespace
}  // namespace foxscope::test
