#include "backend/agent/remote_run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

#include "backend/agent/fields.h"
#include "backend/agent/kept_answers.h"
#include "backend/agent/late_check.h"
#include "backend/agent/remote.h"
#include "backend/agent/run_reference.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/sha256.h"
#include "backend/file/run_file.h"
#include "backend/map/map_line.h"
#include "backend/map/map_shades.h"
#include "backend/map/map_stages.h"
#include "backend/map/pair_reading.h"
#include "backend/map/statistics/decay_split.h"
#include "backend/map/statistics/distance_summary.h"
#include "backend/map/statistics/gate_mean.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/map/statistics/pruning_bound.h"
#include "tests/agent/peers.h"
#include "tests/file/synthetic_trace.h"
#include "tests/map/linear_run.h"
#include "tests/temporary_folder.h"

namespace foxscope::test {
namespace {

template <typename T>
void expect_same_bits(std::span<const T> a, std::span<const T> b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0);
}

/// The JSON of a struct and its arrays, which are equal where all its numbers are.
template <typename T>
std::vector<std::byte> bits_of(const T& value) {
  agent::Message message;
  agent::put(message, "value", value);
  return agent::encoded(message);
}

/// A run file, opened here and from afar.
class RemoteRun : public testing::Test {
 protected:
  void write(const std::vector<std::shared_ptr<const Trace>>& traces) {
    ASSERT_TRUE(write_run_file(folder_ / "run.h5", traces, {"foxscope run", ""}, Overwrite::force, {}));
    here_ = RunFile::open(folder_ / "run.h5");
    there_ = agent::open_run("ssh://box" + folder_.text() + "/run.h5");
  }
  void write(const SyntheticRun& run) { write(std::vector{make_trace(run)}); }

  const TemporaryFolder folder_;
  const Role role_{"serve"};
  RunFile here_;
  RunFile there_;
};

TEST_F(RemoteRun, HasAllThatTheFileHas) {
  write({make_trace({.name = "fox"}), make_trace({.name = "base", .gated = false})});
  EXPECT_EQ(there_.created, here_.created);
  EXPECT_EQ(there_.command_line, here_.command_line);
  EXPECT_EQ(there_.program_version, here_.program_version);
  ASSERT_EQ(there_.traces.size(), here_.traces.size());
  EXPECT_EQ(there_.checks[0].rows, here_.checks[0].rows);
  for (std::size_t n = 0; n < here_.traces.size(); ++n) {
    const Trace& a = *here_.traces[n];
    const Trace& b = *there_.traces[n];
    EXPECT_EQ(bits_of(a.info()), bits_of(b.info()));
    EXPECT_EQ(*a.tokens(), *b.tokens());
    EXPECT_EQ(a.text()->content, b.text()->content);
    expect_same_bits(a.per_token_loss(), b.per_token_loss());
    for (const ArraySpec& spec : kTraceArrays) {
      for (int index = 0; index < count_of(spec, a.info().layers); ++index) {
        EXPECT_EQ(a.has(spec.array, index), b.has(spec.array, index)) << spec.path;
      }
    }
  }
  // Models with equal tokens share them, as in the file.
  EXPECT_EQ(there_.traces[0]->tokens(), there_.traces[1]->tokens());
}

TEST_F(RemoteRun, GivesTheArraysOfTheFile) {
  write(SyntheticRun{.keep = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key, Keep::values, Keep::logits,
                              Keep::hidden, Keep::predictions, Keep::saliency, Keep::experts}});
  const Trace& a = *here_.traces[0];
  const Trace& b = *there_.traces[0];
  for (int layer = 0; layer < a.info().layers; ++layer) {
    for (int head = 0; head < a.info().heads; ++head) {
      expect_same_bits(a.cumulative_log_gate(layer, head), b.cumulative_log_gate(layer, head));
      expect_same_bits(a.log_normalizer(layer, head), b.log_normalizer(layer, head));
      expect_same_bits(a.log_forget_gradient(layer, head), b.log_forget_gradient(layer, head));
    }
    expect_same_bits(a.experts(layer), b.experts(layer));
  }
  expect_same_bits(a.prediction_state(), b.prediction_state());
  EXPECT_EQ(a.source().logits(), b.source().logits());
  EXPECT_EQ(a.source().hidden_states(1), b.source().hidden_states(1));
  for (const TraceArray part : {TraceArray::query, TraceArray::key, TraceArray::value}) {
    std::vector<std::byte> one;
    std::vector<std::byte> two;
    const std::int64_t length = a.info().length;
    expect_same_bits(a.store_of(part)->raw_rows(part, 1, 1, 3, length, one),
                     b.store_of(part)->raw_rows(part, 1, 1, 3, length, two));
  }
}

