#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "backend/model/spec/parameters.h"
#include "backend/model/weights/checkpoint.h"

namespace foxscope {

/// Where the numbers of parameters come from: a checkpoint, a random generator, the state of an optimiser.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  /// The bytes that a parameter counts for in a job's progress.
  [[nodiscard]] virtual std::int64_t bytes(const Parameter& parameter) const = 0;
  /// Its numbers in float32, row-major, piece by piece of at most a mebibyte.
  /// @param take  gets the pieces in their order; false ends the reading
  /// @throws Error naming the parameter
  virtual void read(const Parameter& parameter,
                    const std::function<bool(std::span<const float> piece)>& take) const = 0;
};

class CheckpointSource final : public ParameterSource {
 public:
  /// @param checkpoint  must outlive it
  explicit CheckpointSource(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}
  [[nodiscard]] std::int64_t bytes(const Parameter& parameter) const override;
  void read(const Parameter& parameter, const std::function<bool(std::span<const float> piece)>& take) const override;

 private:
  const Checkpoint& checkpoint_;
};

/// Reads weights as float32 and reports progress to the job, to which one thread speaks at a time. Once the job is
/// stopped nothing more is read, and the weights given then are incomplete.
class WeightReader {
 public:
  enum class Experts { read, left };  ///< whether matrices of experts are read too
  /// All must outlive the reader.
  WeightReader(const ModelConfig& config, const ParameterSource& source, const Job& job,
               Experts experts = Experts::read);

  /// A parameter as it lies in the source.
  FloatArray read(const Parameter& parameter);
  /// Reads the weights outside the layers.
  /// @returns nothing if the job was stopped
  std::optional<ModelWeights> read_outside();
  /// Merged, and with the factors of queries in their rows.
  /// @returns nothing if the job was stopped
  std::optional<LayerWeights> read_layer(int layer);
  /// Reads all layers, several at a time on threads of their own, which the source must allow.
  /// @param take  gets them in their order
  /// @returns whether take had all; false if the job was stopped
  bool read_layers(const std::function<void(int layer, LayerWeights weights)>& take);
  [[nodiscard]] bool stopped() const { return job_.stopped(); }

 private:
  const ModelConfig& config_;
  const ParameterSource& source_;
  const Job& job_;
  std::vector<Parameter> parameters_;
  std::mutex mutex_;       ///< of what the job is told
  std::int64_t done_ = 0;  ///< bytes of the parameters
  std::int64_t total_ = 0;
};

}  // namespace foxscope
