#include "kernels/cpu/selective_scan.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/selective_scan.cpp"
#include <hwy/aligned_allocator.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/tile_math-inl.h"
#include "kernels/log2e.h"

#ifndef FOXSCOPE_KERNELS_CPU_SELECTIVE_SCAN_SCRATCH_
#define FOXSCOPE_KERNELS_CPU_SELECTIVE_SCAN_SCRATCH_
namespace foxscope::kernels::cpu {
namespace {

/// Channels of a task: whole vectors and cache lines, their states a few kilobytes.
constexpr std::int64_t kScanChannels = 64;
/// Positions that are fetched at a time.
constexpr std::int64_t kScanPositions = 64;
/// States below this are 0: they never become denormal.
constexpr float kVanishedState = 1e-30F;

/// The memory of one thread; the numbers beyond the last channel are finite, and read by nobody.
struct ScanScratch {
  using Buffer = hwy::AlignedFreeUniquePtr<float[]>;
  explicit ScanScratch(std::int64_t state_size)
      : rate(make(state_size * kScanChannels)),
        state(make(state_size * kScanChannels)),
        decay(make(kScanPositions * kScanChannels)),
        written(make(kScanPositions * kScanChannels)),
        output(make(kScanPositions * kScanChannels)) {}

  static Buffer make(std::int64_t count) {
    Buffer buffer = hwy::AllocateAligned<float>(static_cast<std::size_t>(count));
    if (buffer == nullptr) throw std::bad_alloc();
    std::fill_n(buffer.get(), count, 0.0F);
    return buffer;
  }

  Buffer rate;     ///< [d, channels] -log2(e) rate
  Buffer state;    ///< [d, channels]
  Buffer decay;    ///< [positions, channels] decay_step
  Buffer written;  ///< [positions, channels] step u
  Buffer output;   ///< [positions, channels]
};

/// The same of a task in the backward pass.
struct ScanBackwardScratch {
  using Buffer = ScanScratch::Buffer;
  explicit ScanBackwardScratch(const SelectiveScan& a)
      : scan(a.state_size),
        begins(ScanScratch::make((a.length + kScanPositions - 1) / kScanPositions * a.state_size * kScanChannels)),
        states(ScanScratch::make((kScanPositions + 1) * a.state_size * kScanChannels)),
        output(ScanScratch::make(kScanPositions * kScanChannels)),
        written(ScanScratch::make(kScanPositions * kScanChannels)),
        decay(ScanScratch::make(kScanPositions * kScanChannels)),
        grad_state(ScanScratch::make(a.state_size * kScanChannels)),
        grad_rate(ScanScratch::make(a.state_size * kScanChannels)) {}

  ScanScratch scan;
  Buffer begins;      ///< [pieces, d, channels] states before each piece of positions
  Buffer states;      ///< [1 + positions, d, channels] those of one piece, from the one before it on
  Buffer output;      ///< [positions, channels] gradient by y
  Buffer written;     ///< [positions, channels] gradient by step u
  Buffer decay;       ///< [positions, channels] gradient by decay_step
  Buffer grad_state;  ///< [d, channels] G
  Buffer grad_rate;   ///< [d, channels] by -log2(e) rate
};

}  // namespace
}  // namespace foxscope::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

using cpu::kScanChannels;
using cpu::kScanPositions;
using cpu::kVanishedState;
using cpu::ScanBackwardScratch;
using cpu::ScanScratch;
using cpu::SelectiveScan;
using cpu::SelectiveScanGradients;

/// One position of all channels of a task.
/// @param key, query  [d]
void scan_position(std::int64_t state_size, const float* HWY_RESTRICT key, const float* HWY_RESTRICT query,
                   const float* HWY_RESTRICT decay, const float* HWY_RESTRICT written, const float* HWY_RESTRICT rate,
                   float* HWY_RESTRICT state, float* HWY_RESTRICT output) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const Float vanished = hn::Set(tag, kVanishedState);
  for (std::int64_t channel = 0; channel < kScanChannels; channel += lanes) {
    const Float step = hn::Load(tag, decay + channel);
    const Float input = hn::Load(tag, written + channel);
    Float sum = hn::Zero(tag);
    for (std::int64_t n = 0; n < state_size; ++n) {
      float* const place = state + n * kScanChannels + channel;
      const Float alpha = exp2_vector(hn::Mul(step, hn::Load(tag, rate + n * kScanChannels + channel)));
      const Float next = hn::MulAdd(alpha, hn::Load(tag, place), hn::Mul(input, hn::Set(tag, key[n])));
      const Float kept = hn::IfThenZeroElse(hn::Lt(hn::Abs(next), vanished), next);
      hn::Store(kept, tag, place);
      sum = hn::MulAdd(kept, hn::Set(tag, query[n]), sum);
    }
    hn::Store(sum, tag, output + channel);
  }
}

