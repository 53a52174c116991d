#include "backend/model/training/torch_trainable_model.h"

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
#include "backend/base/index.h"
#include "backend/model/backward/gradient_forward_torch.h"
#include "backend/model/training/processes_torch.h"
#include "backend/model/weights/current_device_torch.h"
#include "backend/model/weights/device_errors_torch.h"
#include "backend/model/weights/trained_weights_torch.h"

namespace foxscope {
namespace {

constexpr double kNormEpsilon = 1e-6;
constexpr const char* kStep = "a step of training";

std::span<const float> floats(const FloatArray& values) { return {values.data(), values.size()}; }

/// The peak in bfloat16 with float32 sums, dense, by the data sheets; the first name that a device's holds counts.
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

/// Makes kernels deterministic for the whole process, from here on.
void choose_deterministic_kernels() {
  // cuBLAS sums in a fixed order with this workspace alone, and LibTorch refuses to multiply without it.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

void add_curves(CurveSums& sums, const CurveSums& more) {
  sums.sequences += more.sequences;
  for (std::size_t n = 0; n < sums.loss.size(); ++n) sums.loss[n] += more.loss[n];
  for (std::size_t n = 0; n < sums.log_gate.size(); ++n) sums.log_gate[n] += more.log_gate[n];
}

CurveSums zero_curves(const CurveSums& sums) {
  return {0, std::vector<double>(sums.loss.size()), std::vector<double>(sums.log_gate.size())};
}

at::Tensor host_copy(const at::Tensor& tensor) { return tensor.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true); }

/// Flat arrays on the host, and where the parameters lie in them.
class HostSnapshot final : public TrainingSnapshot {
 public:
  /// @param first_moment, second_moment  [layout().size()] on the host
  HostSnapshot(const TrainedWeights& trained, at::Tensor first_moment, at::Tensor second_moment,
               std::vector<CurveSums> curves)
      : config_(trained.computing().config),
        layout_(trained.layout()),
        flats_{host_copy(trained.master), std::move(first_moment), std::move(second_moment)},
        curves_(std::move(curves)) {
    for (const TorchLayer& layer : trained.computing().layers) {
      untrained_.emplace_back();
      if (config_.forget_gate == ForgetGate::fixed) untrained_.back() = to_host(layer).constant_gate;
    }
  }

  [[nodiscard]] const std::vector<CurveSums>& curves() const override { return curves_; }

