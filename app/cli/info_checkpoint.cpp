#include <filesystem>

#include <nlohmann/json.hpp>

#include "app/cli/run_command.h"
#include "app/cli/text_table.h"
#include "app/description/facts.h"
#include "app/description/model_description.h"
#include "backend/model/weights/checkpoint.h"

namespace foxscope::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string checkpointJson(const std::string& path, const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  Json description{{"kind", "checkpoint"},
                   {"path", path},
                   {"folder", checkpoint.folder().string()},
                   {"name", modelTitle(config)},
                   {"model_type", config.model_type},
                   {"parameters", checkpoint.parameter_count()},
                   {"dtype", dtypesOf(checkpoint)},
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

std::string checkpointText(const Checkpoint& checkpoint) {
  Facts lines = {{"checkpoint", checkpoint.folder().string()}};
  for (const auto& [name, value] : checkpointFacts(checkpoint)) lines.emplace_back("  " + name, value);
  return nameValueLines(lines);
}

}  // namespace

std::string describeCheckpoint(const std::string& path, bool json) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  return json ? checkpointJson(path, checkpoint) : checkpointText(checkpoint);
}

}  // namespace foxscope::cli
