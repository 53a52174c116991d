// Reading on in bfloat16 on a GPU, where the launches of a token are recorded once. Skipped by name where there is
// none.
#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/model/session/decode_state.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/weights/checkpoint.h"
#include "tests/model/small_models.h"

namespace foxscope {
namespace {

using nlohmann::json;
using test::root_mean_square_difference;
using Ids = std::vector<std::int32_t>;
using Rows = std::vector<std::vector<float>>;

class CudaDecodeState : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }

  static Ids tokens(int count) {
    Ids ids;
    for (int p = 0; p < count; ++p) ids.push_back((p * p + p / 7) % 11);
    return ids;
  }

  static std::unique_ptr<CausalLM> load(const json& config, const std::string& device) {
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder, config, test::random_weights(config));
    const Device place = Device::of(DeviceChoice::parse(device));
    return CausalLM::load(Checkpoint::open(folder.text()), place, place.cuda ? DType::bfloat16 : DType::float32);
  }

  static std::unique_ptr<DecodeState> begin(CausalLM& model, std::span<const std::int32_t> prompt,
                                            const std::vector<Intervention>& interventions = {}) {
    PromptRequest request;
    request.input_ids = prompt;
    request.pruning_tolerance = 0x1p-24;
    request.interventions = interventions;
    return model.begin(request, Job{});
  }

  static std::vector<float> now(const DecodeState& decode_state) {
    const auto next = decode_state.log_probabilities();
    return {next.begin(), next.end()};
  }

  /// log p behind each further token of a text.
  static Rows read(DecodeState& decode_state, const Ids& ids) {
    Rows rows;
    for (auto p = static_cast<std::size_t>(decode_state.length()); p < ids.size(); ++p) {
      decode_state.read(ids[p]);
      rows.push_back(now(decode_state));
    }
    return rows;
  }

  /// The same of passes over the whole text.
  static Rows by_passes(CausalLM& model, const Ids& ids, std::size_t prompt,
                        const std::vector<Intervention>& interventions = {}) {
    Rows rows;
    for (std::size_t p = prompt; p < ids.size(); ++p) {
      rows.push_back(now(*begin(model, std::span(ids).first(p + 1), interventions)));
    }
    return rows;
  }

  static double difference(const Rows& a, const Rows& b) {
    double sum = 0;
    for (std::size_t n = 0; n < a.size(); ++n) sum += std::pow(root_mean_square_difference(a[n], b[n]), 2);
    return std::sqrt(sum / static_cast<double>(a.size()));
  }

  static Rows together(CausalLM& model, const std::vector<std::unique_ptr<DecodeState>>& all, const Ids& ids) {
    std::vector<DecodeState*> decode_states;
    Ids next;
    for (const auto& decode_state : all) {
      decode_states.push_back(decode_state.get());
      next.push_back(ids[index_of(decode_state->length())]);
    }
    model.decode_step(decode_states, next);
    Rows rows;
    for (const auto& decode_state : all) rows.push_back(now(*decode_state));
    return rows;
  }
};

/// Against float32 on the CPU, no further off than passes over the text are, one by one and together.
TEST_F(CudaDecodeState, IsAsExactAsPassesOverTheText) {
  for (const json& config : test::small_models()) {
    SCOPED_TRACE(config.dump());
    const auto gpu = load(config, "cuda");
    const auto cpu = load(config, "cpu");
    const Ids ids = tokens(180);
    for (const std::size_t prompt : {1, 100}) {
      const Rows exact = by_passes(*cpu, ids, prompt);
      const double allowed = 2 * difference(by_passes(*gpu, ids, prompt), exact) + 1e-3;
      const auto decode_state = begin(*gpu, std::span(ids).first(prompt));
      EXPECT_LE(difference(read(*decode_state, ids), exact), allowed) << prompt;
      const std::vector<std::int64_t> held = decode_state->held_keys();
      if (const auto window = gpu->config().common_window(); window.value_or(0) > 0) {
        EXPECT_LT(*std::ranges::max_element(held), *window);
      }
      std::vector<std::unique_ptr<DecodeState>> several;
      several.push_back(begin(*gpu, std::span(ids).first(prompt)));
      several.push_back(begin(*gpu, std::span(ids).first(prompt / 2 + 1)));
      Rows rows;
      while (several.front()->length() < std::ssize(ids)) rows.push_back(together(*gpu, several, ids).front());
      EXPECT_LE(difference(rows, exact), allowed) << prompt << ", two together";
    }
  }
}

TEST_F(CudaDecodeState, TogetherHaveTheDigitsOfEachAlone) {
  const auto model = load(test::small_models().front(), "cuda");
  const Ids ids = tokens(200);
  const auto begun = [&](std::size_t first, std::size_t count) {
    std::vector<std::unique_ptr<DecodeState>> all;
    for (std::size_t n = first; n < first + count; ++n) {
      all.push_back(begin(*model, std::span(ids).first(1 + n * 13 % 150)));
    }
    return all;
  };
  constexpr std::size_t kMany = 70;  // more than go in one pass
  auto many = begun(0, kMany);
  std::vector<Rows> expected;
  for (int token = 0; token < 20; ++token) expected.push_back(together(*model, many, ids));
  for (const std::size_t n : {0U, 1U, 40U, 69U}) {
    auto alone = begun(n, 1);
    for (const Rows& rows : expected) EXPECT_EQ(together(*model, alone, ids).front(), rows[n]) << n;
  }
}

