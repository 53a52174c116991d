#pragma once

#include <cstdint>

namespace foxscope {

/// A mixture of experts in the place of an MLP (Shazeer et al. 2017): of E experts, each an MLP of its own, a position
/// reads the k that its router chooses,
///
///     s = softmax(n W_r + b_r) over all experts, or sigmoid(n W_r + b_r), with n = norm(x);
///     T = the k experts with the largest s_e + b_e, of the groups that are eligible;
///     w_e = factor s_e / (1 or sum_T s_e);    x += sum_T w_e expert_e(n) + (1 or sigmoid(n W_s)) shared(n).
///
/// Experts may read W_d n in the place of n, which has fewer numbers; then W_u sum_T w_e expert_e(W_d n) is added
/// (latent experts of Nemotron 3).
///
/// A softmax over the logits of those that were chosen alone is s_e / sum_T s_e. Where there are groups of experts, as
/// many in each, those are eligible whose two largest s_e + b_e have the largest sum (DeepSeek-V3, eq. 16).
struct ExpertMixture {
  enum class Scores { softmax, sigmoid };
  int experts = 0;          ///< E
  int chosen = 0;           ///< k
  std::int64_t size = 0;    ///< I of an expert
  std::int64_t latent = 0;  ///< numbers of W_d n; 0: experts read n
  Scores scores = Scores::softmax;
  bool normalized = false;       ///< weights are divided by their sum
  double factor = 1;             ///< of weights
  bool router_bias = false;      ///< b_r
  bool selection_bias = false;   ///< b_e, which chooses and does not weight
  bool expert_bias = false;      ///< both matrices of an expert have a bias
  int groups = 1;                ///< of experts
  int chosen_groups = 1;         ///< groups that are eligible
  std::int64_t shared_size = 0;  ///< I of the expert that every position reads; 0: there is none
  bool shared_gate = false;      ///< what it makes is multiplied by a sigmoid
  bool operator==(const ExpertMixture&) const = default;
};

}  // namespace foxscope
