#include "app/cli/running_options.h"

#include <CLI/CLI.hpp>

namespace foxscope::cli {

void addRunningOptions(CLI::App& command, RunningOptions& options, const std::string& begun,
                       const std::string& skipped) {
  command.add_option("--bos", options.bos, "Token that begins " + begun + " (default: the model's)")->type_name("ID");
  command.add_option("--device", options.device, "auto, cpu, cuda or cuda:N (default: auto)")->type_name("DEVICE");
  command.add_option("--dtype", options.dtype, "auto, float32 or bfloat16 (default: auto)")->type_name("DTYPE");
  command.add_option("--pruning", options.pruning, skipped + " (default: 2^-24; 0: none)")->type_name("TOLERANCE");
}

void addInterventions(CLI::App& command, RunningOptions& options, const std::string& help) {
  command.add_option("--intervene", options.interventions, help)->type_name("LAYER:HEAD:KIND")->allow_extra_args(false);
}

ModelRequest modelRequest(const RunningOptions& options, const NamedModel& named) {
  ModelRequest request;
  request.name = named.name;
  request.model = named.path;
  request.bos = options.bos;
  request.device = DeviceChoice::parse(options.device);
  request.dtype = parse_dtype(options.dtype);
  request.pruning_tolerance = options.pruning;
  for (const std::string& text : options.interventions) request.interventions.push_back(Intervention::parse(text));
  return request;
}

}  // namespace foxscope::cli
