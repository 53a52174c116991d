// Sums over all entries of attention. Private to attention_statistics.cu.
//
// A thread block goes along a diagonal: from one step to the next its queries and its keys both move on by 64, so that
// a register meets the same distance i - j at every step. Sums by distance stay in registers until the block ends.
#pragma once

#include "kernels/cuda/maps/attention_statistics_rows.cuh"

namespace foxscope::kernels::cuda::maps {
namespace {

/// Weights above which the square of an entry may be too small for float32 while that of the weighted one is not.
constexpr float kLargeWeight = 0x1p20F;
/// Distances that a thread's entries of a tile have: rows less keys, in steps of 8 from -56 to 24, and their parity.
constexpr int kThreadDistances = 11;
constexpr int kWarpDistances = kTileKeys + kWarpRows - 1;
constexpr int kNoToken = -1;  // before key 0

/// Warps of a block, and blocks that a multiprocessor is to hold.
template <class Dot>
constexpr int kSpreadWarps = 8;
template <>
constexpr int kSpreadWarps<FixedDot<64>> = 4;
template <class Dot>
constexpr int kSpreadBlocks = 1;
template <>
constexpr int kSpreadBlocks<FixedDot<64>> = 3;

/// How shared memory is laid out: references of the gate, then slots of queries, then slots of keys.
struct SpreadLayout {
  static constexpr int kReferences = 48;  ///< of blocks of rows, as many of keys
  int warps = 0;
  int query_slots = 0;
  int key_slots = 0;
  int tile_bytes = 0;

  SpreadLayout() = default;
  __host__ __device__ SpreadLayout(int warp_count, bool ahead, int depth, bool float32)
      : warps(warp_count),
        query_slots(warp_count / 2 + (ahead ? 1 : 0)),
        key_slots(ahead ? 2 : 1),
        tile_bytes(kTileKeys * tile_stride(depth, float32)) {}

