// Cumulative log gates by decoupled look-back (Merrill & Garland 2016): a block takes a tile of positions of eight
// heads, a warp one of these heads, and adds what the tiles before it hold as soon as they have said so.
#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/log_gate.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/steps/gate_scan.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kHeads = 8;  // of a tile: 32 bytes of logits
constexpr int kThreads = kHeads * 32;

/// Positions of a tile, OfLane a lane.
template <int OfLane>
struct Tile {
  static constexpr int kPositions = 32 * OfLane;
  // A gap after each lane's numbers, and between heads, against bank conflicts.
  static constexpr int kPitch = kPositions + 32 + 2;
  __device__ static __forceinline__ int slot(int position) { return position + position / OfLane; }
};

constexpr std::int64_t kMostLength = std::int64_t{1} << 22;  // times 1000 stays below 2^32
constexpr std::int64_t kMostTiles = std::int64_t{1} << 28;

using Wide = unsigned __int128;

/// -log f summed, in units of 2^-96.
struct Sum {
  Wide units = 0;
  bool not_a_number = false;

  __device__ __forceinline__ void add(const Sum& other) {
    units += other.units;
    not_a_number = not_a_number || other.not_a_number;
  }
  __device__ __forceinline__ static Sum of(double log_gate) {
    const double scaled = -log_gate * 0x1p32;
    const auto whole = static_cast<unsigned long long>(scaled);
    const auto rest = static_cast<unsigned long long>((scaled - static_cast<double>(whole)) * 0x1p64);
    return {static_cast<Wide>(whole) << 64 | rest, isnan(log_gate)};
  }
  /// Rounded to nearest.
  __device__ __forceinline__ double nats() const {
    auto high = static_cast<unsigned long long>(units >> 64);
    const auto low = static_cast<unsigned long long>(units);
    if (not_a_number) return NAN;
    if (high == 0) return low == 0 ? 0.0 : -static_cast<double>(low) * 0x1p-96;
    const int shift = __clzll(static_cast<long long>(high));
    if (shift > 0) high = high << shift | low >> (64 - shift);
    // Bits that do not fit into 64 matter only where they break a tie.
    const unsigned long long rest = low << shift;
    const double power = __hiloint2double((1023 - 32 - shift) << 20, 0);
    return -static_cast<double>(high | (rest != 0 ? 1ULL : 0ULL)) * power;
  }
};

__device__ __forceinline__ Wide wide(unsigned long long high, unsigned long long low) {
  return static_cast<Wide>(high) << 64 | low;
}

template <class Exchange>
__device__ __forceinline__ Sum exchange(const Sum& sum, const Exchange& word) {
  Sum other;
  const unsigned long long high = word(static_cast<unsigned long long>(sum.units >> 64));
  other.units = wide(high, word(static_cast<unsigned long long>(sum.units)));
  other.not_a_number = word(sum.not_a_number ? 1ULL : 0ULL) != 0;
  return other;
}

/// The state of a tile of a head: bits 0 and 1 its kind, bit 2 whether NaN is among it.
enum : unsigned { kNothing = 0, kOwn = 1, kUpToHere = 2, kNotANumber = 4 };

struct Workspace {
  unsigned* ticket;    ///< the next tile; tiles before it have been started
  unsigned* said;      ///< [H, tiles]
  ulonglong2* own;     ///< [H, tiles] sum of the tile
  ulonglong2* prefix;  ///< [H, tiles] sum up to its end
  int tiles;
};

__device__ __forceinline__ void say(unsigned* said, ulonglong2* place, const Sum& sum, unsigned what) {
  *place = {static_cast<unsigned long long>(sum.units), static_cast<unsigned long long>(sum.units >> 64)};
  __threadfence();
  const unsigned value = what | (sum.not_a_number ? kNotANumber : 0U);
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(said), "r"(value) : "memory");
}

