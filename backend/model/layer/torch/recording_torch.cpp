#include "backend/model/layer/torch/recording_torch.h"

#include <algorithm>
#include <cassert>

#include <ATen/ATen.h>

namespace foxscope {
namespace {

/// Copies queries, keys or values of a layer to where the recorder keeps them, if it does and they are not there
/// already. From a GPU to its own memory or to pinned memory nothing waits: the copies are there when the stream has
/// got past them.
/// @param rows  [H, L, d] or [H_kv, L, d] of any strides
/// @param type  of what is kept, the run's dtype
void record_stored(Recorder& recorder, TraceArray array, int layer, const at::Tensor& rows, at::ScalarType type) {
  if (void* const device = recorder.stored_on_device(array, layer)) {
    if (device != rows.const_data_ptr()) at::from_blob(device, rows.sizes(), rows.options().dtype(type)).copy_(rows);
    return;
  }
  const std::span<std::byte> kept = recorder.stored(array, layer);
  if (kept.empty()) return;
  const at::Tensor stored = rows.to(type).contiguous();
  assert(kept.size() == stored.nbytes());
  at::from_blob(kept.data(), rows.sizes(), at::TensorOptions().dtype(type)).copy_(stored, /*non_blocking=*/true);
}

/// An operand of linear mixers that a trace keeps in float32, in layers that have such an array.
struct KeptOperand {
  TraceArray array;
  at::Tensor LinearOperands::*values;  ///< [B, ...]; where it is undefined, all are 1
};
constexpr KeptOperand kKeptOperands[] = {{TraceArray::beta, &LinearOperands::beta},
                                         {TraceArray::erase_read, &LinearOperands::erase_read},
                                         {TraceArray::erase_write, &LinearOperands::erase_write}};

/// @param query, key, value  [heads, L, width]
void record_query_key_value(const TorchPass& pass, Recorder& into, int layer, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value) {
  const at::ScalarType type = pass.weights().matrix;
  record_stored(into, TraceArray::query, layer, query.detach(), type);
  record_stored(into, TraceArray::key, layer, key.detach(), type);
  record_stored(into, TraceArray::value, layer, value.detach(), type);
}

}  // namespace

void record_hidden(const TorchPass& pass, int layer, const at::Tensor& rows) {
  const std::int64_t length = pass.length();
  for (std::int64_t b = 0; b < pass.batch(); ++b) {
    if (Recorder* const into = pass.recorder(b)) {
      const std::span<float> kept = into->hidden_states(layer, pass.config().hidden_size);
      if (!kept.empty()) copy_to_host(rows.slice(0, b * length, (b + 1) * length), kept.data());
    }
  }
}

void record_prediction_state(const TorchPass& pass, const at::Tensor& rows) {
  const std::int64_t length = pass.length();
  for (std::int64_t b = 0; b < pass.batch(); ++b) {
    Recorder* const into = pass.recorder(b);
    if (into == nullptr || !into->keeps(Keep::predictions)) continue;
    copy_to_host(rows.slice(0, b * length, (b + 1) * length).to(at::kHalf),
                 into->prediction_state(pass.config().hidden_size).data());
  }
}

void record_heads(TorchPass& pass, int layer, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const at::Tensor& cumulative) {
  for (std::int64_t b = 0; b < pass.batch(); ++b) {
    Recorder* const into = pass.recorder(b);
    if (into == nullptr) continue;
    if (into->keeps(Keep::gates)) {
      if (cumulative.defined()) {
        pass.keep(cumulative[b], [into, layer] { return into->cumulative_log_gate(layer).data(); });
      } else {
        std::ranges::fill(into->cumulative_log_gate(layer), 0.0);
      }
    }
    record_query_key_value(pass, *into, layer, query[b], key[b], value[b]);
  }
}

void record_erasing(TorchPass& pass, int layer, const at::Tensor& read, const at::Tensor& write) {
  for (std::int64_t b = 0; b < pass.batch(); ++b) {
    Recorder* const into = pass.recorder(b);
    if (into == nullptr || !into->keeps(Keep::query_key)) continue;
    pass.keep(read[b], [into, layer] { return into->array<float>(TraceArray::erase_read, layer).data(); });
    pass.keep(write[b], [into, layer] { return into->array<float>(TraceArray::erase_write, layer).data(); });
  }
}

void record_normalizers(TorchPass& pass, int layer, const at::Tensor& log_normalizer, const at::Tensor& without_gate) {
  for (std::int64_t b = 0; b < pass.batch(); ++b) {
    Recorder* const into = pass.recorder(b);
    if (into == nullptr) continue;
    if (into->keeps(Keep::rows)) {
      pass.keep(log_normalizer[b], [into, layer] { return into->log_normalizer(layer).data(); });
      if (const at::Tensor& sinks = pass.weights(layer).sinks; sinks.defined()) {
        pass.keep(sinks.detach(), [into, layer] { return into->array<float>(TraceArray::sink_logit, layer).data(); });
      }
    }
    if (into->keeps(Keep::ungated)) {
      pass.keep(without_gate[b], [into, layer] { return into->log_normalizer_without_gate(layer).data(); });
    }
  }
}

void record_experts(TorchPass& pass, int layer, const at::Tensor& experts, const at::Tensor& weights) {
  const std::int64_t length = pass.length();
  for (std::int64_t b = 0; b < pass.batch(); ++b) {
    Recorder* const into = pass.recorder(b);
    if (into == nullptr || !into->keeps(Keep::experts)) continue;
    const auto own = [&](const at::Tensor& values, at::ScalarType type) {
      return values.detach().slice(0, b * length, (b + 1) * length).to(type).contiguous();
    };
    pass.keep(own(experts, at::kInt), [into, layer] { return into->experts(layer).experts.data(); });
    pass.keep(own(weights, at::kFloat), [into, layer] { return into->experts(layer).weights.data(); });
  }
}

void record_operands(TorchPass& pass, int layer, const LinearOperands& operands) {
  for (std::int64_t b = 0; b < pass.batch(); ++b) {
    Recorder* const into = pass.recorder(b);
    if (into == nullptr) continue;
    if (into->keeps(Keep::gates) && operands.log_decay.defined()) {
      const bool by_channel = operands.decays_by_channel();
      pass.keep(operands.log_decay[b].cumsum(1).contiguous(), [into, layer, by_channel] {
        return by_channel ? into->cumulative_log_decay(layer).data() : into->cumulative_log_gate(layer).data();
      });
      if (operands.rate.defined() && into->info().mixer(layer).has_rates()) {
        pass.keep(operands.rate.to(at::kDouble).contiguous(), [into, layer] { return into->decay_rate(layer).data(); });
      }
    }
    for (const auto& [array, values] : kKeptOperands) {
      const ArraySpec& spec = spec_of(array);
      if (!into->keeps(spec.keep) || !belongs_to(spec, into->info().mixer(layer))) continue;
      if ((operands.*values).defined()) {
        pass.keep((operands.*values)[b].contiguous(),
                  [into, layer, to = array] { return into->array<float>(to, layer).data(); });
      } else {
        std::ranges::fill(into->array<float>(array, layer), 1.0F);
      }
    }
    record_query_key_value(pass, *into, layer, operands.query[b], operands.key[b], operands.value[b]);
  }
}

void record_logits(const TorchPass& pass, std::int64_t first, const at::Tensor& logits) {
  if (!pass.keeps(Keep::logits)) return;
  const std::int64_t length = pass.length();
  for (std::int64_t row = first; row < first + logits.size(0);) {
    const std::int64_t b = row / length;
    const std::int64_t end = std::min((b + 1) * length, first + logits.size(0));
    if (Recorder* const into = pass.recorder(b); into != nullptr && into->keeps(Keep::logits)) {
      const std::int64_t vocabulary = pass.config().vocabulary_size;
      copy_to_host(logits.slice(0, row - first, end - first),
                   into->logits(vocabulary).data() + (row - b * length) * vocabulary);
    }
    row = end;
  }
}

void record_losses(TorchPass& pass, const at::Tensor& loss) {
  const std::int64_t length = pass.length();
  for (std::int64_t b = 0; b < pass.batch(); ++b) {
    Recorder* const into = pass.recorder(b);
    if (into == nullptr || !into->keeps(Keep::loss)) continue;
    pass.keep(loss.slice(0, b * length, (b + 1) * length), [into] { return into->per_token_loss().data(); });
  }
}

}  // namespace foxscope
