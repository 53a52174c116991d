#include "backend/map/complete_rows.h"

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/team.h"
#include "kernels/cpu/forgetting_attention.h"
#include "kernels/cpu/path_attention.h"

namespace foxscope {
namespace {

/// The row normalisers of some layers, and of everything else what another trace has.
class CompletedSource final : public TraceSource {
 public:
  using Rows = std::map<int, std::shared_ptr<const ArrayValues>>;
  CompletedSource(std::shared_ptr<const Trace> run, Rows rows) : run_(std::move(run)), rows_(std::move(rows)) {}

  [[nodiscard]] bool has(TraceArray array, int index) const override {
    return is_computed(array, index) || run_->source().has(array, index);
  }
  [[nodiscard]] std::shared_ptr<const ArrayValues> read(TraceArray array, int index) const override {
    return is_computed(array, index) ? rows_.at(index) : run_->source().read(array, index);
  }
  [[nodiscard]] bool is_zero(TraceArray array, int index) const override {
    return !is_computed(array, index) && run_->source().is_zero(array, index);
  }

 private:
  [[nodiscard]] bool is_computed(TraceArray array, int index) const {
    return array == TraceArray::log_normalizer && rows_.contains(index);
  }

  std::shared_ptr<const Trace> run_;
  Rows rows_;
};

/// The arrays of a layer from which its rows are computed; empty where the layer has none.
struct LayerOperands {
  std::vector<double> gates;  ///< [H, L]
  std::vector<float> sinks;   ///< [H]
  std::vector<float> read;    ///< [H_kv, L, d]
  std::vector<float> write;   ///< [H_kv, L, d]
};

LayerOperands operands_of(const Trace& trace, int layer) {
  LayerOperands operands;
  if (forgets(trace.info(), layer)) {
    operands.gates = trace.source().copy<double>(TraceArray::cumulative_log_gate, layer);
  }
  const LayerMixer mixer = trace.info().mixer(layer);
  if (mixer.sinks) operands.sinks = trace.source().copy<float>(TraceArray::sink_logit, layer);
  if (mixer.path) operands.read = trace.source().copy<float>(TraceArray::erase_read, layer);
  if (mixer.path) operands.write = trace.source().copy<float>(TraceArray::erase_write, layer);
  return operands;
}

/// Computes the rows of a layer, head by head, so that queries and keys of one head alone are in memory.
class LayerRows {
 public:
  LayerRows(const Trace& trace, int layer, kernels::Executor& executor, const std::stop_token& stop)
      : info_(trace.info()),
        mixer_(info_.mixer(layer)),
        layer_(layer),
        store_(trace.require_query_key()),
        operands_(operands_of(trace, layer)),
        executor_(executor),
        stop_(stop),
        unread_(index_of(info_.length * mixer_.head_dim)) {}

  /// @param rows  [L], nats
  /// @returns false if it was stopped
  bool compute(int head, std::span<float> rows) {
    const int key_head = shared_head(mixer_.heads, mixer_.key_heads, head);
    const std::size_t length = index_of(info_.length);
    kernels::cpu::ForgettingAttention a;
    a.batch = a.heads = a.key_heads = 1;
    a.length = info_.length;
    a.head_dim = mixer_.head_dim;
    a.query = store_.rows(TraceArray::query, layer_, head, 0, info_.length, query_scratch_).data();
    a.key = keys_of(key_head);
    a.value = a.key;  // sums of rows do not depend on values
    a.output = unread_.data();
    const std::int64_t size = info_.length * mixer_.head_dim;
    a.query_strides = a.key_strides = a.value_strides = a.output_strides = {size, size, mixer_.head_dim};
    if (!operands_.gates.empty()) a.cumulative_log_gate = operands_.gates.data() + index_of(head) * length;
    if (!operands_.sinks.empty()) a.sink = operands_.sinks.data() + head;
    a.log_normalizer = rows.data();
    a.scale = info_.softmax_scale;
    a.logit_cap = static_cast<float>(info_.logit_cap);
    a.window_size = window_of(info_, layer_);
    a.pruning_tolerance = info_.pruning_tolerance;
    const std::int64_t erased = key_head * size;
    const kernels::Status status = mixer_.path
                                       ? path_attention(a, operands_.read.data() + erased,
                                                        operands_.write.data() + erased, executor_, stop_, nullptr)
                                       : forgetting_attention(a, executor_, stop_, nullptr);
    if (status == kernels::Status::invalid_argument) {
      throw ShapeError(
          fmt::format("[forgetting_attention] a head of {} channels over {} positions with scale {} and "
                      "pruning tolerance {} is not supported",
                      mixer_.head_dim, info_.length, info_.softmax_scale, info_.pruning_tolerance));
    }
    return status == kernels::Status::ok;
  }

