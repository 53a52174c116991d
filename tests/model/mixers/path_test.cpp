// PaTH attention and PaTH-FoX: every option by the steps of the CPU and by those of LibTorch, which share no code, the
// continuation, and the maps, lines and statistics of a trace against rows in float64.
#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/map/distance_axis.h"
#include "backend/map/map_line.h"
#include "backend/map/pair_reading.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/map/statistics/logit_profile.h"
#include "backend/model/session/torch_model.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;
using test::largest_difference;
using test::Parts;

constexpr double kPathShare = 2e-4;

json tiny_path(const json& keys = json::object()) {
  json config = {{"model_type", "path_attn"}, {"vocab_size", 23}, {"hidden_size", 24},       {"num_hidden_layers", 2},
                 {"intermediate_size", 12},   {"num_heads", 3},   {"use_forget_gate", true}, {"num_kv_heads", nullptr}};
  config.update(keys);
  return config;
}

test::Batch path_batch(std::int32_t length, const KeepSet& keep) {
  test::Batch batch;
  batch.keep = keep;
  for (std::int32_t n = 0; n < length; ++n) batch.input_ids.push_back((n * 7 + n / 5) % 23);
  batch.labels = batch.input_ids;
  return batch;
}

double largest_of(std::span<const float> values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

TEST(PathOptions, TwoWaysToComputeAgreeAndGoOn) {
  const json options[] = {
      {{"use_low_rank_w", true}},
      {{"use_low_rank_w", false}, {"use_w_shortconv", false}, {"use_forget_gate", false}},
      {{"num_heads", 4}, {"num_kv_heads", 2}, {"use_low_rank_w", false}},
      {{"num_heads", 4}, {"num_kv_heads", 1}, {"use_w_shortconv", false}},
      {{"hidden_size", 34}, {"num_heads", 2}, {"tie_word_embeddings", true}, {"use_forget_gate", false}},
  };
  for (const json& keys : options) {
    SCOPED_TRACE(keys.dump());
    const test::TemporaryFolder folder;
    const json config = tiny_path(keys);
    test::write_checkpoint(folder, config, test::random_weights(config));
    const Checkpoint checkpoint = Checkpoint::open(folder.text());
    const auto fast = CausalLM::load(checkpoint, Device{}, DType::float32);
    const auto twin = load_torch_model(checkpoint, Device{}, DType::float32);
    // Blocks of 64 keys, the last of them not whole.
    const test::Batch batch = path_batch(170, {Keep::logits, Keep::rows, Keep::ungated, Keep::query_key, Keep::gates});
    const auto trace = test::run_batch(*fast, batch).traces.front();
    const auto other = test::run_batch(*twin, batch).traces.front();
    const std::vector<float> logits = trace->source().logits();
    const double bound = kPathShare * largest_of(logits);
    EXPECT_LE(largest_difference(logits, other->source().logits()), bound);
    for (const TraceArray array : {TraceArray::log_normalizer, TraceArray::log_normalizer_without_gate,
                                   TraceArray::erase_read, TraceArray::erase_write}) {
      const std::vector<float> found = trace->source().copy<float>(array, 1);
      EXPECT_LE(largest_difference(found, other->source().copy<float>(array, 1)), kPathShare * largest_of(found))
          << spec_of(array).path;
    }
    for (const std::size_t prompt : {1, 2, 129}) {
      test::check_continued(*fast, batch.input_ids, logits, prompt, bound);
      test::check_continued(*twin, batch.input_ids, logits, prompt, bound);
    }
  }
}

TEST(PathOptions, GatesAreChangedAsSoftmaxSeesThem) {
  const test::TemporaryFolder folder;
  for (const bool gated : {true, false}) {
    const json config = tiny_path({{"use_forget_gate", gated}});
    test::write_checkpoint(folder, config, test::random_weights(config));
    const Checkpoint checkpoint = Checkpoint::open(folder.text());
    test::Batch batch = path_batch(90, {Keep::logits, Keep::gates});
    const auto whole = test::run_batch(*CausalLM::load(checkpoint, Device{}, DType::float32), batch);
    for (const char* change : {"1:*:constant=0.5", "0:1:cut", "*:*:scale=2"}) {
      batch.interventions = {Intervention::parse(change)};
      const auto found = test::run_batch(*CausalLM::load(checkpoint, Device{}, DType::float32), batch).traces.front();
      const auto twin = test::run_batch(*load_torch_model(checkpoint, Device{}, DType::float32), batch).traces.front();
      const auto logits = found->source().logits();
      EXPECT_LE(largest_difference(logits, twin->source().logits()), kPathShare * largest_of(logits)) << change;
      if (std::string(change) != "1:*:constant=0.5") continue;
      EXPECT_GT(largest_difference(logits, whole.traces.front()->source().logits()), 1e-4) << change;
      const auto c = found->cumulative_log_gate(1, 2);
      EXPECT_NEAR(c[9] - c[8], std::log(0.5), 1e-12);
    }
  }
}

/// The loss by a factor of log f is the sum over positions of its gradient by log f times log f.
TEST(PathOptions, SaliencyIsTheSlopeOfTheLoss) {
  const test::TemporaryFolder folder;
  const json config = tiny_path();
  test::write_checkpoint(folder, config, test::random_weights(config));
  const Checkpoint checkpoint = Checkpoint::open(folder.text());
  const auto loss_of = [&](const std::vector<Intervention>& changes, const KeepSet& keep) {
    test::Batch batch = path_batch(140, keep);
    batch.interventions = changes;
    return test::run_batch(*CausalLM::load(checkpoint, Device{}, DType::float32), batch).traces.front();
  };
  const auto trace = loss_of({}, {Keep::loss, Keep::gates, Keep::query_key, Keep::saliency});
  EXPECT_EQ(trace->erase_read(1, 0).size(), 140U * 8U);
  const auto c = trace->cumulative_log_gate(1, 2);
  const auto gradient = trace->log_forget_gradient(1, 2);
  double slope = 0;
  for (std::size_t n = 1; n < c.size(); ++n) slope += static_cast<double>(gradient[n]) * (c[n] - c[n - 1]);
  const auto mean = [&](const char* change) {
    double sum = 0;
    const auto changed = loss_of({Intervention::parse(change)}, {Keep::loss});
    for (const float loss : changed->per_token_loss()) {
      sum += static_cast<double>(loss) / 140;
    }
    return sum;
  };
  EXPECT_NEAR(slope, (mean("1:2:scale=1.05") - mean("1:2:scale=0.95")) / 0.1, 2e-2 * std::abs(slope) + 2e-5);
}

TEST(PathConfig, RefusesWhatDoesNotFit) {
  const auto refusal = [](const json& keys) {
    return test::error_of([&] { ModelConfig::from_json(tiny_path(keys).dump(), "dir/config.json"); });
  };
  EXPECT_PRED2(test::says, refusal({{"num_heads", 5}}), (Parts{"dir/config.json", "num_heads is 5", "hidden_size"}));
  EXPECT_PRED2(test::says, refusal({{"num_kv_heads", 2}}), (Parts{"num_kv_heads is 2", "divides num_heads 3"}));
  EXPECT_PRED2(test::says, refusal({{"use_qk_norm", true}}), (Parts{"use_qk_norm is true"}));
  EXPECT_PRED2(test::says, refusal({{"attnres_block_size", 2}}), (Parts{"attnres_block_size is 2"}));
  EXPECT_PRED2(test::says, refusal({{"hidden_act", "gelu"}}), (Parts{"hidden_act is \"gelu\""}));
  EXPECT_PRED2(test::says, refusal({{"elementwise_affine", false}}), (Parts{"elementwise_affine is false"}));
  EXPECT_PRED2(test::says, refusal({{"use_low_rank_w", 32}}), (Parts{"use_low_rank_w is 32"}));
  EXPECT_PRED2(test::says, refusal({{"use_w_shortconv", "yes"}}), (Parts{"use_w_shortconv is \"yes\""}));
  EXPECT_PRED2(test::says, refusal({{"conv_size", 4}}), (Parts{"conv_size", "does not know"}));
  EXPECT_PRED2(test::says, refusal({{"window_size", 64}}), (Parts{"window_size", "does not know"}));
  EXPECT_PRED2(test::says, refusal({{"rope_theta", 1e4}}), (Parts{"rope_theta"}));
}

TEST(PathConfig, RefusesTensorsThatDoNotFit) {
  const json config = tiny_path();
  const auto refusal = [&](const char* name, const std::vector<std::int64_t>& shape) {
    const test::TemporaryFolder folder;
    std::vector<test::NamedTensor> weights = test::random_weights(config);
    const auto found = std::ranges::find(weights, std::string("model.layers.1.attn.") + name, &test::NamedTensor::name);
    if (shape.empty()) {
      weights.erase(found);
    } else {
      found->shape = shape;
      std::int64_t count = 1;
      for (const std::int64_t size : shape) count *= size;
      found->values.resize(index_of(count));
    }
    test::write_checkpoint(folder, config, weights);
    return test::error_of([&] { Checkpoint::open(folder.text()); });
  };
  EXPECT_PRED2(test::says, refusal("w_proj.1.weight", {24, 31}), (Parts{"model.layers.1.attn.w_proj.1.weight", "32"}));
  EXPECT_PRED2(test::says, refusal("w_conv1d.weight", {24, 1, 4}), (Parts{"model.layers.1.attn.w_conv1d.weight"}));
  EXPECT_PRED2(test::says, refusal("bt_proj.bias", {2}), (Parts{"model.layers.1.attn.bt_proj.bias"}));
  EXPECT_PRED2(test::says, refusal("g_proj.weight", {}), (Parts{"model.layers.1.attn.g_proj.weight"}));
}

/// Logits S_ij of a head by the recurrence of its trace, [L][L], 0 above the diagonal.
std::vector<std::vector<double>> logits_of(const Trace& trace, int layer, int head) {
  const TraceInfo& info = trace.info();
  const LayerMixer mixer = info.mixer(layer);
  const auto dim = static_cast<std::size_t>(mixer.head_dim);
  const auto length = static_cast<std::size_t>(info.length);
  std::vector<float> query_scratch, key_scratch;
  const auto q = trace.query_key()->rows(TraceArray::query, layer, head, 0, info.length, query_scratch);
  const auto k = trace.query_key()->rows(TraceArray::key, layer, shared_head(mixer.heads, mixer.key_heads, head), 0,
                                         info.length, key_scratch);
  const auto e = trace.erase_read(layer, head);
  const auto b = trace.erase_write(layer, head);
  std::vector<std::vector<double>> logits(length, std::vector<double>(length));
  for (std::size_t i = 0; i < length; ++i) {
    std::vector<double> r(q.begin() + static_cast<std::ptrdiff_t>(i * dim),
                          q.begin() + static_cast<std::ptrdiff_t>((i + 1) * dim));
    for (std::size_t j = i + 1; j-- > 0;) {
      double product = 0;
      double erased = 0;
      for (std::size_t n = 0; n < dim; ++n) {
        product += r[n] * static_cast<double>(k[j * dim + n]);
        erased += r[n] * static_cast<double>(b[j * dim + n]);
      }
      logits[i][j] = product / std::sqrt(static_cast<double>(dim));
      for (std::size_t n = 0; n < dim; ++n) r[n] += erased * static_cast<double>(e[j * dim + n]);
    }
  }
  return logits;
}

class PathMaps : public testing::Test {
 protected:
  static constexpr int kLayer = 1;
  static constexpr int kHead = 3;

  PathMaps() {
    const json config = tiny_path({{"hidden_size", 40}, {"num_heads", 4}, {"num_kv_heads", 2}});
    test::write_checkpoint(folder_, config, test::random_weights(config));
    const auto model = CausalLM::load(Checkpoint::open(folder_.text()), Device{}, DType::float32);
    const test::Batch batch = path_batch(300, {Keep::loss, Keep::gates, Keep::rows, Keep::query_key});
    trace_ = test::run_batch(*model, batch).traces.front();
    const auto length = index_of(trace_->info().length);
    logits_ = logits_of(*trace_, kLayer, kHead);
    attention_.assign(length, std::vector<double>(length));
    const auto c = trace_->cumulative_log_gate(kLayer, kHead);
    for (std::size_t i = 0; i < length; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j <= i; ++j) sum += attention_[i][j] = std::exp(logits_[i][j] + c[i] - c[j]);
      for (std::size_t j = 0; j <= i; ++j) attention_[i][j] /= sum;
    }
  }

  [[nodiscard]] MapRequest request(Quantity quantity, std::int64_t pixels) const {
    const Range all{0, trace_->info().length};
    MapRequest request;
    request.head.trace = trace_;
    request.head.layer = kLayer;
    request.head.head = kHead;
    request.quantity = quantity;
    request.rows = request.columns = all;
    request.pixel_rows = request.pixel_columns = pixels;
    return request;
  }
  [[nodiscard]] HeadOf head() const { return request(Quantity::attention, 1).head; }

  test::TemporaryFolder folder_;
  std::shared_ptr<const Trace> trace_;
  std::vector<std::vector<double>> logits_, attention_;
};

