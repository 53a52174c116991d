#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/model/checkpoint.h"
#include "backend/model/parameters.h"

namespace foxscope {

/// Reads a checkpoint's weights as float32, one tensor after the other, and tells the job how far it is. Once the job
/// is stopped nothing more is read: what is given then is not whole.
class WeightReader {
 public:
  /// Both must outlive the reader.
  WeightReader(const Checkpoint& checkpoint, const Job& job);

  /// A tensor as it lies in the file.
  /// @throws Error naming the tensor that holds a NaN or an infinity
  FloatArray read(const std::string& name);
  /// What lies outside the layers.
  /// @returns nothing if the job was stopped
  std::optional<ModelWeights> read_outside();
  /// Merged, and with the factors of queries in their rows.
  /// @returns nothing if the job was stopped
  std::optional<LayerWeights> read_layer(int layer);
  [[nodiscard]] const ModelConfig& config() const { return checkpoint_.config(); }
  [[nodiscard]] bool stopped() const { return job_.stopped(); }

 private:
  const Checkpoint& checkpoint_;
  const Job& job_;
  std::vector<Parameter> parameters_;
  std::int64_t done_ = 0;  ///< bytes of the tensors
  std::int64_t total_ = 0;
};

}  // namespace foxscope
