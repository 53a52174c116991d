#include "backend/trace/recorder.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

constexpr std::array<std::pair<const char*, Keep>, 7> kKeepNames = {{{"loss", Keep::loss},
                                                                     {"gates", Keep::gates},
                                                                     {"rows", Keep::rows},
                                                                     {"ungated", Keep::ungated},
                                                                     {"qk", Keep::query_key},
                                                                     {"logits", Keep::logits},
                                                                     {"hidden", Keep::hidden}}};

class MemorySource final : public TraceSource {
 public:
  MemorySource(std::vector<std::shared_ptr<const LayerRows>> rows, std::vector<float> logits,
               std::vector<std::vector<float>> hidden_states)
      : rows_(std::move(rows)), logits_(std::move(logits)), hidden_states_(std::move(hidden_states)) {}

  [[nodiscard]] std::shared_ptr<const LayerRows> rows(int layer) const override {
    return rows_[static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] bool has_logits() const override { return !logits_.empty(); }
  [[nodiscard]] bool has_hidden_states() const override { return !hidden_states_.empty(); }
  [[nodiscard]] std::vector<float> logits() const override { return logits_; }
  [[nodiscard]] std::vector<float> hidden_states(int index) const override {
    return hidden_states_.empty() ? std::vector<float>{} : hidden_states_[static_cast<std::size_t>(index)];
  }

 private:
  std::vector<std::shared_ptr<const LayerRows>> rows_;
  std::vector<float> logits_;
  std::vector<std::vector<float>> hidden_states_;
};

}  // namespace

KeepSet parse_keep(const std::string& list) {
  KeepSet keep;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string word = list.substr(begin, end - begin);
    const auto* const found =
        std::find_if(kKeepNames.begin(), kKeepNames.end(), [&word](const auto& entry) { return entry.first == word; });
    if (found == kKeepNames.end()) {
      throw UsageError(
          fmt::format("--keep: '{}' is not known: choose from loss, gates, rows, ungated, qk, logits, hidden", word));
    }
    keep.insert(found->second);
    begin = end + 1;
  }
  return keep;
}

Recorder::Recorder(TraceInfo info, KeepSet keep, std::shared_ptr<RunQueryKeyStore> query_key)
    : info_(std::move(info)),
      keep_(std::move(keep)),
      query_key_(std::move(query_key)),
      rows_(static_cast<std::size_t>(info_.layers)),
      per_token_loss_(static_cast<std::size_t>(info_.length)) {
  assert(info_.layers > 0 && info_.heads > 0 && info_.key_heads > 0 && info_.head_dim > 0 && info_.length > 0);
  assert(query_key_ == nullptr || query_key_->dtype() == info_.dtype);
}

namespace {

template <typename T>
std::span<T> sized(std::vector<T>& values, std::size_t size) {
  if (values.size() != size) values.resize(size);
  return values;
}

}  // namespace

std::span<double> Recorder::cumulative_log_gate(int layer) {
  assert(layer >= 0 && layer < info_.layers);
  return sized(rows_[static_cast<std::size_t>(layer)].cumulative_log_gate,
               static_cast<std::size_t>(info_.heads * info_.length));
}

std::span<float> Recorder::log_normalizer(int layer) {
  assert(layer >= 0 && layer < info_.layers);
  return sized(rows_[static_cast<std::size_t>(layer)].log_normalizer,
               static_cast<std::size_t>(info_.heads * info_.length));
}

std::span<float> Recorder::log_normalizer_without_gate(int layer) {
  if (!keeps(Keep::ungated)) return {};
  return sized(rows_[static_cast<std::size_t>(layer)].log_normalizer_without_gate,
               static_cast<std::size_t>(info_.heads * info_.length));
}

std::span<float> Recorder::per_token_loss() { return per_token_loss_; }

std::span<std::byte> Recorder::query_key(QueryKeyStore::Part part, int layer) {
  return query_key_ ? query_key_->layer(part, layer) : std::span<std::byte>{};
}

void* Recorder::query_key_on_device(QueryKeyStore::Part part, int layer) {
  return query_key_ ? query_key_->device_layer(part, layer) : nullptr;
}

std::span<float> Recorder::logits(std::int64_t vocabulary_size) {
  if (!keeps(Keep::logits)) return {};
  return sized(logits_, static_cast<std::size_t>(info_.length * vocabulary_size));
}

std::span<float> Recorder::hidden_states(int index, std::int64_t hidden_size) {
  if (!keeps(Keep::hidden)) return {};
  assert(index >= 0 && index <= info_.layers);
  hidden_states_.resize(static_cast<std::size_t>(info_.layers) + 1);
  return sized(hidden_states_[static_cast<std::size_t>(index)], static_cast<std::size_t>(info_.length * hidden_size));
}

std::shared_ptr<const Trace> Recorder::finish(std::shared_ptr<const Text> text,
                                              std::shared_ptr<const TokenTable> tokens) {
  std::vector<std::shared_ptr<const LayerRows>> rows;
  for (LayerRows& layer : rows_) {
    if (!keeps(Keep::gates)) layer.cumulative_log_gate = {};
    if (!keeps(Keep::rows)) layer.log_normalizer = {};
    rows.push_back(std::make_shared<const LayerRows>(std::move(layer)));
  }
  if (!keeps(Keep::loss)) per_token_loss_.clear();
  auto source = std::make_unique<const MemorySource>(std::move(rows), std::move(logits_), std::move(hidden_states_));
  return std::make_shared<const Trace>(std::move(info_), std::move(text), std::move(tokens), std::move(per_token_loss_),
                                       std::move(source), std::move(query_key_));
}

}  // namespace foxscope
