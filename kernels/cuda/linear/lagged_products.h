#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/maps/pooled_map.h"

namespace foxscope::kernels::cuda {

/// Sums of products of a head's queries with all keys that lie at least so far before them, key 0 left out:
///   sums[n] = sum over i of q_i . (k_1 + ... + k_(i - lags[n])).
/// The difference of two lags is the sum over all pairs at the distances from the one up to the other, so that a mean
/// over distances costs O(L d) and no logit is computed.
struct LaggedProducts {
  static constexpr int kMostLags = 40;  ///< distances that double reach from 1 to 2^38

  MapHead head;                       ///< its gate, normaliser, window and tables are not looked at
  std::int64_t lags[kMostLags] = {};  ///< 0 or more, host memory like all of this
  int count = 0;
  double* sums = nullptr;     ///< [count]
  void* workspace = nullptr;  ///< [lagged_products_workspace_bytes], aligned to 16 bytes
};

std::size_t lagged_products_workspace_bytes(const LaggedProducts& products);

/// Keys are summed over positions, and products with queries over these sums, in float64 and in an order that is always
/// the same. Asynchronous; what is not said to be elsewhere is memory of the device.
/// @returns invalid_argument for sizes that do not fit; unavailable without a device; failed where a launch fails
Status lagged_products(const LaggedProducts& products, Stream stream);

}  // namespace foxscope::kernels::cuda
