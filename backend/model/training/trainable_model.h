#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/model/backward/recompute.h"
#include "backend/model/session/causal_lm.h"
#include "backend/model/training/processes.h"
#include "backend/model/weights/weight_reader.h"

namespace foxscope {

/// AdamW with decoupled decay (Loshchilov & Hutter 2019): with gradient g and step t from 1
///   p -= lr decay p (matrices, embeddings and the head alone);  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
///   p -= lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + epsilon).
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip = 1;  ///< g is multiplied by min(1, clip / (|g| + 1e-6)), |g| over all parameters; 0: it is not
};

struct TrainableOptions {
  Device device;
  DType dtype = DType::float32;  ///< of the matrices; bfloat16 on a GPU alone
  AdamW optimizer;
  double pruning_tolerance = 0x1p-24;  ///< as ForwardRequest has it
  bool deterministic = false;          ///< on a GPU: the same bits each time, more slowly; a CPU always gives them
  Recompute recompute = Recompute::none;
  Processes* processes = nullptr;  ///< that train it together, each its part of a step's rows; must outlive the model
};

/// The state that a training goes on from: arrays of one number for each of every parameter's.
enum class TrainingPart { weights, first_moment, second_moment };

/// The losses and gates that one process has seen since curves were last taken. They are sums, so that a training that
/// goes on with them ends with the same curves.
struct CurveSums {
  std::int64_t sequences = 0;
  std::vector<double> loss;      ///< [L] sum of the losses by position, nats
  std::vector<double> log_gate;  ///< [layers * H] sum of log f over positions; empty for models without gates
};

/// The state of a training at one step, on the host: arrays in float32, and the sums of its curves.
class TrainingSnapshot {
 public:
  virtual ~TrainingSnapshot() = default;
  /// Curves by process; empty where nothing was seen since curves were taken.
  [[nodiscard]] virtual const std::vector<CurveSums>& curves() const = 0;
  /// Calls with every parameter, in the order of the table of parameters. From any thread.
  /// @param take  gets the numbers as the checkpoint has them; false ends it. Weights that are not trained have moments
  ///              of 0
  virtual void read(TrainingPart part,
                    const std::function<bool(const Parameter&, std::span<const float>)>& take) const = 0;
};

/// The requests of processes after a step. A request of one process reaches all.
struct StepRequests {
  bool stop = false;  ///< to make no step after it
  bool save = false;  ///< a checkpoint of it
};

/// A model whose weights are trained: float32 masters, gradients and the optimiser's moments on one device, and what
/// computes in the run's dtype. LibTorch inside, none of it in this header.
///
/// Each of W processes adds the gradients of its own rows; step() sums them over all, each process updates one W-th of
/// the weights and keeps the moments of these alone, and gives them to the others (ZeRO-1, Rajbhandari et al. 2020).
/// step(), take_curves(), snapshot(), restore() and restore_curves() are then called together.
class TrainableModel {
 public:
  /// @param weights  to begin with
  /// @returns nothing if the job was stopped
  /// @throws Error for a model that cannot be trained, and where the device's memory is too small
  static std::unique_ptr<TrainableModel> make(const ModelConfig& config, const ParameterSource& weights,
                                              const TrainableOptions& options, const Job& job);
  virtual ~TrainableModel() = default;

  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  /// Numbers that are trained.
  [[nodiscard]] virtual std::int64_t trained_parameters() const = 0;

  /// Sequences whose losses are differentiated together.
  struct MicroBatch {
    std::int64_t batch = 0;
    std::int64_t length = 0;
    std::span<const std::int32_t> input_ids;  ///< [B, L]
    std::span<const std::int32_t> labels;     ///< [B, L]
    double loss_weight = 0;                   ///< of each position: 1 / positions of the step, of all processes
    bool last = true;  ///< of this process's in the step: sums over processes begin while it is differentiated
  };
  /// Adds the gradient of the weighted losses to those of the step. On a GPU it may return before that is done.
  /// @returns false if the job was stopped: the step's gradients are of no use then
  virtual bool add_gradients(const MicroBatch& micro_batch, const Job& job) = 0;

  struct StepReport {
    double loss = 0;           ///< sum of the weighted losses, nats, before the update
    double gradient_norm = 0;  ///< before clipping
    std::int64_t attention_blocks = 0;
    std::int64_t skipped_blocks = 0;
    bool stepped = false;  ///< false: loss or norm was not finite, and no weight was changed
    StepRequests asked;    ///< by any process
  };
  /// Clips, updates the weights and sets the gradients to 0 for the next step.
  /// @param requests  of this process
  virtual StepReport step(double learning_rate, const StepRequests& requests) = 0;
  /// Steps so far, t of the last.
  [[nodiscard]] virtual std::int64_t steps() const = 0;

  /// The curves since they were last taken.
  struct Curves {
    std::int64_t sequences = 0;
    std::vector<double> loss;           ///< [L] mean loss by position, nats
    std::vector<double> mean_log_gate;  ///< [layers * H] mean of log f but f_0; empty for models without gates
  };
  virtual Curves take_curves() = 0;
  /// Goes on with the sums of a snapshot: each process with its own where there are as many, else the first with all.
  /// @param by_process  of this model, with rows of the length that is trained on
  virtual void restore_curves(const std::vector<CurveSums>& by_process) = 0;

  /// Whether every weight is a finite number.
  [[nodiscard]] virtual bool finite() const = 0;

  /// Losses of sequences that are not trained on.
  /// @returns [B, L] nats; nothing if the job was stopped
  virtual std::vector<double> losses(const MicroBatch& sequences, const Job& job) = 0;

  /// @returns nothing in all processes but the first
  [[nodiscard]] virtual std::unique_ptr<TrainingSnapshot> snapshot() const = 0;
  /// Sets moments, after so many steps.
  /// @returns false if the job was stopped
  virtual bool restore(std::int64_t steps, const ParameterSource& first_moment, const ParameterSource& second_moment,
                       const Job& job) = 0;

  /// Floating-point operations a second that its device can do at most in its dtype, dense, as its maker says; 0 where
  /// that is not known.
  [[nodiscard]] virtual double peak_flops() const = 0;

  /// Bytes that gradients will take of the device's memory from the backward pass to the step, beside what is in use.
  [[nodiscard]] virtual std::int64_t gradient_bytes() const = 0;
  /// Most memory of the device that was in use since the model was made, bytes; 0 on a CPU.
  [[nodiscard]] virtual std::int64_t peak_device_memory() const = 0;
};

}  // namespace foxscope
