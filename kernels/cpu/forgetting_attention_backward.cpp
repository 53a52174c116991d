#include "kernels/cpu/forgetting_attention_backward.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "kernels/cpu/forgetting_attention_backward_tiles.h"
#include "kernels/log2e.h"

namespace foxscope::kernels::cpu {
namespace {

// A head's square of rows and keys is cut into cells of edges that both kinds of blocks divide.
constexpr std::int64_t kEdgeUnit = 192;
static_assert(kEdgeUnit % kQueryBlock == 0 && kEdgeUnit % kKeyBlock == 0);
constexpr std::int64_t kLargestEdge = 2;      // units
constexpr std::int64_t kCellsAlongAHead = 8;  // at least, where that leaves an edge of one unit
// Bytes that are packed at a time, but of as many heads as give every thread enough to do.
constexpr std::int64_t kBytesAtATime = std::int64_t{8} << 20;
constexpr std::int64_t kCellsPerThread = 8;
constexpr double kLn2 = 0.6931471805599453;
// Powers of 2 that cover the rounding of a retained mass.
constexpr double kMassSlack = 1e-4;

std::int64_t blocks_of(std::int64_t length, std::int64_t block) { return (length + block - 1) / block; }
std::size_t index(std::int64_t position) { return static_cast<std::size_t>(position); }

bool acceptable(const ForgettingAttentionBackward& b) {
  const ForgettingAttention& a = b.forward;
  if (a.batch < 1 || a.heads < 1 || a.key_heads < 1 || a.length < 1 || a.head_dim < 1) return false;
  if (a.heads % a.key_heads != 0 || a.window_size < 0 || !std::isfinite(a.scale)) return false;
  if (!(a.pruning_tolerance >= 0 && a.pruning_tolerance < 1)) return false;
  for (const float* read : {a.query, a.key, a.value, static_cast<const float*>(a.output),
                            static_cast<const float*>(a.log_normalizer), b.output_gradient}) {
    if (read == nullptr) return false;
  }
  for (const float* written : {b.query_gradient, b.key_gradient, b.value_gradient}) {
    if (written == nullptr) return false;
  }
  for (const AttentionStrides* strides :
       {&b.query_gradient_strides, &b.key_gradient_strides, &b.value_gradient_strides}) {
    if (a.length > 1 && std::abs(strides->row) < a.head_dim) return false;
  }
  return true;
}

/// One call on its way: its packed heads, and the threads that work on them.
class Backward {
 public:
  Backward(const ForgettingAttentionBackward& arguments, Executor& executor, const std::stop_token& stop)
      : b_(arguments), a_(arguments.forward), executor_(executor), stop_(stop) {
    p_.group = a_.heads / a_.key_heads;
    p_.blocks = blocks_of(a_.length, kKeyBlock);
    p_.row_blocks = blocks_of(a_.length, kQueryBlock);
    p_.width = blocks_of(a_.head_dim, 16) * 16;
    edge_ = kEdgeUnit * std::clamp<std::int64_t>(a_.length / (kCellsAlongAHead * kEdgeUnit), 1, kLargestEdge);
    cells_ = blocks_of(a_.length, edge_);
  }

  Status run(AttentionBlocks* blocks) {
    allocate();
    const std::int64_t key_heads = a_.batch * a_.key_heads;
    const std::int64_t at_a_time = p_.key_heads;
    for (std::int64_t first = 0; first < key_heads; first += at_a_time) {
      p_.first_key_head = first;
      p_.key_heads = std::min(at_a_time, key_heads - first);
      if (!pack() || !prune() || !add_cells() || !store()) return Status::cancelled;
    }
    if (blocks != nullptr) *blocks = counted_;
    return Status::ok;
  }