  [[nodiscard]] __host__ __device__ int query_bytes() const { return tile_bytes + kTileKeys * 20; }
  [[nodiscard]] __host__ __device__ int key_bytes() const { return tile_bytes + kTileKeys * 12; }
  [[nodiscard]] __host__ __device__ int bytes() const {
    const int slots = query_slots * query_bytes() + key_slots * key_bytes();
    const int stages = warps * 2 * kThreadDistances * 32 * 4;
    return 16 + 2 * kReferences * 8 + (slots > stages ? slots : stages);
  }
};

/// The sums of a thread.
struct SpreadSums {
  double entropy = 0;
  double decay = 0;
  double square = 0;
  double repeats = 0;
  float mass[kThreadDistances][2] = {};
  float weighted[kThreadDistances][2] = {};
};

/// What a thread knows of its four queries at a step.
struct SpreadRows {
  float gate[4];  ///< relative to the first key of the tile; where that is far, the larger part
  float gate_low[4];
  float negative_lse[4];
  float weight[4];
  int token[4];
};

template <class Dot, bool Gated>
class SpreadPass {
 public:
  __device__ __forceinline__ SpreadPass(const StatisticsParameters& parameters, char* memory)
      : p_(parameters),
        layout_(static_cast<int>(blockDim.x) / 32, parameters.key_slots == 2, parameters.head.depth,
                parameters.head.float32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        blocks_(layout_.warps / 2),
        first_step_(static_cast<int>(blockIdx.x) * parameters.steps),
        ahead_(static_cast<int>(blockIdx.y) * blocks_),
        per_slot_((256 + layout_.query_slots - 1) / layout_.query_slots),
        mask_(reinterpret_cast<unsigned*>(memory)),
        row_reference_(reinterpret_cast<double*>(memory + 16)),
        key_reference_(row_reference_ + SpreadLayout::kReferences),
        slots_(memory + 16 + 2 * SpreadLayout::kReferences * 8) {}

  __device__ __forceinline__ void run() {
    const int tiles = (p_.length + kTileKeys - 1) / kTileKeys;
    if (first_step_ >= tiles - ahead_) return;
    choose(tiles);
    const unsigned all = combined(mine_, mask_);
    if (all == 0) return;
    if constexpr (Gated) {
      constexpr int kCount = SpreadLayout::kReferences;
      for (int n = static_cast<int>(threadIdx.x); n < 2 * kCount; n += static_cast<int>(blockDim.x)) {
        const int block = first_step_ + n % kCount + (n < kCount ? ahead_ : 0);
        row_reference_[n] = p_.head.gate[min(block, tiles - 1) * kTileKeys];
      }
    }
    unsigned todo = all;
    int next = __ffs(static_cast<int>(todo)) - 1;
    load(next);
    while (todo != 0) {
      const int now = next;
      todo &= todo - 1;
      next = __ffs(static_cast<int>(todo)) - 1;
      wait<0>();
      // All have the tiles of this step, and all are done with the step before, whose slots are the next to be filled.
      __syncthreads();
      const bool overlapped = layout_.key_slots == 2 && next == now + 1;
      if (overlapped) load(next);
      if ((mine_ >> now & 1U) != 0) {
        if ((careful_ >> now & 1U) != 0) {
          add_tile<true>(now);
        } else {
          add_tile<false>(now);
        }
      }
      if (!overlapped && todo != 0) {
        __syncthreads();
        load(next);
      }
    }
    __syncthreads();
    finish();
  }

 private:
  /// The steps that the warp needs, and those of them whose entries need care; a lane looks at one step.
  __device__ __forceinline__ void choose(int tiles) {
    const int tile = first_step_ + lane_;
    WarpRows rows;
    rows.begin = (tile + ahead_) * kTileKeys + warp_ * kWarpRows;
    rows.end = min(rows.begin + kWarpRows, p_.length);
    const int begin = tile * kTileKeys;
    const int end = min(begin + kTileKeys, p_.length);
    bool wanted =
        lane_ < p_.steps && tile < tiles - ahead_ && rows.begin < rows.end && rows.sees(begin, end, p_.window);
    bool careful = false;
    if (wanted) {
      const StripBound strip = p_.strips[rows.begin / kWarpRows];
      const Bound bound{strip.term, strip.norm};
      wanted = !bound.below(p_.head, tile, p_.length, kNegligible);
      careful = tile == 0 || rows.end < rows.begin + kWarpRows || rows.cut(begin, begin + kTileKeys, p_.window) ||
                !(strip.weight < kLargeWeight);
      if constexpr (Gated) careful = careful || spreads(p_.head.gate[begin], p_.head.gate[end - 1]);
    }
    mine_ = __ballot_sync(0xffffffffU, wanted);
    careful_ = __ballot_sync(0xffffffffU, careful);
  }

  /// Where a block of queries lies, counted from the item's first.
  [[nodiscard]] __device__ __forceinline__ char* query_slot(int block) const {
    // block % query_slots, of blocks below 64 and at most five slots.
    const int rounds = block * per_slot_ >> 8;
    return slots_ + (block - rounds * layout_.query_slots) * layout_.query_bytes();
  }
  [[nodiscard]] __device__ __forceinline__ char* key_slot(int step) const {
    return slots_ + layout_.query_slots * layout_.query_bytes() +
           (step & (layout_.key_slots - 1)) * layout_.key_bytes();
  }

  /// Starts copying 64 rows of queries or keys.
  __device__ __forceinline__ void load_tile(const void* from, int first, char* to) const {
    if (from == nullptr) return;
    if constexpr (Dot::kHeadDim == 0) {
      load_rows(p_.head, from, first, kTileKeys, p_.length, to);
    } else {
      constexpr int kPieces = Dot::kHeadDim / 8;
      constexpr int kStride = Dot::kHeadDim * 2 + 16;
      const int thread = static_cast<int>(threadIdx.x);
      const int piece = thread % kPieces * 16;
      const int row = thread / kPieces;
      const int step = static_cast<int>(blockDim.x) / kPieces;  // rows that all threads copy at once
      const auto* source = static_cast<const char*>(from) + std::int64_t{first + row} * (Dot::kHeadDim * 2) + piece;
      to += row * kStride + piece;
      const int rows = min(kTileKeys, p_.length - first);
#pragma unroll 4
      for (int n = row; n < kTileKeys; n += step, to += step * kStride, source += step * (Dot::kHeadDim * 2)) {
        copy_async<16>(to, n < rows ? source : static_cast<const char*>(from), n < rows);
      }
    }
  }

  /// Starts copying a block of queries and one of keys that are whole, by two warps each.
  __device__ __forceinline__ void load_whole(int query, char* query_to, int key, char* key_to) const {
    constexpr int kHalf = 64;
    constexpr int kRowBytes = Dot::kHeadDim * 2;
    constexpr int kRows = kHalf / (kRowBytes / 16);  // that as many threads copy at once
    const int thread = static_cast<int>(threadIdx.x) % kHalf;
    const bool of_keys = threadIdx.x >= kHalf;
    const int row = thread / (kRowBytes / 16);
    const int piece = thread % (kRowBytes / 16) * 16;
    const auto* from = static_cast<const char*>(of_keys ? p_.head.key : p_.head.query) +
                       std::int64_t{(of_keys ? key : query) * kTileKeys + row} * kRowBytes + piece;
    char* const to = (of_keys ? key_to : query_to) + row * (kRowBytes + 16) + piece;
#pragma unroll
    for (int n = 0; n < kTileKeys; n += kRows) copy_async<16>(to + n * (kRowBytes + 16), from + n * kRowBytes, true);
  }

  /// Starts loading what a step needs and is not there yet.
  __device__ __forceinline__ void load(int step) {
    const int tile = first_step_ + step;
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    char* const keys = key_slot(step);
    bool whole = false;
    if constexpr (Dot::kHeadDim == 64) {
      const int last = first_step_ + ahead_ + step + blocks_ - 1;
      whole = loaded_ == step + blocks_ - 1 && (last + 1) * kTileKeys <= p_.length && threads >= 128;
      if (whole && thread < 128) load_whole(last, query_slot(step + blocks_ - 1), tile, keys);
    }
    const int row_thread = thread - max(threads - 2 * kTileKeys, 0);
    for (int number = max(loaded_, step); number < step + blocks_; ++number) {
      const int block = first_step_ + ahead_ + number;
      char* const slot = query_slot(number);
      if (!whole) load_tile(p_.head.query, block * kTileKeys, slot);
      if (row_thread < 0 || row_thread >= kTileKeys) continue;
      const int row = block * kTileKeys + row_thread;
      const bool inside = row < p_.length;
      auto* const terms = reinterpret_cast<RowTerms*>(slot + layout_.tile_bytes);
      copy_async<16>(terms + row_thread, p_.rows + (inside ? row : 0), inside);
      load_token(row, kNoToken - 1, reinterpret_cast<int*>(terms + kTileKeys) + row_thread);
    }
    loaded_ = step + blocks_;
    if (!whole) load_tile(p_.head.key, tile * kTileKeys, keys);
    const int place = thread - threads + kTileKeys;
    if (place >= 0) {
      const int key = tile * kTileKeys + place;
      const bool inside = key < p_.length;
      auto* const terms = reinterpret_cast<float2*>(keys + layout_.tile_bytes);
      if constexpr (Gated) copy_async<8>(terms + place, p_.head.terms + (inside ? key : 0), inside);
      load_token(key - 1, kNoToken, reinterpret_cast<int*>(terms + kTileKeys) + place);
    }
    commit();
  }

  /// @param none  where the position has none
  __device__ __forceinline__ void load_token(int position, int none, int* to) const {
    if (p_.token != nullptr && position >= 0 && position < p_.length) {
      copy_async<4>(to, p_.token + position, true);
    } else {
      *to = none;
    }
  }

  __device__ __forceinline__ SpreadRows rows_of(int step, const char* slot, bool far) const {
    SpreadRows rows;
    Split reference;
    if constexpr (Gated) {
      reference = split((row_reference_[step + warp_ / 2] - key_reference_[step]) * kLog2E);
    }
    const auto* terms = reinterpret_cast<const RowTerms*>(slot + layout_.tile_bytes);
    const auto* tokens = reinterpret_cast<const int*>(terms + kTileKeys);
#pragma unroll
    for (int line = 0; line < 4; ++line) {
      const int row = warp_ % 2 * kWarpRows + lane_ / 4 + 8 * line;
      const RowTerms of = terms[row];
      rows.gate[line] = of.gate_high + reference.high;
      rows.gate_low[line] = of.gate_low + reference.low;
      if (!far) rows.gate[line] += rows.gate_low[line];
      rows.negative_lse[line] = of.negative_lse;
      rows.weight[line] = of.weight;
      rows.token[line] = tokens[row];
    }
    return rows;
  }

  template <bool Careful>
  __device__ __forceinline__ void add_tile(int step) {
    const int tile = first_step_ + step;
    const char* const slot = query_slot(step + warp_ / 2);
    const char* const keys = key_slot(step);
    const auto* const terms = reinterpret_cast<const float4*>(keys + layout_.tile_bytes);
    const auto* const tokens = reinterpret_cast<const int2*>(keys + layout_.tile_bytes + kTileKeys * 8);
    dot_.read(slot + warp_ % 2 * kWarpRows * tile_stride(p_.head.depth, p_.head.float32));
    const SpreadRows rows = rows_of(step, slot, Careful);
    const int row = (tile + ahead_) * kTileKeys + warp_ * kWarpRows + lane_ / 4;
    const float scale = p_.head.scale;
    // Of keys at even and at odd places, so that fewer additions wait for each other.
    float entropy[2] = {};
    float decay[2] = {};
    float repeats[2] = {};
    float square[4] = {};
#pragma unroll
    for (int first = 0; first < kTileKeys; first += kStepKeys) {
      Step s;
      dot_.step(p_.head, keys, first, s);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int pair = (first + 8 * n) / 2 + lane_ % 4;
        float4 term = {0, 0, 0, 0};
        if constexpr (Gated) term = terms[pair];
        const int2 before = tokens[pair];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const int m = i / 4;
          const int line = i / 2;
          const int odd = i % 2;
          const float product = s[m][n][i % 4];
          float fall = 0;
          float x = 0;
          if constexpr (Gated) {
            const float high = odd == 0 ? term.x : term.z;
            fall = high + rows.gate[line];
            if (Careful) fall += (odd == 0 ? term.y : term.w) + rows.gate_low[line];
            x = fmaf(product, scale, fall) + rows.negative_lse[line];
          } else {
            x = fmaf(product, scale, rows.negative_lse[line]);
          }
          float entry = exp2_fast(x);
          float beside = rows.weight[line];
          bool repeated = (odd == 0 ? before.x : before.y) == rows.token[line];
          if constexpr (Careful) {
            const int key = tile * kTileKeys + first + 8 * n + lane_ % 4 * 2 + odd;
            const int distance = row + 8 * line - key;
            const bool absent = distance < 0 || (p_.window > 0 && distance >= p_.window) || row + 8 * line >= p_.length;
            if (absent || entry == 0) x = fall = 0;
            if (absent) entry = 0;
            if (key == 0) beside = 0;
            repeated = repeated && distance > 0;
          }
          entropy[odd] = fmaf(entry, x, entropy[odd]);
          if constexpr (Gated) decay[odd] = fmaf(entry, fall, decay[odd]);
          if (repeated) repeats[odd] += entry;
          const int at = line - first / 8 - n + 7;
          sums_.mass[at][odd] += entry;
          if constexpr (Careful) {
            const float weighted = beside == 0 ? 0.0F : beside * entry;
            sums_.weighted[at][odd] += weighted;
            square[line] = fmaf(weighted, weighted, square[line]);
          } else {
            sums_.weighted[at][odd] = fmaf(beside, entry, sums_.weighted[at][odd]);
            square[line] = fmaf(entry, entry, square[line]);
          }
        }
      }
    }
    float squares = 0;
#pragma unroll
    for (int line = 0; line < 4; ++line) {
      const float factor = Careful ? 1.0F : rows.weight[line] * rows.weight[line];
      squares = fmaf(factor, square[line], squares);
    }
    sums_.entropy -= static_cast<double>(entropy[0] + entropy[1]);
    sums_.decay += static_cast<double>(decay[0] + decay[1]);
    sums_.square += static_cast<double>(squares);
    sums_.repeats += static_cast<double>(repeats[0] + repeats[1]);
  }

