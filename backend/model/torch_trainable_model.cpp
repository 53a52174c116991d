#include "backend/model/torch_trainable_model.h"

#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/current_device_torch.h"
#include "backend/model/device_errors_torch.h"
#include "backend/model/gradient_forward_torch.h"
#include "backend/model/trained_weights_torch.h"

namespace foxscope {
namespace {

constexpr double kNormEpsilon = 1e-6;

std::span<const float> floats(const FloatArray& values) { return {values.data(), values.size()}; }

/// In bfloat16 with float32 sums, dense, by the data sheets; the first name that a device's holds counts.
struct Peak {
  std::string_view name;
  double teraflops;
};
constexpr Peak kPeaks[] = {{"H200", 989}, {"H100 PCIe", 756}, {"H100 NVL", 835}, {"H100", 989},
                           {"H800", 989}, {"B200", 2250},     {"A100", 312},     {"A800", 312},
                           {"L40S", 362}, {"RTX 4090", 165},  {"RTX 3090", 71}};

double peak_flops_of(std::string_view device, DType dtype) {
  if (dtype != DType::bfloat16) return 0;
  for (const Peak& peak : kPeaks) {
    if (device.find(peak.name) != std::string_view::npos) return peak.teraflops * 1e12;
  }
  return 0;
}

/// For the whole process, from here on.
void choose_deterministic_kernels() {
  // cuBLAS sums in a fixed order with this workspace alone, and LibTorch refuses to multiply without it.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

/// Flat arrays on the host, and where the parameters lie in them.
class HostSnapshot final : public TrainingSnapshot {
 public:
  HostSnapshot(const TrainedWeights& trained) : config_(trained.computing().config), layout_(trained.layout()) {
    const auto copy = [](const at::Tensor& flat) { return flat.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true); };
    flats_[0] = copy(trained.master);
    flats_[1] = copy(trained.first_moment);
    flats_[2] = copy(trained.second_moment);
    for (const TorchLayer& layer : trained.computing().layers) {
      untrained_.emplace_back();
      if (config_.forget_gate == ForgetGate::fixed) untrained_.back() = to_host(layer).constant_gate;
    }
  }

  void read(TrainingPart part,
            const std::function<bool(const Parameter&, std::span<const float>)>& take) const override {
    const at::NoGradGuard no_graph;
    const WeightTensors tensors = layout_.views(flats_[static_cast<std::size_t>(part)]);
    int at_hand = -1;
    LayerWeights layer;
    for (const Parameter& parameter : parameters(config_)) {
      FloatArray values;
      if (parameter.layer >= 0) {
        if (parameter.layer != std::exchange(at_hand, parameter.layer)) {
          layer = to_host(tensors.layers[static_cast<std::size_t>(parameter.layer)]);
        }
        const FloatArray& weight = layer.*parameter.of_layer;
        if (weight.empty()) {
          values = part == TrainingPart::weights ? untrained_[static_cast<std::size_t>(parameter.layer)]
                                                 : FloatArray(static_cast<std::size_t>(parameter.elements()));
        } else {
          values = take_parameter(config_, parameter, weight);
        }
      } else {
        const float* const first = tensor_of(parameter, tensors).const_data_ptr<float>();
        if (!take(parameter, {first, static_cast<std::size_t>(parameter.elements())})) return;
        continue;
      }
      if (!take(parameter, floats(values))) return;
    }
  }

 private:
  /// Its first numbers are the parameter's.
  static const at::Tensor& tensor_of(const Parameter& parameter, const WeightTensors& tensors) {
    if (parameter.of_model == &ModelWeights::embedding) return tensors.embedding;
    if (parameter.of_model == &ModelWeights::positions) return tensors.positions;
    if (parameter.of_model == &ModelWeights::final_norm) return tensors.final_norm;
    if (parameter.of_model == &ModelWeights::final_norm_bias) return tensors.final_norm_bias;
    if (parameter.of_model == &ModelWeights::lower_bounds) return tensors.lower_bounds;
    return tensors.padded_head;
  }

  ModelConfig config_;
  FlatLayout layout_;
  at::Tensor flats_[3];                ///< by TrainingPart
  std::vector<FloatArray> untrained_;  ///< for each layer its fixed gates
};

class TorchTrainableModel final : public TrainableModel {
 public:
  TorchTrainableModel(TorchWeights start, const TrainableOptions& options)
      : options_(options), trained_(std::move(start), options.dtype) {
    const at::TensorOptions scalar = weights().options(at::kFloat);
    loss_ = at::zeros({}, scalar.dtype(at::kDouble));
    step_count_ = at::zeros({}, scalar);
    clear_curves();
  }

  [[nodiscard]] const ModelConfig& config() const override { return weights().config; }
  [[nodiscard]] std::int64_t trained_parameters() const override { return trained_.layout().trained(); }

