#include "backend/eval/atlas/device_gates.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/device/device_map.h"
#include "backend/map/statistics/gate_statistics.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/maps/gate_sums.h"

namespace foxscope {
namespace {

namespace cuda = kernels::cuda;
using kernels::GateBins;
using kernels::GateOfHead;
using kernels::GateSums;
using kernels::Status;

static_assert(GateBins::kBins == kLogGateBins && GateOfHead::kClasses == kBoundaryClasses);
static_assert(GateSums::kShiftedClasses == kResetClasses && GateSums::kShifts == kShifts &&
              GateSums::kGaps == kGapBins);

std::size_t in_lines(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

GateBins gate_bins() {
  GateBins bins;
  for (std::size_t n = 0; n < std::size(bins.edge); ++n) bins.edge[n] = std::exp2(static_cast<double>(n + 1) / 16);
  for (std::size_t n = 0; n < GateBins::kSteps; ++n) {
    const double from = 1 + static_cast<double>(n) / GateBins::kSteps;
    bins.first[n] = static_cast<std::uint8_t>(std::ranges::upper_bound(bins.edge, from) - std::begin(bins.edge));
  }
  return bins;
}

std::vector<std::uint8_t> gated_heads(const TraceInfo& info) {
  std::vector<std::uint8_t> gated;
  for (int layer = 0; layer < info.layers; ++layer) {
    for (int head = 0; head < info.heads; ++head) {
      gated.push_back(head < info.mixer(layer).heads && forgets(info, layer) ? 1 : 0);
    }
  }
  return gated;
}

}  // namespace

/// Memory of the GPU, or of the host in its place, and of the host what is copied to and from it.
class DeviceGates::Memory {
 public:
  explicit Memory(std::optional<int> gpu) : gpu_(gpu) {
    if (!gpu) return;
    const cuda::DeviceScope scope(*gpu);
    stream_ = std::make_unique<cuda::DeviceStream>();
  }

  [[nodiscard]] const std::optional<int>& gpu() const { return gpu_; }
  [[nodiscard]] cuda::Stream stream() const { return stream_->get(); }

  /// Bytes of zeros that stay.
  std::byte* hold(std::size_t bytes) {
    Block& block = held_.emplace_back(take(bytes));
    clear(block);
    return block.data();
  }
  /// Zeros once more what was held first.
  void clear() { clear(held_.front()); }
  /// At least so many bytes for what comes and goes.
  std::byte* work(std::size_t bytes) {
    if (work_.bytes() < bytes) {
      work_ = {};
      work_ = take(bytes);
    }
    return work_.data();
  }
  [[nodiscard]] std::size_t work_bytes() const { return work_.bytes(); }
  /// The same of the host, where it can be pinned.
  std::span<std::byte> staging(std::size_t bytes) {
    if (staging_.size() >= bytes) return staging_;
    pinned_.reset();
    pageable_ = {};
    staging_ = {};
    try {
      if (!gpu_) throw std::bad_alloc();
      pinned_ = std::make_unique<cuda::PinnedBuffer>(bytes, *gpu_);
      staging_ = {static_cast<std::byte*>(pinned_->data()), bytes};
    } catch (const std::bad_alloc&) {
      pageable_.resize(bytes);
      staging_ = pageable_;
    }
    return staging_;
  }

  void upload(std::byte* to, std::span<const std::byte> from) const {
    if (gpu_) {
      require(cuda::copy_to_device(to, from, stream()));
    } else {
      std::ranges::copy(from, to);
    }
  }
  void download(std::span<std::byte> to, const std::byte* from) const {
    if (gpu_) {
      require(cuda::copy_to_host(to, from, stream()));
    } else {
      std::copy_n(from, to.size(), to.begin());
    }
  }
  void require(bool worked) const { require_device(worked ? Status::ok : Status::failed, gpu_.value_or(0)); }

