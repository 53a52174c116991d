#include "backend/model/backward/gradient_forward_torch.h"
#include "backend/model/forward_library.h"
#include "backend/model/layer/cpu/cpu_forward.h"
#include "backend/model/layer/cpu/cpu_team.h"
#include "backend/model/layer/cuda/cuda_forward_torch.h"
#include "backend/model/layer/torch/layer_downloads_torch.h"
#include "backend/model/layer/torch/torch_forward_torch.h"
#include "backend/model/session/cpu_model.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/training/processes_torch.h"
#include "backend/model/training/torch_trainable_model.h"

namespace foxscope {
namespace {

std::unique_ptr<CausalLM> load_model(const Checkpoint& checkpoint, const Device& device, DType dtype, const Job& job) {
  fit_team_to_system();
  return device.cuda ? load_torch_model(checkpoint, device, dtype, job) : load_cpu_model(checkpoint, job);
}

std::unique_ptr<TrainableModel> make_trainable_model(const ModelConfig& config, const ParameterSource& weights,
                                                     const TrainableOptions& options, const Job& job) {
  fit_team_to_system();
  return make_torch_trainable_model(config, weights, options, job);
}

PassNeeds pass_needs(const ModelConfig& config, bool on_gpu, DType dtype, const KeepSet& keep, Recompute recompute) {
  PassNeeds needs;
  if (on_gpu) {
    needs.host = LayerDownloads::bytes(config, keep);
    needs.gpu = dtype == DType::float32 ? TorchForward::bytes(config, keep) : CudaForward::bytes(config, keep);
  } else {
    needs.host = CpuForward::bytes(config, keep);
  }
  if (keep.contains(Keep::saliency)) {
    (on_gpu ? needs.gpu : needs.host) += GradientForward::bytes(config, on_gpu, dtype, recompute);
  }
  return needs;
}

constexpr ForwardLibrary kLibrary = {cuda_device_count, free_device_memory,   pass_needs,
                                     load_model,        make_trainable_model, join_processes};

}  // namespace
}  // namespace foxscope

/// The one name that forward_library() looks for.
extern "C" const foxscope::ForwardLibrary* foxscope_forward_library() { return &foxscope::kLibrary; }
