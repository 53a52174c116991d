#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "backend/model/spec/rotary.h"
#include "backend/trace/trace_arrays.h"

namespace foxscope {

enum class LinearActivation { none, silu, relu, elu_plus_one, sigmoid, gelu_tanh };

/// The epsilon of LinearNorm::l2.
inline constexpr double kLinearNormEpsilon = 1e-6;
/// The epsilon of LinearNorm::share.
inline constexpr double kLinearShareEpsilon = 1e-4;

/// How keys and queries are normed, a head each.
enum class LinearNorm {
  none,
  l2,     ///< x / sqrt(sum(x^2) + kLinearNormEpsilon)
  sum,    ///< x / sum(x)
  share,  ///< x / (sum(x) + kLinearShareEpsilon)
};

/// Keys and queries of linear attention go through this map, the same for all heads.
enum class LinearFeatureMap {
  none,
  product,  ///< (W_1 x + b_1) (W_2 x + b_2), entry by entry
};

/// Where log alpha comes from, the decay by which a state shrinks before a position writes to it.
enum class LinearDecay {
  none,       ///< log alpha = 0
  rate,       ///< -exp(A) softplus(a + b), a head
  rates,      ///< -exp(A) softplus(a + b), a head and with an A for each channel of its keys (Mamba)
  of_keys,    ///< logsigmoid(f) a channel, and the key is 1 - alpha (HGRN2)
  low_rank,   ///< logsigmoid(W_2 W_1 x + b) / 16 a channel (GLA)
  retention,  ///< log(1 - 2^(-5 - h)) of head h, whatever is read (RetNet)
  slope,      ///< -2^(-8 (h + 1) / H) (1 - n / (N - 1 + 1e-5) + 1e-5) of head h in layer n of N (Lightning Attention)
  channel_rate,  ///< -exp(A) softplus(W_2 W_1 x + b) a channel, with an A for each head of keys (Kimi Delta Attention)
  recurrent_gate,  ///< -8 sigmoid(W u + b) softplus(A) of a head, which is a channel of the input u (RG-LRU)
  bounded,         ///< -exp(-1/2) sigmoid(W_2 tanh(W_1 x) + b) a channel (RWKV-7)
};

/// A position takes this away of the state, by arrays e and b (MixerKind).
enum class LinearErasing {
  none,
  /// e = p, b = -beta k with p = k sigmoid(d), normed as keys are; queries are q - D p before their norm. d and D are
  /// a head's (Comba)
  feedback,
  /// e = -kappa, b = kappa a, kappa = k w normed as keys are, a = sigmoid(W_2 W_1 x + b) a channel (RWKV-7); keys are
  /// then k (1 + (a - 1) w'), and are not normed
  unit_keys,
};

/// How much of a value a position writes.
enum class LinearBeta {
  one,
  step,           ///< softplus(a + b) within limits, as the decay has it (Mamba, Mamba-2)
  sigmoid,        ///< sigmoid(b x)
  twice_sigmoid,  ///< so that eigenvalues may be negative
  complement,     ///< sigmoid(W u + b) sqrt(1 - alpha^2), without the root in the first position of a text (RG-LRU)
};

/// Where the output's gate is, act(z) with the mixer's gate_activation.
enum class LinearGate {
  none,
  before_norm,  ///< norm(y act(z))
  after_norm,   ///< norm(y) act(z)
};

enum class LinearSkip {
  none,
  head,     ///< y += D x, D a head
  channel,  ///< D a channel
};

/// A mixer without softmax, a case of the recurrence that stands at MixerKind: Mamba-2 (Dao and Gu 2024), GLA and HGRN2
/// (Yang et al. 2024; Qin et al. 2024), DeltaNet and Gated DeltaNet (Yang et al. 2024, 2025), Mamba (Gu and Dao 2023),
/// RetNet (Sun et al. 2023), Kimi Delta Attention (Kimi Team 2025), Comba (Hu et al. 2025), RG-LRU (De et al. 2024).
/// With q, k, v, log alpha and beta of each position, for each head
///
///     S_t = diag(alpha_t) S_(t-1) + k_t (beta_t u_t)^T,  y_t = S_t^T q_t,  S [d, d_v], 0 before the first position,
///
/// u_t = v_t; for the delta rule u_t = v_t - (diag(alpha_t) S_(t-1))^T k_t. So y_i = sum over j <= i of M_ij v_j.
///
/// The selective scan of Mamba is this with a head for each channel h of its input: d_v = 1, v its input behind the
/// convolution, d the size of its state, k = B and q = C of all heads, beta_t = dt_ht, log alpha_tn = -dt_ht exp(A_hn).
/// So is RG-LRU, with d = 1 and k = q = 1.
///
/// DeltaProduct (Siems et al. 2025) takes `steps` steps of the delta rule for each position, which share its decay.
/// Each step is a head (MixerKind): it has keys, values and beta of its own, and an output and a state are of all steps
/// of a query head.
struct LinearMixer {
  Mixer kind = Mixer::mamba2;
  int heads = 0;        ///< H, of states and of values as the operator takes them
  int query_heads = 0;  ///< head h reads query head h / (H / query_heads), and likewise of the others
  int key_heads = 0;    ///< of keys, and of decays a channel
  int value_heads = 0;
  int steps = 1;      ///< of a position; heads h steps, ..., h steps + steps - 1 have one state, decay and output
  int key_dim = 0;    ///< d
  int value_dim = 0;  ///< d_v

