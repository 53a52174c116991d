#include "backend/model/layer/torch/composed_attention_torch.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/path_torch.h"

namespace foxscope {
namespace {

constexpr std::int64_t kQueryTile = 1024;
constexpr std::int64_t kKeyTile = 4096;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// bfloat16 numbers are exact in TF32, so products of upcast bfloat16 tensors may use the tensor cores and still give
/// the float32 logits that a fused kernel gives. float32 inputs must not.
class TensorFloat32Scope {
 public:
  explicit TensorFloat32Scope(bool allow) : before_(at::globalContext().allowTF32CuBLAS()) {
    at::globalContext().setAllowTF32CuBLAS(allow);
  }
  ~TensorFloat32Scope() { at::globalContext().setAllowTF32CuBLAS(before_); }
  TensorFloat32Scope(const TensorFloat32Scope&) = delete;
  TensorFloat32Scope& operator=(const TensorFloat32Scope&) = delete;

 private:
  bool before_;
};

/// On a CPU LibTorch takes exp and log from MKL, which chooses a function's code when it is first called: threads that
/// make that call together may get one with half the digits (PyTorch issue 188792, MKL before 2025). So one makes it.
void choose_code_of_exp_and_log() { static const at::Tensor kFirst = at::log(at::exp(at::zeros({1}))); }

/// Online softmax of a tile of query rows, for N heads: running maximum, mass and weighted values.
struct SoftmaxState {
  at::Tensor maximum;  ///< [N, T, 1]
  at::Tensor mass;     ///< [N, T, 1]
  at::Tensor sum;      ///< [N, T, d]; undefined where only the normaliser is asked for

  /// @param sink  [N] logits that rows have beside those of keys; undefined: none
  static SoftmaxState start(std::int64_t heads, std::int64_t rows, const at::Tensor& value, const at::Tensor& sink) {
    const at::TensorOptions options = value.options().dtype(at::kFloat);
    if (sink.defined()) {
      return {sink.view({heads, 1, 1}).expand({heads, rows, 1}).contiguous(), at::ones({heads, rows, 1}, options),
              at::zeros({heads, rows, value.size(2)}, options)};
    }
    return {at::full({heads, rows, 1}, -kInfinity, options), at::zeros({heads, rows, 1}, options),
            at::zeros({heads, rows, value.size(2)}, options)};
  }

  /// Takes in logits [n, T, K] of the heads `which` (undefined: all N), and their values [n, K, d].
  void add(const at::Tensor& logits, const at::Tensor& value, const at::Tensor& which) {
    const auto pick = [&which](const at::Tensor& all) { return which.defined() ? all.index_select(0, which) : all; };
    assert(logits.dim() == 3 && logits.size(0) == (which.defined() ? which.numel() : maximum.size(0)));
    assert(!value.defined() || (value.size(0) == logits.size(0) && value.size(1) == logits.size(2)));
    const at::Tensor before = pick(maximum);
    const at::Tensor now = at::maximum(before, logits.amax(2, true));
    // Rows that have seen nothing yet keep -infinity, whose difference would be NaN.
    const at::Tensor reference = now.masked_fill(now == -kInfinity, 0.0);
    const at::Tensor weight = at::exp(logits - reference);
    const at::Tensor shrink = at::exp(before - reference);
    const at::Tensor new_mass = pick(mass) * shrink + weight.sum(2, true);
    const at::Tensor new_sum = value.defined() ? pick(sum) * shrink + at::bmm(weight, value) : at::Tensor();
    const auto put = [&which](at::Tensor& all, const at::Tensor& part) {
      if (!which.defined()) {
        all = part;
      } else {
        all.index_copy_(0, which, part);
      }
    };
    put(maximum, now);
    put(mass, new_mass);
    if (value.defined()) put(sum, new_sum);
  }

  [[nodiscard]] at::Tensor log_normalizer() const { return maximum + at::log(mass); }
};

/// The whole call with heads flattened to N = B H.
class Composition {
 public:
  explicit Composition(const ComposedAttention& a)
      : scale_(a.scale),
        cap_(a.logit_cap),
        window_(a.window_size),
        tolerance_(a.pruning_tolerance),
        without_gate_(a.without_gate_as_well) {
    const std::int64_t batch = a.query.size(0);
    const std::int64_t heads = a.query.size(1);
    length_ = a.query.size(2);
    const std::int64_t dim = a.query.size(3);
    heads_ = batch * heads;
    assert(a.key.dim() == 4 && a.key.sizes() == a.value.sizes());
    assert(a.key.size(0) == batch && heads % a.key.size(1) == 0 && a.key.size(2) == length_ && a.key.size(3) == dim);
    assert(!a.cumulative_log_gate.defined() ||
           a.cumulative_log_gate.sizes() == at::IntArrayRef({batch, heads, length_}));
    assert(!a.cumulative_log_gate.defined() || a.cumulative_log_gate.scalar_type() == at::kDouble);
    const auto flat = [&](const at::Tensor& x) {
      const std::int64_t group = heads / x.size(1);
      const at::Tensor wide = group == 1 ? x : x.repeat_interleave(group, 1);
      return wide.reshape({heads_, length_, dim});
    };
    query_ = flat(a.query);
    key_ = flat(a.key);
    value_ = flat(a.value);
    if (a.sink.defined()) sink_ = a.sink.repeat({batch});
    if (a.cumulative_log_gate.defined()) gate_ = a.cumulative_log_gate.reshape({heads_, length_});
    if (a.erase_read.defined()) path_.emplace(query_, key_, flat(a.erase_read), flat(a.erase_write));
    if (gate_.defined() && tolerance_ > 0 && !without_gate_ && !path_) prepare_bounds();
  }