/// Sum of all tiles before `tile`, in all lanes of the warp: 32 tiles are looked at together.
__device__ Sum look_back(const Workspace& w, std::int64_t head, int tile) {
  Sum before;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int last = tile - 1; last >= 0; last -= 32) {
    const std::int64_t at = head * w.tiles + last - lane;
    unsigned value = kUpToHere;
    if (last - lane >= 0) {
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(w.said + at) : "memory");
      } while (value == kNothing);
    }
    __syncwarp();
    const unsigned complete = __ballot_sync(0xffffffffU, (value & kUpToHere) != 0);
    const int nearest = complete == 0 ? 32 : __ffs(static_cast<int>(complete)) - 1;
    Sum sum;
    if (lane <= nearest && last - lane >= 0) {
      const ulonglong2 words = __ldcg((value & kUpToHere) != 0 ? w.prefix + at : w.own + at);
      sum.units = wide(words.y, words.x);
      sum.not_a_number = (value & kNotANumber) != 0;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      sum.add(exchange(sum, [=](unsigned long long x) { return __shfl_xor_sync(0xffffffffU, x, step); }));
    }
    before.add(sum);
    if (complete != 0) break;
  }
  return before;
}

template <int OfLane>
__global__ void __launch_bounds__(kThreads) gate_scan_kernel(const __grid_constant__ GateScan a, Workspace w) {
  constexpr int kPositions = Tile<OfLane>::kPositions;
  constexpr int kPitch = Tile<OfLane>::kPitch;
  __shared__ double numbers[kHeads * kPitch];
  __shared__ unsigned taken;
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread == 0) taken = atomicAdd(w.ticket, 1U);
  __syncthreads();
  const auto heads = static_cast<int>(a.heads);
  // Tiles of one position range for all sequences and heads follow each other: those before are always started.
  const auto groups = static_cast<unsigned>((heads + kHeads - 1) / kHeads);
  const auto all_groups = groups * static_cast<unsigned>(a.batch);
  const int first_head = static_cast<int>(taken % all_groups % groups) * kHeads;
  const std::int64_t sequence = taken % all_groups / groups;
  const auto tile = static_cast<int>(taken / all_groups);
  const int first = tile * kPositions;
  const int count = min(kPositions, static_cast<int>(a.length) - first);
  const int lane = thread % 32;
  const bool has_head = first_head + thread / 32 < heads;
  const std::int64_t head = sequence * heads + first_head + thread / 32;
  double* mine = numbers + thread / 32 * kPitch;
  if (a.log_gate == nullptr) {
    const bool constant = a.logits == nullptr;
    const float* logits = constant ? a.constant_logits : a.logits + (sequence * a.length + first) * a.logits_stride;
    const std::int64_t stride = constant ? 0 : a.logits_stride;
    const int column = thread % kHeads;
#pragma unroll 4
    for (int position = thread / kHeads; position < kPositions; position += kThreads / kHeads) {
      const bool inside = position < count && first_head + column < heads;
      numbers[column * kPitch + Tile<OfLane>::slot(position)] =
          inside ? held(log_sigmoid(static_cast<double>(logits[position * stride + first_head + column]))) : 0.0;
    }
    __syncthreads();
  } else if (has_head) {
    const double* log_gate = a.log_gate + head * a.length + first;
    for (int position = lane; position < kPositions; position += 32) {
      mine[Tile<OfLane>::slot(position)] = position < count ? held(log_gate[position]) : 0.0;
    }
  }
  if (!has_head) return;
  __syncwarp();

  Sum terms[OfLane];
  Sum sum;
#pragma unroll
  for (int i = 0; i < OfLane; ++i) {
    terms[i] = Sum::of(mine[Tile<OfLane>::slot(lane * OfLane + i)]);
    sum.add(terms[i]);
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const Sum other = exchange(sum, [=](unsigned long long x) { return __shfl_up_sync(0xffffffffU, x, step); });
    if (lane >= step) sum.add(other);
  }
  const std::int64_t at = head * w.tiles + tile;
  if (lane == 31 && tile > 0) say(w.said + at, w.own + at, sum, kOwn);
  Sum before = look_back(w, head, tile);
  if (lane == 31) {
    Sum up_to_here = sum;
    up_to_here.add(before);
    say(w.said + at, w.prefix + at, up_to_here, kUpToHere);
  }
  const Sum lanes_before = exchange(sum, [](unsigned long long x) { return __shfl_up_sync(0xffffffffU, x, 1); });
  if (lane > 0) before.add(lanes_before);