  void read(TrainingPart part,
            const std::function<bool(const Parameter&, std::span<const float>)>& take) const override {
    const at::NoGradGuard no_graph;
    const WeightTensors tensors = layout_.views(flats_[index_of(part)]);
    int at_hand = -1;
    LayerWeights layer;
    for (const Parameter& parameter : parameters(config_)) {
      FloatArray values;
      if (parameter.layer >= 0) {
        if (parameter.layer != std::exchange(at_hand, parameter.layer)) {
          layer = to_host(tensors.layers[index_of(parameter.layer)]);
        }
        const FloatArray& weight = layer.*parameter.of_layer;
        if (weight.empty()) {
          values = part == TrainingPart::weights ? untrained_[index_of(parameter.layer)]
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
  /// The tensor whose first numbers are the parameter's.
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
  std::vector<CurveSums> curves_;
};

class TorchTrainableModel final : public TrainableModel {
 public:
  TorchTrainableModel(TorchWeights start, const TrainableOptions& options)
      : options_(options),
        processes_(static_cast<TorchProcesses*>(options.processes)),
        trained_(std::move(start), options.dtype, process_count()) {
    if (processes_ != nullptr) processes_->require_same_numbers(trained_.master, "weights");
    const at::TensorOptions scalar = weights().options(at::kFloat);
    loss_ = at::zeros({}, scalar.dtype(at::kDouble));
    step_count_ = at::zeros({}, scalar);
    clear_curves();
    summed_.assign(trained_.layout().chunks().size(), false);
    for (const FlatLayout::Chunk& chunk : trained_.layout().chunks()) {
      Updated& updated = chunk.decayed ? decayed_ : not_decayed_;
      updated.masters.push_back(own_part(of(trained_.master, chunk)));
      updated.first_moments.push_back(own_moments(trained_.first_moment, chunk));
      updated.second_moments.push_back(own_moments(trained_.second_moment, chunk));
    }
  }

  [[nodiscard]] const ModelConfig& config() const override { return weights().config; }
  [[nodiscard]] std::int64_t trained_parameters() const override { return trained_.layout().trained(); }

  bool add_gradients(const MicroBatch& micro_batch, const Job& job) override {
    bool done = false;
    with_errors(tokens_of(micro_batch), [&] {
      const std::int64_t rows = micro_batch.batch * micro_batch.length;
      const at::Tensor loss_weights = at::full({rows}, micro_batch.loss_weight, weights().options(at::kFloat));
      const auto forward =
          make_gradient_forward(weights(), micro_batch.batch, micro_batch.length, loss_weights,
                                {.log_gates = false,
                                 .weights = &trained_.gradients(),
                                 .layer_begins = [this](int layer) { trained_.begin_gradients(layer); },
                                 .layer_done = micro_batch.last ? sum_of_layer() : nullptr,
                                 .recompute = options_.recompute});
      if (!run(*forward, micro_batch, job) || !forward->backward(job)) return;
      loss_.add_(forward->loss());
      keep_curves(*forward);
      done = true;
    });
    return done;
  }

  StepReport step(double learning_rate, const StepRequests& requests) override {
    StepReport report;
    with_errors(kStep, [&] {
      const at::NoGradGuard no_graph;
      trained_.collect_gradients();
      sum_gradients();
      at::Tensor seen = at::stack({loss_, squares()});
      if (processes_ != nullptr) {
        const std::vector<double> own = {requests.stop ? 1.0 : 0.0, requests.save ? 1.0 : 0.0,
                                         static_cast<double>(forward_report_.attention_blocks),
                                         static_cast<double>(forward_report_.skipped_blocks)};
        seen = at::cat({seen, at::tensor(own, at::kDouble).to(seen.device())});
        processes_->add_up(seen);
      }
      seen = seen.to(at::kCPU);
      const double* const numbers = seen.const_data_ptr<double>();
      report.loss = numbers[0];
      report.gradient_norm = std::sqrt(numbers[1]);
      report.asked = requests;
      if (processes_ != nullptr) {
        report.asked = {.stop = numbers[2] > 0, .save = numbers[3] > 0};
        forward_report_.attention_blocks = std::llround(numbers[4]);
        forward_report_.skipped_blocks = std::llround(numbers[5]);
      }
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
    with_errors(kStep, [&] {
      add_up_curves();
      curves.sequences = sequences_;
      if (sequences_ == 0) return;
      const auto to_vector = [&](const at::Tensor& sums, double divisor) {
        const at::Tensor mean = (sums / divisor).to(at::kCPU).contiguous();
        return std::vector<double>(mean.const_data_ptr<double>(), mean.const_data_ptr<double>() + mean.numel());
      };
      const auto sequences = static_cast<double>(sequences_);
      curves.loss = to_vector(loss_sums_, sequences);
      if (gate_sums_.defined()) {
        const auto gates = static_cast<double>(std::max<std::int64_t>(1, loss_sums_.numel() - 1));
        curves.mean_log_gate = to_vector(gate_sums_, sequences * gates);
      }
      clear_curves();
    });
    return curves;
  }

  void restore_curves(const std::vector<CurveSums>& by_process) override {
    if (by_process.empty()) return;
    with_errors(kStep, [&] {
      const std::size_t rank = processes_ == nullptr ? 0 : static_cast<std::size_t>(processes_->distributed().rank);
      CurveSums own = by_process[0];
      if (by_process.size() == static_cast<std::size_t>(process_count())) {
        own = by_process[rank];
      } else {
        for (std::size_t n = 1; n < by_process.size(); ++n) add_curves(own, by_process[n]);
        if (rank > 0) own = zero_curves(own);
      }
      const auto on_device = [&](const std::vector<double>& sums) {
        return at::tensor(sums, at::kDouble).to(weights().place);
      };
      sequences_ = own.sequences;
      loss_sums_ = on_device(own.loss);
      if (config().gated()) gate_sums_ = on_device(own.log_gate).view({config().layers, config().heads});
    });
  }

  [[nodiscard]] bool finite() const override {
    bool all = true;
    with_errors(kStep, [&] {
      const at::NoGradGuard no_graph;
      std::vector<at::Tensor> norms;
      for (const FlatLayout::Chunk& chunk : trained_.layout().chunks()) {
        norms.push_back(at::linalg_vector_norm(of(trained_.master, chunk), 2, {}, false, at::kDouble));
      }
      all = at::stack(norms).isfinite().all().item<bool>();
    });
    return all;
  }

  std::vector<double> losses(const MicroBatch& sequences, const Job& job) override {
    std::vector<double> losses;
    with_errors(tokens_of(sequences), [&] {
      const std::int64_t rows = sequences.batch * sequences.length;
      const at::Tensor none = at::zeros({rows}, weights().options(at::kFloat));
      // A pass without a backward keeps nothing for one.
      const auto forward =
          make_gradient_forward(weights(), sequences.batch, sequences.length, none, {.recompute = Recompute::layers});
      if (!run(*forward, sequences, job)) return;
      const at::Tensor found = forward->losses().to(at::kCPU, at::kDouble).contiguous();
      losses.assign(found.const_data_ptr<double>(), found.const_data_ptr<double>() + rows);
    });
    forward_report_ = {};
    return losses;
  }

  [[nodiscard]] std::unique_ptr<TrainingSnapshot> snapshot() const override {
    std::unique_ptr<TrainingSnapshot> copy;
    with_errors(kStep, [&] {
      const at::NoGradGuard no_graph;
      at::Tensor first = all_moments(trained_.first_moment);
      at::Tensor second = all_moments(trained_.second_moment);
      std::vector<CurveSums> curves = all_curves();
      if (processes_ != nullptr && !processes_->first()) return;
      copy = std::make_unique<HostSnapshot>(trained_, std::move(first), std::move(second), std::move(curves));
    });
    return copy;
  }

  bool restore(std::int64_t steps, const ParameterSource& first_moment, const ParameterSource& second_moment,
               const Job& job) override {
    bool done = false;
    with_errors(kStep, [&] {
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

  [[nodiscard]] std::int64_t gradient_bytes() const override { return trained_.absent_gradients() * 4; }
  [[nodiscard]] std::int64_t peak_device_memory() const override {
    if (!weights().on_gpu()) return 0;
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return at::accelerator::getDeviceStats(weights().place.index()).allocated_bytes[kAll].peak;
  }

 private:
  [[nodiscard]] const TorchWeights& weights() const { return trained_.computing(); }

  template <typename Action>
  void with_errors(const std::string& when, const Action& action) const {
    with_device_errors(options_.device, when, "use a smaller --micro-batch-tokens", [&] {
      const CurrentDevice current(weights().place);
      action();
    });
  }
  static std::string tokens_of(const MicroBatch& batch) {
    return fmt::format("micro-batches of {} tokens", batch.batch * batch.length);
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

  /// The part that this process updates: its parts of the chunks.
  struct Updated {
    std::vector<at::Tensor> masters;
    std::vector<at::Tensor> first_moments;
    std::vector<at::Tensor> second_moments;
  };

  [[nodiscard]] int process_count() const { return processes_ == nullptr ? 1 : processes_->distributed().world_size; }

  static at::Tensor of(const at::Tensor& flat, const FlatLayout::Chunk& chunk) {
    return flat.slice(0, chunk.begin, chunk.end);
  }
  /// @param chunk  the numbers of a chunk
  [[nodiscard]] at::Tensor own_part(const at::Tensor& chunk) const {
    return processes_ == nullptr ? chunk : processes_->part(chunk);
  }
  /// This process's gradients of the chunks that are decayed, or of those that are not, as Updated has them.
  [[nodiscard]] std::vector<at::Tensor> own_gradients(bool decayed) const {
    std::vector<at::Tensor> gradients;
    const std::vector<FlatLayout::Chunk>& chunks = trained_.layout().chunks();
    for (std::size_t number = 0; number < chunks.size(); ++number) {
      if (chunks[number].decayed == decayed) gradients.push_back(own_part(trained_.gradient(number)));
    }
    return gradients;
  }
  [[nodiscard]] at::Tensor own_moments(const at::Tensor& moments, const FlatLayout::Chunk& chunk) const {
    return moments.slice(0, chunk.begin / process_count(), chunk.end / process_count());
  }

  void begin_sum(std::size_t number) {
    if (summed_[number]) return;
    summed_[number] = true;
    processes_->begin_sum(trained_.gradient(number));
  }

  /// Begins to sum the gradients of a layer's matrices over the processes; empty where there is one.
  std::function<void(int)> sum_of_layer() {
    if (processes_ == nullptr) return {};
    return [this](int layer) {
      const std::vector<FlatLayout::Chunk>& chunks = trained_.layout().chunks();
      for (std::size_t number = 0; number < chunks.size(); ++number) {
        if (chunks[number].layer == layer) begin_sum(number);
      }
    };
  }

  void sum_gradients() {
    if (processes_ == nullptr) return;
    for (std::size_t number = 0; number < summed_.size(); ++number) begin_sum(number);
    processes_->finish();
    summed_.assign(summed_.size(), false);
  }

  /// Squares of this process's gradients, [] float64.
  [[nodiscard]] at::Tensor squares() const {
    std::vector<at::Tensor> norms;
    for (const bool decayed : {true, false}) {
      for (const at::Tensor& gradient : own_gradients(decayed)) {
        norms.push_back(at::linalg_vector_norm(gradient, 2, {}, false, at::kDouble));
      }
    }
    return at::stack(norms).square().sum();
  }

  /// The moments of all weights on the host, in the first process; undefined in the others.
  [[nodiscard]] at::Tensor all_moments(const at::Tensor& moments) const {
    if (processes_ == nullptr) return host_copy(moments);
    at::Tensor all = processes_->first() ? at::zeros({trained_.layout().size()}, at::kFloat) : at::Tensor();
    for (int rank = 0; rank < process_count(); ++rank) {
      at::Tensor of_rank = moments.clone();
      processes_->send(of_rank, rank);
      if (!all.defined()) continue;
      const at::Tensor on_host = of_rank.to(at::kCPU);
      for (const FlatLayout::Chunk& chunk : trained_.layout().chunks()) {
        const std::int64_t size = (chunk.end - chunk.begin) / process_count();
        all.narrow(0, chunk.begin + rank * size, size).copy_(own_moments(on_host, chunk));
      }
    }
    return all;
  }

  /// The sums of the curves of every process, in all of them.
  [[nodiscard]] std::vector<CurveSums> all_curves() const {
    // Every process has made the same steps since: all have sums, or none has.
    if (!loss_sums_.defined()) return {};
    std::vector<at::Tensor> parts = {at::full({1}, static_cast<double>(sequences_), loss_sums_.options()), loss_sums_};
    if (gate_sums_.defined()) parts.push_back(gate_sums_.flatten());
    const at::Tensor own = at::cat(parts);
    std::vector<CurveSums> all;
    for (int rank = 0; rank < process_count(); ++rank) {
      at::Tensor of_rank = own.clone();
      if (processes_ != nullptr) processes_->send(of_rank, rank);
      of_rank = of_rank.to(at::kCPU);
      const std::span numbers(of_rank.const_data_ptr<double>(), static_cast<std::size_t>(of_rank.numel()));
      const auto losses = numbers.subspan(1, static_cast<std::size_t>(loss_sums_.numel()));
      const auto gates = numbers.subspan(1 + losses.size());
      all.push_back({std::llround(numbers[0]), {losses.begin(), losses.end()}, {gates.begin(), gates.end()}});
    }
    return all;
  }

  void add_up_curves() {
    if (processes_ == nullptr) return;
    double sequences[] = {static_cast<double>(sequences_)};
    processes_->add_up(sequences);
    sequences_ = std::llround(sequences[0]);
    if (sequences_ == 0) return;
    processes_->add_up(loss_sums_);
    if (gate_sums_.defined()) processes_->add_up(gate_sums_);
  }

  void update(double learning_rate, double norm) {
    ++steps_;
    step_count_.fill_(static_cast<double>(steps_));
    const AdamW& adamw = options_.optimizer;
    // The kernels divide gradients by it.
    const double divisor = adamw.clip > 0 ? std::max(1.0, (norm + kNormEpsilon) / adamw.clip) : 1;
    const at::Tensor scale = at::full({}, divisor, step_count_.options());
    const auto apply = [&](const Updated& updated, const std::vector<at::Tensor>& gradients, double decay) {
      const std::vector<at::Tensor> step_counts(updated.masters.size(), step_count_);
      at::_fused_adamw_(updated.masters, gradients, updated.first_moments, updated.second_moments, {}, step_counts,
                        learning_rate, adamw.beta1, adamw.beta2, decay, adamw.epsilon, /*amsgrad=*/false,
                        /*maximize=*/false, scale);
    };
    apply(decayed_, own_gradients(true), adamw.weight_decay);
    apply(not_decayed_, own_gradients(false), 0);
    if (processes_ != nullptr) {
      for (const FlatLayout::Chunk& chunk : trained_.layout().chunks())
        processes_->begin_share(of(trained_.master, chunk));
      processes_->finish();
    }
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
    const at::Tensor all = processes_ == nullptr ? flat : at::zeros_like(trained_.master);
    const WeightTensors views = trained_.layout().views(all);
    const auto copy = [](const at::Tensor& into, const at::Tensor& from) {
      if (!into.defined()) return;
      // A weight that all heads share has one gradient for each head.
      into.copy_(from.dim() == into.dim() ? from : from[0]);
    };
    for (const auto member : WeightTensors::outside()) copy(views.*member, moments.*member);
    for (std::size_t layer = 0; layer < views.layers.size(); ++layer) {
      for (const auto member : differentiable_weights()) {
        copy(views.layers[layer].*member, moments.layers[layer].*member);
      }
    }
    if (processes_ == nullptr) return true;
    processes_->require_same_numbers(all, "moments");
    for (const FlatLayout::Chunk& chunk : trained_.layout().chunks()) {
      own_moments(flat, chunk).copy_(own_part(of(all, chunk)));
    }
    return true;
  }

  TrainableOptions options_;
  TorchProcesses* processes_;  ///< null: this process trains alone
  TrainedWeights trained_;
  Updated decayed_;
  Updated not_decayed_;
  std::vector<bool> summed_;  ///< for each chunk whether its sum over processes was begun in this step
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
