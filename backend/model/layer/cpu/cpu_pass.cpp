#include "backend/model/layer/cpu/cpu_pass.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "backend/model/layer/cpu/cpu_steps.h"

namespace foxscope {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;
/// Fewer rows wake no thread.
constexpr std::int64_t kFewestRows = 16;
/// Rows up to which threads share the columns.
constexpr std::int64_t kRowsByColumns = 64;
/// Numbers of a matrix that one task reads, and fewer than which are not worth waking the other threads for.
constexpr std::int64_t kTaskNumbers = 1 << 16;
constexpr std::int64_t kSharedNumbers = 1 << 18;
/// Rows from which a matrix is laid out anew for each step, and numbers up to which it is.
constexpr std::int64_t kRowsToPack = 128;
constexpr std::int64_t kMostPacked = 1 << 24;
/// Rows up to which a pass leaves its memory to the next one.
constexpr std::int64_t kMostKeptRows = 4096;

}  // namespace

CpuPass::CpuPass(const ModelConfig& config, const ModelWeights& weights, std::int64_t batch, std::int64_t length,
                 WorkspaceCache& kept)
    : ForwardPass(config, batch, length),
      weights_(weights),
      by_columns_(length == 1 && batch <= kRowsByColumns),
      kept_(length > 1 && rows() <= kMostKeptRows ? &kept : nullptr),
      memory_(kept_ != nullptr ? kept_->take() : std::make_unique<CpuWorkspace>()),
      cut_heads_(index_of(batch)) {
  chunk_ = rows();
  if (by_columns_) return;
  // All threads have equally many chunks, and few: each turns the weights once more.
  const std::int64_t threads = team_.threads();
  const std::int64_t turns = (rows() + threads * kRowsAtOnce - 1) / (threads * kRowsAtOnce);
  chunk_ = std::max(kFewestRows, (rows() + threads * turns - 1) / (threads * turns));
}

CpuPass::~CpuPass() {
  if (kept_ != nullptr) kept_->keep(std::move(memory_));
}

void CpuPass::need(const Needs& needs) {
  normed_ = std::max(normed_, index_of((chunk_ + needs.more_normed) * needs.normed));
  wide_ = std::max(wide_, index_of((chunk_ + needs.more_wide) * needs.wide));
  output_ = std::max(output_, index_of(rows() * needs.output));
}

void CpuPass::allocate() {
  CpuWorkspace::grow(memory_->residual, index_of(rows() * hidden()));
  CpuWorkspace::grow(memory_->attended, output_);
  const std::int64_t threads = by_columns_ ? 1 : team_.threads();
  if (std::ssize(memory_->scratch) < threads) memory_->scratch.resize(index_of(threads));
  for (std::int64_t thread = 0; thread < threads; ++thread) {
    Scratch& scratch = memory_->scratch[index_of(thread)];
    CpuWorkspace::grow(scratch.normed, normed_);
    CpuWorkspace::grow(scratch.wide, wide_);
  }
}

void CpuPass::begin_run(const ForwardPass& run) {
  ForwardPass::operator=(run);
  packed_ = {};
  replaces_ = false;
}

void CpuPass::find_places(TraceArray array, int layer, std::int64_t numbers, FloatArray& own,
                          std::vector<float*>& places) {
  places.resize(index_of(batch()));
  for (std::size_t sequence = 0; sequence < places.size(); ++sequence) {
    places[sequence] = probes()[sequence].stored(array, layer);
    if (places[sequence] != nullptr) continue;
    CpuWorkspace::grow(own, index_of(batch() * numbers));
    places[sequence] = own.data() + sequence * index_of(numbers);
  }
}

void CpuPass::find_cut_heads(int layer) {
  for (std::size_t sequence = 0; sequence < probes().size(); ++sequence) {
    cut_heads_[sequence].clear();
    for (int head = 0; head < config().heads_of(layer); ++head) {
      if (probes()[sequence].cuts_head(layer, head)) cut_heads_[sequence].push_back(head);
    }
  }
}

void CpuPass::cut_heads(std::int64_t row, std::int64_t size, float* output) const {
  for (const int head : cut_heads_[index_of(row / length())]) std::fill_n(output + head * size, size, 0.0F);
}

