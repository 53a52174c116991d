#include "backend/file/run_check.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/file/file_trace.h"
#include "backend/trace/decay_time.h"
#include "backend/trace/row_source.h"
#include "kernels/executor.h"

namespace foxscope {
namespace {

using Part = QueryKeyStore::Part;

constexpr int kCheckedRows = 4;
/// Rows that are looked at lie among as many positions at least.
constexpr std::int64_t kLeastReach = 256;
/// Keys that are read at once.
constexpr std::int64_t kKeysAtOnce = 1024;
/// Layers are looked at in so many threads at most, each with the arrays of its layer, and one by one where there are
/// few bytes.
constexpr int kMostThreads = 8;
constexpr std::uint64_t kShortBytes = std::uint64_t{4} << 20U;
constexpr double kFloat32Tolerance = 1e-5;
constexpr double kBfloat16Tolerance = 1e-3;
/// Float32 rounds a logit and a normaliser each by some units in the last place.
constexpr double kRounding = 4 * 0x1p-24;
/// However large logits and sums are, a row that is further from 1 is none.
constexpr double kMostTolerance = 1e-2;

/// The normalisers that a layer may have; those without the gate are of logits alone.
constexpr std::array kNormalizers = {TraceArray::log_normalizer, TraceArray::log_normalizer_without_gate};

constexpr bool has_gate(std::size_t kind) { return kNormalizers[kind] == TraceArray::log_normalizer; }

/// The arrays of a layer with a number for each head and position; null where one was not kept.
struct LayerArrays {
  std::shared_ptr<const ArrayValues> gates;
  std::shared_ptr<const ArrayValues> channel_gates;  ///< by head, position and channel
  std::array<std::shared_ptr<const ArrayValues>, kNormalizers.size()> normalizers;
};

/// The same of one head; empty where it was not kept.
struct HeadArrays {
  std::span<const double> gate;
  std::array<std::span<const float>, kNormalizers.size()> normalizers;
  std::optional<double> sink;
};

/// A row of attention of one head, summed up key by key: of each normaliser sum_j exp(logit + c_i - c_j - lse_i).
struct RowSum {
  std::int64_t row = 0;
  std::array<double, kNormalizers.size()> sum = {};
  double largest_logit = 0;
};

template <typename T>
std::span<const T> row_of(const std::shared_ptr<const ArrayValues>& values, int head, std::int64_t length) {
  if (values == nullptr) return {};
  const auto size = static_cast<std::size_t>(length);
  return std::span(std::get<std::vector<T>>(*values)).subspan(static_cast<std::size_t>(head) * size, size);
}

class AttentionCheck {
 public:
  AttentionCheck(const Trace& trace, const std::string& file, std::int64_t reach, RunCheckReport& report,
                 std::vector<RowProblem>* problems)
      : trace_(trace),
        info_(trace.info()),
        file_(file),
        store_(*trace.query_key()),
        report_(report),
        problems_(problems) {
    // The first row is of one key: no gate has a part in it.
    for (int n = 0; n < kCheckedRows; ++n) rows_.push_back((reach - 1) * n / (kCheckedRows - 1));
    rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
  }

  void check_head(int layer, int head, const HeadArrays& arrays) {
    const auto& kinds = arrays.normalizers;
    if (std::ranges::all_of(kinds, [](const auto& normalizer) { return normalizer.empty(); })) return;
    const std::vector<RowSum> sums = sum_rows(layer, head, arrays);
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      if (kinds[kind].empty()) continue;
      for (const RowSum& row : sums) require_one(row, kind, layer, head, kinds[kind], arrays.gate);
      require_numbers(kind, layer, head, arrays);
    }
  }

