// Models of linear mixers: the authors' outputs for a small checkpoint of each, one text and several, whole and
// continued token by token.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "backend/model/session/decode_state.h"
#include "backend/model/session/torch_model.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using test::largest_difference;

/// Logits are held to this share of the largest.
constexpr double kShare = 2e-4;

struct LinearGolden {
  explicit LinearGolden(const std::string& name)
      : file(test::data_path(name) + "/golden.safetensors"),
        checkpoint(Checkpoint::open(test::data_path(name))),
        ids(test::read_ids(file, "input_ids")),
        labels(test::read_ids(file, "labels")),
        logits(test::read_floats(file, "logits")),
        losses(test::read_floats(file, "per_token_loss")) {
    for (const float logit : logits) largest = std::max(largest, std::abs(static_cast<double>(logit)));
  }
  [[nodiscard]] std::unique_ptr<CausalLM> load() const { return CausalLM::load(checkpoint, Device{}, DType::float32); }
  [[nodiscard]] std::unique_ptr<CausalLM> load_composed() const {
    return load_torch_model(checkpoint, Device{}, DType::float32);
  }
  SafetensorsFile file;
  Checkpoint checkpoint;
  std::vector<std::int32_t> ids, labels;
  std::vector<float> logits, losses;
  double largest = 0;
};

void check_whole(CausalLM& model, const LinearGolden& wanted) {
  test::Batch batch;
  batch.input_ids = wanted.ids;
  batch.labels = wanted.labels;
  batch.keep = {Keep::loss, Keep::logits, Keep::hidden};
  const auto trace = test::run_batch(model, batch).traces.front();
  EXPECT_LE(largest_difference(trace->source().logits(), wanted.logits), kShare * wanted.largest);
  EXPECT_LE(largest_difference(trace->per_token_loss(), wanted.losses), kShare * wanted.largest);
  for (int layer = 0; layer <= model.config().layers; ++layer) {
    const std::string name = "hidden_states." + std::to_string(layer);
    if (!wanted.file.tensors().contains(name)) continue;
    EXPECT_LE(largest_difference(trace->source().hidden_states(layer), test::read_floats(wanted.file, name)), 1e-4)
        << name;
  }
}

void check_continued(CausalLM& model, const LinearGolden& wanted, std::size_t prompt) {
  test::check_continued(model, wanted.ids, wanted.logits, prompt, kShare * wanted.largest);
}

/// A golden [H, ...] of a layer against what its recorded heads give each of the H heads.
void check_heads(const Trace& trace, const SafetensorsFile& maps, int layer, const char* name,
                 QueryKeyStore::Part part) {
  const LayerMixer mixer = trace.info().mixer(layer);
  if (mixer.mixer == Mixer::attention) return;
  const std::vector<float> wanted = test::read_floats(maps, "layers." + std::to_string(layer) + "." + name);
  const QueryKeyStore& store = *trace.store_of(part);
  std::vector<float> ours;
  std::vector<float> scratch;
  // A golden of one head is of all of them.
  const auto of_head = static_cast<std::size_t>(trace.info().length * store.channels(part, layer));
  const int heads = wanted.size() == of_head ? 1 : mixer.heads;
  for (int head = 0; head < heads; ++head) {
    const auto rows =
        store.rows(part, layer, head / (mixer.heads / store.heads(part, layer)), 0, trace.info().length, scratch);
    ours.insert(ours.end(), rows.begin(), rows.end());
  }
  EXPECT_LE(largest_difference(ours, wanted), 1e-4) << name << " of layer " << layer;
}