  bool run(const std::stop_token& stop, at::Tensor& output, at::Tensor& normalizer,
           at::Tensor& normalizer_without_gate) {
    const at::TensorOptions rows = query_.options().dtype(at::kFloat);
    output = at::empty_like(query_);
    normalizer = at::empty({heads_, length_}, rows);
    if (without_gate_) normalizer_without_gate = at::empty({heads_, length_}, rows);
    for (std::int64_t begin = 0; begin < length_; begin += kQueryTile) {
      const std::int64_t end = std::min(begin + kQueryTile, length_);
      SoftmaxState state = SoftmaxState::start(heads_, end - begin, value_, sink_);
      SoftmaxState plain = SoftmaxState::start(heads_, end - begin, value_, sink_);
      if (!tile(begin, end, state, plain, stop)) return false;
      output.slice(1, begin, end).copy_(state.sum / state.mass);
      normalizer.slice(1, begin, end).copy_(state.log_normalizer().squeeze(2));
      if (without_gate_) normalizer_without_gate.slice(1, begin, end).copy_(plain.log_normalizer().squeeze(2));
    }
    return true;
  }

  std::int64_t blocks = 0;
  std::int64_t skipped_blocks = 0;

 private:
  /// Corners of the bound on a key tile's weight, on the host: c, and the largest |k| up to each key.
  void prepare_bounds() {
    host_gate_ = gate_.to(at::kCPU).contiguous();
    query_norm_ = query_.to(at::kFloat).norm(2, -1).to(at::kCPU).contiguous();
    key_norm_ = std::get<0>(key_.to(at::kFloat).norm(2, -1).cummax(1)).to(at::kCPU).contiguous();
  }

  /// Adds all key tiles of the query rows [begin, end) to the states.
  bool tile(std::int64_t begin, std::int64_t end, SoftmaxState& state, SoftmaxState& plain,
            const std::stop_token& stop) {
    if (path_) path_->begin(begin, end);
    const at::Tensor query = query_.slice(1, begin, end).to(at::kFloat);
    const std::int64_t first_key = window_ > 0 ? std::max<std::int64_t>(0, begin - window_ + 1) : 0;
    add_tile(query, begin, end, begin, end, at::Tensor(), state, plain);
    blocks += heads_;
    for (std::int64_t key_end = begin; key_end > first_key; key_end -= kKeyTile) {
      if (stop.stop_requested()) return false;
      const std::int64_t key_begin = std::max(key_end - kKeyTile, first_key);
      const std::vector<std::int64_t> alive = remaining_heads(begin, end, first_key, key_end, state);
      blocks += heads_;
      skipped_blocks += heads_ - static_cast<std::int64_t>(alive.size());
      if (alive.empty()) {
        const std::int64_t further = (key_begin - first_key + kKeyTile - 1) / kKeyTile;
        blocks += heads_ * further;
        skipped_blocks += heads_ * further;
        break;
      }
      at::Tensor which;
      if (static_cast<std::int64_t>(alive.size()) < heads_) which = at::tensor(alive, at::kLong).to(query.device());
      add_tile(query, begin, end, key_begin, key_end, which, state, plain);
    }
    return true;
  }

  /// Heads for which the keys [first_key, key_end) may still hold more than the tolerance of some row of the tile.
  std::vector<std::int64_t> remaining_heads(std::int64_t begin, std::int64_t end, std::int64_t first_key,
                                            std::int64_t key_end, const SoftmaxState& state) const {
    std::vector<std::int64_t> alive;
    at::Tensor lowest;
    if (host_gate_.defined()) lowest = state.log_normalizer().amin({1, 2}).to(at::kCPU);
    for (std::int64_t n = 0; n < heads_; ++n) {
      if (host_gate_.defined()) {
        const double* gate = host_gate_.const_data_ptr<double>() + n * length_;
        const float* query_norm = query_norm_.const_data_ptr<float>() + n * length_;
        const double largest_query = *std::max_element(query_norm + begin, query_norm + end);
        const double largest_key = key_norm_.const_data_ptr<float>()[n * length_ + key_end - 1];
        const double bound = std::log(static_cast<double>(key_end - first_key)) + largest_query * largest_key * scale_ +
                             gate[begin] - gate[key_end - 1] - lowest.const_data_ptr<float>()[n];
        if (bound <= std::log(tolerance_)) continue;
      }
      alive.push_back(n);
    }
    return alive;
  }