TEST_F(PathMaps, EntriesArePassedOnFromKeyToKey) {
  const std::int64_t length = trace_->info().length;
  for (const Quantity quantity : {Quantity::attention, Quantity::logits}) {
    const auto& wanted = quantity == Quantity::logits ? logits_ : attention_;
    const Image image = compute_map(request(quantity, length), {}).value();
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        ASSERT_NEAR(static_cast<double>(image.value[index_of(i * length + j)]), wanted[index_of(i)][index_of(j)], 2e-5)
            << to_string(quantity) << " " << i << " " << j;
      }
    }
    // Parts of it, which begin and end within blocks of keys.
    MapRequest part = request(quantity, length);
    part.rows = {70, 231};
    part.columns = {30, 150};
    part.pixel_rows = part.rows.size();
    part.pixel_columns = part.columns.size();
    const Image cut = compute_map(part, {}).value();
    for (std::int64_t i = 0; i < cut.rows; ++i) {
      for (std::int64_t j = 0; j < cut.columns && 30 + j <= 70 + i; ++j) {
        ASSERT_NEAR(static_cast<double>(cut.value[index_of(i * cut.columns + j)]),
                    wanted[index_of(70 + i)][index_of(30 + j)], 2e-5)
            << i << " " << j;
      }
    }
  }
  for (const auto& [query, key] : {std::pair(0, 0), std::pair(150, 3), std::pair(299, 298), std::pair(299, 0)}) {
    const PairReading reading = pair_reading(head(), query, key);
    EXPECT_NEAR(reading.logit, logits_[index_of(query)][index_of(key)], 1e-6);
    EXPECT_NEAR(reading.attention, attention_[index_of(query)][index_of(key)], 1e-5);
  }
}

