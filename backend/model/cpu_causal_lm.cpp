#include "backend/model/cpu_causal_lm.h"

#include <utility>

#include "backend/model/cpu_continuation.h"
#include "backend/model/cpu_sequence_pass.h"
#include "backend/model/prompt_pass.h"

namespace foxscope {
namespace {

class CpuCausalLM final : public CausalLM {
 public:
  CpuCausalLM(ModelConfig config, CpuWeights weights) : config_(std::move(config)), weights_(std::move(weights)) {}

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const Device& device() const override { return device_; }
  [[nodiscard]] DType dtype() const override { return DType::float32; }

  std::optional<ForwardReport> forward(const ForwardRequest& request, std::span<Recorder* const> recorders,
                                       const Job& job) override {
    check_request(request, recorders, config_);
    ForwardReport report;
    report.attention_kernel = "cpu-tiled";
    for (std::int64_t row = 0; row < request.batch; ++row) {
      CpuSequencePass pass(config_, weights_, request, row, *recorders[static_cast<std::size_t>(row)], job);
      if (job.stopped() || !pass.run(report)) return std::nullopt;
    }
    return report;
  }

  std::unique_ptr<Continuation> begin(const PromptRequest& request, const Job& job) override {
    check_prompt(request, config_);
    PromptPass prompt(request, *this);
    auto continuation = std::make_unique<CpuContinuation>(config_, weights_, request);
    CpuSequencePass pass(config_, weights_, prompt.request(), 0, prompt.recorder(), job);
    pass.fill(*continuation);
    ForwardReport report;
    if (job.stopped() || !pass.run(report)) return nullptr;
    return continuation;
  }

 private:
  ModelConfig config_;
  Device device_;
  CpuWeights weights_;
};

}  // namespace

std::unique_ptr<CausalLM> load_cpu_model(const Checkpoint& checkpoint, const Job& job) {
  auto weights = CpuWeights::read(checkpoint, job);
  if (!weights) return nullptr;
  return std::make_unique<CpuCausalLM>(checkpoint.config(), std::move(*weights));
}

}  // namespace foxscope