/// Rates and states of the channels from `first` on.
void fetch_channels(const SelectiveScan& a, std::int64_t first, std::int64_t count, ScanScratch& scratch) {
  for (std::int64_t n = 0; n < a.state_size; ++n) {
    for (std::int64_t channel = 0; channel < count; ++channel) {
      scratch.rate[static_cast<std::size_t>(n * kScanChannels + channel)] =
          -kLog2EFloat * a.rate[n * a.channels + first + channel];
      scratch.state[static_cast<std::size_t>(n * kScanChannels + channel)] =
          a.state[(first + channel) * a.state_size + n];
    }
  }
}

/// Computes the decay and the input of some positions of them.
void fetch_positions(const SelectiveScan& a, std::int64_t first, std::int64_t count, std::int64_t begin,
                     std::int64_t positions, ScanScratch& scratch) {
  const float* const decay_step = a.decay_step == nullptr ? a.step : a.decay_step;
  for (std::int64_t t = 0; t < positions; ++t) {
    const std::int64_t at = (begin + t) * a.channels + first;
    float* HWY_RESTRICT decay = scratch.decay.get() + t * kScanChannels;
    float* HWY_RESTRICT written = scratch.written.get() + t * kScanChannels;
    for (std::int64_t channel = 0; channel < count; ++channel) {
      decay[channel] = decay_step[at + channel];
      written[channel] = a.step[at + channel] * a.input[at + channel];
    }
  }
}

/// The channels from `first` on, at most kScanChannels. @returns false if it was stopped
bool scan_channels(const SelectiveScan& a, std::int64_t first, ScanScratch& scratch, const std::stop_token& stop) {
  const std::int64_t count = std::min(kScanChannels, a.channels - first);
  fetch_channels(a, first, count, scratch);
  for (std::int64_t begin = 0; begin < a.length; begin += kScanPositions) {
    if (stop.stop_requested()) return false;
    const std::int64_t positions = std::min(kScanPositions, a.length - begin);
    fetch_positions(a, first, count, begin, positions, scratch);
    for (std::int64_t t = 0; t < positions; ++t) {
      scan_position(a.state_size, a.key + (begin + t) * a.state_size, a.query + (begin + t) * a.state_size,
                    scratch.decay.get() + t * kScanChannels, scratch.written.get() + t * kScanChannels,
                    scratch.rate.get(), scratch.state.get(), scratch.output.get() + t * kScanChannels);
    }
    for (std::int64_t t = 0; t < positions; ++t) {
      std::copy_n(scratch.output.get() + t * kScanChannels, count, a.output + (begin + t) * a.output_stride + first);
    }
  }
  for (std::int64_t channel = 0; channel < count; ++channel) {
    for (std::int64_t n = 0; n < a.state_size; ++n) {
      a.state[(first + channel) * a.state_size + n] =
          scratch.state[static_cast<std::size_t>(n * kScanChannels + channel)];
    }
  }
  return true;
}

/// One position in the backward pass.
/// @param before, after  [d, channels] states before it and behind it
/// @param grad_key, grad_query  [d] get the sums over the channels
void scan_position_backward(std::int64_t state_size, const float* HWY_RESTRICT key, const float* HWY_RESTRICT query,
                            const float* HWY_RESTRICT before, const float* HWY_RESTRICT after, std::int64_t t,
                            ScanBackwardScratch& scratch, float* HWY_RESTRICT grad_key,
                            float* HWY_RESTRICT grad_query) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const float* HWY_RESTRICT step = scratch.scan.decay.get() + t * kScanChannels;
  const float* HWY_RESTRICT written = scratch.scan.written.get() + t * kScanChannels;
  const float* HWY_RESTRICT grad_output = scratch.output.get() + t * kScanChannels;
  float* HWY_RESTRICT grad_written = scratch.written.get() + t * kScanChannels;
  float* HWY_RESTRICT grad_step = scratch.decay.get() + t * kScanChannels;
  std::fill_n(grad_written, kScanChannels, 0.0F);
  std::fill_n(grad_step, kScanChannels, 0.0F);
  for (std::int64_t n = 0; n < state_size; ++n) {
    const Float c = hn::Set(tag, query[n]);
    const Float b = hn::Set(tag, key[n]);
    Float key_sum = hn::Zero(tag);
    Float query_sum = hn::Zero(tag);
    for (std::int64_t channel = 0; channel < kScanChannels; channel += lanes) {
      const std::int64_t at = n * kScanChannels + channel;
      const Float rate = hn::Load(tag, scratch.scan.rate.get() + at);
      const Float own_step = hn::Load(tag, step + channel);
      const Float output = hn::Load(tag, grad_output + channel);
      const Float g = hn::MulAdd(output, c, hn::Load(tag, scratch.grad_state.get() + at));
      query_sum = hn::MulAdd(output, hn::Load(tag, after + at), query_sum);
      key_sum = hn::MulAdd(g, hn::Load(tag, written + channel), key_sum);
      hn::Store(hn::MulAdd(g, b, hn::Load(tag, grad_written + channel)), tag, grad_written + channel);
      const Float left = hn::Mul(g, exp2_vector(hn::Mul(own_step, rate)));
      const Float grad_exponent = hn::Mul(left, hn::Load(tag, before + at));
      hn::Store(hn::MulAdd(grad_exponent, rate, hn::Load(tag, grad_step + channel)), tag, grad_step + channel);
      hn::Store(hn::MulAdd(grad_exponent, own_step, hn::Load(tag, scratch.grad_rate.get() + at)), tag,
                scratch.grad_rate.get() + at);
      hn::Store(hn::IfThenZeroElse(hn::Lt(hn::Abs(left), hn::Set(tag, kVanishedState)), left), tag,
                scratch.grad_state.get() + at);
    }
    grad_key[n] = hn::GetLane(hn::SumOfLanes(tag, key_sum));
    grad_query[n] = hn::GetLane(hn::SumOfLanes(tag, query_sum));
  }
}