 private:
  [[nodiscard]] std::vector<RowSum> sum_rows(int layer, int head, const HeadArrays& arrays) const {
    const LayerMixer mixer = info_.mixer(layer);
    const std::int64_t window = window_of(info_, layer);
    const auto dim = static_cast<std::size_t>(mixer.head_dim);
    std::vector<RowSum> sums;
    std::vector<float> queries;
    std::vector<float> scratch;
    for (const std::int64_t row : rows_) {
      const auto query =
          store_.rows(Part::query, layer, shared_head(mixer.heads, mixer.query_heads, head), row, row + 1, scratch);
      queries.insert(queries.end(), query.begin(), query.end());
      sums.push_back({row});
      for (std::size_t kind = 0; arrays.sink && kind < kNormalizers.size(); ++kind) {
        if (arrays.normalizers[kind].empty()) continue;
        sums.back().sum[kind] = std::exp(*arrays.sink - static_cast<double>(arrays.normalizers[kind][index_of(row)]));
      }
    }
    if (mixer.path) {
      add_passed(layer, head, arrays, queries, sums);
      return sums;
    }
    for (std::int64_t begin = 0; begin <= rows_.back(); begin += kKeysAtOnce) {
      const std::int64_t end = std::min(begin + kKeysAtOnce, rows_.back() + 1);
      const auto keys =
          store_.rows(Part::key, layer, shared_head(mixer.heads, mixer.key_heads, head), begin, end, scratch);
      for (std::size_t n = 0; n < sums.size(); ++n) {
        const std::int64_t row = rows_[n];
        const std::int64_t first = window > 0 ? std::max(begin, row - window + 1) : begin;
        for (std::int64_t j = first; j < std::min(end, row + 1); ++j) {
          const auto key = keys.subspan(static_cast<std::size_t>(j - begin) * dim, dim);
          add(sums[n], dot(std::span(queries).subspan(n * dim, dim), key), j, arrays);
        }
      }
    }
    return sums;
  }

  /// Adds the keys of rows that are passed on from key to key, from the diagonal to the left (LayerMixer::path).
  /// @param queries  [rows, d]
  void add_passed(int layer, int head, const HeadArrays& arrays, std::span<const float> queries,
                  std::vector<RowSum>& sums) const {
    const LayerMixer mixer = info_.mixer(layer);
    const auto dim = static_cast<std::size_t>(mixer.head_dim);
    const int key_head = shared_head(mixer.heads, mixer.key_heads, head);
    const std::span<const float> read = trace_.erase_read(layer, head);
    const std::span<const float> write = trace_.erase_write(layer, head);
    std::vector<double> left(queries.begin(), queries.end());
    std::vector<float> scratch;
    for (std::int64_t end = rows_.back() + 1; end > 0;) {
      const std::int64_t begin = std::max<std::int64_t>(0, end - kKeysAtOnce);
      const auto keys = store_.rows(Part::key, layer, key_head, begin, end, scratch);
      for (std::int64_t j = end - 1; j >= begin; --j) {
        const auto key = keys.subspan(index_of(j - begin) * dim, dim);
        for (std::size_t n = 0; n < sums.size(); ++n) {
          if (rows_[n] < j) continue;
          const std::span<double> r = std::span(left).subspan(n * dim, dim);
          add(sums[n], dot(r, key), j, arrays);
          const double erased = dot(r, write.subspan(index_of(j) * dim, dim));
          for (std::size_t k = 0; k < dim; ++k) r[k] += erased * static_cast<double>(read[index_of(j) * dim + k]);
        }
      }
      end = begin;
    }
  }

  template <typename Number>
  static double dot(std::span<Number> query, std::span<const float> key) {
    double sum = 0;
    for (std::size_t n = 0; n < query.size(); ++n) sum += static_cast<double>(query[n]) * static_cast<double>(key[n]);
    return sum;
  }

  void add(RowSum& sum, double product, std::int64_t key, const HeadArrays& arrays) const {
    const double logit = capped_logit(info_, static_cast<double>(info_.softmax_scale) * product);
    const auto i = static_cast<std::size_t>(sum.row);
    const double decay = arrays.gate.empty() ? 0 : arrays.gate[i] - arrays.gate[index_of(key)];
    sum.largest_logit = std::max(sum.largest_logit, std::abs(logit));
    for (std::size_t kind = 0; kind < sum.sum.size(); ++kind) {
      if (arrays.normalizers[kind].empty()) continue;
      const double normalizer = arrays.normalizers[kind][i];
      sum.sum[kind] += std::exp(logit + (has_gate(kind) ? decay : 0) - normalizer);
    }
  }

