#include "backend/model/backward/differentiable_gates_torch.h"

#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "backend/base/error.h"
#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "kernels/cpu/gate_scan.h"
#include "kernels/cuda/steps/gate_scan.h"

namespace foxscope {
namespace {

/// The arguments of a change of gates that its backward needs.
struct GateChange : torch::CustomClassHolder {
  int layer = 0;
  std::vector<Probe> probes;
};

/// The changes are made on the host, sequence by sequence.
struct ChangeGates : torch::autograd::Function<ChangeGates> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& log_gate,
                            const c10::intrusive_ptr<GateChange>& change) {
    context->save_for_backward({log_gate});
    context->saved_data["change"] = c10::IValue::make_capsule(change);
    const at::Tensor changed = log_gate.to(at::kCPU).contiguous().clone();
    const std::int64_t size = changed[0].numel();
    for (std::size_t b = 0; b < change->probes.size(); ++b) {
      change->probes[b].change_gates(change->layer, static_cast<int>(changed.size(1)), 0, changed.size(2),
                                     changed.mutable_data_ptr<double>() + static_cast<std::int64_t>(b) * size);
    }
    return changed.to(log_gate.device());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto change = c10::static_intrusive_pointer_cast<GateChange>(context->saved_data["change"].toCapsule());
    const at::Tensor log_gate = context->get_saved_variables()[0].to(at::kCPU).contiguous();
    const at::Tensor gradient = gradients[0].to(at::kCPU).contiguous().clone();
    const std::int64_t size = gradient[0].numel();
    for (std::size_t b = 0; b < change->probes.size(); ++b) {
      const std::int64_t at = static_cast<std::int64_t>(b) * size;
      change->probes[b].pull_back_gates(change->layer, static_cast<int>(gradient.size(1)), gradient.size(2),
                                        log_gate.const_data_ptr<double>() + at,
                                        gradient.mutable_data_ptr<double>() + at);
    }
    return {gradient.to(gradients[0].device()), at::Tensor()};
  }
};

}  // namespace

at::Tensor change_gates(const at::Tensor& log_gate, int layer, std::span<const Probe> probes) {
  auto change = c10::make_intrusive<GateChange>();
  change->layer = layer;
  change->probes.assign(probes.begin(), probes.end());
  return ChangeGates::apply(log_gate, change);
}

at::Tensor sum_log_gates(const at::Tensor& log_gate) {
  const std::int64_t rows = log_gate.size(0) * log_gate.size(1);
  at::Tensor cumulative = at::empty(log_gate.sizes(), log_gate.options());
  if (log_gate.is_cpu()) {
    kernels::cpu::cumulative_log_gate(log_gate.contiguous().const_data_ptr<double>(), rows, log_gate.size(2),
                                      cumulative.mutable_data_ptr<double>());
    return cumulative;
  }
  const at::Tensor contiguous = log_gate.contiguous();
  const at::Tensor workspace =
      at::empty({static_cast<std::int64_t>(kernels::cuda::gate_scan_workspace_bytes(rows, log_gate.size(2)))},
                log_gate.options().dtype(at::kByte));
  kernels::cuda::GateScan scan;
  scan.batch = log_gate.size(0);
  scan.heads = log_gate.size(1);
  scan.length = log_gate.size(2);
  scan.log_gate = contiguous.const_data_ptr<double>();
  scan.cumulative = cumulative.mutable_data_ptr<double>();
  scan.workspace = workspace.mutable_data_ptr();
  if (kernels::cuda::gate_scan(scan, current_stream(log_gate.device())) != kernels::Status::ok) {
    throw Error("the GPU refused the sums of gates: try --device cpu");
  }
  return cumulative;
}

}  // namespace foxscope
