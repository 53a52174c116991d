#include "backend/trace/trace.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "backend/trace/decay_time.h"
#include "backend/trace/recorder.h"
#include "backend/trace/run_origin.h"
#include "tests/error_of.h"

namespace foxscope {
namespace {

TraceInfo small_info() {
  TraceInfo info;
  info.name = "fox";
  info.layers = 2;
  info.heads = 3;
  info.key_heads = 3;
  info.head_dim = 4;
  info.length = 5;
  return info;
}

std::shared_ptr<const Trace> record(const KeepSet& keep) {
  const TraceInfo info = small_info();
  std::shared_ptr<HostQueryKeyStore> store;
  if (keep.contains(Keep::query_key)) {
    store = std::make_shared<HostQueryKeyStore>(
        QueryKeyStore::Shape{.layers = 2, .heads = 3, .key_heads = 3, .length = 5, .head_dim = 4}, DType::float32,
        1 << 20, "/tmp");
  }
  Recorder recorder(info, keep, store);
  for (int layer = 0; layer < info.layers; ++layer) {
    for (std::size_t n = 0; n < 15; ++n) {
      const auto number = static_cast<float>(n);
      if (keep.contains(Keep::gates)) recorder.cumulative_log_gate(layer)[n] = -100.0 * layer - number;
      if (keep.contains(Keep::rows)) recorder.log_normalizer(layer)[n] = static_cast<float>(10 * layer) + number;
      if (keep.contains(Keep::ungated)) recorder.log_normalizer_without_gate(layer)[n] = number + 0.5F;
    }
  }
  std::iota(recorder.per_token_loss().begin(), recorder.per_token_loss().end(), 0.0F);
  std::iota(recorder.log_forget_gradient().begin(), recorder.log_forget_gradient().end(), 0.0F);
  return recorder.finish(nullptr, std::make_shared<const TokenTable>());
}

TEST(LossesRemedy, IsWhatGivesLossesToSuchAFile) {
  TraceInfo info = small_info();
  info.weights_sha256 = "0a";
  info.attention_kernel = "cpu-tiled";
  EXPECT_EQ(losses_remedy(info), "run again with --keep loss");
  info.weights_sha256.clear();
  EXPECT_EQ(losses_remedy(info), "import it again with a tensor named loss, or write loss/per_token_loss");
  info.attention_kernel = "recorded: torch scaled_dot_product_attention";
  EXPECT_EQ(losses_remedy(info), "record it again, and call rec.logits(...) in the block");
}

TEST(KeepRemedy, IsForWhoMadeTheRun) {
  TraceInfo info = small_info();
  info.weights_sha256 = "0a";
  info.attention_kernel = "cpu-tiled";
  EXPECT_EQ(keep_remedy(info, Keep::query_key), "run again with 'qk' in --keep");
  EXPECT_EQ(keep_remedy(info, Keep::rows, "--keep gates,rows,qk"), "run again with --keep gates,rows,qk");
  EXPECT_EQ(origin_of(info), RunOrigin::program);
  info.attention_kernel = "recorded: rec.attention";
  EXPECT_EQ(origin_of(info), RunOrigin::recorded);
  EXPECT_EQ(keep_remedy(info, Keep::query_key, "--keep qk"), "record it again with 'qk' in keep=");
  EXPECT_EQ(keep_remedy(info, Keep::hidden),
            "a recorded run has no model here, and foxscope.record keeps no hidden states");
  for (const KeepWord& word : kKeepWords) {
    EXPECT_EQ(keep_remedy(info, word.keep).find("run again"), std::string::npos) << word.word;
  }
}

/// A run that read these tokens, the first of them BOS or not.
std::shared_ptr<const Trace> run_that_read(const std::vector<std::int32_t>& ids, const char* first,
                                           const char* kernel) {
  TraceInfo info = small_info();
  info.length = std::ssize(ids);
  info.attention_kernel = kernel;
  info.weights_sha256 = "0a";
  auto tokens = std::make_shared<TokenTable>();
  tokens->input_id = tokens->id = ids;
  tokens->first_string = first;
  return Recorder(info, {Keep::loss}, nullptr).finish(nullptr, std::move(tokens));
}

TEST(SameText, IsOfOneTokenMoreAtTheBeginning) {
  const auto fox = run_that_read({0, 7, 8, 9}, "", "cuda");
  const auto without = run_that_read({7, 8, 9, 4}, "The", "recorded: rec.attention");
  const auto longer = run_that_read({0, 7, 8, 9, 4}, "", "recorded: rec.attention");
  const NamedTrace a{*fox, "fox"};
  const NamedTrace b{*without, "mine"};
  const NamedTrace c{*longer, "long"};
  EXPECT_EQ(one_token_more(a, b), "fox begins with BOS (token 0), which mine does not read");
  EXPECT_EQ(one_token_more(b, a), one_token_more(a, b));
  EXPECT_EQ(one_token_more({*run_that_read({5, 7, 8}, "a", "cuda"), "one"}, b),
            "one begins with token 5, which mine does not read");
  EXPECT_EQ(one_token_more(a, c), "");
  EXPECT_EQ(
      one_token_more({*run_that_read({7, 7, 7}, "", "cuda"), "x"}, {*run_that_read({7, 7, 7, 7}, "", "cuda"), "y"}),
      "");
  EXPECT_EQ(same_text_remedy(a, a), "run both on one text");
  EXPECT_EQ(same_text_remedy(a, a, "run both to one --length"), "run both to one --length");
  EXPECT_EQ(same_text_remedy(b, c), "record both with the same input_ids");
  for (const auto& said : {same_text_remedy(a, b), same_text_remedy(b, a, "run both to one --length")}) {
    EXPECT_NE(said.find("record mine again on the tokens that fox read"), std::string::npos) << said;
  }
}

TEST(DecayTime, IsInfiniteWhereNothingIsForgotten) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(decay_time(-0.25), 4.0);
  EXPECT_EQ(decay_time(0.0), kInfinity);
  EXPECT_EQ(decay_time(-0.0), kInfinity);
  EXPECT_EQ(decay_time(-kInfinity), 0.0);
  EXPECT_TRUE(std::isnan(decay_time(std::numeric_limits<double>::quiet_NaN())));
  const double c[] = {-1.0, -2.5, -8.0, -8.0};
  EXPECT_EQ(mean_log_gate(c), -7.0 / 3);  // f_0 is in no F
  EXPECT_TRUE(std::isnan(mean_log_gate(std::span(c, 1))));
}

TEST(KeyHead, IsSharedByNeighbouringHeads) {
  TraceInfo info;
  info.heads = 6;
  info.key_heads = 2;
  for (int head = 0; head < 6; ++head) EXPECT_EQ(key_head_of(info, 0, head), head / 3);
  info.key_heads = 6;
  EXPECT_EQ(key_head_of(info, 0, 5), 5);
  info.key_heads = 0;  // not known
  EXPECT_EQ(key_head_of(info, 0, 5), 0);
}

/// A trace of two layers whose c is 0 in the first and falls in the second head of the second.
std::shared_ptr<const Trace> trace_that_says(const std::vector<bool>& said, const KeepSet& keep) {
  TraceInfo info;
  info.layers = info.heads = info.key_heads = 2;
  info.head_dim = 1;
  info.length = 4;
  info.forgetting = said;
  Recorder recorder(info, keep, nullptr);
  for (int layer = 0; layer < 2; ++layer) {
    for (double& c : recorder.cumulative_log_gate(layer)) c = 0;
  }
  if (keep.contains(Keep::gates)) recorder.cumulative_log_gate(1).back() = -1e-9;
  return recorder.finish(nullptr, nullptr);
}

TEST(Forgets, IsWhatTheGatesSayWhateverWasSaidBefore) {
  for (const std::vector<bool>& said : {std::vector<bool>{}, {false, false}, {true, true}, {true, false}}) {
    const auto trace = trace_that_says(said, {Keep::gates});
    const TraceInfo& info = trace->info();
    EXPECT_FALSE(forgets(info, 0));
    EXPECT_TRUE(forgets(info, 1));
    EXPECT_TRUE(forgets(info));
  }
}

TEST(Forgets, IsWhatWasSaidWhereGatesWereNotKept) {
  const auto trace = trace_that_says({true, false}, {Keep::loss});
  const TraceInfo& info = trace->info();
  EXPECT_TRUE(forgets(info, 0));
  EXPECT_FALSE(forgets(info, 1));
  EXPECT_FALSE(forgets(trace_that_says({}, {Keep::loss})->info()));
}

TEST(Forgets, ALinearMixerWithoutADecayNeverDoes) {
  TraceInfo info;
  info.set_mixers({{Mixer::delta_rule, Decay::none, 2, 2, 2, 2, 4, 4}, {Mixer::mamba2, Decay::head, 2, 1, 1, 2, 4, 4}});
  EXPECT_FALSE(forgets(info, 0));
  EXPECT_TRUE(forgets(info, 1));
  info.forgetting = {true, false};
  EXPECT_FALSE(forgets(info));
}

TEST(Trace, GivesTheRowsOfAHead) {
  const auto trace = record({Keep::loss, Keep::gates, Keep::rows, Keep::query_key});
  EXPECT_EQ(trace->cumulative_log_gate(1, 2)[4], -114.0);
  EXPECT_EQ(trace->cumulative_log_gate(0, 1).size(), 5U);
  EXPECT_EQ(trace->log_normalizer(1, 0)[3], 13.0F);
  EXPECT_EQ(trace->per_token_loss()[4], 4.0F);
  EXPECT_EQ(trace->require_query_key().shape().length, 5);
}

TEST(Trace, GivesWhatAHeadOfALinearMixerReads) {
  TraceInfo info = small_info();
  info.set_mixers({{Mixer::gated_linear_attention, Decay::channel, 4, 4, 2, 2, 3, 3},
                   {Mixer::delta_rule, Decay::none, 2, 2, 2, 2, 4, 4}});
  Recorder recorder(info, {Keep::gates, Keep::query_key}, nullptr);
  std::iota(recorder.cumulative_log_decay(0).begin(), recorder.cumulative_log_decay(0).end(), 0.0);
  std::iota(recorder.beta(1).begin(), recorder.beta(1).end(), 0.0F);
  EXPECT_TRUE(recorder.cumulative_log_gate(0).empty() && recorder.beta(0).empty());
  EXPECT_TRUE(recorder.cumulative_log_gate(1).empty() && recorder.cumulative_log_decay(1).empty());
  const auto trace = recorder.finish(nullptr, std::make_shared<const TokenTable>());
  EXPECT_EQ(trace->cumulative_log_decay(0, 1).values.front(), 0.0);
  EXPECT_EQ(trace->cumulative_log_decay(0, 2).values.front(), 15.0);
  EXPECT_EQ(trace->cumulative_log_decay(0, 3).values.size(), 15U);
  EXPECT_EQ(trace->cumulative_log_decay(0, 2, 1)[1], 19.0);
  EXPECT_EQ(trace->log_decay_at(0, 2, 4), (std::vector{27.0, 28.0, 29.0}));
  EXPECT_EQ(trace->beta(1, 1).front(), 5.0F);
  EXPECT_TRUE(forgets(trace->info(), 0));
  EXPECT_FALSE(forgets(trace->info(), 1));
  // Channels 0, 1 and 2 of position 0 are 15, 16 and 17.
  EXPECT_EQ(trace->cumulative_log_gate(0, 2).front(), 16.0);
  EXPECT_EQ(trace->cumulative_log_gate(1, 0).back(), 0.0);
  EXPECT_TRUE(trace->has(TraceArray::cumulative_log_decay, 0));
  EXPECT_FALSE(trace->has_attention(0));
  EXPECT_EQ(test::error_of([&] { static_cast<void>(trace->log_normalizer(1, 0)); }),
            "model 'fox', layer 1: delta rule has no log_normalizer");
  EXPECT_EQ(test::error_of([&] { trace->check_head(1, 2); }), "model 'fox' has no head 2 in layer 1: heads are 0 to 1");
}

TEST(Trace, MakesTheDecaysOfChannelsOfTheirRates) {
  TraceInfo info = small_info();
  info.set_mixers({{Mixer::mamba, Decay::rates, 3, 1, 1, 3, 2, 1}});
  Recorder recorder(info, {Keep::gates}, nullptr);
  for (std::size_t n = 0; n < recorder.cumulative_log_gate(0).size(); ++n) {
    recorder.cumulative_log_gate(0)[n] = -static_cast<double>(n % 5 + 1);
  }
  std::ranges::copy(std::vector{0.5, 1.5, 1.0, 1.0, 0.25, 1.75}, recorder.decay_rate(0).begin());
  const auto trace = recorder.finish(nullptr, std::make_shared<const TokenTable>());
  const ChannelSums sums = trace->cumulative_log_decay(0, 2);
  EXPECT_EQ(std::vector(sums.values.begin(), sums.values.end()),
            (std::vector{-0.25, -1.75, -0.5, -3.5, -0.75, -5.25, -1.0, -7.0, -1.25, -8.75}));
  EXPECT_EQ(trace->cumulative_log_decay(0, 0, 1), (std::vector{-1.5, -3.0, -4.5, -6.0, -7.5}));
  EXPECT_EQ(trace->log_decay_at(0, 0, 4), (std::vector{-2.5, -7.5}));
  EXPECT_EQ(trace->cumulative_log_gate(0, 1)[3], -4.0);
  EXPECT_THROW(static_cast<void>(trace->cumulative_log_decay(0, 3)), UsageError);
  EXPECT_EQ(test::error_of([&] { static_cast<void>(trace->beta(0, 0)); }),
            "model 'fox': the run did not keep queries and keys: run again with 'qk' in --keep");
}

TEST(PartOfAText, IsTheSameTextAsTheWholeAndNoOther) {
  const Text whole{"The fox ran.", ""};
  const Text part = part_read(whole, 5);
  EXPECT_EQ(part.content, "The f");
  EXPECT_EQ(part.unread_bytes, 7);
  EXPECT_TRUE(part.cut_word);
  EXPECT_TRUE(is_read_of(part, whole.content));
  EXPECT_TRUE(is_read_of(whole, whole.content));
  EXPECT_TRUE(is_read_of(part, part.content)) << "what a run file holds of it";
  EXPECT_FALSE(is_read_of(part, "She fox ran."));
  EXPECT_FALSE(is_read_of(part, "The fox ran"));
  EXPECT_TRUE(same_text(part, whole) && same_text(whole, part) && same_text(part, part_read(whole, 8)));
  EXPECT_FALSE(same_text(Text{"The f", ""}, whole)) << "a text of its own";
  EXPECT_FALSE(same_text(part, Text{"The fox ran on.", ""}));
  const Text less = part_read(part, 4);
  EXPECT_EQ(less.unread_bytes, 8);
  EXPECT_FALSE(less.cut_word);
  EXPECT_TRUE(part_read(part, 5).cut_word) << "still";
}

TEST(Trace, SaysWhatWasNotKeptAndHowToKeepIt) {
  const auto trace = record({Keep::loss});
  EXPECT_EQ(test::error_of([&] { static_cast<void>(trace->cumulative_log_gate(0, 0)); }),
            "model 'fox': the run did not keep gates: run again with 'gates' in --keep");
  EXPECT_EQ(test::error_of([&] { static_cast<void>(trace->log_normalizer(0, 0)); }),
            "model 'fox': the run did not keep row normalisers: run again with 'rows' in --keep");
  EXPECT_EQ(test::error_of([&] { static_cast<void>(trace->require_query_key()); }),
            "model 'fox': the run did not keep queries and keys: run again with 'qk' in --keep");
  EXPECT_EQ(test::error_of([&] { static_cast<void>(trace->log_forget_gradient(0, 0)); }),
            "model 'fox': the run did not keep saliency: run again with --keep loss,gates,saliency");
  EXPECT_TRUE(record({Keep::gates})->per_token_loss().empty());
}

TEST(Trace, GivesTheGradientsOfAHead) {
  const auto trace = record({Keep::saliency});
  const std::span<const float> gradient = trace->log_forget_gradient(1, 2);
  ASSERT_EQ(gradient.size(), 5U);
  for (std::size_t t = 0; t < 5; ++t) EXPECT_EQ(gradient[t], static_cast<float>((1 * 3 + 2) * 5 + t));
  EXPECT_THROW(static_cast<void>(trace->log_forget_gradient(2, 0)), UsageError);
}

TEST(Trace, NamesTheLayersAndHeadsThatExist) {
  const auto trace = record({Keep::gates});
  EXPECT_EQ(test::error_of([&] { trace->check_head(2, 0); }), "model 'fox' has no layer 2: layers are 0 to 1");
  EXPECT_EQ(test::error_of([&] { trace->check_head(0, -1); }), "model 'fox' has no head -1: heads are 0 to 2");
  EXPECT_THROW(trace->check_head(0, 3), UsageError);
}

TEST(Trace, KeepsTheNormalizerWithoutGateOnceItIsComputed) {
  const auto trace = record({Keep::gates});
  int calls = 0;
  const auto compute = [&calls] {
    ++calls;
    return std::vector<float>{1, 2, 3, 4, 5};
  };
  EXPECT_TRUE(trace->log_normalizer_without_gate(0, 1, [] { return std::vector<float>{}; }).empty());
  const std::span<const float> first = trace->log_normalizer_without_gate(0, 1, compute);
  EXPECT_EQ(first[4], 5.0F);
  EXPECT_EQ(trace->log_normalizer_without_gate(0, 1, compute).data(), first.data());
  EXPECT_EQ(calls, 1);
}

TEST(Trace, TakesTheNormalizerWithoutGateFromTheRunWhereItWasKept) {
  const auto trace = record({Keep::ungated});
  const auto row = trace->log_normalizer_without_gate(1, 2, [] { return std::vector<float>{}; });
  EXPECT_EQ(row[0], 10.5F);
}

TEST(Trace, ServesSeveralThreads) {
  const auto trace = record({Keep::gates, Keep::rows});
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&trace, &right] {
      for (int layer = 0; layer < 2; ++layer) {
        right += trace->cumulative_log_gate(layer, 0)[0] == -100.0 * layer ? 1 : 0;
        const auto row = trace->log_normalizer_without_gate(layer, 0, [] { return std::vector<float>(5, 7.0F); });
        right += row[4] == 7.0F ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 16);
}

TEST(Keep, ParsesListsAndNamesTheWordsThatExist) {
  EXPECT_EQ(parse_keep("loss,qk,hidden"), (KeepSet{Keep::loss, Keep::query_key, Keep::hidden}));
  for (const char* list : {"", "loss,", "los", "loss,,qk"}) {
    const std::string message = test::error_of([&] { parse_keep(list); });
    EXPECT_NE(message.find("choose from loss, gates, rows, ungated, qk, values, logits, hidden, predictions, saliency"),
              std::string::npos)
        << message;
    EXPECT_THROW(parse_keep(list), UsageError);
  }
}

}  // namespace
}  // namespace foxscope