 private:
  void allocate() {
    const std::int64_t key_rows = p_.blocks * kKeyBlock;
    const std::int64_t rows = p_.row_blocks * kQueryBlock;
    const std::int64_t floats = key_rows * (2 * a_.head_dim + 3 * p_.width) + 3 * p_.group * rows * p_.width;
    const std::int64_t fit = kBytesAtATime / (floats * static_cast<std::int64_t>(sizeof(float)));
    const std::int64_t busy = blocks_of(executor_.threads() * kCellsPerThread, cells_);
    p_.key_heads = std::min(std::max(fit, busy), a_.batch * a_.key_heads);
    const std::int64_t heads = p_.key_heads * p_.group;
    for (FloatBuffer* buffer : {&p_.keys, &p_.values}) *buffer = floats_of(p_.key_heads * key_rows * a_.head_dim);
    for (FloatBuffer* buffer : {&p_.key_rows, &p_.key_gradient, &p_.value_gradient}) {
      *buffer = floats_of(p_.key_heads * key_rows * p_.width);
    }
    for (FloatBuffer* buffer : {&p_.queries, &p_.output_gradient, &p_.query_gradient}) {
      *buffer = floats_of(heads * rows * p_.width);
    }
    p_.key_norms.resize(index(p_.key_heads * p_.blocks));
    p_.irregular_keys.resize(p_.key_norms.size());
    p_.deltas.resize(index(heads * rows));
    p_.live.resize(index(heads * rows));
    p_.query_norms.resize(index(heads * rows));
    p_.dead_rows.resize(index(heads * p_.row_blocks));
    p_.irregular_rows.resize(index(heads * p_.row_blocks));
    p_.first_block.resize(index(heads * p_.row_blocks));
    if (a_.cumulative_log_gate != nullptr && a_.pruning_tolerance > 0) p_.retained.resize(index(heads * p_.blocks));
    p_.row_sums.resize(index(heads * key_rows));
    p_.column_sums.resize(index(heads * key_rows));
    for (int thread = 0; thread < executor_.threads(); ++thread) {
      scratch_.push_back({floats_of(kQueryBlock * kKeyBlock), floats_of(kQueryBlock * kKeyBlock), floats_of(kKeyBlock),
                          floats_of(kQueryBlock), floats_of(kKeyBlock), floats_of(edge_ * kMaxLanes)});
    }
  }

  static FloatBuffer floats_of(std::int64_t count) {
    FloatBuffer buffer = hwy::AllocateAligned<float>(static_cast<std::size_t>(count));
    if (buffer == nullptr) throw std::bad_alloc();
    return buffer;
  }

  /// False when stopped.
  bool run_tasks(std::int64_t tasks, const std::function<void(std::int64_t, int)>& body) {
    std::atomic<bool> stopped = false;
    executor_.run(tasks, [&](std::int64_t task, int thread) {
      if (stop_.stop_requested()) {
        stopped = true;
      } else {
        body(task, thread);
      }
    });
    return !stopped;
  }

  bool pack() {
    const std::int64_t heads = p_.key_heads * p_.group;
    std::fill(p_.row_sums.begin(), p_.row_sums.end(), 0.0);
    std::fill(p_.column_sums.begin(), p_.column_sums.end(), 0.0);
    const std::int64_t gates = p_.retained.empty() ? 0 : heads;
    const std::int64_t keys = p_.key_heads * p_.blocks;
    const bool done = run_tasks(gates + keys + heads * p_.row_blocks, [&](std::int64_t task, int) {
      if (task < gates) {
        double* retained = p_.retained.data() + task * p_.blocks;
        retained_mass(a_, p_.first_key_head * p_.group + task, retained);
        std::transform(retained, retained + p_.blocks, retained, [](double mass) { return std::log2(mass); });
      } else if (task < gates + keys) {
        pack_key_block((task - gates) / p_.blocks, (task - gates) % p_.blocks);
      } else {
        const std::int64_t rows = task - gates - keys;
        pack_backward_rows(b_, p_, rows / p_.row_blocks, rows % p_.row_blocks);
      }
    });
    for (std::int64_t key_head = 0; key_head < p_.key_heads; ++key_head) {
      float* norms = p_.key_norms.data() + key_head * p_.blocks;
      for (std::int64_t block = 1; block < p_.blocks; ++block) norms[block] = std::max(norms[block], norms[block - 1]);
    }
    return done;
  }