TEST_F(PathMaps, PicturesHoldTheExtremesOfTheirBins) {
  const std::int64_t length = trace_->info().length;
  MapRequest pooled = request(Quantity::attention, 20);
  const Image keys = compute_map(pooled, {}).value();
  pooled.set_distances({1, 2, 3, 5, 9, 40, 120, length + 1});
  const Image distances = compute_map(pooled, {}).value();
  for (std::int64_t row = 0; row < 20; ++row) {
    for (std::int64_t column = 0; column <= row; ++column) {
      double largest = 0;
      for (std::int64_t i = row * 15; i < (row + 1) * 15; ++i) {
        for (std::int64_t j = column * 15; j < std::min(i + 1, (column + 1) * 15); ++j) {
          largest = std::max(largest, attention_[index_of(i)][index_of(j)]);
        }
      }
      EXPECT_NEAR(static_cast<double>(keys.value[index_of(row * 20 + column)]), largest, 2e-5);
    }
    for (std::size_t bin = 0; bin + 1 < pooled.distances.size(); ++bin) {
      double largest = -1;
      for (std::int64_t i = row * 15; i < (row + 1) * 15; ++i) {
        for (std::int64_t d = pooled.distances[bin]; d < std::min(i + 2, pooled.distances[bin + 1]); ++d) {
          largest = std::max(largest, attention_[index_of(i)][index_of(i + 1 - d)]);
        }
      }
      if (largest < 0) continue;
      EXPECT_NEAR(static_cast<double>(distances.value[index_of(row) * (pooled.distances.size() - 1) + bin]), largest,
                  2e-5);
    }
  }
}