 private:
  struct Block {
    cuda::DeviceBuffer device;
    std::vector<std::byte> host;
    [[nodiscard]] std::byte* data() { return host.empty() ? static_cast<std::byte*>(device.data()) : host.data(); }
    [[nodiscard]] std::size_t bytes() const { return host.empty() ? device.bytes() : host.size(); }
  };
  void clear(Block& block) const {
    if (gpu_) {
      // Work of a stream of its own does not wait for it.
      require(block.device.fill(0) && cuda::synchronize());
    } else {
      std::ranges::fill(block.host, std::byte{0});
    }
  }
  [[nodiscard]] Block take(std::size_t bytes) const {
    Block block;
    if (gpu_) {
      block.device = cuda::DeviceBuffer(bytes);
    } else {
      block.host.resize(bytes);
    }
    return block;
  }

  std::optional<int> gpu_;
  std::unique_ptr<cuda::DeviceStream> stream_;
  std::vector<Block> held_;
  Block work_;
  std::unique_ptr<cuda::PinnedBuffer> pinned_;
  std::vector<std::byte> pageable_;
  std::span<std::byte> staging_;
};

/// Where the arrays of some windows lie, in bytes: what goes up, what comes down, and scratch.
struct DeviceGates::Layout {
  std::size_t windows = 0;
  std::size_t heads = 0;
  std::size_t first_heads = 0;
  std::size_t length = 0;
  std::size_t cumulative = 0;
  std::size_t first_cumulative = 0;
  std::size_t token = 0;
  std::size_t slot = 0;
  std::size_t shift = 0;
  std::size_t class_bits = 0;
  std::size_t classes = 0;
  std::size_t has_text = 0;
  std::size_t of_head = 0;  ///< from here on down
  std::size_t slot_sums = 0;
  std::size_t keys = 0;  ///< from here on scratch
  std::size_t resets = 0;
  std::size_t bytes = 0;