  /// A row of queries and keys that are numbers has a normaliser that is one.
  void require_numbers(std::size_t kind, int layer, int head, const HeadArrays& arrays) {
    const std::span<const float> lse = arrays.normalizers[kind];
    const auto is_none = [](float number) { return std::isnan(number); };
    if (std::ranges::none_of(lse, is_none) || (arrays.sink && !std::isfinite(*arrays.sink))) return;
    const LayerMixer mixer = info_.mixer(layer);
    const auto are_numbers = [&](Part part, int of_head, std::int64_t position) {
      std::vector<float> scratch;
      const auto row = store_.rows(part, layer, of_head, position, position + 1, scratch);
      return std::ranges::all_of(row, [](float number) { return std::isfinite(number); });
    };
    // Behind a key that is no number rows may be none.
    for (std::int64_t row = 0; row < std::ssize(lse); ++row) {
      if (!are_numbers(Part::key, shared_head(mixer.heads, mixer.key_heads, head), row)) return;
      if (!is_none(lse[index_of(row)])) continue;
      if (!are_numbers(Part::query, shared_head(mixer.heads, mixer.query_heads, head), row)) continue;
      if (problems_ != nullptr) {
        problems_->push_back({kNormalizers[kind], layer, head, row, std::numeric_limits<double>::quiet_NaN()});
        return;
      }
      const std::string name = name_of(spec_of(kNormalizers[kind]));
      throw Error(
          fmt::format("{}: /models/{}: row {} of layer {} head {} of the attention has no number for a "
                      "normaliser in {}, though its query and keys are numbers: delete {}, and it is computed, "
                      "or {}",
                      file_, info_.name, row, layer, head, name, name, kUncheckedRemedy));
    }
  }

  /// |c| of a row, which a sum in float32 has rounded.
  static double gate_size(const RowSum& row, std::size_t kind, std::span<const double> gate) {
    return !has_gate(kind) || gate.empty() ? 0 : std::abs(gate[index_of(row.row)]);
  }

  void require_one(const RowSum& row, std::size_t kind, int layer, int head, std::span<const float> lse,
                   std::span<const double> gate) {
    const double normalizer = lse[index_of(row.row)];
    // Weights that are not numbers give rows that are none.
    if (std::isnan(normalizer) || std::isnan(row.sum[kind])) {
      ++report_.unknown;
      return;
    }
    const double tolerance =
        std::min((info_.dtype == DType::bfloat16 ? kBfloat16Tolerance : kFloat32Tolerance) +
                     kRounding * (row.largest_logit + std::abs(normalizer)) + kMostRise * gate_size(row, kind, gate),
                 kMostTolerance) +
        info_.pruning_tolerance;
    const double error = std::abs(row.sum[kind] - 1);
    report_.largest_error = std::max(report_.largest_error, error);
    if (error <= tolerance) {
      ++report_.rows;
      return;
    }
    if (problems_ != nullptr) {
      problems_->push_back({kNormalizers[kind], layer, head, row.row, row.sum[kind]});
      return;
    }
    throw Error(
        fmt::format("{}: /models/{}: row {} of layer {} head {} of the attention sums to {:.6g}, not to 1: {}, "
                    "softmax_scale, query and key{} do not belong together: {}",
                    file_, info_.name, row.row, layer, head, row.sum[kind], name_of(spec_of(kNormalizers[kind])),
                    has_gate(kind) && row.row > 0 ? ", cumulative_log_gate" : "", kUncheckedRemedy));
  }

