#include "backend/model/processes.h"

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/forward_library.h"

namespace foxscope {

std::unique_ptr<Processes> Processes::join(const ProcessPlace& place, const Device& device, const std::string& remedy,
                                           WorkLost lost) {
  return forward_library().join_processes(place, device, remedy, std::move(lost));
}

Device Processes::device_of(const ProcessPlace& place, const DeviceChoice& choice) {
  const Device device = Device::of(choice);
  if (!device.cuda) return device;
  if (choice.index) {
    throw UsageError(
        fmt::format("--device {}: {} processes would share one GPU: use --device cuda, where each takes "
                    "its own",
                    device.name(), place.count));
  }
  const int gpus = forward_library().cuda_device_count();
  if (place.local_rank >= gpus) {
    throw Error(
        fmt::format("process {} of {}: is number {} of its node, which has {} GPUs: start one process for each "
                    "GPU",
                    place.rank, place.count, place.local_rank, gpus));
  }
  return {true, place.local_rank};
}

void after_first_of_node(Processes* processes, const std::function<void()>& action) {
  const bool first = processes == nullptr || processes->place().local_rank == 0;
  if (!first) processes->gather("");
  action();
  if (first && processes != nullptr) processes->gather("");
}

}  // namespace foxscope
