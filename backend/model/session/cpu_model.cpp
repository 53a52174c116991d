#include "backend/model/session/cpu_model.h"

#include <utility>

#include "backend/model/backward/saliency_torch.h"
#include "backend/model/layer/cpu/cpu_forward.h"
#include "backend/model/session/forward_model.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/model/weights/logit_bound.h"
#include "backend/model/weights/mapped_experts.h"
#include "backend/model/weights/weight_reader.h"

namespace foxscope {
namespace {

class CpuModel final : public ForwardModel {
 public:
  CpuModel(ModelConfig config, ModelWeights weights)
      : config_(std::move(config)), weights_(std::move(weights)), lent_(config_, weights_) {}

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const Device& device() const override { return device_; }
  [[nodiscard]] DType dtype() const override { return DType::float32; }

  [[nodiscard]] std::unique_ptr<Forward> make_forward(std::int64_t batch, std::int64_t length) const override {
    return std::make_unique<CpuForward>(config_, weights_, batch, length, kept_);
  }
  [[nodiscard]] bool reads_prompts_together() const override { return false; }
  [[nodiscard]] std::int64_t decode_batch(std::int64_t decode_states) const override { return decode_states; }
  [[nodiscard]] std::unique_ptr<ForwardState> make_state(std::span<const Intervention> interventions,
                                                         double tolerance) const override {
    return std::make_unique<CpuState>(config_, interventions, tolerance, pages_);
  }
  bool run_with_saliency(const Forward::Input& input, const Range& target, std::span<const Probe> probes,
                         const Job& job, ForwardReport& report) const override {
    return foxscope::run_with_saliency(lent_, input, target, probes, job, report);
  }
  void within_device(std::int64_t /*length*/, const std::function<void()>& action) const override { action(); }

 private:
  ModelConfig config_;
  Device device_;
  ModelWeights weights_;
  TorchWeights lent_;  ///< the same, for what LibTorch differentiates
  mutable WorkspaceCache kept_;
  std::shared_ptr<PagePool> pages_ = std::make_shared<PagePool>(KeyValuePages::numbers_of_page(config_.head_dim));
};

}  // namespace

std::unique_ptr<CausalLM> load_cpu_model(const Checkpoint& checkpoint, const Job& job) {
  const CheckpointSource source(checkpoint);
  // Experts are read where they lie, when they are chosen.
  WeightReader reader(checkpoint.config(), source, job, WeightReader::Experts::left);
  auto weights = reader.read_outside();
  if (!weights) return nullptr;
  const std::vector<Parameter> all = parameters(checkpoint.config());
  const bool whole = reader.read_layers([&](int layer, LayerWeights of_layer) {
    of_layer.logit_bound = bound_logits(checkpoint.config(), layer, of_layer);
    CpuForward::lay_out(checkpoint.config(), layer, of_layer);
    if (checkpoint.config().mixture_at(layer) != nullptr) {
      of_layer.mapped = std::make_shared<const MappedExperts>(checkpoint, all, layer);
    }
    weights->layers.push_back(std::move(of_layer));
  });
  if (!whole) return nullptr;
  return std::make_unique<CpuModel>(checkpoint.config(), std::move(*weights));
}

}  // namespace foxscope
