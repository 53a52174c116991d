#include "backend/model/training/processes.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/forward_library.h"

namespace foxscope {
namespace {

/// @returns nothing behind the last one
std::optional<std::string_view> take_line(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

/// A line of JSON or of words, without what is around it there.
std::string named(std::optional<std::string_view> line) {
  if (!line) return "nothing";
  line->remove_prefix(std::min(line->size(), line->find_first_not_of(' ')));
  if (line->ends_with(',')) line->remove_suffix(1);
  return std::string(*line);
}

}  // namespace

std::unique_ptr<Processes> Processes::join(const DistributedConfig& distributed, const Device& device,
                                           const ProcessEvents& events) {
  return forward_library().join_processes(distributed, device, events);
}

Device Processes::device_of(const DistributedConfig& distributed, const DeviceChoice& choice) {
  const Device device = Device::of(choice);
  if (!device.cuda) return device;
  if (choice.index) {
    throw UsageError(
        fmt::format("--device {}: {} processes would share one GPU: use --device cuda, where each takes "
                    "its own",
                    device.name(), distributed.world_size));
  }
  const int gpus = forward_library().cuda_device_count();
  if (distributed.local_rank >= gpus) {
    throw Error(
        fmt::format("process {} of {}: is number {} of its node, which has {} GPUs: start one process for each "
                    "GPU",
                    distributed.rank, distributed.world_size, distributed.local_rank, gpus));
  }
  return {true, distributed.local_rank};
}

LineDifference first_difference(std::string_view one, std::string_view other) {
  while (true) {
    const std::optional<std::string_view> line = take_line(one);
    const std::optional<std::string_view> other_line = take_line(other);
    if (line != other_line || !line) return {named(line), named(other_line)};
  }
}

void require_same(Processes* processes, const std::string& facts) {
  if (processes == nullptr) return;
  const std::vector<std::string> all = processes->gather(facts);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const LineDifference difference = first_difference(all[rank], all[0]);
    throw Error(fmt::format(
        "process {} of {} does other work than process 0: {} instead of {}: start all with the same command "
        "and the same files, and give each job a MASTER_PORT of its own",
        rank, all.size(), difference.one, difference.other));
  }
}

void after_first_of_node(Processes* processes, const std::function<void()>& action) {
  const bool first = processes == nullptr || processes->distributed().local_rank == 0;
  if (!first) processes->gather("");
  action();
  if (first && processes != nullptr) processes->gather("");
}

}  // namespace foxscope
