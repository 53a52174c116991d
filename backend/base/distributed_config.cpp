#include "backend/base/distributed_config.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

constexpr int kLargestPort = 65535;
/// Ports for steps of Slurm, by the numbers of job and step: those that systems give to no one by themselves.
constexpr int kFirstStepPort = 12000;
constexpr int kStepPorts = 20000;
/// Between the ports of a job's steps, far from those of the next jobs.
constexpr int kStepStride = 7919;

int number_of(const Environment& environment, const std::string& name, int least, int most) {
  const std::optional<std::string> text = environment(name);
  if (!text) throw UsageError(fmt::format("{}: is not set, but the other variables of a starter are", name));
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < least || value > most) {
    throw UsageError(
        fmt::format("{}: expected an integer from {} to {}, got \"{}\": start with torchrun or srun, or unset it", name,
                    least, most, *text));
  }
  return value;
}

/// Names of the variables by which a starter tells the places of its processes.
struct VariableNames {
  std::string rank;
  std::string count;
  std::string local_rank;
};

constexpr int kMostProcesses = 65536;

std::optional<DistributedConfig> config_from(const Environment& environment, const VariableNames& names) {
  DistributedConfig distributed;
  distributed.world_size = number_of(environment, names.count, 1, kMostProcesses);
  distributed.rank = number_of(environment, names.rank, 0, distributed.world_size - 1);
  distributed.local_rank = number_of(environment, names.local_rank, 0, distributed.world_size - 1);
  if (distributed.world_size == 1) return std::nullopt;
  return distributed;
}

/// @returns 0 where Slurm does not number the step, as an interactive one
int step_port(int job, const std::string& step) {
  unsigned number = 0;
  std::from_chars(step.data(), step.data() + step.size(), number);
  const int offset = static_cast<int>(number % kStepPorts) * kStepStride % kStepPorts;
  return kFirstStepPort + (job % kStepPorts + offset) % kStepPorts;
}

}  // namespace

std::string first_host(std::string_view list) {
  const std::size_t end = list.find_first_of(",[");
  std::string host(list.substr(0, end));
  if (end == std::string_view::npos || list[end] == ',') return host;
  const std::string_view numbers = list.substr(end + 1);
  host += numbers.substr(0, numbers.find_first_of("-,]"));
  const std::size_t closed = numbers.find(']');
  if (closed == std::string_view::npos) return host;
  const std::string_view rest = numbers.substr(closed + 1);
  return host + first_host(rest);
}

std::optional<DistributedConfig> distributed_config(const Environment& environment) {
  std::optional<DistributedConfig> distributed;
  const std::optional<std::string> host = environment("MASTER_ADDR");
  const bool has_port = environment("MASTER_PORT").has_value();
  if (environment("RANK") && environment("WORLD_SIZE")) {
    distributed = config_from(environment, {"RANK", "WORLD_SIZE", "LOCAL_RANK"});
    if (!distributed) return std::nullopt;
    if (!host || host->empty()) throw UsageError("MASTER_ADDR: is not set, but RANK and WORLD_SIZE are");
    distributed->host = *host;
    distributed->port = number_of(environment, "MASTER_PORT", 1, kLargestPort);
    distributed->hosts_store = distributed->rank == 0 && environment("TORCHELASTIC_USE_AGENT_STORE") != "True";
    distributed->one_node = environment("LOCAL_WORLD_SIZE") == environment("WORLD_SIZE");
    distributed->job = environment("TORCHELASTIC_RUN_ID").value_or("");
    distributed->run = environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
    return distributed;
  }
  if (!environment("SLURM_STEP_NUM_TASKS")) return std::nullopt;
  distributed = config_from(environment, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"});
  if (!distributed) return std::nullopt;
  const std::string nodes = environment("SLURM_STEP_NODELIST").value_or("");
  distributed->host = host ? *host : first_host(nodes);
  if (distributed->host.empty())
    throw UsageError("SLURM_STEP_NODELIST: is not set: set MASTER_ADDR to the first node's name");
  constexpr int kLargestJob = 2'000'000'000;
  const std::string step = environment("SLURM_STEP_ID").value_or("0");
  distributed->port = has_port ? number_of(environment, "MASTER_PORT", 1, kLargestPort)
                               : step_port(number_of(environment, "SLURM_JOB_ID", 0, kLargestJob), step);
  distributed->hosts_store = distributed->rank == 0;
  distributed->one_node = !nodes.empty() && first_host(nodes) == nodes;
  distributed->job = fmt::format("{}.{}", environment("SLURM_JOB_ID").value_or(""), step);
  distributed->run = environment("SLURM_RESTART_COUNT").value_or("0");
  return distributed;
}

std::optional<DistributedConfig> distributed_config() {
  return distributed_config([](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace foxscope