/// The decays of a layer of Mamba: the log decay of each channel is the step times its rate.
void check_rates(const Trace& trace, const SafetensorsFile& maps, const std::string& prefix, int layer) {
  const LayerMixer mixer = trace.info().mixer(layer);
  const std::vector<float> rates = test::read_floats(maps, prefix + "rate");
  const std::vector<float> steps = test::read_floats(maps, prefix + "beta");
  const auto length = static_cast<std::size_t>(trace.info().length);
  const auto dim = static_cast<std::size_t>(mixer.head_dim);
  ASSERT_EQ(rates.size(), static_cast<std::size_t>(mixer.heads) * dim);
  for (std::size_t head = 0; head < static_cast<std::size_t>(mixer.heads); ++head) {
    const ChannelSums sums = trace.cumulative_log_decay(layer, static_cast<int>(head));
    ASSERT_EQ(sums.values.size(), length * dim);
    std::vector<double> wanted(dim);
    for (std::size_t position = 0; position < length; ++position) {
      for (std::size_t n = 0; n < dim; ++n) {
        wanted[n] -= static_cast<double>(steps[head * length + position]) * static_cast<double>(rates[head * dim + n]);
        ASSERT_NEAR(sums.values[position * dim + n], wanted[n], 1e-4 + 1e-5 * std::abs(wanted[n]))
            << prefix << head << " " << position << " " << n;
      }
    }
  }
}

/// The decays and what is written, as the authors' code has them.
void check_decays(const Trace& trace, const SafetensorsFile& maps, int layer) {
  const std::string prefix = "layers." + std::to_string(layer) + ".";
  if (maps.tensors().contains(prefix + "beta")) {
    EXPECT_LE(largest_difference(trace.source().copy<float>(TraceArray::beta, layer),
                                 test::read_floats(maps, prefix + "beta")),
              1e-5);
  }
  if (maps.tensors().contains(prefix + "rate")) check_rates(trace, maps, prefix, layer);
  if (!maps.tensors().contains(prefix + "log_decay")) return;
  const LayerMixer mixer = trace.info().mixer(layer);
  const bool by_channel = mixer.decay == Decay::channel;
  std::vector<float> wanted = test::read_floats(maps, prefix + "log_decay");
  const std::vector<double> sums = trace.source().copy<double>(
      by_channel ? TraceArray::cumulative_log_decay : TraceArray::cumulative_log_gate, layer);
  ASSERT_EQ(sums.size(), wanted.size());
  const std::size_t step = by_channel ? static_cast<std::size_t>(mixer.head_dim) : 1;
  const std::size_t of_head = step * static_cast<std::size_t>(trace.info().length);
  for (std::size_t n = 0; n < sums.size(); ++n) {
    const double before = n % of_head < step ? 0 : sums[n - step];
    ASSERT_NEAR(sums[n] - before, static_cast<double>(wanted[n]),
                1e-5 + 1e-5 * std::abs(static_cast<double>(wanted[n])))
        << prefix << n;
  }
}

class LinearModel : public testing::TestWithParam<const char*> {};

TEST_P(LinearModel, GivesTheAuthorsOutputs) {
  const LinearGolden wanted(GetParam());
  check_whole(*wanted.load(), wanted);
}

TEST_P(LinearModel, ComposedTwinGivesTheAuthorsOutputs) {
  const LinearGolden wanted(GetParam());
  check_whole(*wanted.load_composed(), wanted);
}

TEST_P(LinearModel, RecordsWhatTheOperatorTakes) {
  const LinearGolden wanted(GetParam());
  const SafetensorsFile maps(test::data_path(GetParam()) + "/golden_maps.safetensors");
  for (const auto& model : {wanted.load(), wanted.load_composed()}) {
    test::Batch batch;
    batch.input_ids = wanted.ids;
    batch.labels = wanted.labels;
    batch.keep = {Keep::gates, Keep::query_key, Keep::values};
    const auto trace = test::run_batch(*model, batch).traces.front();
    for (int layer = 0; layer < model->config().layers; ++layer) {
      check_heads(*trace, maps, layer, "q", QueryKeyStore::Part::query);
      check_heads(*trace, maps, layer, "k", QueryKeyStore::Part::key);
      check_heads(*trace, maps, layer, "v", QueryKeyStore::Part::value);
      check_decays(*trace, maps, layer);
    }
  }
}

