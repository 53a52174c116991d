#include "backend/model/run.h"

#include <chrono>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "backend/base/sha256.h"
#include "backend/model/composed_causal_lm.h"
#include "backend/model/run_memory.h"
#include "backend/model/run_settings.h"
#include "backend/model/run_tokens.h"
#include "backend/trace/device_query_key_store.h"
#include "kernels/cuda/forgetting_attention.h"

namespace foxscope {
namespace {

QueryKeyStore::Shape query_key_shape(const TraceInfo& info) {
  return {info.layers, info.heads, info.key_heads, info.length, info.head_dim};
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A place for queries and keys in the GPU's memory; null where they are not kept or there is too little of it.
/// @throws Error if what the run needs beside them does not fit
std::shared_ptr<RunQueryKeyStore> make_device_store(const TraceInfo& info, const KeepSet& keep, const Device& device,
                                                    const Checkpoint& checkpoint) {
  const RunMemory memory = estimate_device_memory(checkpoint.config(), checkpoint.parameter_count(), keep, info.dtype);
  const std::int64_t budget = device_query_key_budget(memory, info.length, free_device_memory(device.index));
  const std::int64_t size = memory.query_key_per_token * info.length;
  if (size == 0 || size > budget || !kernels::cuda::is_available()) return nullptr;
  return std::make_shared<DeviceQueryKeyStore>(query_key_shape(info), info.dtype, device.index);
}

/// A place for queries and keys; null if they are not kept. On a GPU its own memory comes first, then the host's.
/// @throws Error if what the run needs beside them does not fit
std::shared_ptr<RunQueryKeyStore> make_store(const TraceInfo& info, const KeepSet& keep, const Device& device,
                                             const Checkpoint& checkpoint, std::vector<std::string>& notes) {
  const RunMemory memory =
      estimate_memory(checkpoint.config(), checkpoint.parameter_count(), keep, info.dtype, device.cuda);
  const std::int64_t budget = query_key_budget(memory, info.length, available_memory(), keep);
  if (device.cuda) {
    if (auto store = make_device_store(info, keep, device, checkpoint)) return store;
  }
  if (!keep.contains(Keep::query_key)) return nullptr;
  const QueryKeyStore::Shape shape = query_key_shape(info);
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  auto store = std::make_shared<HostQueryKeyStore>(shape, info.dtype, static_cast<std::size_t>(budget), folder,
                                                   device.cuda ? HostMemory::pinned : HostMemory::pageable);
  if (std::string_view(store->where()) != "memory") {
    notes.push_back(fmt::format("{}: queries and keys take {:.1f} GiB and are held in a temporary file in {}",
                                info.name, static_cast<double>(QueryKeyStore::bytes(shape, info.dtype)) / 0x1p30,
                                folder.string()));
  }
  return store;
}

std::shared_ptr<const Text> identify(const std::shared_ptr<const Text>& text) {
  if (!text || !text->sha256.empty()) return text;
  return std::make_shared<const Text>(Text{text->content, sha256(text->content)});
}

}  // namespace

std::optional<RunResult> run_model(const RunRequest& request, const Job& job) {
  const auto start = std::chrono::steady_clock::now();
  const Device device = Device::parse(request.device);
  const DType dtype = choose_dtype(request.dtype, device);
  Checkpoint checkpoint = Checkpoint::open(request.model);
  job.tell({0, 1, "models", "load"});
  const std::shared_ptr<const TokenTable> tokens = read_run_tokens(request, checkpoint);
  if (job.stopped()) return std::nullopt;

  const auto length = static_cast<std::int64_t>(tokens->id.size());
  RunResult result;
  result.report.notes = checkpoint.config().notes;
  const TraceInfo info = describe_run(request, checkpoint, device, dtype, length);
  Recorder recorder(info, request.keep, make_store(info, request.keep, device, checkpoint, result.report.notes));
  const std::unique_ptr<CausalLM> model = CausalLM::load(checkpoint, device, dtype);
  checkpoint = Checkpoint();  // its files need no longer be mapped
  result.report.load_seconds = seconds_since(start);
  if (job.stopped()) return std::nullopt;

  ForwardRequest forward;
  forward.batch = 1;
  forward.length = length;
  forward.input_ids = tokens->input_id;
  forward.labels = tokens->id;
  forward.pruning_tolerance = info.pruning_tolerance;
  forward.interventions = request.interventions;
  Recorder* const recorders[] = {&recorder};
  const auto forward_start = std::chrono::steady_clock::now();
  const std::optional<ForwardReport> report = model->forward(forward, recorders, job);
  if (!report) return std::nullopt;
  result.report.forward = *report;
  result.report.forward_seconds = seconds_since(forward_start);
  recorder.info().attention_kernel = report->attention_kernel;
  result.trace = recorder.finish(identify(request.input.text), tokens);
  return result;
}

}  // namespace foxscope
