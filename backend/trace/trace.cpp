#include "backend/trace/trace.h"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/trace/device_heads.h"

namespace foxscope {
namespace {

template <typename T>
std::span<const T> row_of(const std::vector<T>& values, int head, std::int64_t length) {
  return std::span<const T>(values).subspan(static_cast<std::size_t>(head) * static_cast<std::size_t>(length),
                                            static_cast<std::size_t>(length));
}

Error not_kept(const std::string& name, const char* what, const char* keep) {
  return Error(fmt::format("model '{}': the run did not keep {}: run again with '{}' in --keep", name, what, keep));
}

}  // namespace

int key_head_of(const TraceInfo& info, int head) {
  // A trace without queries and keys may not know how many heads of keys there were.
  return head / std::max(1, info.heads / std::max(1, info.key_heads));
}

Trace::Trace(TraceInfo info, std::shared_ptr<const Text> text, std::shared_ptr<const TokenTable> tokens,
             std::vector<float> per_token_loss, std::unique_ptr<const TraceSource> source,
             std::shared_ptr<const QueryKeyStore> query_key)
    : info_(std::move(info)),
      text_(std::move(text)),
      tokens_(std::move(tokens)),
      per_token_loss_(std::move(per_token_loss)),
      source_(std::move(source)),
      query_key_(std::move(query_key)) {
  assert(source_ != nullptr);
  assert(info_.layers > 0 && info_.heads > 0 && info_.length > 0);
  assert(per_token_loss_.empty() || static_cast<std::int64_t>(per_token_loss_.size()) == info_.length);
  assert(tokens_ == nullptr || tokens_->id.empty() || static_cast<std::int64_t>(tokens_->id.size()) == info_.length);
  assert(tokens_ == nullptr || tokens_->input_id.size() == tokens_->id.size());
  assert(query_key_ == nullptr ||
         (query_key_->shape().layers == info_.layers && query_key_->shape().heads == info_.heads &&
          query_key_->shape().key_heads == info_.key_heads && query_key_->shape().length == info_.length &&
          query_key_->shape().head_dim == info_.head_dim && query_key_->dtype() == info_.dtype));
  if (query_key_ != nullptr && query_key_->on_device(QueryKeyStore::Part::query, 0, 0) != nullptr) {
    gpu_ = query_key_->device();
  }
}

std::optional<int> Trace::gpu() const {
  const std::lock_guard lock(mutex_);
  return gpu_;
}

void Trace::compute_on(std::optional<int> gpu) const {
  const std::lock_guard lock(mutex_);
  gpu_ = gpu;
  if (!gpu) device_heads_.reset();
}

std::shared_ptr<DeviceHeads> Trace::device_heads(int gpu) const {
  const std::lock_guard lock(mutex_);
  if (device_heads_ == nullptr || device_heads_->device() != gpu) {
    device_heads_ = std::make_shared<DeviceHeads>(gpu, DeviceHeads::kBudget);
  }
  return device_heads_;
}

void Trace::check_head(int layer, int head) const {
  if (layer < 0 || layer >= info_.layers) {
    throw UsageError(
        fmt::format("model '{}' has no layer {}: layers are 0 to {}", info_.name, layer, info_.layers - 1));
  }
  if (head < 0 || head >= info_.heads) {
    throw UsageError(fmt::format("model '{}' has no head {}: heads are 0 to {}", info_.name, head, info_.heads - 1));
  }
}

const QueryKeyStore& Trace::require_query_key() const {
  if (!query_key_) throw not_kept(info_.name, "queries and keys", "qk");
  return *query_key_;
}

const LayerRows& Trace::rows(int layer) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const LayerRows>& rows = rows_[layer];
  if (!rows) rows = source_->rows(layer);
  [[maybe_unused]] const auto fits = [this](std::size_t size) {
    return size == 0 || static_cast<std::int64_t>(size) == info_.heads * info_.length;
  };
  assert(fits(rows->cumulative_log_gate.size()));
  assert(fits(rows->log_normalizer.size()));
  assert(fits(rows->log_normalizer_without_gate.size()));
  return *rows;
}

std::span<const double> Trace::cumulative_log_gate(int layer, int head) const {
  check_head(layer, head);
  const LayerRows& kept = rows(layer);
  if (kept.cumulative_log_gate.empty()) throw not_kept(info_.name, "gates", "gates");
  return row_of(kept.cumulative_log_gate, head, info_.length);
}

std::span<const float> Trace::log_normalizer(int layer, int head) const {
  check_head(layer, head);
  const LayerRows& kept = rows(layer);
  if (kept.log_normalizer.empty()) throw not_kept(info_.name, "row normalisers", "rows");
  return row_of(kept.log_normalizer, head, info_.length);
}

bool Trace::has_attention(int layer) const {
  check_head(layer, 0);
  return query_key_ != nullptr && !rows(layer).log_normalizer.empty();
}

bool Trace::knows_log_normalizer_without_gate(int layer, int head) const {
  check_head(layer, head);
  if (!rows(layer).log_normalizer_without_gate.empty()) return true;
  const std::lock_guard lock(mutex_);
  return without_gate_.contains({layer, head});
}

std::span<const float> Trace::log_normalizer_without_gate(int layer, int head,
                                                          const std::function<std::vector<float>()>& compute) const {
  check_head(layer, head);
  const LayerRows& kept = rows(layer);
  if (!kept.log_normalizer_without_gate.empty()) {
    return row_of(kept.log_normalizer_without_gate, head, info_.length);
  }
  const std::pair key{layer, head};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = without_gate_.find(key); found != without_gate_.end()) return found->second;
  }
  // Computed outside the lock: other heads and other readers need not wait. Of two that compute the same row, the first
  // to finish is kept.
  std::vector<float> computed = compute();
  if (computed.empty()) return {};
  assert(static_cast<std::int64_t>(computed.size()) == info_.length);
  const std::lock_guard lock(mutex_);
  return without_gate_.try_emplace(key, std::move(computed)).first->second;
}

}  // namespace foxscope