 private:
  const float* keys_of(int key_head) {
    if (key_head != key_head_) {
      keys_ = store_.rows(TraceArray::key, layer_, key_head, 0, info_.length, key_scratch_);
      key_head_ = key_head;
    }
    return keys_.data();
  }

  const TraceInfo& info_;
  const LayerMixer mixer_;
  const int layer_;
  const QueryKeyStore& store_;
  const LayerOperands operands_;
  kernels::Executor& executor_;
  const std::stop_token stop_;
  std::vector<float> unread_;  ///< what the kernel makes of the values
  std::vector<float> query_scratch_;
  std::vector<float> key_scratch_;
  std::span<const float> keys_;
  int key_head_ = -1;  ///< whose keys are there
};

}  // namespace

bool can_complete_rows(const Trace& trace, int layer) {
  const TraceInfo& info = trace.info();
  const LayerMixer mixer = info.mixer(layer);
  if (!mixer.has_softmax() || trace.query_key() == nullptr || trace.has(TraceArray::log_normalizer, layer)) {
    return false;
  }
  // Where there may have been a gate, of the model or by an intervention, rows need c.
  const bool gated = forgets(info, layer) || !info.intervention.empty();
  if (gated && !trace.has(TraceArray::cumulative_log_gate, layer)) return false;
  if (mixer.sinks && !trace.has(TraceArray::sink_logit, layer)) return false;
  if (!mixer.path) return true;
  return trace.has(TraceArray::erase_read, layer) && trace.has(TraceArray::erase_write, layer) && !mixer.sinks &&
         window_of(info, layer) == 0 && info.logit_cap == 0;
}

std::shared_ptr<const Trace> complete_rows(std::shared_ptr<const Trace> trace, const Job& job) {
  const TraceInfo& info = trace->info();
  std::vector<int> layers;
  std::int64_t heads = 0;
  for (int layer = 0; layer < info.layers; ++layer) {
    if (!can_complete_rows(*trace, layer)) continue;
    layers.push_back(layer);
    heads += info.mixer(layer).heads;
  }
  if (layers.empty()) return trace;

  const Team team(job);
  CompletedSource::Rows rows;
  std::int64_t done = 0;
  for (const int layer : layers) {
    LayerRows computed(*trace, layer, *team.executor(), job.stop);
    std::vector<float> of_layer(index_of(info.mixer(layer).heads * info.length));
    for (int head = 0; head < info.mixer(layer).heads; ++head) {
      job.tell({done, heads * info.length, "tokens", "computing row normalisers"});
      const std::size_t begin = index_of(head * info.length);
      if (!computed.compute(head, std::span(of_layer).subspan(begin, index_of(info.length)))) return nullptr;
      done += info.length;
    }
    rows.emplace(layer, std::make_shared<const ArrayValues>(std::move(of_layer)));
  }
  job.tell({done, done, "tokens", "computing row normalisers"});
  if (job.stopped()) return nullptr;
  const std::shared_ptr<const QueryKeyStore> store(trace, trace->query_key());
  return std::make_shared<const Trace>(info, trace->text(), trace->tokens(),
                                       std::make_unique<const CompletedSource>(trace, std::move(rows)), store,
                                       trace->made_on());
}

}  // namespace foxscope
