#include "tests/map/dense.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "backend/base/index.h"
#include "kernels/executor.h"
#include "tests/largest_error.h"

namespace foxscope::test {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Calls row(i) for all of [0, length) on all cores.
void for_rows(std::int64_t length, const std::function<void(std::int64_t)>& row) {
  static kernels::ThreadPool pool;
  pool.run(length, [&](std::int64_t i, int) { row(i); });
}

void fill_query_key(const RunShape& shape, std::span<std::byte> bytes, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  for (std::size_t at = 0; at < bytes.size(); at += size_of(shape.dtype)) {
    const float value = normal(random);
    const std::uint16_t bits = to_bfloat16(value);
    if (shape.dtype == DType::float32) {
      std::memcpy(bytes.data() + at, &value, 4);
    } else {
      std::memcpy(bytes.data() + at, &bits, 2);
    }
  }
}

/// Sets the first number of every query to 1, of every other key to 0, and of key 0 so that its logit is as wanted.
void park_on_first(const RunShape& shape, HostQueryKeyStore& store, int layer) {
  auto* const query = reinterpret_cast<float*>(store.layer(QueryKeyStore::Part::query, layer).data());
  auto* const key = reinterpret_cast<float*>(store.layer(QueryKeyStore::Part::key, layer).data());
  for (std::int64_t row = 0; row < shape.length; ++row) query[row * shape.head_dim] = 1;
  for (std::int64_t row = 0; row < shape.length; ++row) key[row * shape.head_dim] = 0;
  std::fill(key, key + shape.head_dim, 0.0F);
  key[0] = static_cast<float>(shape.parks_on_first * std::sqrt(static_cast<double>(shape.head_dim)));
}

double default_log_gate(int head, double normal) {
  // Decay times of about 3, 24, 200 tokens...
  const double logit = std::log(3.0 * std::pow(8.0, head)) + normal;
  return -std::log1p(std::exp(-logit));
}

/// Sum over d of the products of two rows, float64.
double dot(const float* a, const float* b, int head_dim) {
  double sum = 0;
  for (int k = 0; k < head_dim; ++k) sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  return sum;
}

std::vector<double> dense_logits(const TraceInfo& info, const QueryKeyStore& store, int layer, int head) {
  std::vector<float> query_scratch;
  std::vector<float> key_scratch;
  const std::int64_t length = info.length;
  const int key_head = head / (info.heads / info.key_heads);
  const auto query = store.rows(QueryKeyStore::Part::query, layer, head, 0, length, query_scratch);
  const auto key = store.rows(QueryKeyStore::Part::key, layer, key_head, 0, length, key_scratch);
  std::vector<double> logits(static_cast<std::size_t>(length * length), kNone);
  for_rows(length, [&](std::int64_t i) {
    const std::int64_t window = info.window_sizes.empty() ? info.window_size : info.window_sizes[index_of(layer)];
    const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, i - window + 1);
    for (std::int64_t j = first; j <= i; ++j) {
      const double logit = dot(query.data() + i * info.head_dim, key.data() + j * info.head_dim, info.head_dim) /
                           std::sqrt(static_cast<double>(info.head_dim));
      logits[index_of(i * length + j)] =
          info.logit_cap > 0 ? info.logit_cap * std::tanh(logit / info.logit_cap) : logit;
    }
  });
  return logits;
}

/// log sum exp of row i of logits plus the gate.
/// @param sink  a logit beside those of the row; -infinity: there is none
double row_normalizer(const std::vector<double>& logits, const double* c, std::int64_t length, std::int64_t i,
                      double sink) {
  double largest = sink;
  const auto value = [&](std::int64_t j) {
    return logits[index_of(i * length + j)] + (c == nullptr ? 0.0 : c[i] - c[j]);
  };
  for (std::int64_t j = 0; j <= i; ++j) {
    if (!std::isnan(value(j))) largest = std::max(largest, value(j));
  }
  double sum = std::exp(sink - largest);
  for (std::int64_t j = 0; j <= i; ++j) {
    if (!std::isnan(value(j))) sum += std::exp(value(j) - largest);
  }
  return largest + std::log(sum);
}

double sink_of(const RunShape& shape, int head) {
  return shape.sinks.empty() ? -std::numeric_limits<double>::infinity()
                             : static_cast<double>(shape.sinks[index_of(head)]);
}

