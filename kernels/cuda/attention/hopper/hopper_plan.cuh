// Tiles, shared memory and the order of the work of forgetting attention on Hopper. Private to kernels/cuda.
#pragma once

#include <cutlass/arch/barrier.h>
#include <cutlass/bfloat16.h>

#include <cute/tensor.hpp>

#include "kernels/cuda/attention/attention_parameters.cuh"

namespace foxscope::kernels::cuda::hopper {

using namespace cute;
using Element = cutlass::bfloat16_t;
using FullBarrier = cutlass::arch::ClusterTransactionBarrier;
using EmptyBarrier = cutlass::arch::ClusterBarrier;

/// A block of rows of one head.
struct Work {
  int item;  // or kEnd
  int row_block, head, batch;
  int first_tile;  // visited last
  int last_tile;   // visited first: the diagonal
};

/// The end of the work, in place of an item.
constexpr int kEnd = -1;

/// How a head dimension is computed.
/// Teams         in a thread block
/// Warpgroups    in a team
/// Keys          in a key block
/// Slots         tiles of keys or values that a team has in shared memory
template <int HeadDim, int Teams, int Warpgroups, int Keys, int Slots>
struct Plan {
  static_assert(Keys % 64 == 0, "a warpgroup's rows and their own keys lie in one key block");
  static constexpr int kHeadDim = HeadDim;
  static constexpr int kTeams = Teams;
  static constexpr int kWarpgroups = Warpgroups;
  static constexpr int kRows = 64 * Warpgroups;
  static constexpr int kKeys = Keys;
  static constexpr int kSlots = Slots;
  static constexpr int kAllWarpgroups = Teams * Warpgroups;
  static constexpr int kThreads = 128 * (kAllWarpgroups + 1);  // registers move between whole warpgroups only
  static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
  static constexpr int kLoaderRegisters = kAllWarpgroups == 3 ? 32 : 24;
  static constexpr int kConsumerRegisters =
      std::min((kLaunchRegisters * (kAllWarpgroups + 1) - kLoaderRegisters) / kAllWarpgroups / 8 * 8, 240);

  template <int N>
  using MmaQK = decltype(make_tiled_mma(GMMA::ss_op_selector<Element, Element, float, Shape<_64, Int<N>, Int<HeadDim>>,
                                                             GMMA::Major::K, GMMA::Major::K>()));
  template <int N>
  using MmaGate = decltype(make_tiled_mma(
      GMMA::rs_op_selector<Element, Element, float, Shape<_64, Int<N>, _16>, GMMA::Major::K, GMMA::Major::K>()));
  using MmaPV =
      decltype(make_tiled_mma(GMMA::rs_op_selector<Element, Element, float, Shape<_64, Int<HeadDim>, Int<Keys>>,
                                                   GMMA::Major::K, GMMA::Major::MN>()));

  using LayoutQ = decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<Element>{},
                                         Shape<_64, Int<HeadDim>, Int<2 * Warpgroups>>{}, Step<_1, _2, _3>{}));
  using LayoutK = decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<Element>{},
                                         Shape<Int<Keys>, Int<HeadDim>, Int<Slots>>{}, Step<_1, _2, _3>{}));
  using LayoutV = decltype(tile_to_shape(GMMA::Layout_MN_SW128_Atom<Element>{},
                                         Shape<Int<HeadDim>, Int<Keys>, Int<Slots>>{}, Step<_2, _1, _3>{}));
  static constexpr int kTileBytes = Keys * HeadDim * 2;
  static constexpr int kBiasBytes = Keys * 16;

  struct Storage {
    alignas(1024) Element query[cosize_v<LayoutQ>];
    alignas(1024) Element tiles[cosize_v<LayoutK>];  // keys and values in turn
    alignas(128) Element bias[Slots * Keys * 8];
    FullBarrier query_full[2];
    EmptyBarrier query_empty[2];
    FullBarrier full[Slots];
    EmptyBarrier empty[Slots];
    Work work[2];  // the block of rows whose queries a slot holds
  };

  static auto rows_tensor(const TensorView& x, int length, int heads, int batch) {
    return make_tensor(make_gmem_ptr(static_cast<const Element*>(x.data)),
                       make_shape(length, Int<HeadDim>{}, heads, batch), make_stride(x.row, _1{}, x.head, x.batch));
  }
  static auto columns_tensor(const TensorView& x, int length, int heads, int batch) {
    return make_tensor(make_gmem_ptr(static_cast<const Element*>(x.data)),
                       make_shape(Int<HeadDim>{}, length, heads, batch), make_stride(_1{}, x.row, x.head, x.batch));
  }
  static auto copy_query(const AttentionParameters& p) {
    return make_tma_copy(SM90_TMA_LOAD{}, rows_tensor(p.query, p.length, p.heads, p.batch), LayoutQ{}(_, _, _0{}),
                         Shape<_64, Int<HeadDim>>{}, _1{});
  }
  static auto copy_key(const AttentionParameters& p) {
    return make_tma_copy(SM90_TMA_LOAD{}, rows_tensor(p.key, p.length, p.key_heads, p.batch), LayoutK{}(_, _, _0{}),
                         Shape<Int<Keys>, Int<HeadDim>>{}, _1{});
  }
  static auto copy_value(const AttentionParameters& p) {
    return make_tma_copy(SM90_TMA_LOAD{}, columns_tensor(p.value, p.length, p.key_heads, p.batch),
                         LayoutV{}(_, _, _0{}), Shape<Int<HeadDim>, Int<Keys>>{}, _1{});
  }
  using CopyQ = decltype(copy_query(AttentionParameters{}));
  using CopyK = decltype(copy_key(AttentionParameters{}));
  using CopyV = decltype(copy_value(AttentionParameters{}));

  struct Copies {
    CopyQ query;
    CopyK key;
    CopyV value;
  };
};

/// A place in the ring of tiles and how often it went round.
template <int Slots>
struct Ring {
  int slot = 0;
  std::uint32_t phase = 0;
  __device__ void advance() {
    if (++slot == Slots) {
      slot = 0;
      phase ^= 1;
    }
  }
};

/// The item-th block of rows: heads whose keys and values fit the L2 cache together go at a time, and among those long
/// blocks of rows go first.
template <class P>
__device__ Work find_work(const AttentionParameters& p, int item) {
  const int group_size = p.heads_at_a_time * p.row_blocks;
  const int group = item / group_size;
  const int index = item - group * group_size;
  const int in_group = min(p.heads_at_a_time, p.heads * p.batch - group * p.heads_at_a_time);
  const int head = group * p.heads_at_a_time + index % in_group;
  Work work;
  work.item = item;
  work.row_block = p.row_blocks - 1 - index / in_group;
  work.head = head % p.heads;
  work.batch = head / p.heads;
  const int first_row = work.row_block * P::kRows;
  work.last_tile = (min(first_row + P::kRows, p.length) - 1) / P::kKeys;
  work.first_tile = p.window_size > 0 ? max(0, first_row - p.window_size + 1) / P::kKeys : 0;
  if (p.first_tile != nullptr) {
    work.first_tile = max(work.first_tile, p.first_tile[std::int64_t{head} * p.row_blocks + work.row_block]);
  }
  return work;
}

}  // namespace foxscope::kernels::cuda::hopper
