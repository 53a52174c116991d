// The backward of forgetting attention for every card since compute capability 8.0: cp.async and mma.sync. Private to
// kernels/cuda.
//
// A thread block owns 128 keys and goes through blocks of 64 rows. S and dP are computed transposed, so that P and dS
// leave the products in the registers where those for dV and dK want them. A fragment of queries or of dO is read for
// all keys of a warp. dS goes through shared memory, for dQ, and so does P where two warps share keys. Then the next
// block of rows is copied while this one is worked on; else while dQ is made, to where the last one was.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/attention/backward_parameters.cuh"
#include "kernels/cuda/attention/portable/portable_tile.cuh"
#include "kernels/cuda/exp2.cuh"
#include "kernels/cuda/tensor_core.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda::portable {

/// How a head dimension is computed.
/// @tparam WarpKeys   16 or 32, which share the fragments of queries and of dO
/// @tparam RowWarps   warps that share the rows of dQ; the others share its columns
/// @tparam StepRows   rows whose logits are made at once, for which fragments of keys are read once
/// @tparam Split      warps that share keys: each makes P and dS of a part of the rows, and a part of the columns of dK
///                    and dV. With 2, P goes through shared memory too, values stay there, and there is room for two
///                    blocks of rows.
/// @tparam Blocks     thread blocks of a multiprocessor
template <int HeadDim, int WarpKeys, int RowWarps, int StepRows, int Split, int Blocks>
struct BackwardPlan {
  static constexpr int kHeadDim = HeadDim;
  static constexpr int kWarpKeys = WarpKeys;
  static constexpr int kParts = WarpKeys / 16;
  static constexpr int kKeys = kPortableBackwardTile.keys;
  static constexpr int kRows = kPortableBackwardTile.rows;
  static constexpr int kSplit = Split;
  static constexpr int kColumns = HeadDim / Split;  // of dK and dV that a warp makes
  static constexpr int kWarps = kKeys / WarpKeys * Split;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kStepParts = StepRows / 16;
  static constexpr int kBlocks = Blocks;
  static constexpr int kStages = Split;  // blocks of rows that there is room for

  static constexpr int kRowWarps = RowWarps;
  static constexpr int kColumnWarps = kWarps / RowWarps;
  static constexpr int kQueryParts = kRows / RowWarps / 16;        // of 16 rows of dQ that a warp makes
  static constexpr int kQuerySteps = HeadDim / kColumnWarps / 16;  // of 16 columns of dQ that a warp makes
  static_assert(kQueryParts * RowWarps * 16 == kRows && kQuerySteps * kColumnWarps * 16 == HeadDim);
  static_assert(kQueryParts <= 2 && kQueryParts <= kColumnWarps);
  static_assert(kRows == kStatisticsRows && kWarps <= kRows / kSumRows * kTurns);

  // Places in shared memory, in bytes. Without a split, values are where rows are later.
  static constexpr int kValue = kKeys * HeadDim * 2;
  static constexpr int kQuery = Split > 1 ? 2 * kValue : kValue;
  static constexpr int kOutputGradient = kQuery + kRows * HeadDim * 2;
  static constexpr int kStageBytes = 2 * kRows * HeadDim * 2;  // from a stage's queries or dO to the next one's
  static constexpr int kLogitGradient = kQuery + kStages * kStageBytes;  // dS, a key after the other
  static constexpr int kWeights = kLogitGradient + kKeys * kRows * 2;    // P likewise
  static constexpr int kStatistics = Split > 1 ? kWeights + kKeys* kRows * 2 : kWeights;
  static constexpr int kLastGate = kStatistics + kStages * static_cast<int>(sizeof(RowStatistics));
  static constexpr int kFalls = kLastGate + 8;
  static constexpr int kItem = Split > 1 ? kFalls + kKeys * 4 : kFalls;
  static constexpr int kBytes = kItem + 8;
  static_assert(kLogitGradient % 128 == 0 && kRows * 2 == 128);
  static_assert(kStatistics % 16 == 0 && kKeys * HeadDim * 2 <= kLogitGradient - kQuery);
  static_assert(Split == 1 || kKeys <= kThreads);
  static_assert(Split == 1 || (Split == 2 && WarpKeys == 32 && StepRows * 2 == kRows && kColumns % 64 == 0));
};

