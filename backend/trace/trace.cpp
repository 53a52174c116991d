#include "backend/trace/trace.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/text/unicode/utf8.h"
#include "backend/trace/device_heads.h"
#include "backend/trace/mixer_text.h"
#include "backend/trace/row_source.h"
#include "backend/trace/run_origin.h"

namespace foxscope {
namespace {

Error not_kept(const TraceInfo& info, Keep keep) {
  return Error(
      fmt::format("model '{}': the run did not keep {}: {}", info.name, word_of(keep).title, keep_remedy(info, keep)));
}

/// A layer that has others of a word's arrays lacks one of them: its file was made otherwise.
Error lacks(const TraceInfo& info, int layer, const ArraySpec& spec) {
  return Error(fmt::format("model '{}': layer {} has {} but no {}: {}", info.name, layer, word_of(spec.keep).title,
                           name_of(spec), keep_remedy(info, spec.keep)));
}

/// Whether each layer forgets: its sums of log gates or decays say so, and what was said before where they were
/// not kept.
std::vector<bool> forgetting_of(const TraceInfo& info, const TraceSource& source) {
  std::vector<bool> forgetting;
  for (int layer = 0; layer < info.layers; ++layer) {
    const bool by_channel = info.mixer(layer).sums_channels();
    const TraceArray sums = by_channel ? TraceArray::cumulative_log_decay : TraceArray::cumulative_log_gate;
    forgetting.push_back(source.has(sums, layer) ? !source.is_zero(sums, layer) : forgets(info, layer));
  }
  return forgetting;
}

}  // namespace

Text part_read(const Text& text, std::int64_t byte_end) {
  const std::string_view content = text.content;
  auto end = static_cast<std::size_t>(byte_end);
  const auto continues = [&] {
    return end < content.size() && (static_cast<unsigned char>(content[end]) & 0xC0U) == 0x80U;
  };
  Text part;
  part.cut_word = continues();
  while (continues()) ++end;
  part.content = content.substr(0, end);
  part.unread_bytes = text.unread_bytes + std::ssize(content) - std::ssize(part.content);
  const auto is_space = [&](std::size_t place) { return is_white_space(character_at(content, place).code_point); };
  if (end == content.size()) {
    part.cut_word = part.cut_word || text.cut_word;
  } else if (end > 0 && !is_space(previous_character(content, end)) && !is_space(end)) {
    part.cut_word = true;
  }
  return part;
}

bool same_text(const Text& a, const Text& b) {
  const Text& longer = a.content.size() >= b.content.size() ? a : b;
  const Text& shorter = &longer == &a ? b : a;
  if (longer.content.size() == shorter.content.size()) return longer.content == shorter.content;
  return std::ssize(shorter.content) + shorter.unread_bytes == std::ssize(longer.content) + longer.unread_bytes &&
         longer.content.starts_with(shorter.content);
}

bool is_read_of(const Text& text, std::string_view whole) {
  if (text.content == whole) return true;  // all that a run file holds of it
  return std::ssize(text.content) + text.unread_bytes == std::ssize(whole) && whole.starts_with(text.content);
}

int key_head_of(const TraceInfo& info, int layer, int head) {
  const LayerMixer mixer = info.mixer(layer);
  // A trace without queries and keys may not know how many heads of keys there were.
  return head / std::max(1, mixer.heads / std::max(1, mixer.key_heads));
}

std::int64_t window_of(const TraceInfo& info, int layer) {
  if (!info.mixer(layer).has_softmax()) return 0;
  return info.window_sizes.empty() ? info.window_size : info.window_sizes.at(static_cast<std::size_t>(layer));
}

double capped_logit(const TraceInfo& info, double logit) {
  return info.logit_cap > 0 ? info.logit_cap * std::tanh(logit / info.logit_cap) : logit;
}

bool forgets(const TraceInfo& info, int layer) {
  const LayerMixer mixer = info.mixer(layer);
  if (!mixer.decays()) return false;
  if (!info.forgetting.empty()) return info.forgetting.at(static_cast<std::size_t>(layer));
  return !mixer.has_softmax();
}

bool forgets(const TraceInfo& info) {
  for (int layer = 0; layer < info.layers; ++layer) {
    if (forgets(info, layer)) return true;
  }
  return false;
}

bool TraceSource::is_zero(TraceArray array, int index) const {
  const std::shared_ptr<const ArrayValues> values = read(array, index);
  return std::visit([](const auto& numbers) { return std::ranges::all_of(numbers, [](auto n) { return n == 0; }); },
                    *values);
}

Trace::Trace(TraceInfo info, std::shared_ptr<const Text> text, std::shared_ptr<const TokenTable> tokens,
             std::unique_ptr<const TraceSource> source, std::shared_ptr<const QueryKeyStore> store,
             std::optional<int> made_on)
    : info_(std::move(info)),
      text_(std::move(text)),
      tokens_(std::move(tokens)),
      source_(std::move(source)),
      store_(std::move(store)),
      made_on_(made_on) {
  assert(source_ != nullptr);
  assert(info_.layers > 0 && info_.heads > 0 && info_.length > 0);
  assert(tokens_ == nullptr || tokens_->id.empty() || static_cast<std::int64_t>(tokens_->id.size()) == info_.length);
  assert(tokens_ == nullptr || tokens_->input_id.size() == tokens_->id.size());
  assert(store_ == nullptr || (store_->shape().layers == info_.layers && store_->shape().heads == info_.heads &&
                               store_->shape().key_heads == info_.key_heads && store_->shape().length == info_.length &&
                               store_->shape().head_dim == info_.head_dim && store_->shape().mixers == info_.mixers &&
                               store_->dtype() == info_.dtype));
  assert(info_.mixers.empty() || static_cast<int>(info_.mixers.size()) == info_.layers);
  assert(info_.forgetting.empty() || static_cast<int>(info_.forgetting.size()) == info_.layers);
  info_.forgetting = forgetting_of(info_, *source_);
  if (!made_on_ && store_ != nullptr && store_->on_device(TraceArray::query, 0, 0) != nullptr) {
    made_on_ = store_->device();
  }
  // From another machine it comes when it is first wanted.
  const auto* const by_row = dynamic_cast<const RowSource*>(source_.get());
  if (by_row == nullptr || !by_row->waits()) {
    per_token_loss_ = source_->read(TraceArray::per_token_loss, 0);
  }
  assert(!per_token_loss_ || per_token_loss().empty() ||
         static_cast<std::int64_t>(per_token_loss().size()) == info_.length);
}

std::shared_ptr<DeviceHeads> Trace::device_heads(int gpu) const {
  const std::lock_guard lock(mutex_);
  if (device_heads_ == nullptr || device_heads_->device() != gpu) {
    device_heads_ = std::make_shared<DeviceHeads>(gpu, DeviceHeads::kBudget);
  }
  return device_heads_;
}

void Trace::check_layer(int layer) const {
  if (layer >= 0 && layer < info_.layers) return;
  throw UsageError(fmt::format("model '{}' has no layer {}: layers are 0 to {}", info_.name, layer, info_.layers - 1));
}

void Trace::check_head(int layer, int head) const {
  check_layer(layer);
  const int heads = info_.mixer(layer).heads;
  if (heads == 0) {
    throw UsageError(fmt::format("model '{}' has no heads in layer {}, which {}", info_.name, layer,
                                 is_unrecorded(info_, layer) ? "was not recorded" : "does not mix positions"));
  }
  if (head < 0 || head >= heads) {
    const std::string where = heads == info_.heads ? "" : fmt::format(" in layer {}", layer);
    throw UsageError(fmt::format("model '{}' has no head {}{}: heads are 0 to {}", info_.name, head, where, heads - 1));
  }
}

std::span<const std::uint16_t> Trace::prediction_state() const {
  const ArrayValues* const values = find(TraceArray::prediction_state, 0);
  if (values == nullptr) throw not_kept(info_, Keep::predictions);
  return std::get<std::vector<std::uint16_t>>(*values);
}

const QueryKeyStore& Trace::require_query_key() const {
  if (query_key() == nullptr) throw not_kept(info_, Keep::query_key);
  return *store_;
}

std::span<const float> Trace::per_token_loss() const {
  const ArrayValues* const values = per_token_loss_ ? per_token_loss_.get() : find(TraceArray::per_token_loss, 0);
  return values == nullptr ? std::span<const float>() : std::get<std::vector<float>>(*values);
}

bool Trace::has(TraceArray array, int index) const {
  return spec_of(array).storage == Storage::store ? store_of(array) != nullptr : source_->has(array, index);
}

const QueryKeyStore* Trace::store_of(TraceArray array) const {
  return store_ != nullptr && store_->has(array) ? store_.get() : nullptr;
}

/// Null where it was not kept.
const ArrayValues* Trace::find(TraceArray array, int index) const {
  if (!source_->has(array, index)) return nullptr;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const ArrayValues>& values = arrays_[{array, index}];
  if (!values) values = source_->read(array, index);
  return values.get();
}

/// One head's part of an array whose axes begin with head, or with layer and head.
template <typename T>
std::span<const T> Trace::row(TraceArray array, int layer, int head) const {
  check_head(layer, head);
  const ArraySpec& spec = spec_of(array);
  const bool whole = spec.repeat == Repeat::once;
  const LayerMixer mixer = info_.mixer(layer);
  if (!belongs_to(spec, mixer)) {
    throw UsageError(fmt::format("model '{}', layer {}: {} has no {}", info_.name, layer, mixer_words(mixer),
                                 spec.path + std::string_view(spec.path).rfind('/') + 1));
  }
  if (!source_->has(array, whole ? 0 : layer)) {
    const bool others = std::ranges::any_of(kTraceArrays, [&](const ArraySpec& other) {
      return other.keep == spec.keep && belongs_to(other, mixer) && has(other.array, layer);
    });
    throw others ? lacks(info_, layer, spec) : not_kept(info_, spec.keep);
  }
  const int heads = static_cast<int>(shape_of(spec, info_, layer)[whole ? 1 : 0]);
  const int rows = whole ? info_.layers * heads : heads;
  const int place = whole ? layer * heads + head : shared_head(mixer.heads, heads, head);
  const auto* const by_row = dynamic_cast<const RowSource*>(source_.get());
  if (by_row != nullptr && by_row->has_rows(array, whole ? 0 : layer)) {
    return std::get<std::vector<T>>(by_row->row(array, whole ? 0 : layer, place));
  }
  const std::span<const T> numbers = std::get<std::vector<T>>(*find(array, whole ? 0 : layer));
  assert(numbers.size() == elements_of(spec, info_, layer));
  const std::size_t size = numbers.size() / static_cast<std::size_t>(rows);
  return numbers.subspan(static_cast<std::size_t>(place) * size, size);
}

/// One layer's part of an array of all layers.
template <typename T>
std::span<const T> Trace::part_of_layer(TraceArray array, int layer) const {
  check_layer(layer);
  const ArraySpec& spec = spec_of(array);
  assert(spec.repeat == Repeat::once);
  const ArrayValues* const values = find(array, 0);
  if (values == nullptr) throw not_kept(info_, spec.keep);
  const std::span<const T> numbers = std::get<std::vector<T>>(*values);
  const std::size_t size = numbers.size() / static_cast<std::size_t>(info_.layers);
  return numbers.subspan(static_cast<std::size_t>(layer) * size, size);
}

std::span<const std::int32_t> Trace::experts(int layer) const {
  return part_of_layer<std::int32_t>(TraceArray::expert, layer);
}

std::span<const float> Trace::expert_weights(int layer) const {
  return part_of_layer<float>(TraceArray::expert_weight, layer);
}

std::span<const double> Trace::cumulative_log_gate(int layer, int head) const {
  check_head(layer, head);
  if (!belongs_to(spec_of(TraceArray::cumulative_log_gate), info_.mixer(layer))) return mean_decay(layer, head);
  return row<double>(TraceArray::cumulative_log_gate, layer, head);
}

std::span<const double> Trace::mean_decay(int layer, int head) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = mean_decay_.find({layer, head}); found != mean_decay_.end()) return found->second;
  }
  std::vector<double> mean(static_cast<std::size_t>(info_.length), 0.0);
  if (info_.mixer(layer).sums_channels()) {
    const std::span<const double> sums = row<double>(TraceArray::cumulative_log_decay, layer, head);
    const std::size_t channels = sums.size() / mean.size();
    for (std::size_t position = 0; position < mean.size(); ++position) {
      const std::span<const double> of_position = sums.subspan(position * channels, channels);
      mean[position] = std::accumulate(of_position.begin(), of_position.end(), 0.0) / static_cast<double>(channels);
    }
  }
  const std::lock_guard lock(mutex_);
  return mean_decay_.try_emplace({layer, head}, std::move(mean)).first->second;
}

