#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/console.h"
#include "app/cli/model_description.h"
#include "app/cli/run_command.h"
#include "app/cli/text_table.h"
#include "backend/model/checkpoint.h"

namespace foxscope::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* nameOf(TensorDType dtype) {
  switch (dtype) {
    case TensorDType::f32:
      return "float32";
    case TensorDType::f16:
      return "float16";
    case TensorDType::bf16:
      return "bfloat16";
    case TensorDType::i64:
      return "int64";
    case TensorDType::i32:
      return "int32";
  }
  return "unknown";
}

std::string dtypes(const Checkpoint& checkpoint) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : checkpoint.tensors()) names.insert(nameOf(tensor.dtype));
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined;
}

std::string tokenizerOf(const Checkpoint& checkpoint) {
  const auto has = [&](const char* file) { return std::filesystem::exists(checkpoint.folder() / file); };
  if (has("tokenizer.json")) return "tokenizer.json";
  if (has("vocab.json") && has("merges.txt")) return "vocab.json, merges.txt";
  return "";
}

std::string checkpointJson(const std::string& path, const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  Json description{{"kind", "checkpoint"},
                   {"path", path},
                   {"folder", checkpoint.folder().string()},
                   {"name", modelTitle(config)},
                   {"model_type", config.model_type},
                   {"parameters", checkpoint.parameter_count()},
                   {"dtype", dtypes(checkpoint)},
                   {"options", Json::object()},
                   {"tokenizer", tokenizerOf(checkpoint)},
                   {"files", Json::array()},
                   {"notes", config.notes}};
  for (const ConfigOption& option : configOptions(config)) description["options"][option.key] = option.value;
  for (const auto& file : checkpoint.weight_files()) {
    description["files"].push_back({{"name", file.filename().string()}, {"bytes", std::filesystem::file_size(file)}});
  }
  return description.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string valueText(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string checkpointText(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  std::vector<std::pair<std::string, std::string>> lines = {
      {"checkpoint", checkpoint.folder().string()},
      {"  model", fmt::format("{} ({})", modelTitle(config), config.model_type)},
      {"  parameters", fmt::format("{} in {}", countText(checkpoint.parameter_count()), dtypes(checkpoint))}};
  for (const ConfigOption& option : configOptions(config)) {
    lines.emplace_back("  " + option.label, valueText(option.value));
  }
  const std::string tokenizer = tokenizerOf(checkpoint);
  lines.emplace_back("  tokenizer", tokenizer.empty() ? "none: only --ids can be run" : tokenizer);
  for (const auto& file : checkpoint.weight_files()) {
    lines.emplace_back("  weights", fmt::format("{}, {}", file.filename().string(),
                                                sizeText(static_cast<double>(std::filesystem::file_size(file)))));
  }
  for (const std::string& note : config.notes) lines.emplace_back("  note", note);
  return nameValueLines(lines);
}

}  // namespace

std::string describeCheckpoint(const std::string& path, bool json) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  return json ? checkpointJson(path, checkpoint) : checkpointText(checkpoint);
}

}  // namespace foxscope::cli