/// One warp's part of the gradients.
template <class P>
struct BackwardWarp {
  static constexpr int kSteps = P::kHeadDim / 16;
  static constexpr int kParts = P::kParts;
  using Rows = SwizzledRows<P::kHeadDim>;
  using Keys = SwizzledRows<P::kRows>;  // of dS and of P
  using Entries = float[kParts][2][4];  // of the warp's keys and 16 rows
  using Packed = std::uint32_t[kParts][4];
  using OfKeys = float[kParts][2];
  using Gradient = float[kParts][P::kColumns / 8][4];

  const BackwardParameters& p;
  char* memory;
  std::uint32_t shared;  // its address
  int lane, warp;
  std::uint32_t stage;                    // bytes from the first stage to that of the rows at hand
  std::uint32_t statistics_at;            // likewise of their statistics
  const std::uint16_t* query_piece;       // the thread's first of the rows that are copied next
  const std::uint16_t* gradient_piece;    // likewise of dO
  int share_of_keys;                      // of the warps that share keys
  int first_key;                          // of the thread block
  int key;                                // of the thread the first: the others are 8, 16, 24 keys after it
  FragmentAddress<P::kHeadDim> straight;  // matrices of eight rows and 16 columns lie side by side
  FragmentAddress<P::kHeadDim> crossed;   // matrices of 16 rows and eight columns
  OfKeys falls;                           // of the gate from the thread's keys to the block's last, base 2; no split
  std::uint32_t values[P::kSplit == 1 ? kParts : 1][kSteps][4];
  Gradient key_gradient, value_gradient;
  float column_sums[kParts / P::kSplit][4];

  __device__ BackwardWarp(const BackwardParameters& parameters, char* storage, int key_block, int own_lane,
                          int own_warp)
      : p(parameters),
        memory(storage),
        shared(static_cast<std::uint32_t>(__cvta_generic_to_shared(storage))),
        lane(own_lane),
        warp(own_warp),
        stage(0),
        statistics_at(0),
        query_piece(nullptr),
        gradient_piece(nullptr),
        share_of_keys(warp % P::kSplit),
        first_key(key_block * P::kKeys),
        key(first_key + warp / P::kSplit * P::kWarpKeys + lane / 4),
        straight(lane % 8 + lane / 16 * 8, lane / 8 % 2),
        crossed(lane % 16, lane / 16),
        falls{},
        key_gradient{},
        value_gradient{},
        column_sums{} {}

  [[nodiscard]] __device__ int warp_key() const { return warp / P::kSplit * P::kWarpKeys; }  // of the thread block
  [[nodiscard]] __device__ const RowStatistics& rows() const {
    return *reinterpret_cast<const RowStatistics*>(memory + P::kStatistics + statistics_at);
  }
  [[nodiscard]] __device__ double& last_gate() const { return *reinterpret_cast<double*>(memory + P::kLastGate); }
  [[nodiscard]] __device__ float* shared_falls() const { return reinterpret_cast<float*>(memory + P::kFalls); }

  __device__ void load_keys(const KeyWork& work) {
    Rows::template load<P::kKeys, P::kThreads>(shared, p.key, work.batch * p.key.batch + work.key_head * p.key.head,
                                               first_key, p.length, p.aligned);
    Rows::template load<P::kKeys, P::kThreads>(shared + P::kValue, p.value,
                                               work.batch * p.value.batch + work.key_head * p.value.head, first_key,
                                               p.length, p.aligned);
    commit();
    if constexpr (P::kSplit == 1) {
      wait<0>();
      __syncthreads();
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int x = 0; x < kSteps; ++x) {
          load_fragment(crossed(shared + P::kValue + warp_key() * Rows::kRowBytes, 16 * part, x), values[part][x]);
        }
      }
      __syncthreads();
    }
  }

  static constexpr int kCopiedAtOnce = P::kThreads / Rows::kPieces;  // rows, of which a thread copies one piece
  static constexpr int kCopies = P::kRows / kCopiedAtOnce;
  [[nodiscard]] __device__ static int copied_row() { return static_cast<int>(threadIdx.x / Rows::kPieces); }
  [[nodiscard]] __device__ static int copied_piece() { return static_cast<int>(threadIdx.x % Rows::kPieces); }

  __device__ __forceinline__ void begin_copies(const KeyWork& work, const RowBlocks& at) {
    const int head = at.flat_head - work.batch * p.heads;
    const int row = at.row_block * P::kRows + copied_row();
    const auto piece_of = [&](const TensorView& x) {
      return static_cast<const std::uint16_t*>(x.data) + work.batch * x.batch + head * x.head + row * x.row +
             copied_piece() * 8;
    };
    query_piece = piece_of(p.query);
    gradient_piece = piece_of(p.output_gradient);
  }
  __device__ __forceinline__ void advance_copies() {
    const int rows = p.turns == nullptr ? -P::kRows : P::kRows;
    query_piece += rows * p.query.row;
    gradient_piece += rows * p.output_gradient.row;
  }

  /// Starts copying the thread's pieces of a block of rows.
  /// @param left  rows of the text from the thread's first on
  __device__ __forceinline__ void copy_pieces(std::uint32_t to, const std::uint16_t* from, std::int64_t row_stride,
                                              int left) const {
    static_assert(kCopies * kCopiedAtOnce == P::kRows && kCopiedAtOnce % 8 == 0);  // and so swizzled alike
    const std::uint32_t first = to + Rows::offset(copied_row(), copied_piece());
    const auto place = [&](int n) { return first + static_cast<std::uint32_t>(n * kCopiedAtOnce * Rows::kRowBytes); };
    if (p.aligned) {
#pragma unroll
      for (int n = 0; n < kCopies; ++n) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place(n)), "l"(from),
                     "r"(n * kCopiedAtOnce < left ? 16 : 0)
                     : "memory");
        from += kCopiedAtOnce * row_stride;
      }
      return;
    }
