#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "backend/trace/trace_arrays.h"

namespace foxscope {

enum class LinearActivation { none, silu, relu, elu_plus_one };

/// The epsilon of LinearNorm::l2.
inline constexpr double kLinearNormEpsilon = 1e-6;

/// How the keys and queries of a delta rule are normed, a head each.
enum class LinearNorm {
  none,
  l2,   ///< x / sqrt(sum(x^2) + kLinearNormEpsilon)
  sum,  ///< x / sum(x)
};

/// Where log alpha comes from, the decay by which a state shrinks before a position writes to it.
enum class LinearDecay {
  none,      ///< log alpha = 0
  rate,      ///< -exp(A) softplus(a + b), a head
  rates,     ///< -exp(A) softplus(a + b), a head and with an A for each channel of its keys (Mamba)
  of_keys,   ///< logsigmoid(f) a channel, and the key is 1 - alpha (HGRN2)
  low_rank,  ///< logsigmoid(W_2 W_1 x + b) / 16 a channel (GLA)
};

/// How much of a value a position writes.
enum class LinearBeta {
  one,
  step,           ///< softplus(a + b) within limits, as the decay has it (Mamba, Mamba-2)
  sigmoid,        ///< sigmoid(b x)
  twice_sigmoid,  ///< so that eigenvalues may be negative
};

enum class LinearGate {
  none,
  before_norm,  ///< norm(y silu(z))
  after_norm,   ///< norm(y) silu(z)
};

enum class LinearSkip {
  none,
  head,     ///< y += D x, D a head
  channel,  ///< D a channel
};

/// A mixer without softmax, a case of the recurrence that stands at MixerKind: Mamba-2 (Dao and Gu 2024), GLA and HGRN2
/// (Yang et al. 2024; Qin et al. 2024), DeltaNet and Gated DeltaNet (Yang et al. 2024, 2025), Mamba (Gu and Dao 2023).
/// With q, k, v, log alpha and beta of each position, for each head
///
///     S_t = diag(alpha_t) S_(t-1) + k_t (beta_t u_t)^T,  y_t = S_t^T q_t,  S [d, d_v], 0 before the first position,
///
/// u_t = v_t; for the delta rule u_t = v_t - (diag(alpha_t) S_(t-1))^T k_t. So y_i = sum over j <= i of M_ij v_j.
///
/// The selective scan of Mamba is this with a head for each channel h of its input: d_v = 1, v its input behind the
/// convolution, d the size of its state, k = B and q = C of all heads, beta_t = dt_ht, log alpha_tn = -dt_ht exp(A_hn).
struct LinearMixer {
  Mixer kind = Mixer::mamba2;
  int heads = 0;        ///< H, of states and of values as the operator takes them
  int query_heads = 0;  ///< head h reads query head h / (H / query_heads), and likewise of the others
  int key_heads = 0;    ///< of keys, and of decays a channel
  int value_heads = 0;
  int key_dim = 0;    ///< d
  int value_dim = 0;  ///< d_v

  int convolution = 0;  ///< taps of a causal convolution, a channel each, of queries, keys and values; 0: none
  bool convolution_bias = false;
  LinearActivation query_activation = LinearActivation::none;  ///< behind the convolution
  LinearActivation key_activation = LinearActivation::none;
  LinearActivation value_activation = LinearActivation::none;
  LinearNorm norm = LinearNorm::none;
  double query_factor = 1;

  LinearDecay decay = LinearDecay::none;
  int decay_rank = 0;                      ///< of LinearDecay::low_rank, and of the step of LinearDecay::rates
  double decay_factor = 1;                 ///< log alpha is multiplied by it
  std::optional<double> lowest_log_decay;  ///< no log alpha is below it
  bool has_lower_bounds = false;           ///< HGRN2: the file holds a table of bounds
  bool lower_bound = false;                ///< alpha is at least its layer's bound, which grows from layer to layer
  LinearBeta beta = LinearBeta::one;
  double lowest_step = 0;
  double highest_step = std::numeric_limits<double>::infinity();

  LinearSkip skip = LinearSkip::none;
  LinearGate gate = LinearGate::none;
  std::int64_t norm_size = 0;  ///< channels of the output that are normed together; 0: it is not normed
  double norm_epsilon = 1e-6;
  bool projection_bias = false;
  bool output_bias = false;

