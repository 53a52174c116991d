#include "backend/trace/trace_arrays.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "backend/trace/mixers/layer_mixer.h"
#include "backend/trace/shown_heads.h"

namespace foxscope {
namespace {

constexpr TraceSizes kSizes = {
    .layers = 3, .heads = 4, .key_heads = 2, .length = 5, .head_dim = 8, .vocabulary_size = 11, .hidden_size = 7};

TEST(TraceArrays, HaveEachAPathOfItsOwn) {
  std::set<std::string> paths;
  for (const ArraySpec& spec : kTraceArrays) {
    for (int index = 0; index < count_of(spec, 12); ++index) {
      const std::string path = path_of(spec, index);
      EXPECT_TRUE(paths.insert(path).second) << path;
      EXPECT_EQ(path.find("NN"), std::string::npos) << path;
    }
  }
  EXPECT_TRUE(paths.contains("layers/07/key"));
  EXPECT_TRUE(paths.contains("hidden_states/12"));
  EXPECT_EQ(path_of(spec_of(TraceArray::value), 123), "layers/123/value");
}

TEST(TraceArrays, TakeTheBytesOfTheirShapes) {
  const auto bytes = [](const char* words, Storage storage, DType dtype) {
    return bytes_of(parse_keep(words), storage, kSizes, dtype);
  };
  EXPECT_EQ(bytes("loss", Storage::packed, DType::bfloat16), 5U * 4);
  EXPECT_EQ(bytes("gates", Storage::packed, DType::bfloat16), 3U * 4 * 5 * 8);
  EXPECT_EQ(bytes("rows,ungated", Storage::packed, DType::bfloat16), 2U * 3 * 4 * 5 * 4);
  EXPECT_EQ(bytes("qk", Storage::store, DType::bfloat16), 3U * (4 + 2) * 5 * 8 * 2);
  EXPECT_EQ(bytes("values", Storage::store, DType::float32), 3U * 2 * 5 * 8 * 4);
  EXPECT_EQ(bytes("saliency", Storage::raw, DType::bfloat16), 3U * 4 * 5 * 4);
  EXPECT_EQ(bytes("logits,hidden", Storage::raw, DType::bfloat16), 5U * 11 * 4 + 4U * 5 * 7 * 4);
  EXPECT_EQ(bytes("predictions", Storage::raw, DType::float32), 5U * 7 * 2);
  EXPECT_EQ(bytes("loss,gates,rows", Storage::store, DType::float32), 0U);
}

TEST(TraceArrays, OfAStoreAreThoseThatAreKept) {
  EXPECT_TRUE(stored_arrays({Keep::loss, Keep::saliency}).empty());
  EXPECT_EQ(stored_arrays({Keep::query_key}), (std::vector{TraceArray::query, TraceArray::key}));
  EXPECT_EQ(stored_arrays({Keep::values, Keep::query_key}),
            (std::vector{TraceArray::query, TraceArray::key, TraceArray::value}));
}

TEST(TraceArrays, OfLayersOfSeveralKindsTakeTheBytesOfEach) {
  TraceSizes sizes{.length = 5};
  sizes.set_mixers({{Mixer::mamba2, Decay::head, 4, 1, 1, 4, 8, 6},
                    {Mixer::gated_linear_attention, Decay::channel, 6, 6, 2, 2, 3, 7},
                    {Mixer::attention, Decay::none, 2, 2, 2, 2, 4, 4},
                    {Mixer::delta_rule, Decay::none, 3, 3, 3, 3, 2, 2},
                    {Mixer::mamba, Decay::rates, 10, 1, 1, 10, 4, 1}});
  EXPECT_EQ(sizes.layers, 5);
  EXPECT_EQ(sizes.heads, 10);
  EXPECT_EQ(sizes.head_dim, 8);
  const auto bytes = [&](TraceArray array) { return bytes_of(spec_of(array), sizes, DType::float32); };
  EXPECT_EQ(bytes(TraceArray::query), 4U * 5 * (1 * 8 + 6 * 3 + 2 * 4 + 3 * 2 + 1 * 4));
  EXPECT_EQ(bytes(TraceArray::value), 4U * 5 * (4 * 6 + 2 * 7 + 2 * 4 + 3 * 2 + 10 * 1));
  EXPECT_EQ(bytes(TraceArray::cumulative_log_gate), 8U * 5 * (4 + 2 + 10));
  EXPECT_EQ(bytes(TraceArray::cumulative_log_decay), 8U * 5 * 2 * 3);
  EXPECT_EQ(bytes(TraceArray::decay_rate), 8U * 10 * 4);
  EXPECT_EQ(bytes(TraceArray::beta), 4U * 5 * (4 + 3 + 10));
  EXPECT_EQ(bytes(TraceArray::log_normalizer), 4U * 5 * 2);
  EXPECT_TRUE(with_values_of_linear_mixers({Keep::query_key}, sizes).contains(Keep::values));
  EXPECT_FALSE(with_values_of_linear_mixers({Keep::gates}, sizes).contains(Keep::values));
  EXPECT_FALSE(with_values_of_linear_mixers({Keep::query_key}, kSizes).contains(Keep::values));
}

TEST(TraceArrays, WordsOfMixersAreTheirNames) {
  for (const MixerKind& kind : kMixerKinds) EXPECT_EQ(parse_mixer(to_string(kind.mixer)), kind.mixer);
  for (const Decay decay : {Decay::none, Decay::head, Decay::channel, Decay::rates}) {
    EXPECT_EQ(parse_decay(to_string(decay)), decay);
  }
  EXPECT_FALSE(parse_mixer("rwkv"));
  EXPECT_FALSE(parse_decay(""));
}

/// A kind may have a decay where there are words for it, and then has the arrays by which its M is made.
TEST(TraceArrays, OfAMixerAreThoseThatMakeItsRows) {
  const auto has = [](const LayerMixer& mixer) {
    std::set<TraceArray> found;
    for (const TraceArray array :
         {TraceArray::cumulative_log_gate, TraceArray::cumulative_log_decay, TraceArray::decay_rate, TraceArray::beta,
          TraceArray::erase_read, TraceArray::erase_write, TraceArray::log_normalizer,
          TraceArray::log_normalizer_without_gate}) {
      if (belongs_to(spec_of(array), mixer)) found.insert(array);
    }
    return found;
  };
  using Arrays = std::set<TraceArray>;
  struct Row {
    Mixer mixer;
    Decay decay;
    const char* words;
    Arrays arrays;
  };
  const Arrays rows = {TraceArray::cumulative_log_gate, TraceArray::log_normalizer,
                       TraceArray::log_normalizer_without_gate};
  const std::vector<Row> allowed = {
      {Mixer::attention, Decay::none, "attention", rows},
      {Mixer::attention, Decay::head, "attention", rows},
      {Mixer::mamba2, Decay::head, "Mamba-2", {TraceArray::cumulative_log_gate, TraceArray::beta}},
      {Mixer::gated_linear_attention, Decay::none, "linear attention", {}},
      {Mixer::gated_linear_attention, Decay::head, "linear attention with decay", {TraceArray::cumulative_log_gate}},
      {Mixer::gated_linear_attention, Decay::channel, "gated linear attention", {TraceArray::cumulative_log_decay}},
      {Mixer::delta_rule, Decay::none, "delta rule", {TraceArray::beta}},
      {Mixer::delta_rule, Decay::head, "gated delta rule", {TraceArray::cumulative_log_gate, TraceArray::beta}},
      {Mixer::delta_rule,
       Decay::channel,
       "delta rule gated by channel",
       {TraceArray::cumulative_log_decay, TraceArray::beta}},
      {Mixer::mamba,
       Decay::rates,
       "Mamba",
       {TraceArray::cumulative_log_gate, TraceArray::decay_rate, TraceArray::beta}},
      {Mixer::mamba, Decay::head, "RG-LRU", {TraceArray::cumulative_log_gate, TraceArray::beta}},
      {Mixer::diagonal_plus_low_rank,
       Decay::head,
       "decay plus low rank",
       {TraceArray::cumulative_log_gate, TraceArray::erase_read, TraceArray::erase_write}},
      {Mixer::diagonal_plus_low_rank,
       Decay::channel,
       "diagonal plus low rank",
       {TraceArray::cumulative_log_decay, TraceArray::erase_read, TraceArray::erase_write}},
      {Mixer::delta_product, Decay::none, "delta product", {TraceArray::beta}},
      {Mixer::delta_product, Decay::head, "gated delta product", {TraceArray::cumulative_log_gate, TraceArray::beta}}};
  for (const MixerKind& kind : kMixerKinds) {
    if (!kind.mixes) continue;
    for (const Decay decay : {Decay::none, Decay::head, Decay::channel, Decay::rates}) {
      // Steps share no keys.
      const LayerMixer mixer{kind.mixer, decay, 4, 2, kind.erases == Erasing::several ? 4 : 2, 4, 3, 5};
      SCOPED_TRACE(std::string(kind.name) + " " + to_string(decay));
      const auto row =
          std::ranges::find_if(allowed, [&](const Row& one) { return one.mixer == kind.mixer && one.decay == decay; });
      EXPECT_EQ(mixer_problem(mixer).empty(), row != allowed.end());
      if (row == allowed.end()) {
        EXPECT_EQ(mixer_problem(mixer), std::string(kind.name) + " cannot have a decay by " + to_string(decay));
        continue;
      }
      EXPECT_STREQ(mixer_words(mixer), row->words);
      EXPECT_EQ(has(mixer), row->arrays);
    }
  }
}

TEST(TraceArrays, StepsOfAPositionShareNoKeysAndNoValues) {
  const LayerMixer mixer{Mixer::delta_product, Decay::head, 6, 2, 6, 6, 4, 4};
  EXPECT_EQ(mixer_problem(mixer), "");
  EXPECT_EQ(mixer.steps(), 3);
  EXPECT_EQ((LayerMixer{Mixer::delta_rule, Decay::head, 6, 2, 6, 6, 4, 4}.steps()), 1);
  LayerMixer shares = mixer;
  shares.key_heads = 2;
  EXPECT_EQ(mixer_problem(shares), "6 heads that are steps cannot share keys or values");
}

TEST(TraceArrays, ALayerWithoutAMixerHasNone) {
  LayerMixer mixer{.mixer = Mixer::none, .decay = Decay::none};
  EXPECT_EQ(mixer_problem(mixer), "");
  EXPECT_STREQ(mixer_words(mixer), "MLP");
  for (const ArraySpec& spec : kTraceArrays) {
    EXPECT_EQ(belongs_to(spec, mixer), spec.repeat != Repeat::layers) << spec.path;
  }
  mixer.heads = 2;
  EXPECT_EQ(mixer_problem(mixer), "a layer without a mixer has heads");
}

TEST(ShownHeads, AreAllButOfMamba) {
  const LayerMixer attention{Mixer::attention, Decay::head, 128, 128, 128, 128, 8, 8};
  EXPECT_EQ(shown_step(attention), 1);
  EXPECT_EQ(shown_heads(attention), 128);
  LayerMixer mamba{Mixer::mamba, Decay::rates, 3072, 1, 1, 3072, 16, 1};
  EXPECT_EQ(shown_step(mamba), 48);
  EXPECT_EQ(shown_heads(mamba), 64);
  mamba.heads = 64;
  EXPECT_EQ(shown_step(mamba), 1);
  mamba.heads = 65;
  EXPECT_EQ(shown_step(mamba), 2);
  EXPECT_EQ(shown_heads(mamba), 33);
}

TEST(TraceArrays, EveryWordOfKeepKeepsSomething) {
  for (const KeepWord& word : kKeepWords) {
    EXPECT_TRUE(std::ranges::any_of(kTraceArrays, [&](const ArraySpec& spec) { return spec.keep == word.keep; }))
        << word.word;
    EXPECT_EQ(parse_keep(word.word), KeepSet{word.keep});
  }
}

}  // namespace
}  // namespace foxscope