#pragma unroll 1
    for (int n = 0; n < kCopies; ++n) {
      std::uint32_t pairs[4] = {};
      if (n * kCopiedAtOnce < left) {
#pragma unroll
        for (int x = 0; x < 4; ++x) pairs[x] = from[2 * x] | static_cast<std::uint32_t>(from[2 * x + 1]) << 16;
      }
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(place(n)), "r"(pairs[0]), "r"(pairs[1]),
                   "r"(pairs[2]), "r"(pairs[3])
                   : "memory");
      from += kCopiedAtOnce * row_stride;
    }
  }

  /// Starts copying a block of rows.
  __device__ void load_rows(const KeyWork& work, const RowBlocks& at) const {
    const int head = at.flat_head % p.heads;
    const int first_row = at.row_block * P::kRows;
    Rows::template load<P::kRows, P::kThreads>(
        shared + P::kQuery, p.query, work.batch * p.query.batch + head * p.query.head, first_row, p.length, p.aligned);
    Rows::template load<P::kRows, P::kThreads>(shared + P::kOutputGradient, p.output_gradient,
                                               work.batch * p.output_gradient.batch + head * p.output_gradient.head,
                                               first_row, p.length, p.aligned);
    load_statistics(at, 0);
  }
  __device__ __forceinline__ void load_statistics(const RowBlocks& at, std::uint32_t to) const {
    constexpr unsigned kPieces = sizeof(RowStatistics) / 16;
    static_assert(kPieces <= P::kThreads);
    if (threadIdx.x < kPieces) {
      const RowStatistics& from = p.statistics[std::int64_t{at.flat_head} * p.row_parts + at.row_block];
      asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(shared + P::kStatistics + to + 16 * threadIdx.x),
                   "l"(reinterpret_cast<const char*>(&from) + 16 * threadIdx.x)
                   : "memory");
    }
  }

  /// The same to a stage, where begin_copies and advance_copies have pointed.
  __device__ __forceinline__ void load_rows(const RowBlocks& at, std::uint32_t to_stage,
                                            std::uint32_t to_statistics) const {
    const int left = p.length - at.row_block * P::kRows - copied_row();
    copy_pieces(shared + P::kQuery + to_stage, query_piece, p.query.row, left);
    copy_pieces(shared + P::kOutputGradient + to_stage, gradient_piece, p.output_gradient.row, left);
    load_statistics(at, to_statistics);
  }
  __device__ __forceinline__ void load_next_stage(const RowBlocks& at) const {
    load_rows(at, P::kStageBytes - stage, sizeof(RowStatistics) - statistics_at);
  }
  __device__ __forceinline__ void next_stage() {
    stage = P::kStageBytes - stage;
    statistics_at = sizeof(RowStatistics) - statistics_at;
  }

  [[nodiscard]] __device__ double gate_of(std::int64_t flat_head, int of_key) const {
    return p.gate == nullptr ? 0 : p.gate[flat_head * p.length + min(of_key, p.length - 1)];
  }

  [[nodiscard]] __device__ double first_gate_of(const RowBlocks& at) const {
    return gate_of(at.flat_head, at.row_block * P::kRows);
  }
  /// The fall from the block's last key to rows that begin with this gate, base 2.
  [[nodiscard]] __device__ float fall_to_rows(double first_gate) const {
    return p.gate == nullptr ? 0.0F : static_cast<float>((first_gate - last_gate()) * kLog2E);
  }

  /// Neither fall is above 0 for rows behind the block, so that their sum loses nothing.
  __device__ void start_head(std::int64_t flat_head) {
    const double last = gate_of(flat_head, first_key + P::kKeys - 1);
    if (threadIdx.x == 0) last_gate() = last;
    const auto fall_from = [&](int of_key) { return static_cast<float>((last - gate_of(flat_head, of_key)) * kLog2E); };
    if constexpr (P::kSplit > 1) {
      const auto own = static_cast<int>(threadIdx.x);
      if (own < P::kKeys) shared_falls()[own] = fall_from(first_key + own);
    } else {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int r = 0; r < 2; ++r) falls[part][r] = fall_from(key + 16 * part + 8 * r);
      }
    }
  }

  /// product = (the warp's keys or values) (rows)^T, for 16 rows each.
  /// @param between  called with 0 to kSteps - 1 after as many products, beside which tensor cores leave time
  template <bool OfKeys, int Count, class Between>
  __device__ __forceinline__ void multiply_rows(int step, Entries (&product)[Count], const Between& between) const {
    const std::uint32_t rows_at = shared + stage + (OfKeys ? P::kQuery : P::kOutputGradient);
#pragma unroll
    for (int x = 0; x < kSteps; ++x) {
      std::uint32_t own[kParts][4];
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if constexpr (OfKeys || P::kSplit > 1) {
          const std::uint32_t tile = shared + (OfKeys ? 0 : P::kValue);
          load_fragment(crossed(tile + warp_key() * Rows::kRowBytes, 16 * part, x), own[part]);
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i) own[part][i] = values[part][x][i];
        }
      }