  bool add_gradients(const MicroBatch& micro_batch, const Job& job) override {
    bool done = false;
    within_device(micro_batch, [&] {
      const std::int64_t rows = micro_batch.batch * micro_batch.length;
      const at::Tensor loss_weights = at::full({rows}, micro_batch.loss_weight, weights().options(at::kFloat));
      const auto forward = make_gradient_forward(weights(), micro_batch.batch, micro_batch.length, loss_weights,
                                                 {.weights = &trained_.gradients()});
      if (!run(*forward, micro_batch, job) || !forward->differentiate(job)) return;
      loss_.add_(forward->loss());
      keep_curves(*forward);
      done = true;
    });
    return done;
  }

  StepReport step(double learning_rate) override {
    StepReport report;
    with_errors([&] {
      const at::NoGradGuard no_graph;
      trained_.collect_gradients();
      const at::Tensor norm = at::linalg_vector_norm(trained_.gradient, 2, {}, false, at::kDouble);
      const at::Tensor seen = at::stack({loss_, norm}).to(at::kCPU);
      report.loss = seen.const_data_ptr<double>()[0];
      report.gradient_norm = seen.const_data_ptr<double>()[1];
      report.stepped = std::isfinite(report.loss) && std::isfinite(report.gradient_norm);
      if (report.stepped) update(learning_rate, report.gradient_norm);
      trained_.clear_gradients();
      loss_.zero_();
    });
    report.attention_blocks = std::exchange(forward_report_.attention_blocks, 0);
    report.skipped_blocks = std::exchange(forward_report_.skipped_blocks, 0);
    return report;
  }

  [[nodiscard]] std::int64_t steps() const override { return steps_; }

  Curves take_curves() override {
    Curves curves;
    with_errors([&] {
      curves.sequences = sequences_;
      if (sequences_ == 0) return;
      const auto to_vector = [&](const at::Tensor& sums, double divisor) {
        const at::Tensor mean = (sums / divisor).to(at::kCPU).contiguous();
        return std::vector<double>(mean.const_data_ptr<double>(), mean.const_data_ptr<double>() + mean.numel());
      };
      const auto sequences = static_cast<double>(sequences_);
      curves.loss = to_vector(loss_sums_, sequences);
      if (gate_sums_.defined()) {
        curves.mean_log_gate = to_vector(gate_sums_, sequences * static_cast<double>(loss_sums_.numel()));
      }
      clear_curves();
    });
    return curves;
  }

  std::vector<double> losses(const MicroBatch& sequences, const Job& job) override {
    std::vector<double> losses;
    within_device(sequences, [&] {
      const std::int64_t rows = sequences.batch * sequences.length;
      const at::Tensor none = at::zeros({rows}, weights().options(at::kFloat));
      const auto forward = make_gradient_forward(weights(), sequences.batch, sequences.length, none, {});
      if (!run(*forward, sequences, job)) return;
      const at::Tensor found = forward->losses().to(at::kCPU, at::kDouble).contiguous();
      losses.assign(found.const_data_ptr<double>(), found.const_data_ptr<double>() + rows);
    });
    forward_report_ = {};
    return losses;
  }

  [[nodiscard]] std::unique_ptr<TrainingSnapshot> snapshot() const override {
    std::unique_ptr<TrainingSnapshot> copy;
    with_errors([&] { copy = std::make_unique<HostSnapshot>(trained_); });
    return copy;
  }

  bool restore(std::int64_t steps, const ParameterSource& first_moment, const ParameterSource& second_moment,
               const Job& job) override {
    bool done = false;
    with_errors([&] {
      done = load_moment(first_moment, trained_.first_moment, job) &&
             load_moment(second_moment, trained_.second_moment, job);
    });
    steps_ = steps;
    step_count_.fill_(static_cast<double>(steps));
    return done;
  }

  [[nodiscard]] double peak_flops() const override {
    return options_.device.cuda ? peak_flops_of(kernels::cuda::device_name(options_.device.index), options_.dtype) : 0;
  }

  [[nodiscard]] std::int64_t peak_device_memory() const override {
    if (!weights().on_gpu()) return 0;
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return at::accelerator::getDeviceStats(weights().place.index()).allocated_bytes[kAll].peak;
  }

 private:
  [[nodiscard]] const TorchWeights& weights() const { return trained_.computing(); }

  template <typename Action>
  void with_errors(const Action& action) const {
    with_device_errors(options_.device, "a step of training", "use a smaller --micro-batch-tokens", [&] {
      const CurrentDevice current(weights().place);
      action();
    });
  }
  template <typename Action>
  void within_device(const MicroBatch& batch, const Action& action) const {
    with_device_errors(options_.device, fmt::format("micro-batches of {} tokens", batch.batch * batch.length),
                       "use a smaller --micro-batch-tokens", [&] {
                         const CurrentDevice current(weights().place);
                         action();
                       });
  }

