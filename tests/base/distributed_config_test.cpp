// What starters of processes tell in their environment, as torchrun and srun set it.
#include "backend/base/distributed_config.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<DistributedConfig> place_in(const Variables& variables) {
  return distributed_config([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

Variables torchrun() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"TORCHELASTIC_RUN_ID", "books"},
          {"MASTER_ADDR", "node-a"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RESTART_COUNT", "2"}};
}

Variables srun() {
  return {{"SLURM_PROCID", "0"},       {"SLURM_STEP_NUM_TASKS", "16"},
          {"SLURM_LOCALID", "0"},      {"SLURM_STEP_NODELIST", "gpu[012-015]"},
          {"SLURM_JOB_ID", "1234567"}, {"SLURM_NTASKS", "16"}};
}

std::string refusal(const Variables& variables) {
  try {
    place_in(variables);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(DistributedConfig, OneProcessIsAlone) {
  EXPECT_FALSE(place_in({}));
  Variables one = torchrun();
  one["WORLD_SIZE"] = "1";
  one["RANK"] = one["LOCAL_RANK"] = "0";
  EXPECT_FALSE(place_in(one));
}

TEST(DistributedConfig, TorchrunKeepsTheStore) {
  const auto distributed = place_in(torchrun());
  ASSERT_TRUE(distributed);
  EXPECT_EQ(distributed->rank, 5);
  EXPECT_EQ(distributed->world_size, 8);
  EXPECT_EQ(distributed->local_rank, 1);
  EXPECT_EQ(distributed->host, "node-a");
  EXPECT_EQ(distributed->port, 29500);
  EXPECT_EQ(distributed->run, "2");
  EXPECT_EQ(distributed->job, "books");
  EXPECT_FALSE(distributed->one_node);
  Variables together = torchrun();
  together["LOCAL_WORLD_SIZE"] = "8";
  EXPECT_TRUE(place_in(together)->one_node);
  Variables first = torchrun();
  first["RANK"] = "0";
  EXPECT_FALSE(place_in(first)->hosts_store);
  first.erase("TORCHELASTIC_USE_AGENT_STORE");
  EXPECT_TRUE(place_in(first)->hosts_store);
}

TEST(DistributedConfig, StepsOfSlurmMeetAtTheFirstNode) {
  const auto distributed = place_in(srun());
  ASSERT_TRUE(distributed);
  EXPECT_EQ(distributed->world_size, 16);
  EXPECT_EQ(distributed->host, "gpu012");
  EXPECT_TRUE(distributed->hosts_store);
  Variables other = srun();
  other["SLURM_PROCID"] = "9";
  EXPECT_FALSE(place_in(other)->hosts_store);
  EXPECT_EQ(place_in(other)->port, distributed->port);
  other["MASTER_ADDR"] = "gpu015";
  other["MASTER_PORT"] = "4000";
  EXPECT_EQ(place_in(other)->host, "gpu015");
  EXPECT_EQ(place_in(other)->port, 4000);
}

// Two steps of one job, and a job that was begun again, are told apart, also where they share a port.
TEST(DistributedConfig, StepsOfAJobDoNotMeet) {
  const auto distributed = place_in(srun());
  Variables step = srun();
  step["SLURM_STEP_ID"] = "1";
  EXPECT_NE(place_in(step)->port, distributed->port);
  EXPECT_EQ(distributed->job, "1234567.0");
  EXPECT_EQ(place_in(step)->job, "1234567.1");
  step["MASTER_PORT"] = "4000";
  EXPECT_EQ(place_in(step)->port, 4000);
  EXPECT_EQ(place_in(step)->run, "0");
  step["SLURM_RESTART_COUNT"] = "3";
  EXPECT_EQ(place_in(step)->run, "3");
  EXPECT_FALSE(distributed->one_node);
  step["SLURM_STEP_NODELIST"] = "gpu012";
  EXPECT_TRUE(place_in(step)->one_node);
}

// Ports of the steps of neighbouring jobs differ, and stay among those that nobody else is given.
TEST(DistributedConfig, PortsOfSteps) {
  std::set<int> ports;
  Variables step = srun();
  for (int job = 0; job < 20; ++job) {
    step["SLURM_JOB_ID"] = std::to_string(19990 + job);
    for (int number = 0; number < 20; ++number) {
      step["SLURM_STEP_ID"] = std::to_string(number);
      ports.insert(place_in(step)->port);
    }
  }
  EXPECT_EQ(ports.size(), 400U);
  EXPECT_GE(*ports.begin(), 12000);
  EXPECT_LT(*ports.rbegin(), 32000);
  step["SLURM_STEP_ID"] = "4294967290";  // of an interactive step
  EXPECT_LT(place_in(step)->port, 32000);
}

// Its script runs once, for all of its tasks.
TEST(DistributedConfig, AScriptOfSlurmIsAlone) {
  Variables script = srun();
  script.erase("SLURM_STEP_NUM_TASKS");
  EXPECT_FALSE(place_in(script));
}

TEST(DistributedConfig, NamesTheVariableThatMakesNoSense) {
  for (const auto& [name, value, words] : {std::tuple{"RANK", "8", "RANK: expected an integer from 0 to 7, got \"8\""},
                                           {"RANK", "x", "RANK: expected an integer"},
                                           {"WORLD_SIZE", "-1", "WORLD_SIZE: expected"},
                                           {"LOCAL_RANK", "", "LOCAL_RANK: expected"},
                                           {"MASTER_PORT", "70000", "MASTER_PORT: expected an integer from 1 to 65535"},
                                           {"MASTER_ADDR", "", "MASTER_ADDR: is not set"}}) {
    Variables variables = torchrun();
    variables[name] = value;
    EXPECT_NE(refusal(variables).find(words), std::string::npos) << refusal(variables);
  }
  for (const char* name : {"LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    Variables variables = torchrun();
    variables.erase(name);
    EXPECT_EQ(refusal(variables).substr(0, std::string(name).size()), name);
  }
  Variables nowhere = srun();
  nowhere.erase("SLURM_STEP_NODELIST");
  EXPECT_NE(refusal(nowhere).find("set MASTER_ADDR"), std::string::npos);
}

TEST(DistributedConfig, FirstHostOfAList) {
  EXPECT_EQ(first_host("one"), "one");
  EXPECT_EQ(first_host("one,two"), "one");
  EXPECT_EQ(first_host("node[003-007,9],other"), "node003");
  EXPECT_EQ(first_host("rack1-[7,9]"), "rack1-7");
  EXPECT_EQ(first_host("a[1-2]b,c"), "a1b");
  EXPECT_EQ(first_host("rack[1-2]node[05-06]"), "rack1node05");
  EXPECT_EQ(first_host("a["), "a");
  EXPECT_EQ(first_host(""), "");
}

}  // namespace
}  // namespace foxscope