#pragma unroll
      for (int n = 0; n < Count; ++n) {
        std::uint32_t of_rows[4];
        load_fragment(straight(rows_at, 16 * (step + n), x), of_rows);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          if (x == 0) {
            multiply_first(product[n][part][0], own[part], of_rows[0], of_rows[1]);
            multiply_first(product[n][part][1], own[part], of_rows[2], of_rows[3]);
          } else {
            multiply(product[n][part][0], own[part], of_rows[0], of_rows[1]);
            multiply(product[n][part][1], own[part], of_rows[2], of_rows[3]);
          }
        }
      }
      between(x);
    }
  }

  /// sum += a (the warp's columns of 16 rows).
  __device__ __forceinline__ void accumulate(const Packed& a, int rows_at, int step, Gradient& sum) const {
    const std::uint32_t tile = shared + stage + rows_at + share_of_keys * (P::kColumns * 2);
#pragma unroll
    for (int x = 0; x < P::kColumns / 16; ++x) {
      std::uint32_t f[4];
      load_transposed(crossed(tile, 16 * step, x), f);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        multiply(sum[part][2 * x], a[part], f[0], f[1]);
        multiply(sum[part][2 * x + 1], a[part], f[2], f[3]);
      }
    }
  }

  /// Adds 16 rows to the gradients. Of the parts of keys that warps share, each sums the columns of one.
  __device__ __forceinline__ void accumulate(const Packed& weights, const Packed& gradients, int step) {
    accumulate(weights, P::kOutputGradient, step, value_gradient);
    accumulate(gradients, P::kQuery, step, key_gradient);
    if constexpr (P::kSplit == 1) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) multiply(column_sums[part], gradients[part], 0x3f803f80U, 0x3f803f80U);
    } else {
      std::uint32_t own[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) own[i] = share_of_keys == 0 ? gradients[0][i] : gradients[1][i];
      multiply(column_sums[0], own, 0x3f803f80U, 0x3f803f80U);
    }
  }

  /// Logits of eight rows become weights.
  __device__ __forceinline__ void weigh(float (&logits)[4], int first, const float (&gates)[2]) const {
    const float2 term = *reinterpret_cast<const float2*>(rows().term + first + lane % 4 * 2);
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const float of_row = x % 2 == 0 ? term.x : term.y;
      // The sums can be made before the logits, for which there have to be registers.
      logits[x] = exp2_fast(P::kSplit > 1 ? fmaf(logits[x], p.scale_log2, of_row) + gates[x / 2]
                                          : fmaf(logits[x], p.scale_log2, of_row + gates[x / 2]));
    }
  }

  /// A share of the logits of 16 Count rows become weights.
  /// @param x  of kSteps shares
  template <int Count>
  __device__ __forceinline__ void weigh_share(Entries* logits, int step, const OfKeys& gates, int x) const {
    constexpr int kAll = Count * 2 * kParts;
#pragma unroll
    for (int i = 0; i < kAll; ++i) {
      if (i * kSteps / kAll != x) continue;
      const int n = i / (2 * kParts);
      const int eight = i / kParts % 2;
      const int part = i % kParts;
      weigh(logits[n][part][eight], 16 * (step + n) + 8 * eight, gates[part]);
    }
  }

  /// The same where rows do not see all of the keys, or the gate needs two float32.
  __device__ __forceinline__ void weigh_masked(Entries& logits, int step, int row_block, std::int64_t flat_head) const {
    const int first_row = row_block * P::kRows;
    const bool own = first_row < first_key + P::kKeys;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int of_key = key + 16 * part + 8 * r;
        const SplitGate gate(p.gate == nullptr ? 0 : rows().first_gate - gate_of(flat_head, of_key));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& logit = logits[part][i / 2][2 * r + i % 2];
          const int at = 16 * step + 8 * (i / 2) + lane % 4 * 2 + i % 2;
          float shift = rows().term[at] + gate.high;
          if (own) shift += rows().rest[at] + gate.low;
          const int distance = first_row + at - of_key;
          const bool hidden = distance < 0 || (p.window_size > 0 && distance >= p.window_size);
          logit = exp2_fast(hidden ? -INFINITY : fmaf(logit, p.scale_log2, shift));
        }
      }
    }
  }

  /// dS = P (dP - delta), in place of dP.
  __device__ void backward(const Entries& weights, Entries& gradients, int step) const {
#pragma unroll
    for (int eight = 0; eight < 2; ++eight) {
      const float2 delta = *reinterpret_cast<const float2*>(rows().delta + 16 * step + 8 * eight + lane % 4 * 2);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          float& gradient = gradients[part][eight][x];
          gradient = weights[part][eight][x] * (gradient - (x % 2 == 0 ? delta.x : delta.y));
        }
      }
    }
  }

  /// Packs entries as the left side of a product over rows.
  __device__ static void pack_entries(const Entries& x, Packed& packed) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < 4; ++i) packed[part][i] = pack(x[part][i / 2][i % 2 * 2], x[part][i / 2][i % 2 * 2 + 1]);
    }
  }

  /// P or dS of 16 rows to shared memory.
  __device__ __forceinline__ void share(const Packed& packed, int tile, int step) const {
    const std::uint32_t own =
        shared + tile + Keys::offset(warp_key() + lane / 4, 0) + static_cast<std::uint32_t>(lane % 4 * 4);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // Eight keys are 1024 bytes, and pieces of 16 bytes are swizzled by an exclusive or.
        const std::uint32_t at = (own ^ static_cast<std::uint32_t>((2 * step + i / 2) * 16)) +
                                 static_cast<std::uint32_t>((2 * part + i % 2) * 8 * Keys::kRowBytes);
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(packed[part][i]) : "memory");
      }
    }
  }

  /// What share has left of 16 rows.
  __device__ void read_shared(int tile, int step, Packed& packed) const {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      load_fragment(shared + tile + Keys::offset(warp_key() + 16 * part + lane % 16, 2 * step + lane / 16),
                    packed[part]);
    }
  }

  /// Leaves P and dS of the warp's part of the rows.
  template <bool Masked>
  __device__ __forceinline__ void make_shared(int row_block, std::int64_t flat_head, const OfKeys& gates) {
    constexpr int kCount = P::kStepParts;
    const int first = share_of_keys * kCount;
    Packed packed;
    if (Masked && row_block * P::kRows + 16 * (first + kCount) <= first_key + warp_key()) {
#pragma unroll
      for (auto& part : packed) part[0] = part[1] = part[2] = part[3] = 0;
#pragma unroll
      for (int n = 0; n < kCount; ++n) {
        share(packed, P::kWeights, first + n);
        share(packed, P::kLogitGradient, first + n);
      }
      return;
    }
    Entries weights[kCount];
    Entries gradients[kCount];
    multiply_rows<true>(first, weights, [](int) {});
    multiply_rows<false>(first, gradients, [&](int x) {
      if constexpr (!Masked) weigh_share<kCount>(weights, first, gates, x);
    });
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      if constexpr (Masked) weigh_masked(weights[n], first + n, row_block, flat_head);
      pack_entries(weights[n], packed);
      share(packed, P::kWeights, first + n);
      backward(weights[n], gradients[n], first + n);
      pack_entries(gradients[n], packed);
      share(packed, P::kLogitGradient, first + n);
    }
  }

  /// Adds all rows, whose P and dS have been left, to the gradients of the warp's columns.
  __device__ __forceinline__ void add_shared() {
#pragma unroll
    for (int step = 0; step < P::kRows / 16; ++step) {
      Packed weights;
      Packed gradients;
      read_shared(P::kWeights, step, weights);
      read_shared(P::kLogitGradient, step, gradients);
      accumulate(weights, gradients, step);
    }
  }

  /// @tparam Count  of 16 rows
  template <bool Masked, int Count>
  __device__ void visit_rows(int step, int row_block, std::int64_t flat_head, const OfKeys& gates) {
    Packed gradient;
    if (Masked && row_block * P::kRows + 16 * (step + Count) <= first_key + warp_key()) {
#pragma unroll
      for (auto& part : gradient) part[0] = part[1] = part[2] = part[3] = 0;
#pragma unroll
      for (int n = 0; n < Count; ++n) share(gradient, P::kLogitGradient, step + n);
      return;
    }
    Entries weights[Count];
    multiply_rows<true>(step, weights, [](int) {});
#pragma unroll
    for (int n = 0; n < Count; ++n) {
      Entries gradients[1];
      multiply_rows<false>(step + n, gradients, [&](int x) {
        if constexpr (!Masked) weigh_share<1>(&weights[n], step + n, gates, x);
      });
      if constexpr (Masked) weigh_masked(weights[n], step + n, row_block, flat_head);
      backward(weights[n], gradients[0], step + n);
      Packed weight;
      pack_entries(weights[n], weight);
      pack_entries(gradients[0], gradient);
      share(gradient, P::kLogitGradient, step + n);
      accumulate(weight, gradient, step + n);
    }
  }

  /// Whether rows do not see all of the block's keys.
  [[nodiscard]] __device__ bool masks(int row_block) const {
    const int first_row = row_block * P::kRows;
    return first_row < first_key + P::kKeys ||
           (p.window_size > 0 && first_row + P::kRows - 1 - first_key >= p.window_size);
  }

  /// Adds a block of rows to the gradients of keys and values, and leaves its dS.
  __device__ __forceinline__ void visit(int row_block, std::int64_t flat_head) {
    const bool masked = masks(row_block);
    OfKeys gates;
    const auto term = p.gate == nullptr ? 0.0F : static_cast<float>((rows().first_gate - last_gate()) * kLog2E);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      gates[part][0] = term + falls[part][0];
      gates[part][1] = term + falls[part][1];
    }
    if (masked) {
#pragma unroll 1
      for (int step = 0; step < P::kRows / 16; ++step) visit_rows<true, 1>(step, row_block, flat_head, gates);
    } else {
#pragma unroll
      for (int step = 0; step < P::kRows / 16; step += P::kStepParts) {
        visit_rows<false, P::kStepParts>(step, row_block, flat_head, gates);
      }
    }
  }

  /// Leaves the P and dS of a block of rows.
  /// @param fall  to the rows, of fall_to_rows
  __device__ __forceinline__ void visit_shared(int row_block, std::int64_t flat_head, float fall) {
    OfKeys gates;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int r = 0; r < 2; ++r) gates[part][r] = fall + shared_falls()[key - first_key + 16 * part + 8 * r];
    }
    if (masks(row_block)) {
      make_shared<true>(row_block, flat_head, gates);
    } else {
      make_shared<false>(row_block, flat_head, gates);
    }
  }

  /// The warp's rows and columns of dQ, and sums of rows of dS, added to memory.
  __device__ __forceinline__ void add_query_gradient(std::int64_t flat_head, int row_block) const {
    const int row_warp = warp / P::kColumnWarps;
    const int column_warp = warp % P::kColumnWarps;
    float gradient[P::kQueryParts][2 * P::kQuerySteps][4] = {};
    float row_sums[4] = {};
    std::uint32_t of_rows[P::kQueryParts];
    std::uint32_t of_columns[P::kQuerySteps];
#pragma unroll
    for (int part = 0; part < P::kQueryParts; ++part) {
      of_rows[part] = shared + P::kLogitGradient +
                      Keys::offset(lane % 8 + lane / 16 * 8, 2 * (row_warp * P::kQueryParts + part) + lane / 8 % 2);
    }
#pragma unroll
    for (int x = 0; x < P::kQuerySteps; ++x) {
      of_columns[x] = shared + Rows::offset(lane % 16, 2 * (column_warp * P::kQuerySteps + x) + lane / 16);
    }
    const auto multiply_keys = [&](int n) {
      std::uint32_t left[P::kQueryParts][4];
#pragma unroll
      for (int part = 0; part < P::kQueryParts; ++part) {
        load_transposed(of_rows[part] + 16 * n * Keys::kRowBytes, left[part]);
        // The n-th column warp sums the n-th part.
        if (P::kSplit == 1 && part == column_warp) multiply(row_sums, left[part], 0x3f803f80U, 0x3f803f80U);
      }
      if constexpr (P::kSplit > 1) {
        std::uint32_t summed[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) summed[i] = column_warp == 0 ? left[0][i] : left[P::kQueryParts - 1][i];
        multiply_ones(row_sums, summed, column_warp < P::kQueryParts);
      }
#pragma unroll
      for (int x = 0; x < P::kQuerySteps; ++x) {
        std::uint32_t f[4];
        load_transposed(of_columns[x] + 16 * n * Rows::kRowBytes, f);
#pragma unroll
        for (int part = 0; part < P::kQueryParts; ++part) {
          multiply(gradient[part][2 * x], left[part], f[0], f[1]);
          multiply(gradient[part][2 * x + 1], left[part], f[2], f[3]);
        }
      }
    };
    const int seen = row_block * P::kRows + P::kRows - first_key;  // keys that come before the rows' end
    if (seen < P::kKeys) {
#pragma unroll 1
      for (int n = 0; 16 * n < seen; ++n) multiply_keys(n);
    } else {
#pragma unroll
      for (int n = 0; n < P::kKeys / 16; ++n) multiply_keys(n);
    }
    const std::int64_t block = flat_head * p.row_parts + row_block;
    int* turn = p.turns == nullptr ? nullptr : p.turns + block * (P::kRows / kSumRows * kTurns) + warp;
    const int key_block = first_key / P::kKeys;
    if (turn != nullptr) {
      if (lane == 0) await_turn(turn, key_block);
      __syncwarp();
    }
    float* to = p.sums + (block * (P::kRows / kSumRows) + row_warp * P::kQueryParts) * sum_piece(P::kHeadDim);
#pragma unroll
    for (int part = 0; part < P::kQueryParts; ++part) {
#pragma unroll
      for (int x = 0; x < 2 * P::kQuerySteps; ++x) {
        add_to_memory(to + ((2 * column_warp * P::kQuerySteps + x) * 32 + lane) * 4, gradient[part][x]);
      }
      if (part == column_warp && lane % 4 == 0) {
        atomicAdd(to + kSumRows * P::kHeadDim + lane / 4, row_sums[0]);
        atomicAdd(to + kSumRows * P::kHeadDim + lane / 4 + 8, row_sums[2]);
      }
      to += sum_piece(P::kHeadDim);
    }
    if (turn != nullptr) {
      __threadfence();
      __syncwarp();
      if (lane == 0) pass_turn(turn, key_block);
    }
  }

  __device__ void finish_head(std::int64_t flat_head) {
#pragma unroll
    for (int part = 0; part < kParts / P::kSplit; ++part) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int of_key = key + 16 * (part + share_of_keys) + 8 * r;
        if (lane % 4 == 0 && of_key < p.length) p.column_sums[flat_head * p.length + of_key] = column_sums[part][2 * r];
      }
      column_sums[part][0] = column_sums[part][1] = column_sums[part][2] = column_sums[part][3] = 0;
    }
  }

  __device__ void store(const Gradient& gradient, const MutableTensorView& view, const KeyWork& work,
                        float factor) const {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int of_key = key + 16 * part + 8 * r;
        auto* to = static_cast<std::uint16_t*>(view.data) + work.batch * view.batch + work.key_head * view.head +
                   of_key * view.row + share_of_keys * P::kColumns;
        store_row<P::kColumns>(to, of_key < p.length, p.aligned, gradient[part], r, factor);
      }
    }
  }
};