MapRequest whole_map(const std::shared_ptr<const Trace>& trace, Quantity quantity) {
  MapRequest request;
  request.head = {trace, 1, 2};
  request.quantity = quantity;
  request.rows = request.columns = {0, trace->info().length};
  request.pixel_rows = request.pixel_columns = 19;
  request.reduction = default_reduction(quantity, false);
  return request;
}

TEST_F(RemoteRun, HasTheMapsOfTheFile) {
  write(SyntheticRun{.length = 150});
  for (const Quantity quantity : {Quantity::forget, Quantity::log_forget, Quantity::logits, Quantity::attention,
                                  Quantity::attention_without_gate, Quantity::gate_effect}) {
    const auto a = compute_map(whole_map(here_.traces[0], quantity), {});
    const auto b = compute_map(whole_map(there_.traces[0], quantity), {});
    expect_same_bits<float>(a->value, b->value);
  }
  MapRequest a = whole_map(here_.traces[0], Quantity::attention);
  MapRequest b = whole_map(there_.traces[0], Quantity::attention);
  a.minus = HeadOf{here_.traces[0], 0, 1};
  b.minus = HeadOf{there_.traces[0], 0, 1};
  expect_same_bits<float>(compute_map(a, {})->value, compute_map(b, {})->value);
  // A difference between a run there and one here is computed here.
  b.minus = HeadOf{here_.traces[0], 0, 1};
  expect_same_bits<float>(compute_map(a, {})->value, compute_map(b, {})->value);
  a.minus.reset();
  a.set_distances({1, 2, 2, 9, 150});
  b.minus.reset();
  b.set_distances({1, 2, 2, 9, 150});
  expect_same_bits<float>(compute_map(a, {})->value, compute_map(b, {})->value);
}

LineRequest line_of(const std::shared_ptr<const Trace>& trace, MapLine::Along along) {
  LineRequest request;
  request.head = {trace, 1, 2};
  request.line = MapLine::through(along, 90, 30);
  request.positions = request.line.positions(trace->info().length);
  return request;
}

TEST_F(RemoteRun, HasTheLinesAndReadingsOfTheFile) {
  write(SyntheticRun{.length = 150});
  for (const auto along : {MapLine::Along::row, MapLine::Along::column, MapLine::Along::diagonal}) {
    const LineRequest a = line_of(here_.traces[0], along);
    const LineRequest b = line_of(there_.traces[0], along);
    expect_same_bits<float>(*line_entries(a, {}), *line_entries(b, {}));
  }
  EXPECT_EQ(bits_of(pair_reading({here_.traces[0], 0, 3}, 100, 40)),
            bits_of(pair_reading({there_.traces[0], 0, 3}, 100, 40)));
}

TEST_F(RemoteRun, HasTheStatisticsOfTheFile) {
  write(SyntheticRun{.length = 150, .keep = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key, Keep::saliency}});
  const HeadOf a{here_.traces[0], 1, 2};
  const HeadOf b{there_.traces[0], 1, 2};
  const auto one = head_statistics(a, {}, {});
  const auto two = head_statistics(b, {}, {});
  EXPECT_EQ(bits_of(*one), bits_of(*two));
  StatisticsOptions sampling;
  sampling.rows = 20;
  const auto sampled = head_statistics(b, sampling, {});
  EXPECT_TRUE(sampled->errors);
  EXPECT_EQ(bits_of(*head_statistics(a, sampling, {})), bits_of(*sampled));
  EXPECT_EQ(bits_of(*decay_split(a, *one, {})), bits_of(*decay_split(b, *two, {})));
  for (int head = 0; head < 4; ++head) {
    EXPECT_EQ(mean_log_gate(*here_.traces[0], 1, head), mean_log_gate(*there_.traces[0], 1, head));
  }
  EXPECT_EQ(bits_of(*pruning_bound(a, 1e-3, {})), bits_of(*pruning_bound(b, 1e-3, {})));
}