  void add_tile(const at::Tensor& query, std::int64_t begin, std::int64_t end, std::int64_t key_begin,
                std::int64_t key_end, const at::Tensor& which, SoftmaxState& state, SoftmaxState& plain) {
    const auto pick = [&which](const at::Tensor& all) { return which.defined() ? all.index_select(0, which) : all; };
    const at::Tensor value = pick(value_.slice(1, key_begin, key_end)).to(at::kFloat);
    at::Tensor logits;
    if (path_) {
      logits = path_->products(key_begin, key_end).mul_(scale_);
    } else {
      const at::Tensor key = pick(key_.slice(1, key_begin, key_end)).to(at::kFloat);
      logits = at::bmm(pick(query), key.transpose(1, 2)).mul_(scale_);
    }
    if (cap_ > 0) logits = composed_steps::capped(logits, cap_);
    mask(logits, begin, key_begin);
    if (without_gate_) plain.add(logits, at::Tensor(), which);
    if (gate_.defined()) add_gate(logits, pick(gate_), begin, end, key_begin, key_end);
    state.add(logits, value, which);
  }

  void mask(at::Tensor& logits, std::int64_t begin, std::int64_t key_begin) const {
    const std::int64_t rows = logits.size(1);
    const std::int64_t keys = logits.size(2);
    const bool diagonal = key_begin + keys > begin + 1;
    const bool leaves_window = window_ > 0 && begin + rows - 1 - key_begin >= window_;
    if (!diagonal && !leaves_window) return;
    const at::TensorOptions options = logits.options().dtype(at::kLong);
    const at::Tensor distance =
        at::arange(begin, begin + rows, options).unsqueeze(1) - at::arange(key_begin, key_begin + keys, options);
    at::Tensor hidden = distance < 0;
    if (window_ > 0) hidden = hidden.logical_or(distance >= window_);
    logits.masked_fill_(hidden, -kInfinity);
  }

  /// Adds c_i - c_j. Before the diagonal the difference is split at the tile's last key: both parts are <= 0, so each
  /// is rounded coarsely only where the weight is nothing. On the diagonal tile it is taken in float64.
  static void add_gate(at::Tensor& logits, const at::Tensor& gate, std::int64_t begin, std::int64_t end,
                       std::int64_t key_begin, std::int64_t key_end) {
    const at::Tensor rows = gate.slice(1, begin, end).unsqueeze(2);
    const at::Tensor keys = gate.slice(1, key_begin, key_end).unsqueeze(1);
    if (key_begin == begin) {
      logits.add_((rows - keys).to(at::kFloat));
      return;
    }
    const at::Tensor reference = gate.slice(1, key_end - 1, key_end).unsqueeze(2);
    logits.add_((rows - reference).to(at::kFloat)).add_((reference - keys).to(at::kFloat));
  }

  double scale_;
  double cap_;
  std::int64_t window_;
  double tolerance_;
  bool without_gate_;
  std::int64_t heads_ = 0;
  std::int64_t length_ = 0;
  at::Tensor query_, key_, value_, gate_, sink_;
  at::Tensor host_gate_, query_norm_, key_norm_;
  std::optional<PathProducts> path_;
};

}  // namespace

std::optional<ComposedAttentionResult> composed_forgetting_attention(const ComposedAttention& arguments,
                                                                     const std::stop_token& stop) {
  const TensorFloat32Scope scope(arguments.query.scalar_type() == at::kBFloat16 && !arguments.erase_read.defined());
  if (arguments.query.is_cpu()) choose_code_of_exp_and_log();
  Composition composition(arguments);
  ComposedAttentionResult result;
  if (!composition.run(stop, result.output, result.log_normalizer, result.log_normalizer_without_gate)) return {};
  const at::IntArrayRef shape = arguments.query.sizes();
  result.output = result.output.view(shape);
  result.log_normalizer = result.log_normalizer.view({shape[0], shape[1], shape[2]});
  if (arguments.without_gate_as_well) {
    result.log_normalizer_without_gate = result.log_normalizer_without_gate.view({shape[0], shape[1], shape[2]});
  }
  result.blocks = composition.blocks;
  result.skipped_blocks = composition.skipped_blocks;
  return result;
}

}  // namespace foxscope
