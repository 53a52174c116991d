#include "backend/base/device_name.h"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {

std::optional<int> gpu_named(const std::string& name, const Gpus& gpus) {
  if (name == "cpu") return std::nullopt;
  if (name == "auto") return gpus.count() > 0 ? std::optional(0) : std::nullopt;
  int index = 0;
  if (name != "cuda") {
    const std::string_view number = name.starts_with("cuda:") ? std::string_view(name).substr(5) : "";
    const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (problem != std::errc{} || end != number.data() + number.size() || index < 0) {
      throw UsageError(fmt::format("--device '{}' is not known: choose auto, cpu, cuda or cuda:N", name));
    }
  }
  if (!gpus.built()) {
    throw Error(
        fmt::format("--device {}: this build has no CUDA: use --device cpu, or build with -DFOXSCOPE_CUDA=ON", name));
  }
  const int count = gpus.count();
  if (count == 0) {
    throw Error(
        fmt::format("--device {}: no {} is visible: use --device cpu, or look at the driver and at "
                    "CUDA_VISIBLE_DEVICES",
                    name, gpus.kind));
  }
  if (index >= count) {
    const std::string there = count == 1 ? "is one CUDA device, cuda:0"
                                         : fmt::format("are {} CUDA devices, cuda:0 to cuda:{}", count, count - 1);
    throw Error(fmt::format("--device {}: there {}", name, there));
  }
  return index;
}

}  // namespace foxscope