  const Trace& trace_;
  const TraceInfo& info_;
  const std::string& file_;
  const QueryKeyStore& store_;
  RunCheckReport& report_;
  std::vector<RowProblem>* const problems_;
  std::vector<std::int64_t> rows_;
};

/// A layer's arrays that are looked at, whose rows must sum to 1 only where all that they are made of was kept.
LayerArrays read_layer(const Trace& trace, int layer) {
  const TraceInfo& info = trace.info();
  const TraceSource& source = trace.source();
  // The source refuses what is no number in what a mixer keeps beside queries and keys, and in rates.
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.repeat == Repeat::layers && (spec.keep == Keep::query_key || spec.array == TraceArray::decay_rate)) {
      (void)source.read(spec.array, layer);
    }
  }
  LayerArrays arrays;
  arrays.gates = source.read(TraceArray::cumulative_log_gate, layer);
  arrays.channel_gates = source.read(TraceArray::cumulative_log_decay, layer);
  if (!info.mixer(layer).has_softmax() || trace.query_key() == nullptr) return arrays;
  // Where there may have been a gate, of the model or by an intervention, rows need c.
  const bool gated = forgets(info, layer) || !info.intervention.empty();
  for (std::size_t kind = 0; kind < kNormalizers.size(); ++kind) {
    if (has_gate(kind) && gated && arrays.gates == nullptr) continue;
    if (info.mixer(layer).sinks && !trace.has(TraceArray::sink_logit, layer)) continue;
    const bool passed = trace.has(TraceArray::erase_read, layer) && trace.has(TraceArray::erase_write, layer);
    if (info.mixer(layer).path && !passed) continue;
    arrays.normalizers[kind] = source.read(kNormalizers[kind], layer);
  }
  return arrays;
}

/// Means that the source has without the gates are those of the gates.
/// @param gates  c of the layer, [H, L]
void require_means(const Trace& trace, const std::string& file, int layer,
                   const std::shared_ptr<const ArrayValues>& gates) {
  const auto* const source = dynamic_cast<const RowSource*>(&trace.source());
  for (int head = 0; source != nullptr && head < trace.info().mixer(layer).heads; ++head) {
    const std::optional<double> held = source->known_mean_log_gate(layer, head);
    const double mean = mean_log_gate(row_of<double>(gates, head, trace.info().length));
    if (!held || is_mean(*held, mean)) continue;
    throw Error(fmt::format("{}: /models/{}/{}@{}: is {:.6g} of head {}, but its gates come to {:.6g}: {}", file,
                            trace.info().name, path_of(spec_of(TraceArray::cumulative_log_gate), layer), kMeanLogGate,
                            *held, head, mean, kUncheckedRemedy));
  }
}

std::uint64_t bytes_read(const Trace& trace, int layer) {
  std::uint64_t bytes = 0;
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.repeat != Repeat::layers || spec.storage == Storage::store || !trace.has(spec.array, layer)) continue;
    bytes += elements_of(spec, trace.info(), layer) * size_of(spec.number, trace.info().dtype);
  }
  return bytes;
}

/// Positions that the rows of all layers reach over, for so many bytes of keys.
std::int64_t reach_of(const Trace& trace, int layers, std::uint64_t key_bytes) {
  std::uint64_t position = 0;
  for (int layer = 0; layer < layers; ++layer) {
    const LayerMixer mixer = trace.info().mixer(layer);
    // Heads that share keys read them each; of linear mixers queries are read too.
    const int heads = mixer.has_softmax() ? mixer.heads : mixer.query_heads + mixer.key_heads;
    position += static_cast<std::uint64_t>(std::int64_t{heads} * mixer.head_dim);
  }
  position *= size_of(trace.info().dtype);
  const auto fitting = static_cast<std::int64_t>(key_bytes / std::max<std::uint64_t>(position, 1));
  return std::min(trace.info().length, std::max(kLeastReach, fitting));
}