void CpuPass::norm(const FloatArray& weight, const FloatArray& bias, std::int64_t begin, std::int64_t end,
                   float* out) const {
  norm_rows(memory_->residual, weight, bias, begin, end, out);
}

void CpuPass::norm_input(int layer, std::int64_t begin, std::int64_t end, float* out) const {
  const LayerWeights& of = weights(layer);
  if (config().is_aside(layer)) return norm_beside(of.attention_norm, begin, end, out);
  norm_rows(config().reads_with_previous(layer) ? memory_->entered : memory_->residual, of.attention_norm,
            of.attention_norm_bias, begin, end, out);
}

/// norm([x, E]) of some rows.
void CpuPass::norm_beside(const FloatArray& weight, std::int64_t begin, std::int64_t end, float* out) const {
  const auto epsilon = static_cast<float>(config().norm_epsilon);
  for (std::int64_t row = begin; row < end; ++row) {
    float* const to = out + (row - begin) * 2 * hidden();
    std::copy_n(memory_->residual.data() + row * hidden(), hidden(), to);
    std::copy_n(memory_->embedded.data() + row * hidden(), hidden(), to + hidden());
    cpu_steps::rms_norm(to, weight.data(), 2 * hidden(), epsilon, to);
  }
}

void CpuPass::norm_rows(const FloatArray& rows, const FloatArray& weight, const FloatArray& bias, std::int64_t begin,
                        std::int64_t end, float* out) const {
  const auto epsilon = static_cast<float>(config().norm_epsilon);
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = rows.data() + row * hidden();
    float* const to = out + (row - begin) * hidden();
    if (weight.empty()) {
      std::copy_n(x, hidden(), to);
    } else if (config().norm == NormKind::rms) {
      cpu_steps::rms_norm(x, weight.data(), hidden(), epsilon, to);
    } else {
      cpu_steps::layer_norm(x, weight.data(), bias.data(), hidden(), epsilon, to);
    }
  }
}

void CpuPass::add_to_rows(const FloatArray& bias, std::int64_t count, float* rows) {
  const auto size = static_cast<std::int64_t>(bias.size());
  for (std::int64_t row = 0; row < count && size > 0; ++row) cpu_steps::add(bias.data(), size, rows + row * size);
}

void CpuPass::add_to_residual(const Rows& rows, const RowsIn& in, const FloatArray& weight, const FloatArray& bias,
                              const FloatArray& post_norm) {
  using Into = kernels::cpu::MatrixProduct::Into;
  const bool apart = !post_norm.empty() || config().residual_factor != 1;
  assert(!(apart && replaces_));
  float* const out = apart ? rows.scratch.normed.data() : memory_->residual.data() + rows.begin * hidden();
  multiply({.rows = rows.count(),
            .columns = hidden(),
            .depth = in.columns,
            .in = in.first,
            .in_stride = in.stride,
            .weight = weight.data(),
            .out = out,
            .out_stride = hidden(),
            .into = apart || replaces_ ? Into::overwrite : Into::add});
  add_to_rows(bias, rows.count(), out);
  if (apart) add_made(rows, out, post_norm);
}

void CpuPass::add_made(const Rows& rows, float* made, const FloatArray& post_norm) {
  const auto factor = static_cast<float>(config().residual_factor);
  const auto epsilon = static_cast<float>(config().norm_epsilon);
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    float* const own = made + row * hidden();
    if (!post_norm.empty()) cpu_steps::rms_norm(own, post_norm.data(), hidden(), epsilon, own);
    for (std::int64_t n = 0; n < hidden() && factor != 1; ++n) own[n] *= factor;
    cpu_steps::add(own, hidden(), memory_->residual.data() + (rows.begin + row) * hidden());
  }
}

bool CpuPass::for_rows(const std::function<void(const Rows&)>& step) {
  if (by_columns_) {
    step({0, rows(), memory_->scratch.front()});
    return !job().stopped();
  }
  team_.run((rows() + chunk_ - 1) / chunk_, [&](std::int64_t task, int thread) {
    if (job().stopped()) return;
    const std::int64_t begin = task * chunk_;
    step({begin, std::min(begin + chunk_, rows()), memory_->scratch[index_of(thread)]});
  });
  return !job().stopped();
}

