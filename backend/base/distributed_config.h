#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace foxscope {

/// The place of this process among several that do one piece of work together. A starter (torchrun, srun) sets it in
/// environment variables.
struct DistributedConfig {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< among the processes of one node: which of its GPUs is this process's
  std::string host;    ///< where the store is that they meet at
  int port = 0;
  bool hosts_store = false;  ///< this process opens the store; else another one or the starter does
  bool one_node = false;     ///< the starter says that all of them are on this node
  std::string job;           ///< the starter's name for the job; empty if it gives none
  std::string run;           ///< how often the starter has started it again
};

/// The value of an environment variable; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The place of this process, from the variables of torchrun (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
/// MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE, TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT) or, without
/// them, of srun (SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_STEP_NODELIST, SLURM_JOB_ID, SLURM_STEP_ID,
/// SLURM_RESTART_COUNT; MASTER_ADDR and MASTER_PORT win). A script under sbatch that calls no srun has no step, and
/// works alone. Steps of one job that run at once have ports of their own.
/// @returns nothing where one process works alone
/// @throws UsageError naming the variable that is missing or makes no sense
std::optional<DistributedConfig> distributed_config(const Environment& environment);
/// Reads the environment of this process.
std::optional<DistributedConfig> distributed_config();

/// The first host of a list as Slurm writes it: "node[003-007,9],other" is node003.
std::string first_host(std::string_view list);

}  // namespace foxscope