/// Reads queries and keys of a linear mixer, of which its source refuses those that are no numbers.
void read_query_key(const QueryKeyStore& store, int layer, std::int64_t reach) {
  std::vector<float> scratch;
  for (const Part part : {Part::query, Part::key}) {
    for (int head = 0; head < store.heads(part, layer); ++head) {
      for (std::int64_t begin = 0; begin < reach; begin += kKeysAtOnce) {
        (void)store.rows(part, layer, head, begin, std::min(begin + kKeysAtOnce, reach), scratch);
      }
    }
  }
}

/// The findings in a layer.
struct LayerCheck {
  RunCheckReport report;  ///< of no layer if the check was stopped
  std::vector<RowProblem> problems;
  std::exception_ptr error;
};

LayerCheck check_layer(const Trace& trace, const std::string& file, int layer, std::int64_t reach,
                       const std::stop_token& stop, bool collect) {
  LayerCheck check;
  if (stop.stop_requested()) return check;
  const TraceInfo& info = trace.info();
  const LayerArrays arrays = read_layer(trace, layer);
  const int heads = info.mixer(layer).heads;
  if (arrays.gates != nullptr || arrays.channel_gates != nullptr) check.report.gates += heads;
  const bool softmax = info.mixer(layer).has_softmax();
  if (!softmax && trace.query_key() != nullptr) read_query_key(*trace.query_key(), layer, reach);
  for (int head = 0; head < heads && softmax && trace.query_key() != nullptr; ++head) {
    if (stop.stop_requested()) return check;
    HeadArrays own;
    own.gate = row_of<double>(arrays.gates, head, info.length);
    if (trace.has(TraceArray::sink_logit, layer)) own.sink = trace.sink_logit(layer, head);
    for (std::size_t kind = 0; kind < kNormalizers.size(); ++kind) {
      own.normalizers[kind] = row_of<float>(arrays.normalizers[kind], head, info.length);
    }
    AttentionCheck(trace, file, reach, check.report, collect ? &check.problems : nullptr).check_head(layer, head, own);
  }
  if (arrays.gates != nullptr && !collect) require_means(trace, file, layer, arrays.gates);
  check.report.layers = 1;
  return check;
}

}  // namespace

RunCheckReport check_run(const Trace& trace, const std::string& file, const CheckExtent& extent,
                         const std::stop_token& stop, std::vector<RowProblem>* problems) {
  const TraceInfo& info = trace.info();
  int layers = 0;
  std::uint64_t bytes = 0;
  while (layers < info.layers && bytes_read(trace, layers) <= extent.layer_bytes - bytes) {
    bytes += bytes_read(trace, layers);
    ++layers;
  }
  const std::int64_t reach = reach_of(trace, layers, extent.key_bytes);
  std::vector<LayerCheck> checks(index_of(layers));
  std::atomic<std::int64_t> failed = layers;
  const auto check = [&](std::int64_t layer, int /*thread*/) {
    if (layer > failed) return;
    try {
      checks[index_of(layer)] = check_layer(trace, file, static_cast<int>(layer), reach, stop, problems != nullptr);
    } catch (...) {
      checks[index_of(layer)].error = std::current_exception();
      std::int64_t before = failed;
      while (layer < before && !failed.compare_exchange_weak(before, layer)) {
      }
    }
  };
  // Unpacking takes the time, of which threads for a short run would take more.
  const int threads = bytes > kShortBytes ? std::min({kMostThreads, layers, kernels::available_cores()}) : 1;
  kernels::ThreadPool(threads).run(layers, check);
  if (failed < layers) std::rethrow_exception(checks[index_of(failed.load())].error);
  RunCheckReport report;
  for (const LayerCheck& layer : checks) {
    report.layers += layer.report.layers;
    report.gates += layer.report.gates;
    report.rows += layer.report.rows;
    report.unknown += layer.report.unknown;
    report.largest_error = std::max(report.largest_error, layer.report.largest_error);
    if (problems != nullptr) problems->insert(problems->end(), layer.problems.begin(), layer.problems.end());
  }
  report.whole = report.layers == info.layers;
  return report;
}

}  // namespace foxscope
