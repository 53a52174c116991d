#include "backend/data/tensor_source.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "backend/base/index.h"
#include "backend/file/run_sizes.h"
#include "kernels/cpu/gate_scan.h"

namespace foxscope {
namespace {

const char* tensor_of(TraceArray array) {
  switch (array) {
    case TraceArray::query:
      return "q";
    case TraceArray::key:
      return "k";
    default:
      return "v";
  }
}

/// Queries, keys and values, converted tile by tile.
class TensorStore final : public QueryKeyStore {
 public:
  TensorStore(std::shared_ptr<const TensorLayers> layers, const TraceInfo& info, Parts parts)
      : QueryKeyStore(info, info.dtype, std::move(parts)), layers_(std::move(layers)) {}

  [[nodiscard]] const char* where() const override { return "file of tensors"; }

  [[nodiscard]] std::span<const std::byte> raw_rows(Part part, int layer, int head, std::int64_t begin,
                                                    std::int64_t end, std::vector<std::byte>& scratch) const override {
    const LayerTensor& tensor = *layers_->find(layer, tensor_of(part));
    scratch.resize(index_of((end - begin) * tensor.width) * size_of(dtype()));
    if (dtype() == DType::bfloat16) {
      tensor.visit(head, begin, end, [&](std::int64_t n, double number) {
        const std::uint16_t bits = to_bfloat16(static_cast<float>(number));
        std::memcpy(scratch.data() + n * 2, &bits, 2);
      });
    } else {
      tensor.visit(head, begin, end, [&](std::int64_t n, double number) {
        const auto value = static_cast<float>(number);
        std::memcpy(scratch.data() + n * 4, &value, 4);
      });
    }
    return scratch;
  }

 private:
  std::shared_ptr<const TensorLayers> layers_;
};

/// Gates, decays, beta and losses, made where they are asked for.
class TensorSource final : public TraceSource {
 public:
  TensorSource(std::shared_ptr<const TensorLayers> layers, const TraceInfo& info, std::vector<float> loss)
      : layers_(std::move(layers)), sizes_(info), loss_(std::move(loss)) {}

  [[nodiscard]] bool has(TraceArray array, int index) const override {
    if (array == TraceArray::per_token_loss) return !loss_.empty();
    const bool sums = array == TraceArray::cumulative_log_gate || array == TraceArray::cumulative_log_decay;
    if (!sums && name_of_numbers(array) == nullptr) return false;
    return belongs_to(spec_of(array), sizes_.mixer(index));
  }

  [[nodiscard]] std::shared_ptr<const ArrayValues> read(TraceArray array, int index) const override {
    if (!has(array, index)) return nullptr;
    if (array == TraceArray::per_token_loss) return std::make_shared<ArrayValues>(loss_);
    if (const char* const name = name_of_numbers(array)) {
      const LayerTensor& tensor = *layers_->find(index, name);
      if (array == TraceArray::decay_rate) return std::make_shared<ArrayValues>(numbers_of<double>(tensor));
      return std::make_shared<ArrayValues>(numbers_of<float>(tensor));
    }
    std::vector<double> sums(elements_of(spec_of(array), sizes_, index));
    if (const LayerTensor* const gates = layers_->gates(index)) sum_gates(*gates, sums);
    return std::make_shared<ArrayValues>(std::move(sums));
  }

  [[nodiscard]] bool is_zero(TraceArray array, int index) const override {
    const bool sums = array == TraceArray::cumulative_log_gate || array == TraceArray::cumulative_log_decay;
    return (sums && layers_->gates(index) == nullptr) || TraceSource::is_zero(array, index);
  }

 private:
  /// The tensor of an array that a trace has as it is; null for others.
  static const char* name_of_numbers(TraceArray array) {
    switch (array) {
      case TraceArray::beta:
        return "beta";
      case TraceArray::decay_rate:
        return "decay_rate";
      case TraceArray::erase_read:
        return "erase_read";
      case TraceArray::erase_write:
        return "erase_write";
      case TraceArray::sink_logit:
        return "sink";
      default:
        return nullptr;
    }
  }

  template <typename T>
  static std::vector<T> numbers_of(const LayerTensor& tensor) {
    const std::int64_t size = tensor.length * std::max<std::int64_t>(tensor.width, 1);
    std::vector<T> numbers(index_of(tensor.heads * size));
    for (std::int64_t head = 0; head < tensor.heads; ++head) {
      T* const out = numbers.data() + head * size;
      tensor.visit(head, 0, tensor.length, [&](std::int64_t n, double number) { out[n] = static_cast<T>(number); });
    }
    return numbers;
  }

  /// Sums along positions, head by head and channel by channel. Heads that have one decay together have equal sums.
  void sum_gates(const LayerTensor& gates, std::span<double> sums) const {
    const std::int64_t length = sizes_.length;
    const std::int64_t channels = std::max<std::int64_t>(gates.width, 1);
    std::vector<double> along(index_of(length * channels));
    std::vector<double> summed(along.size());
    for (std::int64_t head = 0; head < gates.heads; ++head) {
      gates.visit(head, 0, length, [&](std::int64_t n, double number) {
        along[index_of(n % channels * length + n / channels)] = number;
      });
      kernels::cpu::cumulative_log_gate(along.data(), channels, length, summed.data());
      const std::int64_t size = length * channels;
      const std::int64_t shared = std::ssize(sums) / (gates.heads * size);
      for (std::int64_t n = 0; n < size; ++n) {
        const double sum = summed[index_of(n % channels * length + n / channels)];
        for (std::int64_t m = 0; m < shared; ++m) sums[index_of((head * shared + m) * size + n)] = sum;
      }
    }
  }

  std::shared_ptr<const TensorLayers> layers_;
  TraceSizes sizes_;
  std::vector<float> loss_;
};

}  // namespace

std::shared_ptr<const QueryKeyStore> tensor_store(std::shared_ptr<const TensorLayers> layers, const TraceInfo& info,
                                                  QueryKeyStore::Parts parts) {
  return std::make_shared<const TensorStore>(std::move(layers), info, std::move(parts));
}

std::unique_ptr<const TraceSource> tensor_source(std::shared_ptr<const TensorLayers> layers, const TraceInfo& info,
                                                 std::vector<float> loss) {
  return std::make_unique<const TensorSource>(std::move(layers), info, std::move(loss));
}

}  // namespace foxscope
