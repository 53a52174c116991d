#include "tests/model/model_test_support.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <system_error>

#include "backend/base/error.h"
#include "backend/model/session/decode_state.h"
#include "backend/model/session/run_memory.h"
#include "backend/model/spec/parameters.h"
#include "backend/model/spec/trace_sizes.h"

namespace foxscope::test {

using nlohmann::json;

std::string safetensors_image(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  std::string image(8, '\0');
  std::memcpy(image.data(), &size, 8);
  return image + header + data;
}

std::string safetensors_image(const std::vector<NamedTensor>& tensors) {
  json header = json::object();
  std::string data;
  for (const NamedTensor& tensor : tensors) {
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return safetensors_image(header.dump(), data);
}

json tiny_config(const std::string& model_type) {
  return {{"model_type", model_type}, {"vocab_size", 11},       {"hidden_size", 8},  {"num_heads", 2},
          {"num_hidden_layers", 1},   {"intermediate_size", 6}, {"bos_token_id", 0}, {"norm_eps", 1e-6}};
}

std::vector<NamedTensor> random_weights(const json& config) {
  std::vector<NamedTensor> tensors;
  std::mt19937 generator(20);
  std::normal_distribution<float> normal;
  for (const Parameter& expected : parameters(ModelConfig::from_json(config.dump(), "config.json"))) {
    // A tensor may be a part of two weights, and of two layers.
    if (std::ranges::find(tensors, expected.name, &NamedTensor::name) != tensors.end()) continue;
    NamedTensor tensor{expected.name, expected.shape, {}};
    std::int64_t count = 1;
    for (const std::int64_t extent : expected.shape) count *= extent;
    const bool norm = expected.name.find("norm") != std::string::npos;
    for (std::int64_t n = 0; n < count; ++n) tensor.values.push_back(norm ? 1.0F : 0.5F * normal(generator));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void write_checkpoint(const TemporaryFolder& folder, const json& config, const std::vector<NamedTensor>& weights) {
  folder.write("config.json", config.dump());
  folder.write("model.safetensors", safetensors_image(weights));
}

std::string fixture_test_name(const testing::TestParamInfo<const char*>& fixture) {
  std::string name = fixture.param;
  for (const char other : {'-', '/'}) std::ranges::replace(name, other, '_');
  return name;
}

std::string data_path(const std::string& name) { return std::string(FOXSCOPE_TEST_DATA "/") + name; }

std::string demo_model(const std::string& name) { return std::string(FOXSCOPE_SOURCE_DIR "/resources/models/") + name; }

std::vector<float> read_floats(const SafetensorsFile& file, const std::string& name) {
  const TensorView& view = file.tensors().at(name);
  EXPECT_EQ(view.dtype, TensorDType::f32) << name;
  std::vector<float> values(static_cast<std::size_t>(view.elements()));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

std::vector<std::int32_t> read_ids(const SafetensorsFile& file, const std::string& name) {
  const TensorView& view = file.tensors().at(name);
  std::vector<std::int32_t> values(static_cast<std::size_t>(view.elements()));
  const std::size_t stride = view.dtype == TensorDType::i64 ? 8 : 4;
  for (std::size_t n = 0; n < values.size(); ++n) std::memcpy(&values[n], view.bytes.data() + n * stride, 4);
  return values;
}

std::unique_ptr<Recorder> make_recorder(const CausalLM& model, std::int64_t length, const KeepSet& keep) {
  const ModelConfig& config = model.config();
  TraceInfo info;
  static_cast<TraceSizes&>(info) = sizes_of(config, length);
  describe_attention(config, info);
  info.dtype = model.dtype();
  std::shared_ptr<HostQueryKeyStore> store;
  if (const auto parts = stored_arrays(keep); !parts.empty()) {
    store = std::make_shared<HostQueryKeyStore>(info, info.dtype, std::size_t{1} << 32,
                                                std::filesystem::temp_directory_path(), std::nullopt, parts);
  }
  return std::make_unique<Recorder>(info, keep, store);
}

BatchResult run_batch(CausalLM& model, const Batch& batch) {
  const auto length = static_cast<std::int64_t>(batch.input_ids.size()) / batch.size;
  std::vector<std::unique_ptr<Recorder>> recorders;
  std::vector<Recorder*> pointers;
  for (std::int64_t b = 0; b < batch.size; ++b) {
    pointers.push_back(recorders.emplace_back(make_recorder(model, length, batch.keep)).get());
  }
  ForwardRequest request;
  request.batch = batch.size;
  request.length = length;
  request.input_ids = batch.input_ids;
  request.labels = batch.labels;
  request.pruning_tolerance = batch.pruning_tolerance;
  request.interventions = batch.interventions;
  request.start = batch.start;
  request.saliency = batch.saliency;
  const std::optional<ForwardReport> report = model.forward(request, pointers, Job{});
  EXPECT_TRUE(report.has_value());
  BatchResult result;
  if (report) result.report = *report;
  for (const auto& recorder : recorders) {
    result.traces.push_back(recorder->finish(nullptr, std::make_shared<const TokenTable>()));
  }
  return result;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t n = 0; n < a.size(); ++n) {
    const double difference = std::abs(static_cast<double>(a[n]) - static_cast<double>(b[n]));
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) return largest;
  }
  return largest;
}

std::optional<RunResult> run(const AskedRun& asked, const Job& job) {
  return run_model(plan_run(Engine().open(asked), asked), job);
}

void check_continued(CausalLM& model, std::span<const std::int32_t> ids, std::span<const float> logits,
                     std::size_t prompt, double bound) {
  const auto vocabulary = static_cast<std::size_t>(model.config().vocabulary_size);
  PromptRequest request;
  request.input_ids = ids.first(prompt);
  const auto decode_state = model.begin(request, {});
  for (std::size_t position = prompt - 1;; ++position) {
    const std::span<const float> row = logits.subspan(position * vocabulary, vocabulary);
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    for (std::size_t n = 0; n < vocabulary; ++n) {
      ASSERT_NEAR(decode_state->log_probabilities()[n], static_cast<double>(row[n]) - std::log(sum), bound) << position;
    }
    if (position + 1 == ids.size()) break;
    decode_state->read(ids[position + 1]);
  }
}

}  // namespace foxscope::test