/// The keys of one query in a column of pixels.
Range keys_of_pixel(const MapRequest& request, std::int64_t query, std::int64_t column) {
  if (!request.by_distance()) {
    const std::int64_t size = request.columns.size();
    return {request.columns.begin + column * size / request.pixel_columns,
            request.columns.begin + (column + 1) * size / request.pixel_columns};
  }
  // i - j + 1 in [near, far): up to the first edge behind the column's own.
  const std::int64_t near = request.distances[index_of(column)];
  const std::int64_t far = *std::upper_bound(request.distances.begin(), request.distances.end(), near);
  return {std::max<std::int64_t>(0, query - far + 2), std::max<std::int64_t>(0, query - near + 2)};
}

}  // namespace

std::shared_ptr<const Trace> make_run(const RunShape& shape) {
  TraceInfo info;
  info.name = "random";
  info.layers = shape.layers;
  info.heads = shape.heads;
  info.key_heads = shape.key_heads;
  info.head_dim = shape.head_dim;
  info.length = shape.length;
  info.dtype = shape.dtype;
  info.softmax_scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  info.window_size = shape.window;
  info.window_sizes = shape.windows;
  info.logit_cap = shape.logit_cap;
  if (!shape.sinks.empty()) {
    LayerMixer mixer = attention_layer(shape.heads, shape.key_heads, shape.head_dim);
    mixer.sinks = true;
    info.set_mixers(std::vector(index_of(shape.layers), mixer));
  }
  info.forgetting.assign(static_cast<std::size_t>(shape.layers), shape.gated);
  const QueryKeyStore::Shape stored{shape.layers, shape.heads, shape.key_heads, shape.length, shape.head_dim};
  auto store = std::make_shared<HostQueryKeyStore>(stored, shape.dtype, std::size_t{1} << 40U, "/tmp");
  KeepSet keep;
  if (shape.keeps_gates) keep.insert(Keep::gates);
  if (shape.keeps_rows) keep.insert(Keep::rows);
  Recorder recorder(info, keep, shape.keeps_query_key ? store : nullptr);
  std::mt19937_64 random(shape.seed);
  std::normal_distribution<double> normal;
  for (int layer = 0; layer < shape.layers; ++layer) {
    fill_query_key(shape, store->layer(QueryKeyStore::Part::query, layer), random);
    fill_query_key(shape, store->layer(QueryKeyStore::Part::key, layer), random);
    if (shape.parks_on_first != 0) park_on_first(shape, *store, layer);
    if (shape.fill) shape.fill(*store);
    std::vector<double> gate(static_cast<std::size_t>(shape.heads * shape.length));
    std::vector<float> rows(gate.size());
    for (int head = 0; head < shape.heads; ++head) {
      double* const c = gate.data() + head * shape.length;
      for (std::int64_t t = 0; t < shape.length; ++t) {
        const double number = normal(random);
        const double log_gate = shape.log_gate ? shape.log_gate(head, t, number) : default_log_gate(head, number);
        c[t] = shape.gated ? (t == 0 ? 0.0 : c[t - 1]) + log_gate : 0.0;
      }
      if (shape.nan_normalizer >= 0) {
        rows[index_of(head * shape.length + shape.nan_normalizer)] = std::nanf("");
      }
      if (!shape.normalized) continue;
      const std::vector<double> logits = dense_logits(info, *store, layer, head);
      for_rows(shape.length, [&](std::int64_t i) {
        if (i == shape.nan_normalizer) return;
        rows[index_of(head * shape.length + i)] =
            static_cast<float>(row_normalizer(logits, c, shape.length, i, sink_of(shape, head)));
      });
    }
    if (shape.keeps_gates) std::ranges::copy(gate, recorder.cumulative_log_gate(layer).begin());
    if (shape.keeps_rows) std::ranges::copy(rows, recorder.log_normalizer(layer).begin());
    if (shape.keeps_rows) std::ranges::copy(shape.sinks, recorder.array<float>(TraceArray::sink_logit, layer).begin());
    if (shape.nan_query < 0) continue;
    for (int head = 0; head < shape.heads; ++head) {
      const std::size_t first = static_cast<std::size_t>((head * shape.length + shape.nan_query) * shape.head_dim);
      const std::span<std::byte> query = store->layer(QueryKeyStore::Part::query, layer);
      const float nan = std::nanf("");
      const std::uint16_t low = to_bfloat16(nan);
      const bool wide = shape.dtype == DType::float32;
      std::memcpy(query.data() + first * size_of(shape.dtype), wide ? static_cast<const void*>(&nan) : &low,
                  size_of(shape.dtype));
    }
  }
  if (shape.spoil) shape.spoil(recorder, *store);
  auto tokens = std::make_shared<TokenTable>();
  for (std::int32_t position = 0; position < shape.length; ++position) {
    tokens->input_id.push_back(shape.token ? shape.token(position) : position);
    tokens->id.push_back(position + 1);
  }
  return recorder.finish(nullptr, tokens);
}

