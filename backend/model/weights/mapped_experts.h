#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/base/index.h"
#include "backend/model/spec/parameters.h"
#include "backend/model/weights/safetensors.h"

namespace foxscope {

class Checkpoint;

/// A matrix [rows, columns] in a mapped file, whose numbers may lie apart.
struct MappedMatrix {
  const std::byte* first = nullptr;
  TensorDType dtype = TensorDType::f32;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;  ///< in numbers
  std::int64_t column_stride = 1;

  /// Some rows in float32 [count, columns]: where they lie, or in the scratch.
  /// @param scratch  [count, columns]
  [[nodiscard]] const float* rows(std::int64_t row, std::int64_t count, float* scratch) const;
};

/// The matrices of a layer's experts where they lie in the checkpoint's mapped files: who multiplies by an expert reads
/// it then, and the system keeps of it in memory what there is room for. The files stay mapped while the object lives.
class MappedExperts {
 public:
  struct Expert {
    std::array<MappedMatrix, 2> in;  ///< [I, D] of the gate and of up; without a gate the first alone
    MappedMatrix out;                ///< [D, I]
  };

  /// @param all    parameters of the checkpoint's configuration
  /// @param layer  which has a mixture of experts
  MappedExperts(const Checkpoint& checkpoint, std::span<const Parameter> all, int layer);

  [[nodiscard]] const Expert& expert(std::int64_t expert) const { return experts_[index_of(expert)]; }
  /// Asks the system to read an expert's matrices ahead, without waiting for them.
  void fetch(std::int64_t expert) const;

 private:
  /// Bytes of the file that an expert's matrices are among.
  struct Range {
    const std::byte* first;
    std::size_t size;
  };
  void place(const ModelConfig& config, const Parameter& parameter, const TensorView& tensor);

  std::vector<Expert> experts_;
  std::vector<std::vector<Range>> ranges_;
  std::vector<std::shared_ptr<const SafetensorsFile>> files_;
};

/// Whether a parameter is a matrix of experts, which the CPU reads where it lies.
[[nodiscard]] bool is_mapped(const Parameter& parameter);

}  // namespace foxscope