  /// Packs a block of keys and values and clears their gradients.
  void pack_key_block(std::int64_t key_head, std::int64_t block) {
    const std::int64_t batch = (p_.first_key_head + key_head) / a_.key_heads;
    const std::int64_t head = (p_.first_key_head + key_head) % a_.key_heads;
    const std::int64_t first = block * kKeyBlock;
    const std::int64_t count = std::min(kKeyBlock, a_.length - first);
    const std::int64_t at = key_head * p_.blocks + block;
    const std::int64_t transposed = at * kKeyBlock * a_.head_dim;
    const std::int64_t rows = at * kKeyBlock * p_.width;
    const float* key = row_of(a_.key, a_.key_strides, batch, head, first);
    const float* value = row_of(a_.value, a_.value_strides, batch, head, first);
    const float square = pack_keys(key, a_.key_strides.row, count, a_.head_dim, p_.keys.get() + transposed);
    pack_keys(value, a_.value_strides.row, count, a_.head_dim, p_.values.get() + transposed);
    const bool regular = pack_values(key, a_.key_strides.row, count, a_.head_dim, p_.width, p_.key_rows.get() + rows);
    std::fill_n(p_.key_gradient.get() + rows, kKeyBlock * p_.width, 0.0F);
    std::fill_n(p_.value_gradient.get() + rows, kKeyBlock * p_.width, 0.0F);
    // The factor covers the rounding of the sum of squares; it is infinity where a key is not finite, which keeps that
    // from being left out. A value that is not finite shows in the row's delta.
    p_.key_norms[index(at)] = std::sqrt(square) * 1.0001F;
    p_.irregular_keys[index(at)] = regular ? 0 : 1;
  }

  template <typename T>
  static T* row_of(T* tensor, const AttentionStrides& strides, std::int64_t batch, std::int64_t head,
                   std::int64_t row) {
    return tensor + batch * strides.batch + head * strides.head + row * strides.row;
  }

  /// Key blocks that any row of a block sees: first, and the one after the last.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> seen_blocks(std::int64_t row_block) const {
    const std::int64_t first_row = row_block * kQueryBlock;
    const std::int64_t last_row = std::min(first_row + kQueryBlock, a_.length) - 1;
    const std::int64_t first_key = a_.window_size > 0 ? std::max<std::int64_t>(0, first_row - a_.window_size + 1) : 0;
    return {first_key / kKeyBlock, last_row / kKeyBlock + 1};
  }

  /// Finds where each block of rows begins.
  bool prune() {
    const std::int64_t heads = p_.key_heads * p_.group;
    const bool done = run_tasks(heads, [&](std::int64_t head, int) {
      for (std::int64_t row_block = 0; row_block < p_.row_blocks; ++row_block) {
        p_.first_block[index(head * p_.row_blocks + row_block)] = first_block(head, row_block);
      }
    });
    for (std::int64_t task = 0; done && task < heads * p_.row_blocks; ++task) {
      const auto [first, last] = seen_blocks(task % p_.row_blocks);
      counted_.total += last - first;
      counted_.skipped += std::min(p_.first_block[index(task)], last) - first;
    }
    return done;
  }

  /// The share that a row must have in a block and all before it grows with the block, so that those which are
  /// negligible come first.
  [[nodiscard]] std::int64_t first_block(std::int64_t head, std::int64_t row_block) const {
    const char* live = p_.live.data() + (head * p_.row_blocks + row_block) * kQueryBlock;
    if (std::all_of(live, live + kQueryBlock, [](char is_live) { return is_live == 0; })) return p_.blocks;
    auto [first, last] = seen_blocks(row_block);
    if (p_.retained.empty()) return first;
    --last;
    while (first < last) {
      const std::int64_t middle = (first + last) / 2;
      if (negligible(head, row_block, middle)) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    return first;
  }

  /// Whether the keys of a block and all before it hold no more than the tolerance of any row: their weights are at
  /// most exp(|q| max|k| + c_r - c_last - lse_r) times exp(c_last - c_j), whose sum over keys is known.
  [[nodiscard]] bool negligible(std::int64_t head, std::int64_t row_block, std::int64_t block) const {
    const std::int64_t global_head = p_.first_key_head * p_.group + head;
    const double* gate = a_.cumulative_log_gate + global_head * a_.length;
    const float* normalizer = a_.log_normalizer + global_head * a_.length;
    const double gate_of_last = gate[(block + 1) * kKeyBlock - 1];
    const auto key_norm = static_cast<double>(p_.key_norms[index(head / p_.group * p_.blocks + block)]);
    const double bound = p_.retained[index(head * p_.blocks + block)] + kMassSlack - std::log2(a_.pruning_tolerance);
    const std::int64_t first_row = row_block * kQueryBlock;
    const std::int64_t rows = std::min(kQueryBlock, a_.length - first_row);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::size_t packed = index((head * p_.row_blocks + row_block) * kQueryBlock + r);
      if (p_.live[packed] == 0) continue;
      const double exponent =
          (gate[first_row + r] - gate_of_last - static_cast<double>(normalizer[first_row + r])) * kLog2E;
      // False for NaN, which has to reach the gradients.
      if (!(bound + static_cast<double>(p_.query_norms[packed]) * key_norm + exponent <= 0)) return false;
    }
    return true;
  }