DenseHead::DenseHead(const HeadOf& head)
    : length_(head.trace->info().length),
      logits_(dense_logits(head.trace->info(), head.trace->require_query_key(), head.layer, head.head)),
      sink_(head.trace->sink_logit(head.layer, head.head).value_or(-std::numeric_limits<double>::infinity())) {
  const auto c = head.trace->cumulative_log_gate(head.layer, head.head);
  c_.assign(c.begin(), c.end());
}

std::vector<double> DenseHead::softmax(bool with_gate) const {
  std::vector<double> result(logits_.size());
  for_rows(length_, [&](std::int64_t i) {
    const double normalizer = row_normalizer(logits_, with_gate ? c_.data() : nullptr, length_, i, sink_);
    for (std::int64_t j = 0; j < length_; ++j) {
      const auto at = static_cast<std::size_t>(i * length_ + j);
      const double gate = with_gate ? c_[index_of(i)] - c_[index_of(j)] : 0.0;
      result[at] = std::exp(logits_[at] + gate - normalizer);
    }
  });
  return result;
}

std::vector<double> DenseHead::entries(Quantity quantity) const {
  if (quantity == Quantity::logits) return logits_;
  if (quantity == Quantity::attention) return softmax(true);
  if (quantity == Quantity::attention_without_gate) return softmax(false);
  std::vector<double> result(logits_.size(), kNone);
  if (quantity == Quantity::gate_effect) {
    result = softmax(true);
    const std::vector<double> without = softmax(false);
    for (std::size_t n = 0; n < result.size(); ++n) result[n] -= without[n];
    return result;
  }
  for (std::int64_t i = 0; i < length_; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      const auto at = static_cast<std::size_t>(i * length_ + j);
      const double difference = c_[index_of(i)] - c_[index_of(j)];
      if (!std::isnan(logits_[at])) result[at] = quantity == Quantity::forget ? std::exp(difference) : difference;
    }
  }
  return result;
}

DenseBins::DenseBins(const std::vector<double>& entries, std::int64_t length, const MapRequest& request) {
  for (std::int64_t p = 0; p < request.pixel_rows; ++p) {
    for (std::int64_t q = 0; q < request.pixel_columns; ++q) {
      Bin& bin = bins_.emplace_back();
      for (std::int64_t i = request.rows.begin + p * request.rows.size() / request.pixel_rows;
           i < request.rows.begin + (p + 1) * request.rows.size() / request.pixel_rows; ++i) {
        const Range keys = keys_of_pixel(request, i, q);
        for (std::int64_t j = keys.begin; j < keys.end; ++j) {
          const double entry = entries[index_of(i * length + j)];
          if (std::isnan(entry)) continue;
          bin.high = bin.count == 0 ? entry : std::max(bin.high, entry);
          bin.low = bin.count == 0 ? entry : std::min(bin.low, entry);
          bin.sum += entry;
          ++bin.count;
        }
      }
    }
  }
}

std::vector<double> DenseBins::pixels(Reduction reduction) const {
  std::vector<double> values;
  for (const Bin& bin : bins_) {
    double value = bin.high;
    if (reduction == Reduction::min) value = bin.low;
    if (reduction == Reduction::mean) value = bin.sum / static_cast<double>(bin.count);
    if (reduction == Reduction::absmax) value = bin.high >= -bin.low ? bin.high : bin.low;
    values.push_back(bin.count == 0 ? kNone : value);
  }
  return values;
}

std::vector<double> pool(const std::vector<double>& entries, std::int64_t length, const MapRequest& request) {
  return DenseBins(entries, length, request).pixels(request.reduction);
}

double largest_size(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) {
    if (!std::isnan(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

double largest_difference(const Image& image, const std::vector<double>& reference, double largest_entry) {
  if (image.value.size() != reference.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t n = 0; n < reference.size(); ++n) {
    const auto value = static_cast<double>(image.value[n]);
    if (std::isnan(value) != std::isnan(reference[n])) return std::numeric_limits<double>::infinity();
    if (!std::isnan(value)) largest = test::largest_error(largest, value - reference[n]);
  }
  return largest == 0 ? 0 : largest / largest_entry;
}

}  // namespace foxscope::test