/// What the thread block works on.
template <class P>
__device__ __forceinline__ KeyWork take_key_work(const BackwardParameters& p, char* memory) {
  int item = static_cast<int>(blockIdx.x);
  if (p.turns != nullptr) {
    // Turns are awaited from thread blocks with smaller items, which must have begun.
    int& taken = *reinterpret_cast<int*>(memory + P::kItem);
    if (threadIdx.x == 0) taken = atomicAdd(p.ticket, 1);
    __syncthreads();
    item = taken;
  }
  return find_key_work(p, item);
}

template <class P>
__global__ void __launch_bounds__(P::kThreads, P::kBlocks)
    backward_kernel(const __grid_constant__ BackwardParameters p) {
  extern __shared__ __align__(128) char memory[];
  const KeyWork work = take_key_work<P>(p, memory);
  BackwardWarp<P> own(p, memory, work.block, static_cast<int>(threadIdx.x) % 32,
                      __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0));
  own.load_keys(work);
  RowBlocks now(p, work, kPortableBackwardTile);
  own.load_rows(work, now);
  commit();
  own.start_head(now.flat_head);
#pragma unroll 1
  while (now.valid()) {
    RowBlocks next = now;
    next.advance(p, work, kPortableBackwardTile);
    wait<0>();
    __syncthreads();  // the rows are there, and all are done with the last dS
    own.visit(now.row_block, now.flat_head);
    __syncthreads();  // dS is there, and all are done with the rows
    if (next.valid()) own.load_rows(work, next);
    commit();
    own.add_query_gradient(now.flat_head, now.row_block);
    if (now.last_of_head()) {
      own.finish_head(now.flat_head);
      if (next.valid()) own.start_head(next.flat_head);
    }
    now = next;
  }
  own.store(own.value_gradient, p.value_gradient, work, 1);
  own.store(own.key_gradient, p.key_gradient, work, p.scale);
}