bool CpuPass::for_chunks(std::int64_t count, const Job& job, const std::function<void(const Rows&)>& step) {
  if (by_columns_) {
    step({0, count, memory_->scratch.front()});
    return !job.stopped();
  }
  const std::int64_t threads = team_.threads();
  const std::int64_t chunk = std::clamp<std::int64_t>((count + threads - 1) / threads, 1, chunk_);
  team_.run((count + chunk - 1) / chunk, [&](std::int64_t task, int thread) {
    if (job.stopped()) return;
    const std::int64_t begin = task * chunk;
    step({begin, std::min(begin + chunk, count), memory_->scratch[index_of(thread)]});
  });
  return !job.stopped();
}

void CpuPass::share(std::int64_t tasks, std::int64_t numbers, const std::function<void(std::int64_t task)>& body) {
  if (tasks > 1 && numbers >= kSharedNumbers) {
    team_.run(tasks, [&](std::int64_t task, int /*thread*/) { body(task); });
  } else {
    for (std::int64_t task = 0; task < tasks; ++task) body(task);
  }
}

void CpuPass::pack(std::size_t place, std::int64_t count, const FloatArray& weight, std::int64_t depth) {
  packed_[place] = {};
  if (by_columns_ || count < kRowsToPack || weight.empty() || std::ssize(weight) > kMostPacked) return;
  const std::int64_t columns = std::ssize(weight) / depth;
  FloatArray& packed = memory_->packed[place];
  CpuWorkspace::grow(packed, index_of(kernels::cpu::packed_size(columns, depth)));
  team_.run((columns + kernels::cpu::kPanelColumns - 1) / kernels::cpu::kPanelColumns,
            [&](std::int64_t panel, int /*thread*/) {
              kernels::cpu::pack_panel(weight.data(), columns, depth, panel, packed.data());
            });
  packed_[place] = {weight, depth};
}

/// Null where the product's matrix is not packed, or does not begin with a panel.
const float* CpuPass::packed_of(const kernels::cpu::MatrixProduct& product) const {
  for (std::size_t place = 0; place < packed_.size(); ++place) {
    const std::span<const float> of = packed_[place].of;
    const std::less<> before;
    if (of.empty() || before(product.weight, of.data())) continue;
    if (!before(product.weight, of.data() + of.size())) continue;
    assert(packed_[place].depth == product.depth);
    const std::int64_t column = (product.weight - of.data()) / product.depth;
    if (column % kernels::cpu::kPanelColumns != 0) return nullptr;
    const std::int64_t panel = column / kernels::cpu::kPanelColumns;
    return memory_->packed[place].data() + kernels::cpu::packed_place(panel, product.depth);
  }
  return nullptr;
}

void CpuPass::multiply(kernels::cpu::MatrixProduct product) {
  if (!by_columns_) {
    product.packed = packed_of(product);
    kernels::cpu::matrix_product(product);
    return;
  }
  std::vector<const float*> in;
  std::vector<float*> out;
  for (std::int64_t row = 0; row < product.rows; ++row) {
    in.push_back(product.in + row * product.in_stride);
    out.push_back(product.out + row * product.out_stride);
  }
  const bool adds = product.into == kernels::cpu::MatrixProduct::Into::add;
  multiply_columns({in, product.weight, product.columns, product.depth, out, adds});
}

void CpuPass::multiply_columns(const kernels::cpu::RowProducts& products) {
  const std::int64_t block = std::max<std::int64_t>(1, kTaskNumbers / products.depth);
  const std::int64_t numbers = std::ssize(products.in) * products.columns * products.depth;
  share((products.columns + block - 1) / block, numbers, [&](std::int64_t task) {
    kernels::cpu::RowProducts part = products;
    const std::int64_t first = task * block;
    part.columns = std::min(block, products.columns - first);
    part.weight += first * products.depth;
    std::vector<float*> out(products.out.begin(), products.out.end());
    for (float*& row : out) row += first;
    part.out = out;
    kernels::cpu::row_products(part);
  });
}

}  // namespace foxscope