TEST_P(LinearModel, ContinuesAsTheWholeTextGoesOn) {
  const LinearGolden wanted(GetParam());
  // A prompt shorter than a convolution, and one that is no whole number of chunks.
  for (const std::size_t prompt : {1, 2, 50}) {
    check_continued(*wanted.load(), wanted, prompt);
    check_continued(*wanted.load_composed(), wanted, prompt);
  }
}

TEST_P(LinearModel, TogetherHaveTheDigitsOfEachAlone) {
  const LinearGolden wanted(GetParam());
  const auto model = wanted.load();
  std::vector<std::unique_ptr<DecodeState>> alone;
  std::vector<std::unique_ptr<DecodeState>> together;
  for (const std::size_t prompt : {2, 1, 50}) {
    PromptRequest request;
    request.input_ids = std::span(wanted.ids).first(prompt);
    alone.push_back(model->begin(request, {}));
    together.push_back(alone.back()->copy());
  }
  const std::vector<DecodeState*> all = {together[0].get(), together[1].get(), together[2].get()};
  for (std::size_t step = 0; step < 8; ++step) {
    const std::vector<std::int32_t> ids = {wanted.ids[step], wanted.ids[step + 1], wanted.ids[step + 2]};
    model->decode_step(all, ids);
    for (std::size_t n = 0; n < all.size(); ++n) {
      alone[n]->read(ids[n]);
      EXPECT_EQ(test::largest_difference(all[n]->log_probabilities(), alone[n]->log_probabilities()), 0) << step;
    }
  }
}

TEST_P(LinearModel, ChoosesTheSame512TokensOneByOneAndAtOnce) {
  const LinearGolden wanted(GetParam());
  const auto model = wanted.load();
  std::vector<std::int32_t> ids(wanted.ids.begin(), wanted.ids.begin() + 8);
  PromptRequest request;
  request.input_ids = std::span(wanted.ids).first(8);
  const auto decode_state = model->begin(request, {});
  for (int n = 0; n < 512; ++n) {
    const auto next = decode_state->log_probabilities();
    ids.push_back(static_cast<std::int32_t>(std::ranges::max_element(next) - next.begin()));
    decode_state->read(ids.back());
  }
  test::Batch batch;
  batch.input_ids.assign(ids.begin(), ids.end() - 1);
  batch.labels.assign(ids.begin() + 1, ids.end());
  batch.keep = {Keep::logits};
  const std::vector<float> logits = test::run_batch(*model, batch).traces.front()->source().logits();
  const std::size_t vocabulary = logits.size() / batch.labels.size();
  for (std::size_t position = 7; position < batch.labels.size(); ++position) {
    const auto row = std::span(logits).subspan(position * vocabulary, vocabulary);
    ASSERT_EQ(std::ranges::max_element(row) - row.begin(), batch.labels[position]) << position;
  }
}

TEST_P(LinearModel, ReadsSeveralTextsAsItReadsEach) {
  const LinearGolden wanted(GetParam());
  for (const auto& model : {wanted.load(), wanted.load_composed()}) {
    test::Batch batch;
    batch.size = 2;
    batch.keep = {Keep::logits, Keep::loss};
    const auto half = static_cast<std::ptrdiff_t>(wanted.ids.size()) / 2;
    batch.input_ids.assign(wanted.ids.begin() + half, wanted.ids.end());
    batch.labels.assign(wanted.labels.begin() + half, wanted.labels.end());
    batch.input_ids.insert(batch.input_ids.end(), wanted.ids.begin(), wanted.ids.begin() + half);
    batch.labels.insert(batch.labels.end(), wanted.labels.begin(), wanted.labels.begin() + half);
    const auto traces = test::run_batch(*model, batch).traces;
    const std::span<const float> first = std::span(wanted.logits).first(wanted.logits.size() / 2);
    EXPECT_LE(largest_difference(traces[1]->source().logits(), first), kShare * wanted.largest);
    batch.size = 1;
    batch.input_ids.resize(static_cast<std::size_t>(half));
    batch.labels.resize(static_cast<std::size_t>(half));
    const auto alone = test::run_batch(*model, batch).traces.front();
    EXPECT_LE(largest_difference(traces[0]->source().logits(), alone->source().logits()), 1e-5 * wanted.largest);
  }
}