#pragma unroll
  for (int i = 0; i < OfLane; ++i) {
    before.add(terms[i]);
    mine[Tile<OfLane>::slot(lane * OfLane + i)] = before.nats();
  }
  __syncwarp();
  double* cumulative = a.cumulative + head * a.length + first;
  for (int position = lane; position < count; position += 32) cumulative[position] = mine[Tile<OfLane>::slot(position)];
}

constexpr std::int64_t kAlignment = 256;

std::int64_t round_up(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Positions of a lane. Short sequences need many blocks to fill the chip, long ones few tiles to look back at.
int positions_of_lane(std::int64_t length) { return length <= 4096 ? 2 : length <= 16384 ? 4 : 8; }

std::int64_t tiles_of(std::int64_t length) {
  const std::int64_t positions = 32 * positions_of_lane(length);
  return (length + positions - 1) / positions;
}

bool sizes_valid(std::int64_t heads, std::int64_t length) {
  if (heads < 1 || length < 1 || length > kMostLength || heads > kMostTiles) return false;
  return heads * tiles_of(length) <= kMostTiles;
}

/// The ticket and what was said: zeros before the launch.
std::int64_t zero_bytes(std::int64_t heads, std::int64_t tiles) { return round_up((1 + heads * tiles) * 4); }

bool valid(const GateScan& a) {
  if (a.batch < 1 || a.batch > kMostTiles || a.heads < 1 || a.heads > kMostTiles) return false;
  if (!sizes_valid(a.batch * a.heads, a.length) || a.cumulative == nullptr || a.workspace == nullptr) return false;
  const int inputs =
      (a.logits != nullptr ? 1 : 0) + (a.constant_logits != nullptr ? 1 : 0) + (a.log_gate != nullptr ? 1 : 0);
  return inputs == 1 && (a.logits == nullptr || a.logits_stride >= a.heads);
}

}  // namespace

std::size_t gate_scan_workspace_bytes(std::int64_t heads, std::int64_t length) {
  if (!sizes_valid(heads, length)) return 0;
  const std::int64_t tiles = tiles_of(length);
  return static_cast<std::size_t>(zero_bytes(heads, tiles) + 2 * heads * tiles * 16);
}

Status gate_scan(const GateScan& a, Stream stream) {
  if (!valid(a)) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  Workspace w = {};
  w.tiles = static_cast<int>(tiles_of(a.length));
  const std::int64_t heads = a.batch * a.heads;
  const std::int64_t zeros = zero_bytes(heads, w.tiles);
  auto* memory = static_cast<char*>(a.workspace);
  w.ticket = reinterpret_cast<unsigned*>(memory);
  w.said = w.ticket + 1;
  w.own = reinterpret_cast<ulonglong2*>(memory + zeros);
  w.prefix = w.own + heads * w.tiles;
  if (!succeeded(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(zeros), stream))) return Status::failed;
  const auto groups = static_cast<unsigned>(a.batch * ((a.heads + kHeads - 1) / kHeads));
  const unsigned blocks = groups * static_cast<unsigned>(w.tiles);
  switch (positions_of_lane(a.length)) {
    case 2:
      gate_scan_kernel<2><<<blocks, kThreads, 0, stream>>>(a, w);
      break;
    case 4:
      gate_scan_kernel<4><<<blocks, kThreads, 0, stream>>>(a, w);
      break;
    default:
      gate_scan_kernel<8><<<blocks, kThreads, 0, stream>>>(a, w);
  }
  return launched();
}

}  // namespace foxscope::kernels::cuda