  /// Adds a warp's sums by distance. A lane's entries at rows less keys 8 a have the distances 8 a + r of r from -7
  /// to 7.
  __device__ __forceinline__ void add_distances(const float (&sums)[kThreadDistances][2], std::int64_t index) {
    float* const stage = reinterpret_cast<float*>(slots_) + warp_ * 2 * kThreadDistances * 32;
    __syncwarp();
#pragma unroll
    for (int n = 0; n < 2 * kThreadDistances; ++n) stage[n * 32 + lane_] = sums[n / 2][n % 2];
    __syncwarp();
    const int shift = ahead_ * kTileKeys + warp_ * kWarpRows - (kTileKeys - 1);
    for (int place = lane_; place < kWarpDistances; place += 32) {
      const int distance = shift + place;
      if (distance < 0 || distance >= p_.length) continue;
      double sum = 0;
      for (int a = place / 8 - 1; a <= place / 8; ++a) {
        const int rest = place - 7 - 8 * a;  // of row and key, beside 8 (a - 7)
        if (a < 0 || a >= kThreadDistances || rest < -7 || rest > 7) continue;
        for (int key = max(0, -rest); key < min(8, 8 - rest); ++key) {
          sum += static_cast<double>(stage[(2 * a + key % 2) * 32 + (key + rest) * 4 + key / 2]);
        }
      }
      if (sum != 0) p_.sums.add(index + distance, sum, p_.sums.mass_scale);
    }
  }

