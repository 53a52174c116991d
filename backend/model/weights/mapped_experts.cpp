#include "backend/model/weights/mapped_experts.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cassert>
#include <cstring>

#include "backend/model/weights/checkpoint.h"
#include "backend/trace/dtype.h"

namespace foxscope {
namespace {

template <typename Stored>
Stored load_number(const std::byte* at) {
  Stored stored;
  std::memcpy(&stored, at, sizeof(Stored));
  return stored;
}

float widen(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }

/// Converts rows; of a matrix whose columns lie apart, so that what lies together is read together.
template <typename Stored, typename Convert>
void convert_rows(const MappedMatrix& matrix, std::int64_t row, std::int64_t count, float* to, Convert to_float) {
  const auto at = [&](std::int64_t r, std::int64_t column) {
    return matrix.first +
           ((row + r) * matrix.row_stride + column * matrix.column_stride) * static_cast<std::int64_t>(sizeof(Stored));
  };
  if (matrix.column_stride == 1) {
    for (std::int64_t r = 0; r < count; ++r) {
      const std::byte* const from = at(r, 0);
      float* const own = to + r * matrix.columns;
      for (std::int64_t n = 0; n < matrix.columns; ++n) {
        own[n] = to_float(load_number<Stored>(from + n * static_cast<std::int64_t>(sizeof(Stored))));
      }
    }
    return;
  }
  for (std::int64_t column = 0; column < matrix.columns; ++column) {
    for (std::int64_t r = 0; r < count; ++r) {
      to[r * matrix.columns + column] = to_float(load_number<Stored>(at(r, column)));
    }
  }
}

}  // namespace

const float* MappedMatrix::rows(std::int64_t row, std::int64_t count, float* scratch) const {
  switch (dtype) {
    case TensorDType::f32: {
      const std::byte* const from = first + row * row_stride * static_cast<std::int64_t>(sizeof(float));
      const bool together = column_stride == 1 && row_stride == columns;
      const bool aligned = reinterpret_cast<std::uintptr_t>(from) % alignof(float) == 0;
      if (together && aligned) return reinterpret_cast<const float*>(from);
      convert_rows<float>(*this, row, count, scratch, [](float value) { return value; });
      break;
    }
    case TensorDType::f16:
      convert_rows<std::uint16_t>(*this, row, count, scratch, from_float16);
      break;
    default:
      assert(dtype == TensorDType::bf16);
      convert_rows<std::uint16_t>(*this, row, count, scratch, widen);
  }
  return scratch;
}

bool is_mapped(const Parameter& parameter) {
  return parameter.of_layer == &LayerWeights::experts_in || parameter.of_layer == &LayerWeights::experts_out;
}

MappedExperts::MappedExperts(const Checkpoint& checkpoint, std::span<const Parameter> all, int layer)
    : files_(checkpoint.files()) {
  const ModelConfig& config = checkpoint.config();
  experts_.resize(index_of(config.mixture_at(layer)->experts));
  ranges_.resize(experts_.size());
  for (const Parameter& parameter : all) {
    if (parameter.layer != layer || !is_mapped(parameter)) continue;
    place(config, parameter, checkpoint.tensor(parameter.name));
  }
}

/// Notes where the parts of experts lie that a tensor holds.
void MappedExperts::place(const ModelConfig& config, const Parameter& parameter, const TensorView& tensor) {
  const std::int64_t size = config.mixture->size;
  const bool reads = parameter.of_layer == &LayerWeights::experts_in;
  const bool pairs = parameter.layout == ParameterLayout::expert_pairs_transposed;
  const bool transposed = pairs || parameter.layout == ParameterLayout::experts_transposed;
  const std::int64_t width = config.expert_width();
  const std::int64_t rows = reads ? size : width;
  const std::int64_t columns = reads ? width : size;
  const std::int64_t parts = reads && is_gated(config.mlp) ? 2 : 1;
  const std::int64_t part_numbers = rows * columns;
  const auto bytes = static_cast<std::int64_t>(size_of(tensor.dtype));
  // Every part that lies whole in the numbers [first, first + elements) of the weight [E, parts, rows, columns].
  for (std::int64_t number = parameter.first; number < parameter.first + tensor.elements(); number += part_numbers) {
    const std::int64_t expert = number / (parts * part_numbers);
    const std::int64_t part = number / part_numbers % parts;
    MappedMatrix matrix;
    matrix.dtype = tensor.dtype;
    matrix.columns = columns;
    std::int64_t first = number - parameter.first;
    if (transposed) {
      // [E, columns, parts rows]: rows of an expert lie beside one another, gate and up by turns or one after the
      // other.
      first = expert * parts * part_numbers + (pairs ? part : part * rows);
      matrix.row_stride = pairs ? parts : 1;
      matrix.column_stride = parts * rows;
    } else {
      matrix.row_stride = columns;
    }
    matrix.first = tensor.bytes.data() + first * bytes;
    Expert& own = experts_[index_of(expert)];
    (reads ? own.in[index_of(part)] : own.out) = matrix;
    if (transposed && part > 0) continue;  // lies among the first
    ranges_[index_of(expert)].push_back(
        {tensor.bytes.data() + (transposed ? expert * parts * part_numbers : first) * bytes,
         static_cast<std::size_t>((transposed ? parts : 1) * part_numbers * bytes)});
  }
}

void MappedExperts::fetch(std::int64_t expert) const {
  static const auto kPage = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const Range& range : ranges_[index_of(expert)]) {
    const auto first = reinterpret_cast<std::uintptr_t>(range.first);
    const std::uintptr_t page = first / kPage * kPage;
    // Advice that is not taken costs time alone.
    madvise(reinterpret_cast<void*>(page), range.size + (first - page), MADV_WILLNEED);
  }
}

}  // namespace foxscope