/// Prompts that are read in one pass, filled up to the longest, and what is read behind them.
TEST_F(CudaDecodeState, PromptsOfSeveralLengthsHaveTheDigitsOfEachAlone) {
  for (const json& config : test::small_models()) {
    SCOPED_TRACE(config.dump());
    const auto model = load(config, "cuda");
    ASSERT_TRUE(model->reads_prompts_together());
    const Ids ids = tokens(700);
    std::vector<PromptRequest> prompts;
    for (const std::size_t length : {20, 1, 513, 129, 64, 20, 400}) {
      prompts.emplace_back().input_ids = std::span(ids).first(length);
      prompts.back().pruning_tolerance = 0x1p-24;
    }
    const auto begun = model->prefill(prompts, Job{});
    ASSERT_EQ(begun.size(), prompts.size());
    for (std::size_t n = 0; n < prompts.size(); ++n) {
      const auto alone = begin(*model, prompts[n].input_ids);
      ASSERT_EQ(begun[n]->length(), alone->length());
      EXPECT_EQ(begun[n]->held_keys(), alone->held_keys()) << n;
      EXPECT_EQ(now(*begun[n]), now(*alone)) << n;
      const Ids longer(ids.begin(), ids.begin() + alone->length() + 5);
      EXPECT_EQ(read(*begun[n], longer), read(*alone, longer)) << n;
    }
  }
}

/// What was recorded computes in memory that no one else is given.
TEST_F(CudaDecodeState, OtherWorkBetweenTokensChangesNothing) {
  const auto model = load(test::small_models().front(), "cuda");
  const Ids ids = tokens(150);
  const Rows expected = read(*begin(*model, std::span(ids).first(30)), ids);
  const auto disturbed = begin(*model, std::span(ids).first(30));
  for (std::size_t p = 30; p < ids.size(); ++p) {
    disturbed->read(ids[p]);
    ASSERT_EQ(now(*disturbed), expected[p - 30]) << p;
    begin(*model, std::span(ids).first(1 + p));
    free_device_memory(0);  // gives back what LibTorch does not use
    begin(*model, std::span(ids).first(150 - p))->read(3);
  }
}

TEST_F(CudaDecodeState, CopiesGoTheirOwnWays) {
  const auto model = load(test::small_models().front(), "cuda");
  const Ids ids = tokens(120);
  Ids other = ids;
  for (std::size_t p = 60; p < other.size(); ++p) other[p] = (other[p] + 5) % 11;
  const Rows expected = read(*begin(*model, std::span(ids).first(50)), ids);
  const auto branch = begin(*model, std::span(other).first(50));
  for (std::size_t p = 50; p < 60; ++p) branch->read(other[p]);
  const Rows expected_other = read(*branch, other);
  const auto first = begin(*model, std::span(ids).first(50));
  for (std::size_t p = 50; p < 60; ++p) first->read(ids[p]);
  const auto second = first->copy();
  for (std::size_t p = 60; p < other.size(); ++p) {
    second->read(other[p]);
    first->read(ids[p]);
    ASSERT_EQ(now(*second), expected_other[p - 60]) << p;
    ASSERT_EQ(now(*first), expected[p - 50]) << p;
  }
}

TEST_F(CudaDecodeState, InterventionsHoldForTokensThatAreReadOn) {
  json config = test::small_models().front();
  config["window_size"] = nullptr;
  const auto gpu = load(config, "cuda");
  const auto cpu = load(config, "cpu");
  const Ids ids = tokens(90);
  const Rows plain = read(*begin(*gpu, std::span(ids).first(40)), ids);
  for (const char* change : {"0:1:constant=0.5", "*:*:one", "1:0:cut", "0:0:zero@60"}) {
    const std::vector<Intervention> interventions = {Intervention::parse(change)};
    const Rows exact = by_passes(*cpu, ids, 40, interventions);
    const double allowed = 2 * difference(by_passes(*gpu, ids, 40, interventions), exact) + 1e-3;
    EXPECT_LE(difference(read(*begin(*gpu, std::span(ids).first(40), interventions), ids), exact), allowed) << change;
    EXPECT_EQ(read(*begin(*gpu, std::span(ids).first(40)), ids), plain) << "after " << change;
  }
}

TEST_F(CudaDecodeState, GoesOnBehindALongText) {
  const Device place = Device::of(DeviceChoice::parse("cuda"));
  const auto gpu = CausalLM::load(Checkpoint::open(test::demo_model("fox-pro-12m")), place, DType::bfloat16);
  const auto cpu = CausalLM::load(Checkpoint::open(test::demo_model("fox-pro-12m")), Device{}, DType::float32);
  const SafetensorsFile file(test::data_path("heldout") + "/reference.safetensors");
  Ids ids = test::read_ids(file, "tokens");
  ids.resize(2400);
  const auto a = begin(*gpu, std::span(ids).first(2200));
  const auto b = begin(*cpu, std::span(ids).first(2200));
  for (std::size_t p = 2200; p < ids.size(); ++p) {
    a->read(ids[p]);
    b->read(ids[p]);
    ASSERT_LE(root_mean_square_difference(a->log_probabilities(), b->log_probabilities()), 0.05) << p;
  }
}

}  // namespace
}  // namespace foxscope