  [[nodiscard]] std::int64_t query_size() const { return static_cast<std::int64_t>(query_heads) * key_dim; }
  [[nodiscard]] std::int64_t key_size() const { return static_cast<std::int64_t>(key_heads) * key_dim; }
  [[nodiscard]] std::int64_t value_size() const { return static_cast<std::int64_t>(value_heads) * value_dim; }
  [[nodiscard]] std::int64_t output_size() const { return static_cast<std::int64_t>(heads) * value_dim; }
  /// Numbers of a layer's S.
  [[nodiscard]] std::int64_t state_size() const { return output_size() * key_dim; }
  /// Rows before a row that its convolution reads.
  [[nodiscard]] int rows_before() const { return convolution > 0 ? convolution - 1 : 0; }
  [[nodiscard]] bool decays_by_channel() const {
    return decay == LinearDecay::of_keys || decay == LinearDecay::low_rank;
  }
  /// One decay a head is made from the projection's columns.
  [[nodiscard]] bool decays_by_head() const { return decay == LinearDecay::rate; }
  /// Keys are 1 - alpha, made of the logits of decays.
  [[nodiscard]] bool keys_are_of_decays() const { return decay == LinearDecay::of_keys; }
  [[nodiscard]] bool is_delta_rule() const { return kind == Mixer::delta_rule; }
  /// Whether step, keys and queries are made of what the convolution gives, not of the layer's input.
  [[nodiscard]] bool is_selective() const { return kind == Mixer::mamba; }
  /// Columns of that product: the step's low rank, keys, queries.
  [[nodiscard]] std::int64_t x_proj_size() const { return decay_rank + key_size() + query_size(); }
  /// Columns that the low rank is raised to: of steps, or of decays.
  [[nodiscard]] std::int64_t raised_size() const { return is_selective() ? heads : key_size(); }
  /// Numbers that a sequence carries in a layer: S, and the projections that its convolution reads again.
  [[nodiscard]] std::int64_t carried_size() const;
  /// Bytes that a layer takes for a position on its way, float32: one product, its parts by head, the output.
  [[nodiscard]] std::int64_t bytes_per_position() const;
  /// The layer as traces describe it.
  [[nodiscard]] LayerMixer layer() const;

  /// A head's step of one position and what it makes of the decay (decays_by_head()).
  struct HeadDecay {
    double step = 1;
    double log_decay = 0;  ///< nats
  };
  /// @param logit  a + b
  /// @param rate   A
  [[nodiscard]] HeadDecay head_decay(double logit, double rate) const;
  /// log alpha of a channel, nats (decays_by_channel()).
  /// @param logit  with its bias
  /// @param bound  of the layer's decay of that channel; 0: none
  [[nodiscard]] double channel_log_decay(double logit, double bound) const;
  /// The same as alpha, in float32, for the channels of a head.
  /// @param alpha  [d] sigmoids of the logits, which alpha replaces
  /// @param bound  [d], or empty
  void make_channel_decays(std::span<float> alpha, std::span<const float> bound) const;
  /// beta where it is no step.
  /// @param share  sigmoid of the logit
  [[nodiscard]] float beta_of(float share) const { return beta == LinearBeta::twice_sigmoid ? 2 * share : share; }
};

/// One log alpha of a layer, or one beta, as it came out of a forward pass.
struct DecayPlace {
  int layer = 0;
  int head = 0;  ///< of the heads that decays have
  std::int64_t position = 0;
};
/// @param log_decay  nats, not a number or above 0
/// @throws Error naming layer, head and position
[[noreturn]] void throw_bad_decay(const DecayPlace& place, double log_decay);
/// @param beta  dt of Mamba-2, or how much of a value is written; not finite
/// @throws Error likewise
[[noreturn]] void throw_bad_beta(const DecayPlace& place, const LinearMixer& mixer, double beta);

/// The factors of a head's log decay for each channel of its keys (LinearDecay::rates), and its mean rate, which makes
/// the head's log decay of a step.
struct ChannelRates {
  /// @param logarithms  [H, d] A
  ChannelRates(std::span<const float> logarithms, int heads);
  std::vector<double> mean;   ///< [H] mean of exp(A) over channels
  std::vector<double> share;  ///< [H, d] exp(A) / mean; 1 where no channel decays
  /// Where log decays were changed to the lowest that is summed, which lets nothing pass, the slowest channels are not
  /// to let anything pass either: these are made lower.
  /// @param log_decay  [H, length] nats
  void hold_all(std::int64_t length, double* log_decay) const;
};

/// Where the parts of a linear mixer's merged projection begin, in columns. Mamba-2's values come before its keys and
/// queries, as in its files; Mamba's projection has no more than its values behind the gate. The columns of decays and
/// beta come last: they are float32 whatever the dtype of matrices is.
struct LinearColumns {
  explicit LinearColumns(const LinearMixer& mixer);
  std::int64_t convolved = 0;  ///< the convolution is of columns [convolved, precise); before it the output's gate
  std::int64_t query = 0;
  std::int64_t key = 0;
  std::int64_t value = 0;
  std::int64_t precise = 0;  ///< from here on in float32
  std::int64_t beta = 0;     ///< [H]
  std::int64_t decay = 0;    ///< [H], or the low rank; Mamba-2's is beta's
  std::int64_t count = 0;
  [[nodiscard]] std::int64_t convolved_size() const { return precise - convolved; }
};

}  // namespace foxscope
