#include "backend/trace/recorder.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "backend/base/index.h"

namespace foxscope {
namespace {

class MemorySource final : public TraceSource {
 public:
  using Arrays = std::array<std::vector<std::shared_ptr<const ArrayValues>>, kTraceArrays.size()>;
  explicit MemorySource(Arrays arrays) : arrays_(std::move(arrays)) {}

  [[nodiscard]] bool has(TraceArray array, int index) const override { return read(array, index) != nullptr; }
  [[nodiscard]] std::shared_ptr<const ArrayValues> read(TraceArray array, int index) const override {
    const auto& of_all = arrays_[index_of(array)];
    const auto at = static_cast<std::size_t>(index);
    return at < of_all.size() ? of_all[at] : nullptr;
  }

 private:
  Arrays arrays_;
};

/// An empty array of the array's type.
ArrayValues no_numbers(const ArraySpec& spec) {
  if (spec.number == ArrayNumber::float64) return std::vector<double>{};
  if (spec.number == ArrayNumber::float16) return std::vector<std::uint16_t>{};
  if (spec.number == ArrayNumber::int32) return std::vector<std::int32_t>{};
  return std::vector<float>{};
}

}  // namespace

Recorder::Recorder(TraceInfo info, KeepSet keep, std::shared_ptr<RunQueryKeyStore> store)
    : info_(std::move(info)), keep_(std::move(keep)), store_(std::move(store)) {
  assert(info_.mixers.empty() || static_cast<int>(info_.mixers.size()) == info_.layers);
  assert(std::ranges::all_of(info_.mixers, [](const LayerMixer& mixer) { return mixer_problem(mixer).empty(); }));
  assert(info_.layers > 0 && info_.heads > 0 && info_.key_heads > 0 && info_.head_dim > 0 && info_.length > 0);
  assert(store_ == nullptr || store_->dtype() == info_.dtype);
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.storage == Storage::store || !keeps(spec.keep)) continue;
    arrays_[index_of(spec.array)].assign(static_cast<std::size_t>(count_of(spec, info_.layers)), no_numbers(spec));
  }
}

/// An array with room for all of its numbers; null if it is not kept.
ArrayValues* Recorder::sized(TraceArray array, int index) {
  std::vector<ArrayValues>& of_all = arrays_[index_of(array)];
  if (of_all.empty()) return nullptr;
  assert(index >= 0 && static_cast<std::size_t>(index) < of_all.size());
  ArrayValues& values = of_all[index_of(index)];
  const std::size_t size = elements_of(spec_of(array), info_, index);
  // A layer without experts leaves its part as it is.
  if (auto* const experts = std::get_if<std::vector<std::int32_t>>(&values)) {
    experts->resize(size, -1);
  } else {
    std::visit([size](auto& numbers) { numbers.resize(size); }, values);
  }
  return &values;
}

Recorder::Experts Recorder::experts(int layer) {
  const std::span<std::int32_t> experts = array<std::int32_t>(TraceArray::expert);
  const std::span<float> weights = array<float>(TraceArray::expert_weight);
  const std::size_t size = experts.size() / index_of(info_.layers);
  return {experts.subspan(index_of(layer) * size, size), weights.subspan(index_of(layer) * size, size)};
}

std::span<float> Recorder::logits(std::int64_t vocabulary_size) {
  if (keeps(Keep::logits)) info_.vocabulary_size = vocabulary_size;
  return array<float>(TraceArray::logits);
}

std::span<float> Recorder::hidden_states(int index, std::int64_t hidden_size) {
  if (keeps(Keep::hidden)) info_.hidden_size = hidden_size;
  return array<float>(TraceArray::hidden_states, index);
}

std::span<std::uint16_t> Recorder::prediction_state(std::int64_t hidden_size) {
  if (keeps(Keep::predictions)) info_.hidden_size = hidden_size;
  return array<std::uint16_t>(TraceArray::prediction_state);
}

std::span<std::byte> Recorder::stored(TraceArray array, int layer) {
  return store_ ? store_->layer(array, layer) : std::span<std::byte>{};
}

void* Recorder::stored_on_device(TraceArray array, int layer) {
  return store_ ? store_->device_layer(array, layer) : nullptr;
}

std::shared_ptr<const Trace> Recorder::finish(std::shared_ptr<const Text> text,
                                              std::shared_ptr<const TokenTable> tokens, std::optional<int> made_on) {
  MemorySource::Arrays arrays;
  for (std::size_t array = 0; array < arrays.size(); ++array) {
    for (ArrayValues& values : arrays_[array]) {
      const bool written = std::visit([](const auto& numbers) { return !numbers.empty(); }, values);
      arrays[array].push_back(written ? std::make_shared<const ArrayValues>(std::move(values)) : nullptr);
    }
  }
  return std::make_shared<const Trace>(std::move(info_), std::move(text), std::move(tokens),
                                       std::make_unique<const MemorySource>(std::move(arrays)), std::move(store_),
                                       made_on);
}

}  // namespace foxscope