/// The same channels in the backward pass.
/// @param grad_key, grad_query  [n, d] of these channels alone
bool scan_channels_backward(const SelectiveScan& a, const SelectiveScanGradients& g, std::int64_t first,
                            ScanBackwardScratch& scratch, float* grad_key, float* grad_query,
                            const std::stop_token& stop) {
  constexpr float kLn2 = 0.69314718055994531F;
  const std::int64_t count = std::min(kScanChannels, a.channels - first);
  const std::int64_t size = a.state_size * kScanChannels;
  const std::int64_t pieces = (a.length + kScanPositions - 1) / kScanPositions;
  ScanScratch& scan = scratch.scan;
  // Channels that there are not neither hold nor write anything.
  for (float* const buffer : {scan.rate.get(), scan.state.get(), scratch.grad_state.get(), scratch.grad_rate.get()}) {
    std::fill_n(buffer, size, 0.0F);
  }
  for (float* const buffer : {scan.decay.get(), scan.written.get(), scratch.output.get()}) {
    std::fill_n(buffer, kScanPositions * kScanChannels, 0.0F);
  }
  fetch_channels(a, first, count, scan);
  const auto positions_of = [&](std::int64_t piece) {
    return std::min(kScanPositions, a.length - piece * kScanPositions);
  };
  /// The states of a piece, one after the other where `keep` has room for them.
  const auto scan_piece = [&](std::int64_t piece, float* keep) {
    const std::int64_t begin = piece * kScanPositions;
    fetch_positions(a, first, count, begin, positions_of(piece), scan);
    for (std::int64_t t = 0; t < positions_of(piece); ++t) {
      scan_position(a.state_size, a.key + (begin + t) * a.state_size, a.query + (begin + t) * a.state_size,
                    scan.decay.get() + t * kScanChannels, scan.written.get() + t * kScanChannels, scan.rate.get(),
                    scan.state.get(), scan.output.get() + t * kScanChannels);
      if (keep != nullptr) std::copy_n(scan.state.get(), size, keep + (t + 1) * size);
    }
  };
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    if (stop.stop_requested()) return false;
    std::copy_n(scan.state.get(), size, scratch.begins.get() + piece * size);
    if (piece + 1 < pieces) scan_piece(piece, nullptr);
  }
  for (std::int64_t n = 0; n < a.state_size; ++n) {
    for (std::int64_t channel = 0; channel < count; ++channel) {
      scratch.grad_state[static_cast<std::size_t>(n * kScanChannels + channel)] =
          g.state[(first + channel) * a.state_size + n];
    }
  }
  for (std::int64_t piece = pieces - 1; piece >= 0; --piece) {
    if (stop.stop_requested()) return false;
    const std::int64_t begin = piece * kScanPositions;
    std::copy_n(scratch.begins.get() + piece * size, size, scan.state.get());
    std::copy_n(scan.state.get(), size, scratch.states.get());
    scan_piece(piece, scratch.states.get());
    const std::int64_t positions = positions_of(piece);
    for (std::int64_t t = 0; t < positions; ++t) {
      std::copy_n(g.output + (begin + t) * a.channels + first, count, scratch.output.get() + t * kScanChannels);
    }
    for (std::int64_t t = positions - 1; t >= 0; --t) {
      const std::int64_t row = (begin + t) * a.state_size;
      scan_position_backward(a.state_size, a.key + row, a.query + row, scratch.states.get() + t * size,
                             scratch.states.get() + (t + 1) * size, t, scratch, grad_key + row, grad_query + row);
    }
    for (std::int64_t t = 0; t < positions; ++t) {
      const std::int64_t at = (begin + t) * a.channels + first;
      for (std::int64_t channel = 0; channel < count; ++channel) {
        g.input[at + channel] = scratch.written[static_cast<std::size_t>(t * kScanChannels + channel)];
        g.decay_step[at + channel] = kLn2 * scratch.decay[static_cast<std::size_t>(t * kScanChannels + channel)];
      }
    }
  }
  for (std::int64_t n = 0; n < a.state_size; ++n) {
    for (std::int64_t channel = 0; channel < count; ++channel) {
      const auto at = static_cast<std::size_t>(n * kScanChannels + channel);
      // 2^(step rate') with rate' = -log2(e) rate, whose exponent's gradient is taken in natural units.
      g.rate[n * a.channels + first + channel] = -scratch.grad_rate[at];
      g.state[(first + channel) * a.state_size + n] = scratch.grad_state[at];
    }
  }
  return true;
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(scan_channels);
HWY_EXPORT(scan_channels_backward);