  __device__ __forceinline__ void finish() {
    if (mine_ == 0) return;
    add_distances(sums_.mass, kMass);
    add_distances(sums_.weighted, kMass + p_.length);
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      sums_.entropy += __shfl_xor_sync(0xffffffffU, sums_.entropy, lanes);
      sums_.decay += __shfl_xor_sync(0xffffffffU, sums_.decay, lanes);
      sums_.square += __shfl_xor_sync(0xffffffffU, sums_.square, lanes);
      sums_.repeats += __shfl_xor_sync(0xffffffffU, sums_.repeats, lanes);
    }
    if (lane_ != 0) return;
    p_.sums.add(kEntropy, sums_.entropy * kLogarithmOf2, kSumScale);
    p_.sums.add(kLogDecay, sums_.decay * kLogarithmOf2, kSumScale);
    p_.sums.add(kSquare, sums_.square, kSumScale);
    p_.sums.add(kOnRepeats, sums_.repeats, kSumScale);
  }

  const StatisticsParameters& p_;
  SpreadLayout layout_;
  int warp_;
  int lane_;
  int blocks_;      ///< of 64 queries that a step has
  int first_step_;  ///< the tile of keys of step 0
  int ahead_;       ///< blocks from a step's keys to its first queries
  int per_slot_;    ///< 256 / query_slots, rounded up
  unsigned* mask_;
  double* row_reference_;  ///< c at the first query of each block from first_step_ + ahead_ on
  double* key_reference_;
  char* slots_;
  int loaded_ = 0;  ///< blocks of queries below this are loaded, counted from the item's first
  unsigned mine_ = 0;
  unsigned careful_ = 0;
  Dot dot_;
  SpreadSums sums_;
};

template <class Dot, bool Gated>
__global__ void __launch_bounds__(kSpreadWarps<Dot> * 32, kSpreadBlocks<Dot>)
    spread(const __grid_constant__ StatisticsBatch batch) {
  extern __shared__ __align__(16) char memory[];
  // In shared memory: registers are for sums.
  __shared__ __align__(16) char of[sizeof(StatisticsParameters)];
  auto* const p = reinterpret_cast<StatisticsParameters*>(of);
  if (threadIdx.x == 0) *p = of_head(batch, blockIdx.z);
  __syncthreads();
  SpreadPass<Dot, Gated>(*p, memory).run();
}

}  // namespace
}  // namespace foxscope::kernels::cuda::maps
