#include "backend/model/cpu_causal_lm.h"

#include <utility>

#include "backend/model/cpu_continuation.h"
#include "backend/model/cpu_forward.h"
#include "backend/model/logit_bound.h"
#include "backend/model/weight_reader.h"

namespace foxscope {
namespace {

class CpuCausalLM final : public CausalLM {
 public:
  CpuCausalLM(ModelConfig config, ModelWeights weights) : config_(std::move(config)), weights_(std::move(weights)) {}

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const Device& device() const override { return device_; }
  [[nodiscard]] DType dtype() const override { return DType::float32; }

  std::optional<ForwardReport> forward(const ForwardRequest& request, std::span<Recorder* const> recorders,
                                       const Job& job) override {
    check_request(request, recorders, config_);
    ForwardReport report;
    report.attention_kernel = "cpu-tiled";
    for (std::int64_t row = 0; row < request.batch; ++row) {
      const auto of_row = [&](auto all, std::int64_t size) {
        return all.empty() ? all : all.subspan(static_cast<std::size_t>(row * size), static_cast<std::size_t>(size));
      };
      CpuForward::Input input;
      input.ids = of_row(request.input_ids, request.length);
      input.labels = of_row(request.labels, request.length);
      input.first_layer = request.start.layer;
      input.hidden = of_row(request.start.hidden, request.length * config_.hidden_size);
      input.pruning_tolerance = request.pruning_tolerance;
      const Probe probe(recorders[static_cast<std::size_t>(row)], request.interventions);
      CpuForward forward(config_, weights_, request.length);
      if (job.stopped() || !forward.run(input, probe, nullptr, job, report)) return std::nullopt;
    }
    return report;
  }

  std::unique_ptr<Continuation> begin(const PromptRequest& request, const Job& job) override {
    check_prompt(request, config_);
    return CpuContinuation::begin(config_, weights_, request, job);
  }

 private:
  ModelConfig config_;
  Device device_;
  ModelWeights weights_;
};

}  // namespace

std::unique_ptr<CausalLM> load_cpu_model(const Checkpoint& checkpoint, const Job& job) {
  WeightReader reader(checkpoint, job);
  auto weights = reader.read_outside();
  for (int layer = 0; weights && layer < checkpoint.config().layers; ++layer) {
    auto of_layer = reader.read_layer(layer);
    if (!of_layer) return nullptr;
    of_layer->logit_bound = bound_logits(checkpoint.config(), *of_layer);
    weights->layers.push_back(std::move(*of_layer));
  }
  if (!weights) return nullptr;
  return std::make_unique<CpuCausalLM>(checkpoint.config(), std::move(*weights));
}

}  // namespace foxscope
