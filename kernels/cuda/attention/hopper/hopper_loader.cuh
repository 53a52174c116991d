// The warp that issues a team's copies (hopper_attention.cuh). Private to kernels/cuda.
#pragma once

#include "kernels/cuda/attention/hopper/hopper_plan.cuh"

namespace foxscope::kernels::cuda::hopper {

/// Issues the copies of the tiles in the order of their use: K_n, V_n, K_(n-1), V_(n-1), ...
template <class P>
struct Loader {
  const AttentionParameters& p;
  const typename P::Copies& copies;
  typename P::Storage& storage;
  Work work;
  Ring<P::kSlots> ring;
  Ring<2> queries;
  bool waited = false;  // for what earlier launches wrote

  /// The blocks of rows that this team takes.
  /// @tparam Again  of those that the first launch marked
  /// @param first   the item to begin with
  template <bool Again>
  __device__ void run(int first) {
    const int teams = static_cast<int>(gridDim.x) * P::kTeams;
    int* counter = Again ? &p.counters->next_marked : &p.counters->next_item;
    const auto next = [&] { return teams + atomicAdd(counter, 1); };
    int item = first;
    CUTE_NO_UNROLL
    while (item < p.items) {
      if constexpr (Again) {
        if (p.marked[item] == 0) {
          item = next();
          continue;
        }
      } else {
        p.marked[item] = 0;
      }
      item = copy_item(item, next);
    }
    say_end();
  }

 private:
  /// Copies all that a block of rows needs; returns what `choose` gives near the end.
  template <class Choose>
  __device__ int copy_item(int item, const Choose& choose) {
    work = find_work<P>(p, item);
    storage.query_empty[queries.slot].wait(queries.phase ^ 1);
    storage.work[queries.slot] = work;
    query();
    queries.advance();
    int following = 0;
    CUTE_NO_UNROLL
    for (int tile = work.last_tile; tile >= work.first_tile; --tile) {
      storage.empty[ring.slot].wait(ring.phase ^ 1);
      key(tile);
      ring.advance();
      if (tile == work.first_tile) following = choose();
      storage.empty[ring.slot].wait(ring.phase ^ 1);
      value(tile);
      ring.advance();
    }
    return following;
  }

  __device__ void say_end() {
    storage.query_empty[queries.slot].wait(queries.phase ^ 1);
    storage.work[queries.slot].item = kEnd;
    storage.query_full[queries.slot].arrive();
    queries.advance();
  }

  template <class A, class B>
  __device__ static auto swap(cute::tuple<A, B> const& pair) {
    return cute::make_tuple(get<1>(pair), get<0>(pair));
  }

  __device__ void query() {
    auto tensor = copies.query.get_tma_tensor(make_shape(p.length, Int<P::kHeadDim>{}, p.heads, p.batch));
    auto blocks = local_tile(tensor(_, _, work.head, work.batch), Shape<_64, Int<P::kHeadDim>>{}, make_coord(_, _0{}));
    auto shared = make_tensor(make_smem_ptr(storage.query), typename P::LayoutQ{});
    auto [to, from] =
        swap(tma_partition(copies.query, _0{}, Layout<_1>{}, group_modes<0, 2>(shared), group_modes<0, 2>(blocks)));
    FullBarrier& full = storage.query_full[queries.slot];
    full.arrive_and_expect_tx(P::kRows * P::kHeadDim * 2);
    CUTE_UNROLL
    for (int w = 0; w < P::kWarpgroups; ++w) {
      copy(copies.query.with(*reinterpret_cast<std::uint64_t*>(&full)), from(_, work.row_block * P::kWarpgroups + w),
           to(_, queries.slot * P::kWarpgroups + w));
    }
  }

  __device__ void key(int tile) {
    auto tensor = copies.key.get_tma_tensor(make_shape(p.length, Int<P::kHeadDim>{}, p.key_heads, p.batch));
    auto blocks = local_tile(tensor(_, _, work.head / p.group, work.batch), Shape<Int<P::kKeys>, Int<P::kHeadDim>>{},
                             make_coord(_, _0{}));
    auto shared = make_tensor(make_smem_ptr(storage.tiles), typename P::LayoutK{});
    auto [to, from] =
        swap(tma_partition(copies.key, _0{}, Layout<_1>{}, group_modes<0, 2>(shared), group_modes<0, 2>(blocks)));
    auto* barrier = reinterpret_cast<std::uint64_t*>(&storage.full[ring.slot]);
    storage.full[ring.slot].arrive_and_expect_tx(P::kTileBytes + P::kBiasBytes);
    copy(copies.key.with(*barrier), from(_, tile), to(_, ring.slot));
    // Biases and the counter of items are read after this only; all else was there before their launch began.
    if (!waited) asm volatile("griddepcontrol.wait;" ::: "memory");
    waited = true;
    const std::int64_t row = (std::int64_t{work.batch} * p.heads + work.head) * p.bias_length + tile * P::kKeys;
    SM90_BULK_COPY_G2S::copy(static_cast<const Element*>(p.bias) + row * 8, barrier,
                             storage.bias + ring.slot * P::kKeys * 8, P::kBiasBytes);
  }

  __device__ void value(int tile) {
    auto tensor = copies.value.get_tma_tensor(make_shape(Int<P::kHeadDim>{}, p.length, p.key_heads, p.batch));
    auto blocks = local_tile(tensor(_, _, work.head / p.group, work.batch), Shape<Int<P::kHeadDim>, Int<P::kKeys>>{},
                             make_coord(_0{}, _));
    auto shared = make_tensor(make_smem_ptr(storage.tiles), typename P::LayoutV{});
    auto [to, from] =
        swap(tma_partition(copies.value, _0{}, Layout<_1>{}, group_modes<0, 2>(shared), group_modes<0, 2>(blocks)));
    auto* barrier = reinterpret_cast<std::uint64_t*>(&storage.full[ring.slot]);
    storage.full[ring.slot].arrive_and_expect_tx(P::kTileBytes);
    copy(copies.value.with(*barrier), from(_, tile), to(_, ring.slot));
  }
};

}  // namespace foxscope::kernels::cuda::hopper
