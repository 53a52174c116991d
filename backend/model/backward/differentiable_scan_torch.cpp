#include "backend/model/backward/differentiable_scan_torch.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "backend/base/error.h"
#include "backend/model/layer/cpu/cpu_team.h"
#include "kernels/cpu/selective_scan.h"

namespace foxscope {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The operands of a scan, for all sequences: `input`, `step` and `decay_step` [B, n, H], `rate` [d, H], `key` and
/// `query` [B, n, d].
struct ScanTensors {
  at::Tensor input, step, decay_step, rate, key, query;

  [[nodiscard]] kernels::cpu::SelectiveScan of_sequence(std::int64_t sequence, at::Tensor& state) const {
    kernels::cpu::SelectiveScan scan;
    scan.length = input.size(1);
    scan.channels = input.size(2);
    scan.state_size = rate.size(0);
    scan.input = input[sequence].const_data_ptr<float>();
    scan.step = step[sequence].const_data_ptr<float>();
    scan.decay_step = decay_step[sequence].const_data_ptr<float>();
    scan.rate = rate.const_data_ptr<float>();
    scan.key = key[sequence].const_data_ptr<float>();
    scan.query = query[sequence].const_data_ptr<float>();
    scan.state = state.zero_().mutable_data_ptr<float>();
    return scan;
  }
  [[nodiscard]] at::Tensor make_state() const { return at::empty({rate.size(1), rate.size(0)}, rate.options()); }
};

void require(kernels::Status status) {
  if (status != kernels::Status::ok) throw ShapeError("[selective_scan] these channels and states are not supported");
}

struct Scan : torch::autograd::Function<Scan> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& step,
                            const at::Tensor& decay_step, const at::Tensor& rate, const at::Tensor& key,
                            const at::Tensor& query) {
    const ScanTensors all{input.contiguous(), step.contiguous(), decay_step.contiguous(),
                          rate.contiguous(),  key.contiguous(),  query.contiguous()};
    context->save_for_backward({all.input, all.step, all.decay_step, all.rate, all.key, all.query});
    at::Tensor output = at::empty_like(all.input);
    at::Tensor state = all.make_state();
    LibTorchTeam team;
    for (std::int64_t sequence = 0; sequence < output.size(0); ++sequence) {
      kernels::cpu::SelectiveScan scan = all.of_sequence(sequence, state);
      scan.output = output[sequence].mutable_data_ptr<float>();
      scan.output_stride = scan.channels;
      require(kernels::cpu::selective_scan(scan, team, {}));
    }
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const ScanTensors all{saved[0], saved[1], saved[2], saved[3], saved[4], saved[5]};
    const at::Tensor grad_output = gradients[0].contiguous();
    const at::Tensor grad_written = at::empty_like(all.input);
    const at::Tensor grad_decay_step = at::empty_like(all.input);
    const at::Tensor grad_key = at::empty_like(all.key);
    const at::Tensor grad_query = at::empty_like(all.query);
    const at::Tensor grad_rates =
        at::empty({grad_output.size(0), all.rate.size(0), all.rate.size(1)}, all.rate.options());
    at::Tensor state = all.make_state();
    LibTorchTeam team;
    for (std::int64_t sequence = 0; sequence < grad_output.size(0); ++sequence) {
      const kernels::cpu::SelectiveScan scan = all.of_sequence(sequence, state);
      const at::Tensor grad_state = at::zeros_like(state);
      kernels::cpu::SelectiveScanGradients sought;
      sought.output = grad_output[sequence].const_data_ptr<float>();
      sought.state = grad_state.mutable_data_ptr<float>();
      sought.input = grad_written[sequence].mutable_data_ptr<float>();
      sought.decay_step = grad_decay_step[sequence].mutable_data_ptr<float>();
      sought.rate = grad_rates[sequence].mutable_data_ptr<float>();
      sought.key = grad_key[sequence].mutable_data_ptr<float>();
      sought.query = grad_query[sequence].mutable_data_ptr<float>();
      require(kernels::cpu::selective_scan_backward(scan, sought, team, {}));
    }
    return {
        grad_written * all.step, grad_written * all.input, grad_decay_step, grad_rates.sum(0), grad_key, grad_query};
  }
};

}  // namespace

bool differentiable_scan_takes(const LinearOperands& operands) {
  return operands.rate.defined() && operands.key.is_cpu();
}

std::optional<at::Tensor> differentiable_scan(const LinearOperands& operands, const std::stop_token& stop) {
  const auto positions_first = [](const at::Tensor& x) { return x.transpose(1, 2); };
  const at::Tensor output = Scan::apply(positions_first(operands.value.squeeze(3)), positions_first(operands.beta),
                                        positions_first((-operands.log_decay).to(at::kFloat)), operands.rate.t(),
                                        operands.key.select(1, 0), operands.query.select(1, 0));
  if (stop.stop_requested()) return std::nullopt;
  return positions_first(output).unsqueeze(3);
}

}  // namespace foxscope