TEST_F(RemoteRun, OfLinearMixersIsTheFiles) {
  for (const LayerMixer& mixer : linear_mixers()) {
    write(std::vector{make_linear_run({.mixer = mixer, .length = 80})});
    for (const Quantity quantity : {Quantity::mixing, Quantity::attention, Quantity::forget}) {
      if (!why_not(here_.traces[0]->info(), 0, quantity).empty()) continue;
      MapRequest a = whole_map(here_.traces[0], quantity);
      a.head.layer = a.head.head = 0;
      MapRequest b = a;
      b.head.trace = there_.traces[0];
      expect_same_bits<float>(compute_map(a, {})->value, compute_map(b, {})->value);
    }
    EXPECT_EQ(bits_of(*head_statistics({here_.traces[0], 0, 0}, {}, {})),
              bits_of(*head_statistics({there_.traces[0], 0, 0}, {}, {})));
  }
}

TEST_F(RemoteRun, WrittenHereIsTheFile) {
  write(SyntheticRun{.keep = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key, Keep::values}});
  ASSERT_TRUE(
      write_run_file(folder_ / "copy.h5", there_.traces, {"foxscope run", here_.created}, Overwrite::refuse, {}));
  ASSERT_TRUE(
      write_run_file(folder_ / "again.h5", here_.traces, {"foxscope run", here_.created}, Overwrite::refuse, {}));
  const auto bytes = [&](const char* name) {
    std::ifstream file(folder_ / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(bytes("copy.h5"), bytes("again.h5"));
}

TEST_F(RemoteRun, ErrorsAreThoseOfTheFile) {
  write(SyntheticRun{.keep = {Keep::loss, Keep::gates}});
  const MapRequest request = whole_map(there_.traces[0], Quantity::attention);
  EXPECT_EQ(error_of([&] { compute_map(request, {}); }),
            "box: " + error_of([&] { compute_map(whole_map(here_.traces[0], Quantity::attention), {}); }));
  MapRequest beyond = request;
  beyond.head.head = 99;
  EXPECT_THROW(compute_map(beyond, {}), UsageError);
}

TEST_F(RemoteRun, IsNotTakenForAFileThatTookItsPlace) {
  write(SyntheticRun{.length = 150});
  ASSERT_TRUE(write_run_file(folder_ / "run.h5", std::vector{make_trace({.length = 150, .seed = 9})},
                             {"foxscope run", ""}, Overwrite::force, {}));
  EXPECT_EQ(error_of([&] { compute_map(whole_map(there_.traces[0], Quantity::attention), {}); }),
            "ssh://box" + folder_.text() + "/run.h5: has changed since it was opened: open it again");
  EXPECT_EQ(error_of([&] { (void)there_.traces[0]->cumulative_log_gate(0, 0); }),
            "ssh://box" + folder_.text() + "/run.h5: has changed since it was opened: open it again");
  std::filesystem::remove(folder_ / "run.h5");
  EXPECT_EQ(error_of([&] { (void)there_.traces[0]->log_normalizer(0, 0); }),
            "ssh://box" + folder_.text() +
                "/run.h5: cannot be opened (No such file or directory): check the path and its permissions");
}

TEST_F(RemoteRun, StopsWhenItIsToldTo) {
  write(SyntheticRun{.length = 150});
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(compute_map(whole_map(there_.traces[0], Quantity::attention), {stop.get_token(), {}, {}}));
  EXPECT_TRUE(compute_map(whole_map(there_.traces[0], Quantity::attention), {}));
}

TEST_F(RemoteRun, StopsInTheMiddleOfACallWithoutAJob) {
  write(SyntheticRun{.length = 150});
  std::stop_source stop;
  stop.request_stop();
  {
    const agent::AskingFor asking(stop.get_token());
    EXPECT_THROW((void)there_.traces[0]->cumulative_log_gate(0, 1), agent::AskingStopped);
    EXPECT_THROW((void)pair_reading({there_.traces[0], 0, 1}, 100, 40), agent::AskingStopped);
    EXPECT_THROW((void)mean_log_gate(*there_.traces[0], 0, 1), agent::AskingStopped);
  }
  expect_same_bits(here_.traces[0]->cumulative_log_gate(0, 1), there_.traces[0]->cumulative_log_gate(0, 1));
}

MapRequest shaded_map(const std::shared_ptr<const Trace>& trace, Quantity quantity) {
  MapRequest request = whole_map(trace, quantity);
  request.pixel_rows = request.pixel_columns = 300;  // more than are sent as they are
  request.shades = Shades{.logarithmic = quantity == Quantity::attention};
  return request;
}

TEST_F(RemoteRun, HasMapsAsExactAsTheirColours) {
  write(SyntheticRun{.length = 300});
  // F is made there as long as c of the head is not here.
  const MapRequest forget = shaded_map(here_.traces[0], Quantity::forget);
  const Image exact = *compute_map(forget, {});
  expect_same_bits<float>(compute_map(shaded_map(there_.traces[0], Quantity::forget), {})->value,
                          image_of(Shading(exact, forget).image()).value);
  (void)there_.traces[0]->cumulative_log_gate(1, 2);
  expect_same_bits<float>(compute_map(shaded_map(there_.traces[0], Quantity::forget), {})->value, exact.value);
  for (const Quantity quantity : {Quantity::attention, Quantity::gate_effect, Quantity::logits}) {
    const MapRequest request = shaded_map(here_.traces[0], quantity);
    const Image few = image_of(Shading(*compute_map(request, {}), request).image());
    expect_same_bits<float>(compute_map(shaded_map(there_.traces[0], quantity), {})->value, few.value);
  }
}

TEST_F(RemoteRun, ShowsTheFirstLinesOfAMapBeforeTheOthers) {
  write(SyntheticRun{.length = 600});
  MapRequest request = shaded_map(there_.traces[0], Quantity::attention);
  request.head.gpu.reset();
  std::vector<std::int64_t> counts;
  const auto show = [&](const MapStage& stage) {
    counts.push_back(std::count(stage.done.begin(), stage.done.end(), 1));
    for (std::int64_t line = 0; line < stage.image.rows; ++line) {
      if (stage.done[index_of(line)] == 0) continue;
      EXPECT_FALSE(std::isnan(stage.image.value[index_of(line * stage.image.columns)]));
    }
  };
  const auto image = compute_map_in_stages(request, {}, {show, std::chrono::milliseconds(0)});
  EXPECT_EQ(std::ssize(image->value), 300 * 300);
  EXPECT_TRUE(std::ranges::is_sorted(counts));
  for (const std::int64_t count : counts) EXPECT_GE(count, 300 / 16);
}

TEST_F(RemoteRun, NoiseIsFewBytesFirst) {
  write(SyntheticRun{.length = 1000});
  const auto remote = agent::Remote::at({"", "box", 0});
  agent::Message open = agent::request_for("open");
  open.header["path"] = folder_.text() + "/run.h5";
  open.header["check"] = "glance";
  const nlohmann::json whole{{"begin", 0}, {"end", 1000}};
  agent::Message request = agent::request_for("map");
  request.header["head"] = {{"run", remote->ask(open, {})->header["answer"]["run"]},
                            {"model", there_.traces[0]->info().name},
                            {"device", "cpu"},
                            {"layer", 0},
                            {"head", 0}};
  request.header["map"] = {
      {"quantity", "logits"}, {"reduction", "mean"},   {"rows", whole},       {"columns", whole},
      {"pixel_rows", 1000},   {"pixel_columns", 1000}, {"skip_tolerance", 0}, {"shades", {{"logarithmic", false}}}};
  const auto asked = [&](bool all_steps) {
    request.header["all_steps"] = all_steps;
    const agent::Message answer = *remote->ask(request, {});
    return std::pair(agent::take<ShadedImage>(answer, "answer"), agent::encoded(answer).size());
  };
  const auto [few, few_bytes] = asked(false);
  const auto [all, all_bytes] = asked(true);
  EXPECT_LE(few_bytes, 100'000U);
  EXPECT_GT(all_bytes, 200'000U);
  EXPECT_EQ(all.steps, kColourSteps);
  EXPECT_EQ(all.side, 1);
  const auto extremes = [](const ShadedImage& shaded) {
    std::vector<float> values = image_of(shaded).value;
    EXPECT_EQ(values.size(), 1'000'000U);
    std::erase_if(values, [](float value) { return std::isnan(value); });
    const auto [lowest, highest] = std::ranges::minmax(values);
    return std::pair(lowest, highest);
  };
  EXPECT_EQ(extremes(few), extremes(all));
}

TEST_F(RemoteRun, StatisticsComeWithoutTheirCurves) {
  write(SyntheticRun{.length = 150});
  EXPECT_EQ(std::ssize(head_statistics({here_.traces[0], 1, 2}, {}, {})->distance.mass), 150);
  const auto there = head_statistics({there_.traces[0], 1, 2}, {}, {});
  EXPECT_TRUE(there->distance.mass.empty());
  EXPECT_EQ(bits_of(distance_summary({there_.traces[0], 1, 2}, *there)),
            bits_of(distance_summary(*head_statistics({here_.traces[0], 1, 2}, {}, {}))));
  // A split is made of them all the same.
  const auto here = head_statistics({here_.traces[0], 0, 1}, {}, {});
  EXPECT_EQ(bits_of(*decay_split({here_.traces[0], 0, 1}, *here, {})),
            bits_of(*decay_split({there_.traces[0], 0, 1}, *there, {})));
}

/// The arrays of another trace; c of the last layer rises at its last position where that is asked for.
class SameSource final : public TraceSource {
 public:
  SameSource(std::shared_ptr<const Trace> trace, bool rises) : trace_(std::move(trace)), rises_(rises) {}
  [[nodiscard]] bool has(TraceArray array, int index) const override { return trace_->source().has(array, index); }
  [[nodiscard]] std::shared_ptr<const ArrayValues> read(TraceArray array, int index) const override {
    auto values = trace_->source().read(array, index);
    if (!rises_ || array != TraceArray::cumulative_log_gate || index + 1 < trace_->info().layers) return values;
    auto risen = std::make_shared<ArrayValues>(*values);
    std::get<std::vector<double>>(*risen).back() = -1e-3;
    return risen;
  }

 private:
  std::shared_ptr<const Trace> trace_;
  bool rises_;
};

std::shared_ptr<const Trace> changed_trace(const std::shared_ptr<const Trace>& trace, std::shared_ptr<const Text> text,
                                           bool rises) {
  return std::make_shared<const Trace>(trace->info(), std::move(text), trace->tokens(),
                                       std::make_unique<const SameSource>(trace, rises),
                                       std::shared_ptr<const QueryKeyStore>(trace, trace->query_key()));
}

/// The file of a run with a longer text, of whose beginning its tokens are.
void write_long_text(const std::filesystem::path& path, std::size_t bytes) {
  const auto trace = make_trace({});
  auto text = std::make_shared<Text>(*trace->text());
  text->content.resize(bytes, 'x');
  text->sha256 = sha256(text->content);
  const std::vector traces{changed_trace(trace, text, false)};
  ASSERT_TRUE(write_run_file(path, traces, {"foxscope run", ""}, Overwrite::force, {}));
}

TEST_F(RemoteRun, WithATextThatIsTooLongForAnAnswerComesInPieces) {
  write_long_text(folder_ / "long.h5", agent::kMostParts + 12345);
  const RunFile here = RunFile::open(folder_ / "long.h5");
  const RunFile there = agent::open_run("ssh://box" + folder_.text() + "/long.h5");
  EXPECT_EQ(there.traces[0]->text()->content.size(), agent::kMostParts + 12345);
  EXPECT_TRUE(there.traces[0]->text()->content == here.traces[0]->text()->content);
  EXPECT_EQ(*there.traces[0]->tokens(), *here.traces[0]->tokens());
  expect_same_bits(there.traces[0]->per_token_loss(), here.traces[0]->per_token_loss());
}

TEST_F(RemoteRun, TokensInPiecesAreTheTokens) {
  write(SyntheticRun{.length = 150});
  const TokenTable& tokens = *here_.traces[0]->tokens();
  const Text* const text = here_.traces[0]->text().get();
  for (const std::int64_t piece : {1, 7, 149, 150}) {
    TokenTable again;
    for (std::int64_t begin = 0; begin < 150; begin += piece) {
      const Range part{begin, std::min<std::int64_t>(150, begin + piece)};
      agent::unpack_tokens(agent::packed_tokens(tokens, text, part), text, again);
    }
    EXPECT_EQ(again, tokens);
  }
}

TEST(OpenedTokens, LeaveOutWhatFollowsFromTheText) {
  Text text;
  text.content = "the fox the hen";
  TokenTable tokens;
  tokens.id = {7, 9, 7, 4};
  tokens.input_id = {1, 7, 9, 7};
  tokens.byte_start = {0, 4, 8, 12};
  tokens.byte_end = {4, 8, 12, 15};
  tokens.string = {"the ", "fox ", "the ", "hen"};
  tokens.first_string = "a ";
  const agent::OpenedTokens packed = agent::packed_tokens(tokens, &text, {0, 4});
  EXPECT_FALSE(packed.id || packed.input_id || packed.byte_start || packed.string);
  EXPECT_EQ(packed.id_of_bytes, (std::vector<std::int32_t>{7, 9, 4}));
  TokenTable again;
  agent::unpack_tokens(packed, &text, again);
  EXPECT_EQ(again, tokens);
  EXPECT_FALSE(agent::packed_tokens(tokens, &text, {1, 4}).first_string);
  // Where equal bytes have several ids, ids come.
  tokens.id[2] = tokens.input_id[3] = 8;
  EXPECT_EQ(agent::packed_tokens(tokens, &text, {0, 4}).id, tokens.id);
}

/// Makes c of a layer rise, which only a check of the whole file sees.
class BrokenRun : public RemoteRun {
 protected:
  BrokenRun() {
    // Beyond what a glance looks at.
    const auto trace = make_trace({.layers = 3, .heads = 16, .key_heads = 16, .length = 9000, .keep = {Keep::gates}});
    const std::vector traces{changed_trace(trace, trace->text(), true)};
    EXPECT_TRUE(write_run_file(folder_ / "broken.h5", traces, {"foxscope run", ""}, Overwrite::force, {}));
    url_ = "ssh://box" + folder_.text() + "/broken.h5";
    expected_ = error_of([&] { (void)RunFile::open(folder_ / "broken.h5"); });
    EXPECT_NE(expected_.find("rises by"), std::string::npos) << expected_;
  }
  ~BrokenRun() override {
    agent::end_late_checks();
    agent::Remote::listen({});
  }
  std::string url_;
  std::string expected_;
};

TEST_F(BrokenRun, IsFoundOutBeforeSomethingIsMadeOfIt) {
  const RunFile there = agent::open_run(url_);
  EXPECT_EQ(there.traces[0]->info().layers, 3);
  EXPECT_EQ(error_of([] { agent::require_checked({}); }), "ssh://box" + expected_);
  agent::end_late_checks();
  (void)agent::open_run(url_, RunCheck::glance);
  EXPECT_TRUE(agent::require_checked({}));
  (void)agent::open_run(url_, RunCheck::none);
  EXPECT_TRUE(agent::require_checked({}));
}

TEST_F(BrokenRun, IsSaidInALineBehindThePicture) {
  std::promise<std::string> said;
  agent::Remote::listen([&](std::string_view line) { said.set_value(std::string(line)); });
  const auto there = agent::open_path(url_, RunCheck::whole, {});
  EXPECT_EQ(there->facts.holds, "runs");
  EXPECT_EQ(there->run->traces[0]->info().layers, 3);
  EXPECT_EQ(said.get_future().get(), "ssh://box" + expected_);
}

TEST_F(RemoteRun, OpensWhateverAPathIs) {
  write(SyntheticRun{.length = 150});
  const auto run = agent::open_path("ssh://box" + folder_.text() + "/run.h5", RunCheck::glance, {});
  expect_same_bits(run->run->traces[0]->per_token_loss(), here_.traces[0]->per_token_loss());
  for (int head = 0; head < here_.traces[0]->info().heads; ++head) {
    EXPECT_EQ(mean_log_gate(*run->run->traces[0], 1, head), mean_log_gate(*here_.traces[0], 1, head));
  }
  const auto folder = agent::open_path("ssh://box" + folder_.text(), RunCheck::glance, {});
  EXPECT_EQ(folder->facts.kind, "folder");
  EXPECT_FALSE(folder->run);
  EXPECT_NE(error_of([&] {
              agent::open_path("ssh://box" + folder_.text() + "/no.h5", RunCheck::glance, {});
            }).find("No such file"),
            std::string::npos);
}

/// Answers are kept in a folder as long as the object lives.
class Keeping {
 public:
  explicit Keeping(const std::filesystem::path& folder) { agent::KeptAnswers::all().use_folder(folder); }
  ~Keeping() { agent::KeptAnswers::all().use_folder({}); }
  Keeping(const Keeping&) = delete;
  Keeping& operator=(const Keeping&) = delete;
};

TEST_F(RemoteRun, IsShownAsItWasLastTimeWhileItConnects) {
  write(SyntheticRun{.length = 150});
  const std::string url = "ssh://box" + folder_.text() + "/run.h5";
  const Keeping keeping(folder_ / "answers");
  const auto first = agent::open_path(url, RunCheck::whole, {});
  const auto exact = compute_map(whole_map(first->run->traces[0], Quantity::attention), {});
  agent::Remote::close_all();
  // No machine can be reached now.
  const Variable nobody("FOXSCOPE_TEST_ROLE", "no host");
  std::promise<std::string> said;
  std::atomic<bool> once = false;
  agent::Remote::listen([&](std::string_view line) {
    if (!once.exchange(true)) said.set_value(std::string(line));
  });
  const auto second = agent::open_path(url, RunCheck::whole, {});
  expect_same_bits<float>(compute_map(whole_map(second->run->traces[0], Quantity::attention), {})->value, exact->value);
  EXPECT_NE(said.get_future().get(), "");
  agent::end_late_checks();
  agent::Remote::listen({});
}

TEST_F(RemoteRun, ThatHasChangedSinceItWasKeptIsSaidToHave) {
  write(SyntheticRun{.length = 150});
  const std::string url = "ssh://box" + folder_.text() + "/run.h5";
  const Keeping keeping(folder_ / "answers");
  (void)agent::open_path(url, RunCheck::glance, {});
  ASSERT_TRUE(write_run_file(folder_ / "run.h5", std::vector{make_trace({.length = 150, .seed = 9})},
                             {"foxscope run", ""}, Overwrite::force, {}));
  std::promise<std::string> said;
  agent::Remote::listen([&](std::string_view line) { said.set_value(std::string(line)); });
  (void)agent::open_path(url, RunCheck::glance, {});
  EXPECT_EQ(said.get_future().get(),
            url + ": has changed since it was last opened, and is shown as it was then: open it again");
  agent::end_late_checks();
  agent::Remote::listen({});
  const auto again = agent::open_path(url, RunCheck::glance, {});
  const RunFile here = RunFile::open(folder_ / "run.h5");
  expect_same_bits(again->run->traces[0]->per_token_loss(), here.traces[0]->per_token_loss());
}

TEST_F(RemoteRun, IsReadAheadWhileNothingIsAsked) {
  write(SyntheticRun{.length = 300});
  const MapRequest request = shaded_map(there_.traces[0], Quantity::attention);
  (void)compute_map(request, {});
  MapRequest beside = request;
  ++beside.head.head;
  const auto is_kept = [&](const MapRequest& next) {
    std::stop_source stop;
    stop.request_stop();  // an answer that is kept needs nobody
    return compute_map(next, {stop.get_token(), {}, {}}).has_value();
  };
  while (!is_kept(beside)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const MapRequest exact = shaded_map(here_.traces[0], Quantity::attention);
  MapRequest beside_here = exact;
  ++beside_here.head.head;
  expect_same_bits<float>(compute_map(beside, {})->value,
                          image_of(Shading(*compute_map(beside_here, {}), beside_here).image()).value);
}

/// The answer to "open" as an honest agent gives it, and what becomes of it.
class DishonestRun : public testing::Test {
 protected:
  DishonestRun() {
    write_run_file(folder_ / "run.h5", std::vector{make_trace({})}, {"foxscope run", ""}, Overwrite::force, {});
    agent::Message request;
    request.header = {{"do", "open"}, {"path", folder_.text() + "/run.h5"}, {"check", "whole"}};
    remote_ = agent::Remote::at({"", "box", 0});
    answer_ = remote_->ask(request, {}).value();
  }
  std::string error(const std::function<void(agent::OpenedRun&)>& change) {
    auto opened = agent::take<agent::OpenedRun>(answer_, "answer");
    change(opened);
    agent::Message message;
    agent::put(message, "answer", opened);
    return error_of([&] { agent::run_of_answer({"", "box", 0}, message, "auto"); });
  }

  const TemporaryFolder folder_;
  const Role role_{"serve"};
  std::shared_ptr<agent::Remote> remote_;
  agent::Message answer_;
};

TEST_F(DishonestRun, IsRefused) {
  EXPECT_EQ(error([](agent::OpenedRun&) {}), "");
  const std::string begin = "ssh://box" + folder_.text() + "/run.h5: ";
  const std::string end = ": install the same version on both machines";
  using Opened = agent::OpenedRun;
  const std::vector<std::pair<std::function<void(Opened&)>, std::string>> lies = {
      {[](Opened& run) { run.traces.clear(); }, "there is no run in it"},
      {[](Opened& run) { run.traces[0].info.layers = 0; }, "the number of layers is 0, not 1 to 16384"},
      {[](Opened& run) { run.traces[0].info.heads = 1 << 30; }, "the number of heads is 1073741824, not 1 to 1048576"},
      {[](Opened& run) { run.traces[0].info.key_heads = 3; }, "heads cannot share so many key heads"},
      {[](Opened& run) { run.traces[0].info.length = 36; }, "a list of tokens came in another length"},
      {[](Opened& run) { run.traces[0].loss = std::vector<float>(36); }, "losses came in another length"},
      {[](Opened& run) { run.traces[0].mean_log_gates = std::vector<double>(3); }, "gates came in another number"},
      {[](Opened& run) { run.traces[0].info.name = "../x"; }, "a model has a name that no run file can have"},
      {[](Opened& run) { run.traces.push_back(run.traces[0]); }, "two models have one name"},
      {[](Opened& run) { run.traces[0].tokens = 1; }, "a model's tokens are missing"},
      {[](Opened& run) { run.tokens[0].id = std::vector<std::int32_t>(36); },
       "a list of tokens came in another length"},
      {[](Opened& run) { run.tokens[0].id.reset(), run.tokens[0].id_of_bytes.clear(); }, "a token's id is missing"},
      {[](Opened& run) { run.tokens[0].id.reset(), run.tokens[0].id_of_bytes.assign(99, 1); },
       "a list of tokens came in another length"},
      {[](Opened& run) { run.tokens[0].byte_size.pop_back(); }, "a list of tokens came in another length"},
      {[](Opened& run) { run.tokens[0].input_id = std::vector<std::int32_t>{1}; },
       "a list of tokens came in another length"},
      {[](Opened& run) { run.tokens[0].string = std::vector<std::string>{"x"}; },
       "a list of tokens came in another length"},
      {[](Opened& run) { run.tokens[0].id = std::vector<std::int32_t>(); }, "there are no tokens"},
      {[](Opened& run) { run.tokens[0].byte_size[3] = 1 << 20; }, "a token lies outside of the text"},
      {[](Opened& run) { run.tokens[0].byte_size[3] = -1; }, "a token lies outside of the text"},
      {[](Opened& run) { run.tokens[0].first_byte = -1; }, "a token lies outside of the text"},
      {[](Opened& run) { run.texts.clear(); }, "a token lies outside of the text"},
      {[](Opened& run) { run.traces[0].info.forgetting.pop_back(); },
       "a list by layer has another length than there are layers"},
      {[](Opened& run) { run.traces[0].kept[1].index = 99; }, "an array is said to be there that the run cannot have"},
      {[](Opened& run) {
         run.traces[0].kept.push_back({TraceArray::query, 0, false});
       },
       "an array is said to be there that the run cannot have"},
      {[](Opened& run) { run.traces[0].stored.push_back(TraceArray::log_normalizer); }, "queries are of no size"},
      {[](Opened& run) { run.traces[0].info.window_size = -1; }, "the window is -1, not 0 to 9223372036854775807"},
  };
  for (const auto& [lie, problem] : lies) EXPECT_EQ(error(lie), begin + problem + end);
}

}  // namespace
}  // namespace foxscope::test