  int convolution = 0;  ///< taps of a causal convolution, a channel each, of queries, keys and values; 0: none
  bool convolution_bias = false;
  LinearActivation query_activation = LinearActivation::none;  ///< behind the convolution
  LinearActivation key_activation = LinearActivation::none;
  LinearActivation value_activation = LinearActivation::none;
  LinearFeatureMap feature_map = LinearFeatureMap::none;
  LinearNorm query_norm = LinearNorm::none;
  LinearNorm key_norm = LinearNorm::none;
  double query_factor = 1;
  std::optional<Rotary> rotary;  ///< that heads of queries and keys turn by

  LinearDecay decay = LinearDecay::none;
  int decay_rank = 0;                      ///< of decays_by_low_rank(), and of the step of LinearDecay::rates
  double decay_factor = 1;                 ///< log alpha is multiplied by it
  std::optional<double> lowest_log_decay;  ///< no log alpha is below it
  /// Below 0: log alpha of LinearDecay::channel_rate is this times sigmoid(exp(A) (W_2 W_1 x + b)) instead.
  double decay_bound = 0;
  bool has_lower_bounds = false;  ///< HGRN2: the file holds a table of bounds
  bool lower_bound = false;       ///< alpha is at least its layer's bound, which grows from layer to layer
  LinearBeta beta = LinearBeta::one;
  double lowest_step = 0;
  double highest_step = std::numeric_limits<double>::infinity();
  /// Step, keys and queries of a selective mixer are each x / sqrt(mean(x^2) + this) (Falcon Mamba); empty: as they
  /// are.
  std::optional<double> selected_norm_epsilon;
  int gate_blocks = 1;  ///< of RG-LRU's gates: each makes those of its own channels of them
  LinearErasing erasing = LinearErasing::none;
  int erase_rank = 0;              ///< of a of LinearErasing::unit_keys
  int value_rank = 0;              ///< RWKV-7: of how much of the first layer's value a value is
  double unit_key_epsilon = 1e-6;  ///< kappa = x / sqrt(sum(x^2) + this)

  LinearSkip skip = LinearSkip::none;
  LinearGate gate = LinearGate::none;
  LinearActivation gate_activation = LinearActivation::silu;
  int gate_rank = 0;           ///< z = W_2 W_1 x + b by so many numbers; 0: z is a product of x
  std::int64_t norm_size = 0;  ///< channels of the output that are normed together; 0: it is not normed
  double norm_epsilon = 1e-6;
  bool projection_bias = false;
  bool output_bias = false;

