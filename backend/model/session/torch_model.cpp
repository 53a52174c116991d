#include "backend/model/session/torch_model.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "backend/base/log.h"
#include "backend/model/backward/saliency_torch.h"
#include "backend/model/layer/cuda/cuda_forward_torch.h"
#include "backend/model/layer/cuda/cuda_next_forward_torch.h"
#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "backend/model/layer/torch/torch_forward_torch.h"
#include "backend/model/session/forward_model.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/model/weights/current_device_torch.h"
#include "backend/model/weights/device_errors_torch.h"

namespace foxscope {
namespace {

class TorchModel final : public ForwardModel {
 public:
  explicit TorchModel(TorchWeights weights) : weights_(std::move(weights)) {}

  [[nodiscard]] const ModelConfig& config() const override { return weights_.config; }
  [[nodiscard]] const Device& device() const override { return weights_.device; }
  [[nodiscard]] DType dtype() const override { return weights_.dtype; }

  [[nodiscard]] std::unique_ptr<Forward> make_forward(std::int64_t batch, std::int64_t length) const override {
    if (CudaForward::takes(weights_)) return std::make_unique<CudaForward>(weights_, batch, length);
    return std::make_unique<TorchForward>(weights_, batch, length);
  }
  [[nodiscard]] bool reads_prompts_together() const override { return CudaNextForward::takes(weights_); }
  [[nodiscard]] std::int64_t decode_batch(std::int64_t /*continuations*/) const override {
    return CudaNextForward::takes(weights_) ? kMostTogether : 0;
  }
  void with_next_forward(std::int64_t batch, const std::function<void(Forward&)>& action) const override {
    if (!CudaNextForward::takes(weights_)) return ForwardModel::with_next_forward(batch, action);
    std::unique_ptr<NextForward> next = take_next(batch);
    const c10::StreamGuard guard(next->stream);
    action(*next->forward);
    // One that has thrown is not kept.
    const std::scoped_lock lock(next_mutex_);
    kept_next_.push_back(std::move(next));
  }
  [[nodiscard]] std::unique_ptr<ForwardState> make_state(std::span<const Intervention> /*interventions*/,
                                                         double tolerance) const override {
    return std::make_unique<TorchState>(config().layers, config().heads, tolerance / 2);
  }
  bool run_with_saliency(const Forward::Input& input, const Range& target, std::span<const Probe> probes,
                         const Job& job, ForwardReport& report) const override {
    return foxscope::run_with_saliency(weights_, input, target, probes, job, report);
  }
  void within_device(std::int64_t length, const std::function<void()>& action) const override {
    with_device_errors(weights_.device, length, [&] {
      const CurrentDevice current(weights_.place);
      const c10::InferenceMode inference;
      action();
    });
  }

 private:
  /// A forward, and the stream that its work is recorded on.
  struct NextForward {
    std::int64_t batch;
    c10::Stream stream;
    std::unique_ptr<CudaNextForward> forward;
  };

  [[nodiscard]] std::unique_ptr<NextForward> take_next(std::int64_t batch) const {
    {
      const std::scoped_lock lock(next_mutex_);
      const auto kept = std::ranges::find(kept_next_, batch, [](const auto& next) { return next->batch; });
      if (kept != kept_next_.end()) {
        std::unique_ptr<NextForward> next = std::move(*kept);
        kept_next_.erase(kept);
        return next;
      }
    }
    const c10::Stream stream =
        c10::impl::VirtualGuardImpl(weights_.place.type()).getStreamFromGlobalPool(weights_.place, false);
    const c10::StreamGuard guard(stream);
    return std::make_unique<NextForward>(
        NextForward{batch, stream, std::make_unique<CudaNextForward>(weights_, batch)});
  }

  TorchWeights weights_;
  mutable std::mutex next_mutex_;
  mutable std::vector<std::unique_ptr<NextForward>> kept_next_;
};

void log_attention(const TorchWeights& weights) {
  log_line(LogCategory::model, [&] {
    const Device& device = weights.device;
    if (!device.cuda) return fmt::format("{} layers of LibTorch's operations", weights.config.layers);
    if (cuda_attention_takes(weights.config.head_dim, weights.matrix)) {
      return fmt::format("attention is the kernels' own on {}", device.name());
    }
    return fmt::format(
        "attention falls back to LibTorch's operations on {}: no kernel for heads of {} in {}, or no "
        "kernel for this GPU",
        device.name(), weights.config.head_dim, to_string(weights.dtype));
  });
}

/// Says nothing: what does not work is said where a GPU was asked for.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

}  // namespace

std::unique_ptr<CausalLM> load_torch_model(const Checkpoint& checkpoint, const Device& device, DType dtype,
                                           const Job& job) {
  std::unique_ptr<CausalLM> model;
  with_device_errors(device, 0, [&] {
    TorchWeights weights(checkpoint.config(), device, dtype);
    const CurrentDevice current(weights.place);
    log_attention(weights);
    if (weights.load(checkpoint, job)) model = std::make_unique<TorchModel>(std::move(weights));
  });
  return model;
}

std::int64_t free_device_memory(int index) {
  at::accelerator::emptyCache();
  return static_cast<std::int64_t>(at::accelerator::getMemoryInfo(static_cast<at::DeviceIndex>(index)).first);
}

int cuda_device_count() {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  return at::hasCUDA() ? static_cast<int>(at::getNumGPUs()) : 0;
}

}  // namespace foxscope