/// The log decays of all channels for each of some c, nats.
std::vector<double> Trace::decays_by_rates(int layer, int head, std::span<const double> sums) const {
  const std::span<const double> rates = row<double>(TraceArray::decay_rate, layer, head);
  std::vector<double> decays;
  decays.reserve(sums.size() * rates.size());
  for (const double sum : sums) {
    for (const double rate : rates) decays.push_back(rate * sum);
  }
  return decays;
}

ChannelSums Trace::cumulative_log_decay(int layer, int head) const {
  check_head(layer, head);
  if (!info_.mixer(layer).has_rates()) {
    return {nullptr, row<double>(TraceArray::cumulative_log_decay, layer, head)};
  }
  const auto made =
      std::make_shared<const std::vector<double>>(decays_by_rates(layer, head, cumulative_log_gate(layer, head)));
  return {made, *made};
}

std::vector<double> Trace::cumulative_log_decay(int layer, int head, int channel) const {
  check_head(layer, head);
  const auto at = static_cast<std::size_t>(channel);
  std::vector<double> sums;
  if (info_.mixer(layer).has_rates()) {
    const double rate = row<double>(TraceArray::decay_rate, layer, head)[at];
    for (const double sum : cumulative_log_gate(layer, head)) sums.push_back(rate * sum);
    return sums;
  }
  const std::span<const double> all = row<double>(TraceArray::cumulative_log_decay, layer, head);
  const std::size_t channels = all.size() / static_cast<std::size_t>(info_.length);
  for (std::size_t n = at; n < all.size(); n += channels) sums.push_back(all[n]);
  return sums;
}