  /// Cells in the order in which they are begun, and of each the one before it that adds to the same rows, and to the
  /// same keys; -1: none.
  struct Order {
    std::vector<BackwardCell> cells;
    std::vector<std::int64_t> before_on_rows;
    std::vector<std::int64_t> before_on_keys;
  };

  /// Cell (I, J) of rows and keys comes in round (I + J) mod n: the cells of a round share neither rows nor keys, so
  /// that they may run at once.
  [[nodiscard]] Order order_cells() const {
    Order order;
    std::vector<std::int64_t> last_on_rows(index(p_.key_heads * cells_), -1);
    std::vector<std::int64_t> last_on_keys(last_on_rows);
    for (std::int64_t round = 0; round < cells_; ++round) {
      std::vector<std::pair<std::int64_t, std::pair<std::int64_t, std::int64_t>>> work;  // tiles, key head, I
      for (std::int64_t key_head = 0; key_head < p_.key_heads; ++key_head) {
        for (std::int64_t i = 0; i < cells_; ++i) {
          const std::int64_t tiles = tiles_of(cell_of(key_head, i, column(round, i)));
          if (tiles > 0) work.push_back({tiles, {key_head, i}});
        }
      }
      // The longest go first, so that the threads end together.
      std::stable_sort(work.begin(), work.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
      for (const auto& [tiles, place] : work) {
        const auto [key_head, i] = place;
        std::int64_t& rows = last_on_rows[index(key_head * cells_ + i)];
        std::int64_t& keys = last_on_keys[index(key_head * cells_ + column(round, i))];
        order.before_on_rows.push_back(rows);
        order.before_on_keys.push_back(keys);
        rows = keys = static_cast<std::int64_t>(order.cells.size());
        order.cells.push_back(cell_of(key_head, i, column(round, i)));
      }
    }
    return order;
  }

  [[nodiscard]] std::int64_t column(std::int64_t round, std::int64_t i) const { return (round - i + cells_) % cells_; }

  /// Each cell waits for the one before it on its rows and on its keys, so that every sum is added to in one order,
  /// whoever computes the cells. Tasks are begun in ascending order: those waited for are under way.
  bool add_cells() {
    const Order order = order_cells();
    std::vector<std::atomic<bool>> done(order.cells.size());
    std::atomic<bool> stopped = false;
    executor_.run(static_cast<std::int64_t>(order.cells.size()), [&](std::int64_t task, int thread) {
      for (const std::int64_t before : {order.before_on_rows[index(task)], order.before_on_keys[index(task)]}) {
        if (before >= 0) done[index(before)].wait(false, std::memory_order_acquire);
      }
      if (stop_.stop_requested()) {
        stopped = true;
      } else {
        add_backward_cell(b_, p_, order.cells[index(task)], scratch_[static_cast<std::size_t>(thread)]);
      }
      done[index(task)].store(true, std::memory_order_release);
      done[index(task)].notify_all();
    });
    return !stopped;
  }

  [[nodiscard]] BackwardCell cell_of(std::int64_t key_head, std::int64_t i, std::int64_t j) const {
    const std::int64_t rows = edge_ / kQueryBlock;
    const std::int64_t keys = edge_ / kKeyBlock;
    return {key_head, i * rows, std::min((i + 1) * rows, p_.row_blocks), j * keys, std::min((j + 1) * keys, p_.blocks)};
  }

  [[nodiscard]] std::int64_t tiles_of(const BackwardCell& cell) const {
    std::int64_t tiles = 0;
    for (std::int64_t head = cell.key_head * p_.group; head < (cell.key_head + 1) * p_.group; ++head) {
      for (std::int64_t row_block = cell.first_row_block; row_block < cell.last_row_block; ++row_block) {
        const std::int64_t first = std::max(cell.first_block, p_.first_block[index(head * p_.row_blocks + row_block)]);
        const std::int64_t last = std::min(cell.last_block, seen_blocks(row_block).second);
        tiles += std::max<std::int64_t>(0, last - first);
      }
    }
    return tiles;
  }

  /// Writes the gradients of the packed heads.
  bool store() {
    const std::int64_t heads = p_.key_heads * p_.group;
    return run_tasks(heads + p_.key_heads, [&](std::int64_t task, int) {
      if (task >= heads) {
        store_keys(task - heads);
      } else {
        store_queries(task);
      }
    });
  }

  void store_keys(std::int64_t key_head) {
    const std::int64_t batch = (p_.first_key_head + key_head) / a_.key_heads;
    const std::int64_t head = (p_.first_key_head + key_head) % a_.key_heads;
    const std::int64_t first = key_head * p_.blocks * kKeyBlock;
    for (std::int64_t j = 0; j < a_.length; ++j) {
      const float* key = p_.key_gradient.get() + (first + j) * p_.width;
      const float* value = p_.value_gradient.get() + (first + j) * p_.width;
      float* to = row_of(b_.key_gradient, b_.key_gradient_strides, batch, head, j);
      // The queries that were multiplied with dS hold scale log2(e).
      for (std::int64_t x = 0; x < a_.head_dim; ++x) to[x] = key[x] * static_cast<float>(kLn2);
      std::copy_n(value, a_.head_dim, row_of(b_.value_gradient, b_.value_gradient_strides, batch, head, j));
    }
  }

  void store_queries(std::int64_t head) {
    const std::int64_t global_head = p_.first_key_head * p_.group + head;
    for (std::int64_t i = 0; i < a_.length; ++i) {
      const float* from = p_.query_gradient.get() + (head * p_.row_blocks * kQueryBlock + i) * p_.width;
      float* to =
          row_of(b_.query_gradient, b_.query_gradient_strides, global_head / a_.heads, global_head % a_.heads, i);
      for (std::int64_t x = 0; x < a_.head_dim; ++x) to[x] = from[x] * a_.scale;
    }
    const double* rows = p_.row_sums.data() + head * p_.blocks * kKeyBlock;
    const double* columns = p_.column_sums.data() + head * p_.blocks * kKeyBlock;
    double suffix = 0;
    for (std::int64_t t = a_.length - 1; t >= 0; --t) {
      suffix += rows[t] - columns[t];
      const std::int64_t at = global_head * a_.length + t;
      if (b_.log_gate_gradient != nullptr) b_.log_gate_gradient[at] = static_cast<float>(suffix);
      if (b_.key_logit_gradient != nullptr) b_.key_logit_gradient[at] = static_cast<float>(columns[t]);
    }
  }

  const ForgettingAttentionBackward& b_;
  const ForgettingAttention& a_;
  Executor& executor_;
  const std::stop_token& stop_;
  std::int64_t edge_;   // of a cell, in positions
  std::int64_t cells_;  // along a head
  BackwardHeads p_;
  std::vector<BackwardScratch> scratch_;
  AttentionBlocks counted_;
};

}  // namespace

Status forgetting_attention_backward(const ForgettingAttentionBackward& arguments, Executor& executor,
                                     const std::stop_token& stop, AttentionBlocks* blocks) {
  if (!acceptable(arguments)) return Status::invalid_argument;
  return Backward(arguments, executor, stop).run(blocks);
}

}  // namespace foxscope::kernels::cpu