/// The rows of Qwen 3.5's projections, [q | k | v], z, b and a, as Qwen3-Next has them: key head by key head.
std::vector<test::NamedTensor> as_qwen3_next(const SafetensorsFile& file, const Checkpoint& checkpoint) {
  const LinearMixer& mixer = *checkpoint.config().linear;
  const auto read = [&](const std::string& name) {
    std::vector<float> values;
    checkpoint.read(name, [&](std::span<const float> piece) {
      values.insert(values.end(), piece.begin(), piece.end());
      return true;
    });
    return values;
  };
  std::vector<test::NamedTensor> tensors;
  for (const auto& [name, tensor] : file.tensors()) {
    if (name.find("in_proj_") == std::string::npos) tensors.push_back({name, tensor.shape, read(name)});
    if (!name.ends_with("in_proj_qkv.weight")) continue;
    const std::string stem = name.substr(0, name.size() - std::string("qkv.weight").size());
    const std::int64_t hidden = tensor.shape[1];
    const auto rows_of = [&](const char* part) { return read(stem + part + ".weight"); };
    const std::vector<float> qkv = rows_of("qkv"), z = rows_of("z"), b = rows_of("b"), a = rows_of("a");
    test::NamedTensor qkvz{stem + "qkvz.weight", {0, hidden}, {}};
    test::NamedTensor ba{stem + "ba.weight", {0, hidden}, {}};
    const auto append = [&](test::NamedTensor& to, const std::vector<float>& from, std::int64_t row,
                            std::int64_t rows) {
      to.values.insert(to.values.end(), from.begin() + row * hidden, from.begin() + (row + rows) * hidden);
      to.shape[0] += rows;
    };
    const std::int64_t each = mixer.heads / mixer.key_heads;
    const std::int64_t values = each * mixer.value_dim;
    for (std::int64_t head = 0; head < mixer.key_heads; ++head) {
      append(qkvz, qkv, head * mixer.key_dim, mixer.key_dim);
      append(qkvz, qkv, mixer.query_size() + head * mixer.key_dim, mixer.key_dim);
      append(qkvz, qkv, mixer.query_size() + mixer.key_size() + head * values, values);
      append(qkvz, z, head * values, values);
      append(ba, b, head * each, each);
      append(ba, a, head * each, each);
    }
    tensors.push_back(std::move(qkvz));
    tensors.push_back(std::move(ba));
  }
  return tensors;
}

TEST(Qwen3Next, IsQwen35WithOtherRows) {
  const LinearGolden wanted("qwen3_5");
  nlohmann::json config = nlohmann::json::parse(wanted.checkpoint.config().json);
  config["model_type"] = "qwen3_next";
  config["num_experts"] = 0;
  const SafetensorsFile weights(test::data_path("qwen3_5") + "/model.safetensors");
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, config, as_qwen3_next(weights, wanted.checkpoint));
  const Checkpoint checkpoint = Checkpoint::open(folder.text());
  check_whole(*CausalLM::load(checkpoint, Device{}, DType::float32), wanted);
  check_whole(*load_torch_model(checkpoint, Device{}, DType::float32), wanted);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, LinearModel,
                         testing::Values("mamba2", "hgrn2", "delta-net", "gla", "gated-deltanet", "qwen3_5", "samba",
                                         "samba-options", "mamba"),
                         test::fixture_test_name);

}  // namespace
}  // namespace foxscope
