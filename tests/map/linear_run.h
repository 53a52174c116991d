#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/map/map.h"

namespace foxscope::test {

/// A run of one layer of a linear mixer, made of random numbers as such a mixer has them: keys of the delta rule have
/// length 1, beta lies in (0, 1), decay times differ between heads and channels.
struct LinearShape {
  LayerMixer mixer;
  std::int64_t length = 300;
  unsigned seed = 1;
  double largest_decay = 0.5;    ///< nats a token
  std::int64_t nan_query = -1;   ///< the row of head 0 that has a query that is not a number; -1: none
  DType dtype = DType::float32;  ///< of queries and keys
};

std::shared_ptr<const Trace> make_linear_run(const LinearShape& shape);

/// The kinds of linear mixers, heads that share queries, keys and values among them.
LayerMixer mamba2_mixer(int head_dim = 32);
LayerMixer gla_mixer(int head_dim = 24);
LayerMixer delta_mixer(int head_dim = 20);
LayerMixer gated_delta_mixer(int head_dim = 16);
LayerMixer channel_delta_mixer(int head_dim = 14);  ///< Kimi Delta Attention
LayerMixer low_rank_mixer(int head_dim = 18);       ///< RWKV-7
LayerMixer comba_mixer(int head_dim = 13);
LayerMixer delta_product_mixer(int head_dim = 11);
LayerMixer linear_attention_mixer(int head_dim = 21);
LayerMixer retention_mixer(int head_dim = 17);
LayerMixer rg_lru_mixer();
LayerMixer mamba_mixer(int head_dim = 12);
std::vector<LayerMixer> linear_mixers();

/// M of rows [first, end) in float64 by the forward recurrence: w = beta_j k_j at key j, w <- alpha_t (w - (0 or beta_t
/// k_t) k_t.w), or alpha_t w + b_t (e_t.w), at every later t, M_ij = q_i.w. [rows, L], NaN above the diagonal. Of steps
/// of a position w goes on at once through the later steps of j, and at later t through all of them.
std::vector<double> dense_mixing(const HeadOf& head, const Range& rows);
/// One entry by the same recurrence.
double mixing_entry(const HeadOf& head, std::int64_t row, std::int64_t key);

}  // namespace foxscope::test
