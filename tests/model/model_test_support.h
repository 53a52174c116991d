#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/model/session/run.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/trace/trace.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace foxscope::test {

/// A safetensors image: 8-byte length, header, data.
std::string safetensors_image(const std::string& header, const std::string& data);

/// A tensor to be written as F32.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
std::string safetensors_image(const std::vector<NamedTensor>& tensors);

/// The smallest sound checkpoint: one layer, two heads of 4, a vocabulary of 11; with further config keys.
nlohmann::json tiny_config(const std::string& model_type = "forgetting_transformer-project_fox");
/// Random weights for a config, the same ones for the same config.
std::vector<NamedTensor> random_weights(const nlohmann::json& config);
/// Writes config.json and model.safetensors.
void write_checkpoint(const TemporaryFolder& folder, const nlohmann::json& config,
                      const std::vector<NamedTensor>& weights);

/// A fixture's name as a name of tests may be.
std::string fixture_test_name(const testing::TestParamInfo<const char*>& fixture);
/// Path of a fixture folder or file in tests/data, and of a demo model.
std::string data_path(const std::string& name);
std::string demo_model(const std::string& name);

/// float32 values of a tensor in a safetensors file.
std::vector<float> read_floats(const SafetensorsFile& file, const std::string& name);
/// Integer values of a tensor.
std::vector<std::int32_t> read_ids(const SafetensorsFile& file, const std::string& name);

/// One batch through a model; a trace for each sequence.
struct BatchResult {
  std::vector<std::shared_ptr<const Trace>> traces;
  ForwardReport report;
};
struct Batch {
  std::int64_t size = 1;
  std::vector<std::int32_t> input_ids;  ///< [B, L]
  std::vector<std::int32_t> labels;     ///< [B, L]
  KeepSet keep;
  double pruning_tolerance = 0x1p-24;
  std::vector<Intervention> interventions;
  ForwardRequest::Start start = {};
  std::optional<Range> saliency = {};
};
BatchResult run_batch(CausalLM& model, const Batch& batch);

/// A recorder as a run makes one.
std::unique_ptr<Recorder> make_recorder(const CausalLM& model, std::int64_t length, const KeepSet& keep);

/// A model and what it is to read, for tests that change both.
struct AskedRun : ModelRequest, RunRequest {};
/// Opens the model and runs it.
std::optional<RunResult> run(const AskedRun& asked, const Job& job);

/// Largest absolute difference; NaN if any number is NaN; infinity if the sizes differ.
double largest_difference(std::span<const float> a, std::span<const float> b);

/// Reads the first ids as a prompt and the others one by one, and expects each prediction to be that of the logits.
/// @param logits  [ids, V]
/// @param prompt  number of ids
/// @param bound   of each log-probability
void check_continued(CausalLM& model, std::span<const std::int32_t> ids, std::span<const float> logits,
                     std::size_t prompt, double bound);

}  // namespace foxscope::test
