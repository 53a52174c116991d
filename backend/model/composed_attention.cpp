#include <algorithm>
#include <cmath>
#include <ranges>
#include <vector>

#include "backend/model/composed_attention_torch.h"

namespace foxscope {
namespace {

/// Largest number of logits at once, and of rows of a tile.
constexpr std::int64_t kTileElements = std::int64_t{1} << 25;
constexpr std::int64_t kTileRows = 1024;
/// Keys are skipped in blocks of this many.
constexpr std::int64_t kKeyBlock = 128;

struct Tile {
  std::int64_t begin = 0;  ///< rows [begin, end)
  std::int64_t end = 0;
  std::int64_t lowest = 0;     ///< first key that the window lets any of them see
  std::int64_t first_key = 0;  ///< first key that is not skipped
};

/// The first key block whose weight in any row of the tile may exceed the tolerance. A row's mass is at least that of
/// its own key, exp(-bound); all skipped keys together have at most L exp(bound + d), where d is the gate at the last
/// of them.
std::int64_t first_key(std::span<const double> gate, const Tile& tile, double bound, double tolerance) {
  if (gate.empty() || !(tolerance > 0)) return tile.lowest;
  const double least = std::log(tolerance) - 2 * bound - std::log(static_cast<double>(gate.size()));
  const double reference = gate[static_cast<std::size_t>(tile.begin)];
  const auto keys = std::views::iota(tile.lowest, tile.begin);
  const auto found = std::ranges::partition_point(
      keys, [&](std::int64_t j) { return reference - gate[static_cast<std::size_t>(j)] < least; });
  const std::int64_t key = found == keys.end() ? tile.begin : *found;
  return std::max(tile.lowest, key / kKeyBlock * kKeyBlock);
}

/// Absent entries become -infinity.
void mask(at::Tensor& logits, const Tile& tile, std::int64_t window) {
  const at::TensorOptions options = logits.options().dtype(at::kLong);
  const at::Tensor rows = at::arange(tile.begin, tile.end, options).unsqueeze(1);
  const at::Tensor keys = at::arange(tile.first_key, tile.end, options).unsqueeze(0);
  constexpr double kAbsent = -std::numeric_limits<double>::infinity();
  if (window > 0) {
    logits.masked_fill_(keys.gt(rows).logical_or_(keys.le(rows - window)), kAbsent);
  } else {
    const std::int64_t causal = tile.begin - tile.first_key;
    logits.slice(1, causal).masked_fill_(keys.slice(1, causal).gt(rows), kAbsent);
  }
}

/// Largest row norm of each tile, [H][tiles], on the host.
std::vector<std::vector<float>> tile_norms(const at::Tensor& query, std::int64_t rows) {
  const at::Tensor norms = query.to(at::kFloat).square().sum(-1).sqrt();
  std::vector<at::Tensor> tiles;
  for (std::int64_t begin = 0; begin < query.size(1); begin += rows) {
    tiles.push_back(norms.slice(1, begin, std::min(begin + rows, query.size(1))).amax(1));
  }
  const at::Tensor host = at::stack(tiles, 1).cpu().contiguous();
  std::vector<std::vector<float>> result;
  for (std::int64_t head = 0; head < query.size(0); ++head) {
    const float* first = host.const_data_ptr<float>() + head * host.size(1);
    result.emplace_back(first, first + host.size(1));
  }
  return result;
}

}  // namespace

at::Tensor linear_to_float(const at::Tensor& in, const at::Tensor& weight) {
  if (in.scalar_type() == at::kFloat) return at::mm(in, weight.t());
  if (in.is_cuda()) return at::mm(in, weight.t(), at::kFloat);
  return at::mm(in.to(at::kFloat), weight.to(at::kFloat).t());
}

std::optional<ComposedAttentionResult> composed_attention(const ComposedAttention& arguments) {
  const std::int64_t heads = arguments.query.size(0);
  const std::int64_t length = arguments.query.size(1);
  const std::int64_t group = heads / arguments.key.size(0);
  const double scale = 1.0 / std::sqrt(static_cast<double>(arguments.query.size(2)));
  const std::int64_t tile_rows = std::clamp(kTileElements / length, std::int64_t{16}, kTileRows);
  const std::vector<std::vector<float>> query_norms = tile_norms(arguments.query, tile_rows);
  const std::vector<std::vector<float>> key_norms = tile_norms(arguments.key, length);
  const at::TensorOptions floats = arguments.query.options().dtype(at::kFloat);

  ComposedAttentionResult result;
  result.output = at::empty({length, heads, arguments.query.size(2)}, arguments.value.options());
  result.log_normalizer = at::empty({heads, length}, floats);
  if (arguments.without_gate) result.log_normalizer_without_gate = at::empty({heads, length}, floats);
  for (std::int64_t head = 0; head < heads; ++head) {
    const at::Tensor key = arguments.key[head / group];
    const at::Tensor value = arguments.value[head / group];
    std::span<const double> gate;
    at::Tensor gate_tensor;
    if (!arguments.cumulative_gate.empty()) {
      gate =
          arguments.cumulative_gate.subspan(static_cast<std::size_t>(head * length), static_cast<std::size_t>(length));
      gate_tensor = at::tensor(at::ArrayRef<double>(gate.data(), gate.size()), at::kDouble).to(key.device());
    }
    for (std::int64_t begin = 0; begin < length; begin += tile_rows) {
      if (arguments.stop.stop_requested()) return std::nullopt;
      Tile tile{begin, std::min(begin + tile_rows, length), 0, 0};
      if (arguments.window_size > 0) tile.lowest = std::max<std::int64_t>(0, begin - arguments.window_size + 1);
      const double bound =
          scale *
          static_cast<double>(
              query_norms[static_cast<std::size_t>(head)][static_cast<std::size_t>(begin / tile_rows)]) *
          static_cast<double>(key_norms[static_cast<std::size_t>(head / group)][0]);
      tile.first_key = arguments.without_gate ? tile.lowest : first_key(gate, tile, bound, arguments.pruning_tolerance);
      result.blocks += (tile.end - tile.lowest + kKeyBlock - 1) / kKeyBlock;
      result.skipped_blocks += (tile.first_key - tile.lowest) / kKeyBlock;

      at::Tensor logits =
          linear_to_float(arguments.query[head].slice(0, begin, tile.end), key.slice(0, tile.first_key, tile.end));
      logits.mul_(scale);
      mask(logits, tile, arguments.window_size);
      if (arguments.without_gate) {
        result.log_normalizer_without_gate[head].slice(0, begin, tile.end).copy_(at::logsumexp(logits, {1}));
      }
      if (gate_tensor.defined()) {
        // The difference is taken in float64, where it is exact far into a long text.
        const at::Tensor difference = gate_tensor.slice(0, begin, tile.end).unsqueeze(1) -
                                      gate_tensor.slice(0, tile.first_key, tile.end).unsqueeze(0);
        logits.add_(difference.to(at::kFloat));
      }
      const at::Tensor normalizer = at::logsumexp(logits, {1});
      result.log_normalizer[head].slice(0, begin, tile.end).copy_(normalizer);
      const at::Tensor weights = logits.sub_(normalizer.unsqueeze(1)).exp_().to(value.scalar_type());
      result.output.select(1, head)
          .slice(0, begin, tile.end)
          .copy_(at::mm(weights, value.slice(0, tile.first_key, tile.end)));
    }
  }
  return result;
}

}  // namespace foxscope