std::vector<double> Trace::log_decay_at(int layer, int head, std::int64_t position) const {
  check_head(layer, head);
  assert(position >= 0 && position < info_.length);
  const auto at = static_cast<std::size_t>(position);
  if (info_.mixer(layer).has_rates()) {
    return decays_by_rates(layer, head, cumulative_log_gate(layer, head).subspan(at, 1));
  }
  const std::span<const double> all = row<double>(TraceArray::cumulative_log_decay, layer, head);
  const std::size_t channels = all.size() / static_cast<std::size_t>(info_.length);
  const std::span<const double> found = all.subspan(at * channels, channels);
  return {found.begin(), found.end()};
}

std::span<const float> Trace::beta(int layer, int head) const { return row<float>(TraceArray::beta, layer, head); }

std::span<const float> Trace::erase_read(int layer, int head) const {
  return row<float>(TraceArray::erase_read, layer, head);
}

std::span<const float> Trace::erase_write(int layer, int head) const {
  return row<float>(TraceArray::erase_write, layer, head);
}

std::span<const float> Trace::log_normalizer(int layer, int head) const {
  return row<float>(TraceArray::log_normalizer, layer, head);
}

std::optional<double> Trace::sink_logit(int layer, int head) const {
  check_head(layer, head);
  if (!info_.mixer(layer).sinks) return std::nullopt;
  return static_cast<double>(row<float>(TraceArray::sink_logit, layer, head).front());
}