  Layout(std::size_t of_windows, std::int64_t of_length, std::size_t slots, std::size_t of_heads,
         std::size_t of_first_heads)
      : windows(of_windows), heads(of_heads), first_heads(of_first_heads), length(index_of(of_length)) {
    const std::size_t positions = length - 1;
    const auto put = [&](std::size_t& at, std::size_t size) {
      at = bytes;
      bytes += in_lines(size);
    };
    put(cumulative, windows * heads * length * sizeof(double));
    put(first_cumulative, windows * first_heads * length * sizeof(double));
    put(token, windows * positions * sizeof(std::int32_t));
    put(slot, windows * positions * sizeof(std::int32_t));
    put(shift, windows * kShifts * sizeof(std::int32_t));
    put(class_bits, windows * kResetClasses * class_words() * sizeof(std::uint32_t));
    put(classes, windows * positions * sizeof(BoundaryClassSet));
    put(has_text, windows);
    put(of_head, windows * heads * sizeof(GateOfHead));
    put(slot_sums, slots * heads * sizeof(std::int64_t));
    put(keys, windows * heads * length * sizeof(std::uint64_t));
    put(resets, windows * heads * index_of(GateSums::reset_words(of_length - 1)) * sizeof(std::uint32_t));
  }
  [[nodiscard]] std::size_t class_words() const {
    return index_of(GateSums::shifted_words(static_cast<std::int64_t>(length) - 1));
  }
};

DeviceGates::DeviceGates(const AtlasShape& shape, const TraceInfo& info, const TraceInfo* first, std::optional<int> gpu)
    : shape_(shape), gated_(gated_heads(info)), memory_(std::make_unique<Memory>(gpu)) {
  if (first != nullptr) first_gated_ = gated_heads(*first);
  std::optional<cuda::DeviceScope> scope;
  if (gpu) scope.emplace(*gpu);
  const auto words_of = [&](AtlasSum sum) { return size_of(sum, shape_); };
  const std::size_t products = words_of(AtlasSum::log_gate_product);
  const std::size_t first_products = first == nullptr ? 0 : words_of(AtlasSum::first_log_gate_product);
  sum_words_ = 2 * words_of(AtlasSum::token_log_gate) + words_of(AtlasSum::log_gate_histogram) +
               words_of(AtlasSum::class_histogram) + words_of(AtlasSum::reset_gap) + words_of(AtlasSum::class_shifted) +
               products + first_products + 1;
  std::byte* const held = memory_->hold(sum_words_ * sizeof(std::int64_t));
  auto* at = reinterpret_cast<std::int64_t*>(held);
  const auto next = [&](std::size_t words) {
    std::int64_t* const here = at;
    at += words;
    return here;
  };
  sums_.token_log_gate = next(words_of(AtlasSum::token_log_gate));
  sums_.token_below_half = next(words_of(AtlasSum::token_below_half));
  sums_.histogram = next(words_of(AtlasSum::log_gate_histogram));
  sums_.class_histogram = next(words_of(AtlasSum::class_histogram));
  sums_.gaps = next(words_of(AtlasSum::reset_gap));
  sums_.class_shifted = next(words_of(AtlasSum::class_shifted));
  products_ = next(products);
  first_products_ = first == nullptr ? nullptr : next(first_products);
  failed_ = reinterpret_cast<std::uint32_t*>(next(1));
  const auto put = [&](std::span<const std::byte> values) {
    std::byte* const to = memory_->hold(values.size());
    memory_->upload(to, values);
    return to;
  };
  const GateBins bins = gate_bins();
  sums_.bins = reinterpret_cast<const GateBins*>(put(std::as_bytes(std::span(&bins, 1))));
  std::vector<std::uint8_t> gated = gated_;
  gated.insert(gated.end(), first_gated_.begin(), first_gated_.end());
  sums_.gated = reinterpret_cast<const std::uint8_t*>(put(std::as_bytes(std::span(gated))));
  sums_.heads = static_cast<int>(shape_.head_count());
  sums_.vocabulary = shape_.vocabulary;
}

DeviceGates::~DeviceGates() = default;

std::size_t DeviceGates::most_windows(std::int64_t length) const {
  const Layout one(1, length, std::min(index_of(length), shape_.error_tokens()), gated_.size(), first_gated_.size());
  const std::size_t room = memory_->work_bytes() == 0 ? kBytes : memory_->work_bytes();
  return std::max<std::size_t>(1, room / one.bytes);
}

std::int64_t DeviceGates::bytes(const AtlasShape& shape, std::int64_t length) {
  std::size_t words = 0;
  for (const AtlasSum sum :
       {AtlasSum::token_log_gate, AtlasSum::token_below_half, AtlasSum::log_gate_histogram, AtlasSum::class_histogram,
        AtlasSum::reset_gap, AtlasSum::class_shifted, AtlasSum::log_gate_product, AtlasSum::first_log_gate_product}) {
    words += size_of(sum, shape);
  }
  const Layout one(1, length, std::min(index_of(length), shape.error_tokens()), shape.head_count(),
                   index_of(shape.first_heads));
  return static_cast<std::int64_t>(words * sizeof(std::int64_t) + std::max(kBytes, one.bytes));
}

void DeviceGates::reserve(std::size_t windows, std::int64_t length) {
  windows = std::min(windows, most_windows(length));
  const std::size_t slots = windows * std::min(index_of(length), shape_.error_tokens());
  const Layout layout(windows, length, slots, gated_.size(), first_gated_.size());
  std::optional<cuda::DeviceScope> scope;
  if (memory_->gpu()) scope.emplace(*memory_->gpu());
  memory_->work(layout.bytes);
  memory_->staging(layout.keys);
}

/// Puts a window's arrays where they go up from.
void DeviceGates::fill(const GateWindow& window, std::size_t n, const Layout& layout) {
  const std::size_t positions = layout.length - 1;
  const auto put_gates = [&](const Trace& trace, const std::vector<std::uint8_t>& gated, std::size_t at) {
    const auto heads = index_of(trace.info().heads);
    auto* const to = reinterpret_cast<double*>(host_.data() + at) + n * gated.size() * layout.length;
    for (std::size_t head = 0; head < gated.size(); ++head) {
      if (gated[head] == 0) continue;
      const auto c = trace.cumulative_log_gate(static_cast<int>(head / heads), static_cast<int>(head % heads));
      std::ranges::copy(c, to + head * layout.length);
    }
  };
  put_gates(*window.run, gated_, layout.cumulative);
  if (window.first != nullptr) put_gates(*window.first, first_gated_, layout.first_cumulative);
  const auto own = [&]<typename T>(std::size_t at, std::size_t size, T /*of*/) {
    return std::span(reinterpret_cast<T*>(host_.data() + at) + n * size, size);
  };
  std::ranges::copy(window.tokens, own(layout.token, positions, std::int32_t{}).begin());
  std::ranges::transform(window.reads, own(layout.slot, positions, std::int32_t{}).begin(), [&](std::uint32_t read) {
    return read < window.with_errors ? static_cast<std::int32_t>(slot_begin_[n] + read) : -1;
  });
  const bool text = !window.classes.empty();
  own(layout.has_text, 1, std::uint8_t{})[0] = text ? 1 : 0;
  if (!text) return;
  std::ranges::transform(window.shifts, own(layout.shift, kShifts, std::int32_t{}).begin(),
                         [](std::size_t shift) { return static_cast<std::int32_t>(shift); });
  std::ranges::copy(window.classes.first(positions), own(layout.classes, positions, BoundaryClassSet{}).begin());
  const std::size_t words = layout.class_words();
  const auto bits = own(layout.class_bits, kResetClasses * words, std::uint32_t{});
  std::ranges::fill(bits, 0U);
  for (std::size_t p = 0; p < 2 * positions; ++p) {
    unsigned set = window.classes[p % positions];
    for (std::size_t k = 0; k < kResetClasses; ++k, set >>= 1U) bits[k * words + p / 32] |= (set & 1U) << (p % 32);
  }
}

bool DeviceGates::add(std::span<const GateWindow> windows, Team& team) {
  windows_ = windows.size();
  slot_begin_.assign(1, 0);
  for (const GateWindow& window : windows) slot_begin_.push_back(slot_begin_.back() + window.with_errors);
  const std::int64_t length = windows.front().run->info().length;
  const std::size_t first_heads = windows.front().first == nullptr ? 0 : first_gated_.size();
  const Layout layout(windows_, length, slot_begin_.back(), gated_.size(), first_heads);
  std::optional<cuda::DeviceScope> scope;
  if (memory_->gpu()) scope.emplace(*memory_->gpu());
  std::byte* const memory = memory_->work(layout.bytes);
  host_ = memory_->staging(layout.keys);
  const auto count = std::ssize(windows);
  if (!team.run({"reading gates", "windows", count}, count,
                [&](std::int64_t n, int) { fill(windows[index_of(n)], index_of(n), layout); })) {
    return false;
  }
  memory_->upload(memory, host_.first(layout.of_head));
  GateSums& sums = sums_;
  sums.windows = static_cast<int>(count);
  sums.length = static_cast<int>(length);
  sums.cumulative = reinterpret_cast<const double*>(memory + layout.cumulative);
  sums.token = reinterpret_cast<const std::int32_t*>(memory + layout.token);
  sums.slot = reinterpret_cast<const std::int32_t*>(memory + layout.slot);
  sums.classes = reinterpret_cast<const std::uint16_t*>(memory + layout.classes);
  sums.class_bits = reinterpret_cast<const std::uint32_t*>(memory + layout.class_bits);
  sums.shift = reinterpret_cast<const std::int32_t*>(memory + layout.shift);
  sums.has_text = reinterpret_cast<const std::uint8_t*>(memory + layout.has_text);
  sums.of_head = reinterpret_cast<GateOfHead*>(memory + layout.of_head);
  sums.slot_sums = reinterpret_cast<std::int64_t*>(memory + layout.slot_sums);
  sums.slot_count = static_cast<std::int64_t>(slot_begin_.back());
  sums.keys = reinterpret_cast<std::uint64_t*>(memory + layout.keys);
  sums.resets = reinterpret_cast<std::uint32_t*>(memory + layout.resets);
  ask_for_order(sums);
  kernels::GateProducts products;
  products.windows = sums.windows;
  products.length = sums.length;
  products.own = products.other = {sums.cumulative, sums.gated, sums.heads};
  products.pairs = true;
  products.sums = products_;
  products.failed = failed_;
  kernels::GateProducts with_first = products;
  with_first.other = {reinterpret_cast<const double*>(memory + layout.first_cumulative), sums.gated + gated_.size(),
                      static_cast<int>(first_heads)};
  with_first.pairs = false;
  with_first.sums = first_products_;
  if (memory_->gpu()) {
    Status status = cuda::gate_sums(sums, memory_->stream());
    if (status == Status::ok) status = cuda::gate_products(products, memory_->stream());
    if (status == Status::ok && first_heads > 0) status = cuda::gate_products(with_first, memory_->stream());
    require_device(status, *memory_->gpu());
  } else {
    kernels::cpu::gate_sums(sums, *team.executor());
    kernels::cpu::gate_products(products, *team.executor());
    if (first_heads > 0) kernels::cpu::gate_products(with_first, *team.executor());
  }
  of_head_at_ = layout.of_head;
  slot_sums_at_ = layout.slot_sums;
  memory_->download(host_.subspan(layout.of_head, layout.keys - layout.of_head), memory + layout.of_head);
  positions_ += count * (length - 1);
  return !team.stopped();
}

const GateOfHead& DeviceGates::of(std::size_t window, std::size_t head) const {
  return reinterpret_cast<const GateOfHead*>(host_.data() + of_head_at_)[window * gated_.size() + head];
}

std::span<const std::int64_t> DeviceGates::token_sums(std::size_t window) const {
  const auto* const sums = reinterpret_cast<const std::int64_t*>(host_.data() + slot_sums_at_);
  const std::size_t begin = slot_begin_[window] * gated_.size();
  return {sums + begin, slot_begin_[window + 1] * gated_.size() - begin};
}

void DeviceGates::take(AtlasSums& sums) {
  if (positions_ == 0) return;
  std::optional<cuda::DeviceScope> scope;
  if (memory_->gpu()) scope.emplace(*memory_->gpu());
  std::vector<std::int64_t> words(sum_words_);
  memory_->download(std::as_writable_bytes(std::span(words)), reinterpret_cast<std::byte*>(sums_.token_log_gate));
  if (words.back() != 0) fail_range();
  const auto add = [&](AtlasSum sum, const std::int64_t* here) {
    const auto to = sums.at(sum);
    add_whole(std::span(words).subspan(index_of(here - sums_.token_log_gate), to.size()), to);
  };
  add(AtlasSum::token_log_gate, sums_.token_log_gate);
  add(AtlasSum::token_below_half, sums_.token_below_half);
  add(AtlasSum::log_gate_histogram, sums_.histogram);
  add(AtlasSum::class_histogram, sums_.class_histogram);
  add(AtlasSum::reset_gap, sums_.gaps);
  add(AtlasSum::class_shifted, sums_.class_shifted);
  add(AtlasSum::log_gate_product, products_);
  if (first_products_ != nullptr) add(AtlasSum::first_log_gate_product, first_products_);
  memory_->clear();
  positions_ = 0;
}

}  // namespace foxscope
