// `eval heads` and `eval needle` on a GPU against the same on the CPU. Skipped by name where there is none.
#include <cmath>
#include <ostream>

#include <gtest/gtest.h>

#include "backend/eval/heads/heads.h"
#include "backend/eval/needle/needle.h"
#include "backend/eval/sweep/sweep.h"
#include "backend/model/session/query_key_place.h"
#include "tests/model/model_test_support.h"

namespace foxscope::test {
namespace {

/// How far numbers may be off: by this much of 1 + their size. It is a few times what LibTorch's twin on the CPU is off
/// in that dtype.
struct Bound {
  const char* dtype;
  double numbers;
  double lengths;  ///< horizons and survivals, which are quartiles
  double answer;   ///< log-probabilities
};
void PrintTo(const Bound& bound, std::ostream* out) { *out << bound.dtype; }
constexpr Bound kFloat32 = {"float32", 1e-4, 1e-4, 1e-3};
constexpr Bound kBfloat16 = {"bfloat16", 3e-3, 0.05, 0.05};

double allowed(const std::string& name, double wanted, const Bound& bound) {
  // Whole tokens: where a share is reached almost exactly, rounding decides.
  if (name.starts_with("d50") || name.starts_with("d90")) return 1 + 0.01 * wanted;
  const bool length = name.starts_with("horizon") || name.starts_with("survival");
  return (length ? bound.lengths : bound.numbers) * (1 + std::abs(wanted));
}

class CudaEval : public testing::TestWithParam<Bound> {
 protected:
  void SetUp() override {
    if (!kernel_gpu(Device::of(DeviceChoice::parse("auto")))) GTEST_SKIP() << "no CUDA device, or a build without CUDA";
  }

  static AskedRun on(const std::string& device, const std::string& dtype) {
    test::AskedRun request;
    request.name = "fox";
    request.model = demo_model("fox-pro-12m");
    request.device = DeviceChoice::parse(device);
    request.dtype = parse_dtype(dtype);
    return request;
  }
};

EvaluatedHeads heads_on(const AskedRun& model) {
  HeadsRequest request;
  request.models = {Engine().open(model)};
  request.input.ids.file = data_path("heldout/reference.safetensors");
  request.input.ids.tensor = "tokens";
  request.input.ids.length = 700;
  request.input.ids.windows = 2;
  return evaluate_heads(request, {}, Job{}).value().models.at(0);
}

void expect_near(const std::vector<HeadArray>& actual, const std::vector<HeadArray>& expected, const Bound& bound) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t n = 0; n < actual.size(); ++n) {
    EXPECT_EQ(actual[n].name, expected[n].name);
    ASSERT_EQ(actual[n].value.size(), expected[n].value.size());
    for (std::size_t head = 0; head < actual[n].value.size(); ++head) {
      const double wanted = expected[n].value[head];
      if (std::isnan(wanted)) {
        EXPECT_TRUE(std::isnan(actual[n].value[head])) << actual[n].name << ", " << head;
      } else {
        EXPECT_NEAR(actual[n].value[head], wanted, allowed(actual[n].name, wanted, bound))
            << actual[n].name << ", " << head;
      }
    }
  }
}

TEST_P(CudaEval, HeadsAreThoseOfTheCpu) {
  const EvaluatedHeads expected = heads_on(on("cpu", "auto"));
  const EvaluatedHeads heads = heads_on(on("cuda", GetParam().dtype));
  EXPECT_EQ(heads.info.device, "cuda:0");
  expect_near(heads.numbers, expected.numbers, GetParam());
  expect_near(heads.by_distance, expected.by_distance, GetParam());
}

TEST_P(CudaEval, NeedlesAreThoseOfTheCpu) {
  const TemporaryFolder folder;
  std::string haystack;
  for (int n = 0; n < 80; ++n) haystack += "The road went on over the hill, and nobody knew how far it was. ";
  folder.write("haystack.txt", haystack);
  const auto needle_on = [&](const AskedRun& model) {
    NeedleRequest request;
    request.models = {Engine().open(model)};
    request.haystack = folder.path() / "haystack.txt";
    request.lengths = {400, 700};
    request.depths = {0, 0.5};
    request.output = folder.path() / (model.device.word() + ".h5");
    return evaluate_needle(request, {}, Job{}).value().models.at(0);
  };
  const NeedleModel expected = needle_on(on("cpu", "auto"));
  const NeedleModel needle = needle_on(on("cuda", GetParam().dtype));
  const auto compare = [](const char* what, const std::vector<float>& actual, const std::vector<float>& wanted,
                          double bound) {
    ASSERT_EQ(actual.size(), wanted.size());
    for (std::size_t n = 0; n < actual.size(); ++n) EXPECT_NEAR(actual[n], wanted[n], bound) << what << ", " << n;
  };
  const Bound& bound = GetParam();
  compare("answer", needle.answer_log_probability, expected.answer_log_probability, bound.answer);
  compare("baseline", needle.baseline_log_probability, expected.baseline_log_probability, bound.answer);
  compare("mass", needle.needle_mass, expected.needle_mass, 3 * bound.numbers);
  compare("gate", needle.needle_gate, expected.needle_gate, bound.numbers);
}

// What a pass from a middle layer on gives on the GPU is what a whole pass there gives.
TEST_P(CudaEval, SweepsAreSingleRuns) {
  AskedRun asked = on("cuda", GetParam().dtype);
  asked.input.name = "ids.json";
  for (int p = 0; p < 400; ++p) asked.input.ids.push_back((p * p + p / 7) % 997);
  auto plan = plan_sweep(Engine().open(asked), {asked.input, {}, Intervention::parse_change("one")}, {});
  ASSERT_TRUE(run_sweep(*plan, {}, {}));
  for (const char* text : {"0:1:one", "5:2:one"}) {
    test::AskedRun run = asked;
    run.keep = {Keep::loss};
    run.interventions = {Intervention::parse(text)};
    const auto single = test::run(run, {});
    const auto& swept =
        plan->evaluation.changed_loss[plan->evaluation.place_of(run.interventions[0].layer, run.interventions[0].head)];
    EXPECT_LE(largest_difference(swept, single->trace->per_token_loss()), GetParam().answer) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CudaEval, testing::Values(kFloat32, kBfloat16),
                         [](const auto& test) { return std::string(test.param.dtype); });

}  // namespace
}  // namespace foxscope::test