/// The same where warps share keys: one block of rows is copied while another is worked on. Half of the warps begin
/// with dQ and the others with dK and dV, for which shared memory has less to give.
template <class P>
__global__ void __launch_bounds__(P::kThreads, P::kBlocks)
    backward_kernel_of_shared_keys(const __grid_constant__ BackwardParameters p) {
  extern __shared__ __align__(128) char memory[];
  const KeyWork work = take_key_work<P>(p, memory);
  // The compiler knows the ranges of unsigned remainders, which saves registers.
  BackwardWarp<P> own(p, memory, work.block, static_cast<int>(threadIdx.x % 32U),
                      static_cast<int>(__shfl_sync(0xffffffffU, threadIdx.x / 32U, 0) % P::kWarps));
  own.load_keys(work);
  RowBlocks next(p, work, kPortableBackwardTile);
  int flat_head = next.flat_head;
  int row_block = next.row_block;
  own.begin_copies(work, next);
  own.load_rows(next, 0, 0);
  commit();
  own.start_head(flat_head);
  __syncthreads();
  float fall = own.fall_to_rows(own.first_gate_of(next));
  next.advance(p, work, kPortableBackwardTile);
#pragma unroll 1
  while (true) {
    wait<0>();
    __syncthreads();  // the rows are there, and all are done with the last P and dS and with the rows before
    double next_gate = 0;
    if (next.valid()) {
      if (next.flat_head == flat_head) {
        own.advance_copies();
      } else {
        own.begin_copies(work, next);
      }
      own.load_next_stage(next);
      next_gate = own.first_gate_of(next);
    }
    commit();
    own.visit_shared(row_block, flat_head, fall);
    __syncthreads();  // P and dS are there
    if (own.warp < P::kWarps / 2) {
      own.add_shared();
      own.add_query_gradient(flat_head, row_block);
    } else {
      own.add_query_gradient(flat_head, row_block);
      own.add_shared();
    }
    if (!next.valid()) break;
    if (next.flat_head != flat_head) {
      own.finish_head(flat_head);
      own.start_head(next.flat_head);
      __syncthreads();
    }
    fall = own.fall_to_rows(next_gate);
    flat_head = next.flat_head;
    row_block = next.row_block;
    next.advance(p, work, kPortableBackwardTile);
    own.next_stage();
  }
  own.finish_head(flat_head);
  own.store(own.value_gradient, p.value_gradient, work, 1);
  own.store(own.key_gradient, p.key_gradient, work, p.scale);
}

template <class P>
cudaError_t launch_backward_plan(const BackwardParameters& p, cudaStream_t stream) {
  constexpr auto kernel_of_plan = [] {
    if constexpr (P::kSplit > 1) {
      return backward_kernel_of_shared_keys<P>;
    } else {
      return backward_kernel<P>;
    }
  };
  auto* kernel = kernel_of_plan();
  if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, P::kBytes)) return e;
  kernel<<<static_cast<unsigned>(p.key_blocks * p.key_heads * p.batch), P::kThreads, P::kBytes, stream>>>(p);
  return cudaGetLastError();
}

/// The first plan where there is room for it, else the second.
template <class P, class Small = P>
cudaError_t launch_backward(const BackwardParameters& p, cudaStream_t stream) {
  static_assert(has_room<Small>(kLeastSharedBytes));
  return has_room<P>(p.shared_bytes) ? launch_backward_plan<P>(p, stream) : launch_backward_plan<Small>(p, stream);
}

}  // namespace foxscope::kernels::cuda::portable
