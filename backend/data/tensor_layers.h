#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/model/weights/safetensors.h"
#include "backend/trace/dtype.h"

namespace foxscope {

template <typename Bits>
Bits bits_at(const std::byte* at) {
  Bits bits{};
  std::memcpy(&bits, at, sizeof(Bits));
  return bits;
}

/// Calls take(n, number) for some numbers of a tensor of floats that follow one another, from n = 0.
template <typename Take>
void visit_floats(const TensorView& view, std::int64_t first, std::int64_t count, Take take) {
  const auto visit = [&]<typename Bits, typename Widen>(Bits /*of the type*/, Widen widen) {
    const std::byte* at = view.bytes.data() + index_of(first) * sizeof(Bits);
    for (std::int64_t n = 0; n < count; ++n, at += sizeof(Bits)) take(n, static_cast<double>(widen(bits_at<Bits>(at))));
  };
  switch (view.dtype) {
    case TensorDType::f64:
      return visit(double(), [](double number) { return number; });
    case TensorDType::f16:
      return visit(std::uint16_t(), [](std::uint16_t bits) { return from_float16(bits); });
    case TensorDType::bf16:
      return visit(std::uint16_t(), [](std::uint16_t bits) { return from_bfloat16(bits); });
    default:
      return visit(float(), [](float number) { return number; });
  }
}

inline bool is_float(TensorDType dtype) { return is_floating(dtype) || dtype == TensorDType::f64; }

/// A tensor of a layer as runs have it, [heads, L] or [heads, L, width], however it lies in the file.
struct LayerTensor {
  TensorView view;
  std::string name;  ///< "layers.3.q"
  std::int64_t heads = 0;
  std::int64_t width = 0;   ///< 0: there is no such axis
  std::int64_t length = 1;  ///< positions; 1: it has one row for all of them
  std::int64_t head_stride = 0;
  std::int64_t position_stride = 0;

  /// Calls take(n, number) for the numbers of rows [begin, end) of a head, in their order.
  template <typename Take>
  void visit(std::int64_t head, std::int64_t begin, std::int64_t end, Take take) const {
    const std::int64_t row = std::max<std::int64_t>(width, 1);
    for (std::int64_t position = begin; position < end; ++position) {
      const std::int64_t before = (position - begin) * row;
      visit_floats(view, head * head_stride + position * position_stride, row,
                   [&](std::int64_t n, double number) { take(before + n, number); });
    }
  }
};

using LayerTensors = std::map<std::string, LayerTensor, std::less<>>;

/// The layers of a file, which stays mapped.
struct TensorLayers {
  std::shared_ptr<const SafetensorsFile> file;
  std::string path;
  std::vector<LayerTensors> layers;

  [[noreturn]] void fail(const std::string& tensor, const std::string& problem) const {
    throw Error(fmt::format("{}: {}: {}", path, tensor, problem));
  }
  /// Gates or decays of a layer; null where it has none.
  [[nodiscard]] const LayerTensor* gates(int layer) const {
    const LayerTensor* const gates = find(layer, "log_f");
    return gates != nullptr ? gates : find(layer, "log_decay");
  }
  /// Null where a layer does not have it.
  [[nodiscard]] const LayerTensor* find(int layer, std::string_view name) const {
    const LayerTensors& tensors = layers[index_of(layer)];
    const auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }
};

}  // namespace foxscope