  [[nodiscard]] std::int64_t query_size() const { return static_cast<std::int64_t>(query_heads) * key_dim; }
  [[nodiscard]] std::int64_t key_size() const { return static_cast<std::int64_t>(key_heads) * key_dim; }
  [[nodiscard]] std::int64_t value_size() const { return static_cast<std::int64_t>(value_heads) * value_dim; }
  /// Heads that have a state, a decay and an output of their own.
  [[nodiscard]] int states() const { return heads / steps; }
  [[nodiscard]] std::int64_t output_size() const { return static_cast<std::int64_t>(states()) * value_dim; }
  /// Numbers of a layer's S.
  [[nodiscard]] std::int64_t state_size() const { return output_size() * key_dim; }
  /// Rows before a row that its convolution reads.
  [[nodiscard]] int rows_before() const { return convolution > 0 ? convolution - 1 : 0; }
  [[nodiscard]] bool decays_by_channel() const {
    return decay == LinearDecay::of_keys || decay == LinearDecay::bounded || decays_by_low_rank();
  }
  [[nodiscard]] bool decays_by_low_rank() const {
    return decay == LinearDecay::low_rank || decay == LinearDecay::channel_rate;
  }
  /// One decay a head is made, from the projection's columns or whatever is read.
  [[nodiscard]] bool decays_by_head() const { return decay == LinearDecay::rate || has_constant_decay(); }
  /// A head's decay is the same at all positions.
  [[nodiscard]] bool has_constant_decay() const {
    return decay == LinearDecay::retention || decay == LinearDecay::slope;
  }
  [[nodiscard]] bool erases_by_arrays() const { return erasing != LinearErasing::none; }
  /// Whether models of it are trained: their untrained weights are known (initial_linear_weights.h).
  [[nodiscard]] bool is_trained() const {
    return steps == 1 && decay <= LinearDecay::low_rank && feature_map == LinearFeatureMap::none &&
           !selected_norm_epsilon && !erases_by_arrays() && gate_activation == LinearActivation::silu && !rotary;
  }
  /// Whether what is projected is mixed with the position before, each part in its own way (RWKV-7).
  [[nodiscard]] bool shifts_tokens() const { return erasing == LinearErasing::unit_keys; }
  /// Whether heads are channels that decay by gates of their own (RG-LRU).
  [[nodiscard]] bool is_gated_recurrence() const { return decay == LinearDecay::recurrent_gate; }
  /// Columns of the projection that the output's gate is made of.
  [[nodiscard]] std::int64_t gate_columns() const {
    if (gate == LinearGate::none) return 0;
    return gate_rank > 0 ? gate_rank : output_size();
  }
  /// Keys are 1 - alpha, made of the logits of decays.
  [[nodiscard]] bool keys_are_of_decays() const { return decay == LinearDecay::of_keys; }
  [[nodiscard]] bool is_delta_rule() const { return kind == Mixer::delta_rule || kind == Mixer::delta_product; }
  /// Whether step (or decay and beta), keys and queries are made of what the convolution gives, not of the layer's
  /// input.
  [[nodiscard]] bool is_selective() const { return kind == Mixer::mamba; }
  /// Columns of that product: the step's low rank, keys, queries; of RG-LRU the gates of decay and input.
  [[nodiscard]] std::int64_t x_proj_size() const {
    return is_gated_recurrence() ? 2 * std::int64_t{heads} : decay_rank + key_size() + query_size();
  }
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
  /// log alpha of a head whose decay is constant, nats.
  /// @param layer  of `layers`
  [[nodiscard]] double constant_log_decay(int head, int layer, int layers) const;
  /// log alpha of a channel of RG-LRU whose gate is 1, -8 softplus(A) nats.
  /// @param rate  A
  [[nodiscard]] static double recurrent_log_decay(float rate);
  /// The decay of one channel, as far as a layer knows it.
  struct ChannelDecay {
    double bound = 0;  ///< that alpha is not below; 0: none
    double rate = 0;   ///< A, of LinearDecay::channel_rate
  };
  /// log alpha of a channel, nats (decays_by_channel()).
  /// @param logit  with its bias
  [[nodiscard]] double channel_log_decay(double logit, const ChannelDecay& of) const;
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
  /// The convolution is of columns [convolved, precise); before it lies what the output's gate is made of.
  std::int64_t convolved = 0;
  std::int64_t query = 0;
  std::int64_t key = 0;
  std::int64_t value = 0;
  std::int64_t precise = 0;  ///< from here on in float32
  std::int64_t beta = 0;     ///< [H]
  std::int64_t decay = 0;    ///< [states()], or the low rank; Mamba-2's is beta's
  std::int64_t count = 0;
  [[nodiscard]] std::int64_t convolved_size() const { return precise - convolved; }
};

}  // namespace foxscope
