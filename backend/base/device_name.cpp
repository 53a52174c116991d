#include "backend/base/device_name.h"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {

DeviceChoice DeviceChoice::parse(const std::string& word) {
  if (word == "auto") return {};
  if (word == "cpu") return {Kind::cpu, {}};
  if (word == "cuda") return {Kind::cuda, {}};
  int index = 0;
  const std::string_view number = word.starts_with("cuda:") ? std::string_view(word).substr(5) : "";
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), index);
  if (problem != std::errc{} || end != number.data() + number.size() || index < 0) {
    throw UsageError(fmt::format("--device '{}' is not known: choose auto, cpu, cuda or cuda:N", word));
  }
  return {Kind::cuda, index};
}

std::string DeviceChoice::word() const {
  if (kind != Kind::cuda) return kind == Kind::cpu ? "cpu" : "auto";
  return index ? fmt::format("cuda:{}", *index) : "cuda";
}

std::optional<int> gpu_chosen(const DeviceChoice& choice, const Gpus& gpus) {
  if (choice.kind == DeviceChoice::Kind::cpu) return std::nullopt;
  if (choice.kind == DeviceChoice::Kind::automatic) return gpus.count() > 0 ? std::optional(0) : std::nullopt;
  const std::string name = choice.word();
  const int index = choice.index.value_or(0);
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