  bool run(GradientForward& forward, const MicroBatch& batch, const Job& job) {
    Forward::Input input;
    input.batch = batch.batch;
    input.ids = batch.input_ids;
    input.labels = batch.labels;
    input.pruning_tolerance = options_.pruning_tolerance;
    probes_.resize(static_cast<std::size_t>(batch.batch));
    return forward.run_forward(input, probes_, {job.stop, {}, job.executor}, forward_report_);
  }

  void update(double learning_rate, double norm) {
    ++steps_;
    step_count_.fill_(static_cast<double>(steps_));
    const AdamW& adamw = options_.optimizer;
    // The kernels divide gradients by it.
    const double divisor = adamw.clip > 0 ? std::max(1.0, (norm + kNormEpsilon) / adamw.clip) : 1;
    const at::Tensor scale = at::full({}, divisor, step_count_.options());
    const std::int64_t decayed = trained_.layout().decayed();
    const auto apply = [&](std::int64_t begin, std::int64_t end, double decay) {
      if (begin == end) return;
      const auto part = [&](const at::Tensor& flat) { return flat.slice(0, begin, end); };
      at::_fused_adamw_({part(trained_.master)}, {part(trained_.gradient)}, {part(trained_.first_moment)},
                        {part(trained_.second_moment)}, {}, {step_count_}, learning_rate, adamw.beta1, adamw.beta2,
                        decay, adamw.epsilon, /*amsgrad=*/false, /*maximize=*/false, scale);
    };
    apply(0, decayed, adamw.weight_decay);
    apply(decayed, trained_.layout().size(), 0);
    trained_.refresh();
  }

  void clear_curves() {
    sequences_ = 0;
    loss_sums_ = at::Tensor();
    gate_sums_ = at::Tensor();
  }

  void keep_curves(const GradientForward& forward) {
    const at::NoGradGuard no_graph;
    const at::Tensor losses = forward.losses().to(at::kDouble).sum(0);
    sequences_ += forward.losses().size(0);
    if (loss_sums_.defined() && loss_sums_.numel() == losses.numel()) {
      loss_sums_.add_(losses);
    } else {
      loss_sums_ = losses;
    }
    if (!config().gated()) return;
    const at::Tensor gates = at::stack(forward.gate_sums());
    gate_sums_ = gate_sums_.defined() ? gate_sums_.add_(gates) : gates;
  }

  bool load_moment(const ParameterSource& source, const at::Tensor& flat, const Job& job) {
    const at::NoGradGuard no_graph;
    TorchWeights moments(config(), options_.device, DType::float32);
    if (!moments.load(source, job)) return false;
    const WeightTensors views = trained_.layout().views(flat);
    const auto copy = [](const at::Tensor& into, const at::Tensor& from) {
      if (!into.defined()) return;
      // Of what all heads share there is one for each head.
      into.copy_(from.dim() == into.dim() ? from : from[0]);
    };
    for (const auto member : WeightTensors::outside()) copy(views.*member, moments.*member);
    for (std::size_t layer = 0; layer < views.layers.size(); ++layer) {
      for (const auto member : differentiable_weights()) {
        copy(views.layers[layer].*member, moments.layers[layer].*member);
      }
    }
    return true;
  }

  TrainableOptions options_;
  TrainedWeights trained_;
  ForwardReport forward_report_;
  std::vector<Probe> probes_;  ///< one a sequence, that keep and change nothing
  at::Tensor loss_;            ///< [] float64 of the step
  at::Tensor step_count_;      ///< [] float32 t, as the optimiser's kernels read it
  std::int64_t steps_ = 0;
  std::int64_t sequences_ = 0;
  at::Tensor loss_sums_;  ///< [L] float64
  at::Tensor gate_sums_;  ///< [layers, H] float64
};

}  // namespace

std::unique_ptr<TrainableModel> make_torch_trainable_model(const ModelConfig& config, const ParameterSource& weights,
                                                           const TrainableOptions& options, const Job& job) {
  std::unique_ptr<TrainableModel> model;
  with_device_errors(options.device, "the weights and what their training takes",
                     "use a smaller model, or a GPU with more memory", [&] {
                       if (options.deterministic) choose_deterministic_kernels();
                       TorchWeights start(config, options.device, DType::float32);
                       const CurrentDevice current(start.place);
                       if (start.load(weights, job)) {
                         if (options.device.cuda) at::accelerator::resetPeakStats(start.place.index());
                         model = std::make_unique<TorchTrainableModel>(std::move(start), options);
                       }
                     });
  return model;
}

}  // namespace foxscope