std::span<const float> Trace::log_forget_gradient(int layer, int head) const {
  return row<float>(TraceArray::log_forget_gradient, layer, head);
}

std::optional<TraceArray> Trace::lacking(int layer) const {
  check_layer(layer);
  const LayerMixer mixer = info_.mixer(layer);
  if (mixer.heads == 0) return std::nullopt;
  // M of linear mixers is made of the gates and of what is kept beside queries and keys.
  const auto is_lacking = [&](const ArraySpec& spec) {
    if (spec.keep == Keep::query_key && spec.storage == Storage::store) return query_key() == nullptr;
    const bool erases = spec.array == TraceArray::erase_read || spec.array == TraceArray::erase_write;
    const bool makes_rows = mixer.has_softmax() ? spec.array == TraceArray::log_normalizer || erases
                                                : spec.keep == Keep::gates || spec.keep == Keep::query_key;
    return makes_rows && belongs_to(spec, mixer) && !has(spec.array, layer);
  };
  const auto* const found = std::ranges::find_if(kTraceArrays, is_lacking);
  return found == kTraceArrays.end() ? std::nullopt : std::optional(found->array);
}

bool Trace::knows_log_normalizer_without_gate(int layer, int head) const {
  check_head(layer, head);
  if (has(TraceArray::log_normalizer_without_gate, layer)) return true;
  const std::lock_guard lock(mutex_);
  return without_gate_.contains({layer, head});
}

std::span<const float> Trace::log_normalizer_without_gate(int layer, int head,
                                                          const std::function<std::vector<float>()>& compute) const {
  check_head(layer, head);
  if (has(TraceArray::log_normalizer_without_gate, layer)) {
    return row<float>(TraceArray::log_normalizer_without_gate, layer, head);
  }
  return known_or(without_gate_, layer, head, compute);
}

std::span<const float> Trace::row_sizes(int layer, int head, const std::function<std::vector<float>()>& compute) const {
  check_head(layer, head);
  return known_or(row_sizes_, layer, head, compute);
}

bool Trace::knows_row_sizes(int layer, int head) const {
  const std::lock_guard lock(mutex_);
  return row_sizes_.contains({layer, head});
}

std::span<const float> Trace::known_or(HeadRows& rows, int layer, int head,
                                       const std::function<std::vector<float>()>& compute) const {
  const std::pair key{layer, head};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = rows.find(key); found != rows.end()) return found->second;
  }
  // Computed outside the lock: other heads and other readers need not wait. If two compute the same row, the first to
  // finish is kept.
  std::vector<float> computed = compute();
  if (computed.empty()) return {};
  assert(static_cast<std::int64_t>(computed.size()) == info_.length);
  const std::lock_guard lock(mutex_);
  return rows.try_emplace(key, std::move(computed)).first->second;
}

}  // namespace foxscope