TEST_F(PathMaps, ContentAloneAndLinesAreThose) {
  const std::int64_t length = trace_->info().length;
  const Image content = compute_map(request(Quantity::attention_without_gate, length), {}).value();
  LineRequest line;
  line.head = head();
  line.line = {MapLine::Along::diagonal, 70};
  line.positions = line.line.positions(length);
  const std::vector<float> diagonal = line_entries(line, {}).value();
  EXPECT_TRUE(needs_all_rows(head(), Quantity::attention));
  for (std::int64_t i = 0; i < length; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j <= i; ++j) sum += std::exp(logits_[index_of(i)][index_of(j)]);
    for (std::int64_t j = 0; j <= i; ++j) {
      ASSERT_NEAR(static_cast<double>(content.value[index_of(i * length + j)]),
                  std::exp(logits_[index_of(i)][index_of(j)]) / sum, 2e-5);
    }
    if (i < 70) continue;
    EXPECT_NEAR(static_cast<double>(diagonal[index_of(i - 70)]), attention_[index_of(i)][index_of(i - 70)], 2e-5);
  }
}

TEST_F(PathMaps, MeansOfLogitsAreThoseOfAllPairs) {
  const std::vector<LogitMeans> means = logit_profile(head(), {}).value();
  for (const LogitMeans& mean : means) {
    double sum = 0;
    double pairs = 0;
    for (std::int64_t i = 0; i < trace_->info().length; ++i) {
      for (std::int64_t j = 1; j <= i; ++j) {
        if (i - j < mean.distance.from || i - j >= mean.distance.to) continue;
        sum += logits_[index_of(i)][index_of(j)];
        ++pairs;
      }
    }
    if (pairs == 0) continue;
    EXPECT_NEAR(mean.content, sum / pairs, 1e-5) << mean.distance.from;
  }
}

}  // namespace
}  // namespace foxscope
