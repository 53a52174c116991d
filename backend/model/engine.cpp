#include "backend/model/engine.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "backend/base/log.h"
#include "backend/model/run.h"
#include "backend/model/run_memory.h"

namespace foxscope {
namespace {

constexpr std::size_t kMostHeld = 2;
/// Of the free memory, what a model may take that is kept.
constexpr std::int64_t kFreeShare = 4;

/// Which files the weights are in, and of when.
std::string files_of(const Checkpoint& checkpoint) {
  std::string key;
  for (const std::filesystem::path& file : checkpoint.weight_files()) {
    std::error_code failed;
    const auto size = std::filesystem::file_size(file, failed);
    const auto written = std::filesystem::last_write_time(file, failed).time_since_epoch().count();
    key += fmt::format("\n{} {} {}", std::filesystem::weakly_canonical(file, failed).string(), size, written);
  }
  return key;
}

/// What a model in memory depends on.
std::string key_of(const Checkpoint& checkpoint, const Device& device, DType dtype) {
  return fmt::format("{}\n{}\n{}{}", device.name(), to_string(dtype), checkpoint.config().json, files_of(checkpoint));
}

bool worth_keeping(const Checkpoint& checkpoint, const Device& device, DType dtype) {
  const FreeMemory free = free_memory(device);
  return checkpoint.parameter_count() * static_cast<std::int64_t>(size_of(dtype)) <=
         (device.cuda ? free.gpu : free.host) / kFreeShare;
}

}  // namespace

std::shared_ptr<CausalLM> Engine::find(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(held_, key, &Held::key);
  if (found == held_.end()) return nullptr;
  std::rotate(held_.begin(), found, found + 1);
  return held_.front().model;
}

std::shared_ptr<CausalLM> Engine::open(const Checkpoint& checkpoint, const Device& device, DType dtype,
                                       const Job& job) {
  const std::string key = key_of(checkpoint, device, dtype);
  if (std::shared_ptr<CausalLM> model = find(key)) {
    log_line(LogCategory::model, [&] { return fmt::format("{}: is in memory", checkpoint.folder().string()); });
    return model;
  }
  std::shared_ptr<CausalLM> model = CausalLM::load(checkpoint, device, dtype, job);
  if (!model || !worth_keeping(checkpoint, device, dtype)) return model;
  const std::scoped_lock lock(mutex_);
  held_.insert(held_.begin(), {key, model});
  if (held_.size() > kMostHeld) held_.resize(kMostHeld);
  return model;
}

std::optional<std::string> Engine::weights_sha256(const Checkpoint& checkpoint, const Job& job) {
  const std::string key = files_of(checkpoint);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = checksums_.find(key); known != checksums_.end()) return known->second;
  }
  std::optional<std::string> checksum = checkpoint.weights_sha256(job);
  if (!checksum) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  checksums_[key] = *checksum;
  return checksum;
}

std::shared_ptr<CausalLM> open_model(const RunRequest& request, const Checkpoint& checkpoint, const Device& device,
                                     DType dtype, const Job& job) {
  if (request.engine) return request.engine->open(checkpoint, device, dtype, job);
  return CausalLM::load(checkpoint, device, dtype, job);
}

std::optional<std::string> weights_sha256(const RunRequest& request, const Checkpoint& checkpoint, const Job& job) {
  return request.engine ? request.engine->weights_sha256(checkpoint, job) : checkpoint.weights_sha256(job);
}

}  // namespace foxscope