namespace cpu {
namespace {

bool valid_operands(const SelectiveScan& a) {
  if (a.channels < 1 || a.length < 1 || a.state_size < 1) return false;
  for (const float* const part : {a.input, a.step, a.rate, a.key, a.query}) {
    if (part == nullptr) return false;
  }
  return a.state != nullptr;
}

bool valid_gradients(const SelectiveScanGradients& g) {
  for (float* const part : {g.state, g.input, g.decay_step, g.rate, g.key, g.query}) {
    if (part == nullptr) return false;
  }
  return g.output != nullptr;
}

}  // namespace

Status selective_scan(const SelectiveScan& arguments, Executor& executor, const std::stop_token& stop) {
  if (!valid_operands(arguments) || arguments.output == nullptr || arguments.output_stride < arguments.channels) {
    return Status::invalid_argument;
  }
  std::atomic<bool> whole = true;
  const std::int64_t blocks = (arguments.channels + kScanChannels - 1) / kScanChannels;
  // A next position is too little to wake other threads for.
  const bool alone = arguments.length == 1 || executor.threads() == 1;
  const int threads = alone ? 1 : executor.threads();
  std::vector<ScanScratch> scratch;
  scratch.reserve(static_cast<std::size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) scratch.emplace_back(arguments.state_size);
  const auto scan_block = [&](std::int64_t block, int thread) {
    ScanScratch& own = scratch[static_cast<std::size_t>(thread)];
    if (!HWY_DYNAMIC_DISPATCH(scan_channels)(arguments, block * kScanChannels, own, stop)) whole = false;
  };
  if (alone) {
    for (std::int64_t block = 0; block < blocks; ++block) scan_block(block, 0);
  } else {
    executor.run(blocks, scan_block);
  }
  return whole ? Status::ok : Status::cancelled;
}

Status selective_scan_backward(const SelectiveScan& arguments, const SelectiveScanGradients& gradients,
                               Executor& executor, const std::stop_token& stop) {
  if (!valid_operands(arguments) || !valid_gradients(gradients)) return Status::invalid_argument;
  const SelectiveScan& a = arguments;
  const std::int64_t blocks = (a.channels + kScanChannels - 1) / kScanChannels;
  const std::int64_t size = a.length * a.state_size;
  std::fill_n(gradients.key, size, 0.0F);
  std::fill_n(gradients.query, size, 0.0F);
  std::vector<ScanBackwardScratch> scratch;
  scratch.reserve(static_cast<std::size_t>(executor.threads()));
  for (int thread = 0; thread < executor.threads(); ++thread) scratch.emplace_back(a);
  // Sums of as many blocks of channels at a time as there are threads, so that their sums take little memory.
  std::vector<float> sums(static_cast<std::size_t>(2 * size * executor.threads()));
  for (std::int64_t begin = 0; begin < blocks; begin += executor.threads()) {
    std::atomic<bool> whole = true;
    const std::int64_t together = std::min<std::int64_t>(executor.threads(), blocks - begin);
    executor.run(together, [&](std::int64_t task, int thread) {
      float* const grad_key = sums.data() + 2 * size * task;
      if (!HWY_DYNAMIC_DISPATCH(scan_channels_backward)(a, gradients, (begin + task) * kScanChannels,
                                                        scratch[static_cast<std::size_t>(thread)], grad_key,
                                                        grad_key + size, stop)) {
        whole = false;
      }
    });
    if (!whole) return Status::cancelled;
    for (std::int64_t task = 0; task < together; ++task) {
      const float* const grad_key = sums.data() + 2 * size * task;
      for (std::int64_t n = 0; n < size; ++n) {
        gradients.key[n] += grad_key[n];
        gradients.query[n] += grad_key[size + n];
      }
    }
  }
  return Status::ok;
}

}  // namespace cpu
}  // namespace foxscope::kernels
#endif
