#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "backend/model/spec/model_config.h"

namespace foxscope {

/// Memory from so many bytes on is taken in large pages.
constexpr std::size_t kLargeBytes = std::size_t{8} << 20;
constexpr std::align_val_t kLargeAlignment{std::size_t{2} << 20};
/// Memory in pages of 2 MiB where the system has them: touching it for the first time costs a fraction.
/// @param bytes  at least kLargeBytes; freed by operator delete with kLargeAlignment
/// @throws std::bad_alloc
void* allocate_large(std::size_t bytes);

/// Memory that begins at a cache line: the BLAS rounds differently at other addresses, and the same command is to write
/// the same numbers.
template <typename T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};
  CacheLineAllocator() = default;
  template <typename U>
  explicit CacheLineAllocator(const CacheLineAllocator<U>& /*other*/) {}
  T* allocate(std::size_t count) {
    if (count * sizeof(T) >= kLargeBytes) return static_cast<T*>(allocate_large(count * sizeof(T)));
    return static_cast<T*>(::operator new(count * sizeof(T), kAlignment));
  }
  void deallocate(T* memory, std::size_t count) {
    ::operator delete(memory, count * sizeof(T) >= kLargeBytes ? kLargeAlignment : kAlignment);
  }
  bool operator==(const CacheLineAllocator& /*other*/) const { return true; }
};
using FloatArray = std::vector<float, CacheLineAllocator<float>>;

class MappedExperts;

/// The weights of one layer in float32, with everything that reads the same input merged into one matrix. Matrices are
/// [out, in]. Weights that a configuration does not have are empty.
struct LayerWeights {
  FloatArray attention_norm, attention_norm_bias;  ///< [D]; empty: x is read as it is
  FloatArray projection;       ///< [columns, D]: query, key, value, key shift, value shift, forget gate, w, beta
  FloatArray projection_bias;  ///< [columns]
  FloatArray query_norm;       ///< [H d]
  FloatArray key_norm;         ///< [H_kv d]
  FloatArray constant_gate;    ///< [H] logits of a gate that does not depend on data
  FloatArray output_gate;      ///< [H d, D]
  FloatArray output_norm;      ///< [H d]; of a linear mixer [norm_size], or one number a channel
  FloatArray output;           ///< [D, H d]
  FloatArray output_bias;      ///< [D]
  FloatArray path_up;          ///< [H_kv d, rank] W_2 of PathDirections
  FloatArray latent_norm;      ///< [rank] of LatentKeys
  FloatArray latent_up;        ///< [H (own_dim + value_dim), rank], of each head the rows of its key, then of its value
  FloatArray residual_norm, mlp_residual_norm;  ///< [D] of NormedResidual
  FloatArray side_output;                       ///< [D, D] W of a layer beside the stream
  /// Adapters, products of low rank that are added to a matrix when it is read: [ranks, in] and [out, rank]. Those of
  /// the projection are one each of queries, keys and values.
  FloatArray projection_down, projection_up, mlp_in_down, mlp_in_up;
  FloatArray attention_post_norm, mlp_post_norm;  ///< [D] of what attention and the MLP made
  FloatArray mlp_norm, mlp_norm_bias;             ///< [D]
  FloatArray mlp_in;                              ///< [2 I, D]: gate, then up; [I, D] without a gate
  FloatArray mlp_in_bias;                         ///< [2 I] or [I]
  FloatArray mlp_out;                             ///< [D, I]
  FloatArray mlp_out_bias;                        ///< [D]
  /// Weights of a mixture of experts (expert_mixture.h); mlp_in and mlp_out are its shared expert's.
  FloatArray router, router_bias, selection_bias;  ///< [E, D], [E], [E]
  FloatArray shared_gate;                          ///< [D]
  FloatArray experts_down, experts_up;             ///< [L, D] and [D, L] of ExpertMixture::latent
  FloatArray experts_in, experts_in_bias;          ///< [E, 2 I, D] and [E, 2 I], or without a gate I; L for D if latent
  FloatArray experts_out, experts_out_bias;        ///< [E, D, I] and [E, D]
  std::shared_ptr<const MappedExperts> mapped;     ///< in the place of experts_in and experts_out
  FloatArray sinks;                                ///< [H] logits of attention beside those of keys
  /// Weights of a linear mixer (linear_mixer.h), whose projection has LinearColumns.
  FloatArray convolution;       ///< [columns, taps], the last tap the position's own
  FloatArray convolution_bias;  ///< [columns]
  FloatArray convolution_taps;  ///< [taps, columns] the same the other way round, where the CPU computes
  FloatArray x_proj;       ///< [rank + 2 d, H] of Mamba: what makes the step's low rank, keys and queries of values
  FloatArray decay_up;     ///< [key_heads d, rank] W_2 of GLA; [H, rank] of Mamba's step
  FloatArray decay_bias;   ///< [H], or [key_heads d] of GLA
  FloatArray decay_rate;   ///< [H] A; [H, d] of Mamba
  FloatArray state_rates;  ///< [d, H] exp(A) of Mamba, the other way round, where the CPU computes
  FloatArray skip;         ///< [H] or [H d_v] D
  FloatArray x_proj_bias;  ///< [2 H] of RG-LRU's gates, whose x_proj is [2, blocks, H / blocks, H / blocks], [in, out]
  FloatArray query_map, key_map;            ///< [2 d, d] W_1, then W_2 of a feature map
  FloatArray query_map_bias, key_map_bias;  ///< [2 d]
  FloatArray output_gate_bias;  ///< [H d_v] where the gate has a low rank; output_gate is [H d_v, rank] then
  FloatArray feedback_decay;    ///< [H] d of Comba's p
  FloatArray query_correction;  ///< [H] D of Comba's queries
  /// RWKV-7's, whose projection is [3 D, D] of queries, keys and values, with the output's gate in output_gate.
  FloatArray pre_norm, pre_norm_bias;             ///< [D] of the embedding, in the first layer
  FloatArray shift;                               ///< [6, D] how much of the position before r, w, k, v, a, g read
  FloatArray mlp_shift;                           ///< [D] likewise
  FloatArray decay_down, erase_down, value_down;  ///< [rank, D] W_1; decay_up is W_2
  FloatArray gate_down;                           ///< [rank, D]
  FloatArray erase_up, value_up;                  ///< [D, rank] W_2
  FloatArray erase_bias, value_bias;              ///< [D]
  FloatArray unit_key, key_share;                 ///< [D] what keys are multiplied by: kappa's, and w'
  FloatArray bonus;                               ///< [D] what a value is added by, sum over a head of q k bonus
  FloatArray output_norm_bias;                    ///< [D]
  /// [H] what |q_i . k_j| / sqrt(d) cannot exceed, whatever is read (bound_logits).
  std::vector<double> logit_bound;
};

/// The weights of a model in float32.
struct ModelWeights {
  FloatArray embedding;                    ///< [V, D]
  FloatArray positions;                    ///< [learned_positions, D]
  FloatArray final_norm, final_norm_bias;  ///< [D]
  FloatArray language_model_head;          ///< [V, D]; empty where it is the embedding
  FloatArray lower_bounds;                 ///< [layers, H d] of HGRN2's decays, before softmax over layers
  std::vector<LayerWeights> layers;        ///< where all are held on the host
  [[nodiscard]] const FloatArray& head() const { return language_model_head.empty() ? embedding : language_model_head; }
};

/// Where the parts of the merged projection begin, in columns.
struct ProjectionColumns {
  explicit ProjectionColumns(const ModelConfig& config);
  std::int64_t key = 0;  ///< query begins at 0
  std::int64_t value = 0;
  std::int64_t key_shift = 0;
  std::int64_t value_shift = 0;
  std::int64_t forget = 0;
  std::int64_t path = 0;       ///< of PathDirections, w before its convolution, or its low rank
  std::int64_t path_beta = 0;  ///< logits of its beta
  std::int64_t count = 0;
};

/// How a tensor's numbers lie in the file, against those of the weight that it is a part of.
enum class ParameterLayout {
  rows,                ///< the same
  transposed,          ///< [in, out] (GPT-2)
  per_head,            ///< for each head its rows of query, key and value (GPT-NeoX)
  every_head,          ///< [d], once for all heads
  heads_repeated,      ///< for each head of queries the rows that several heads of keys have, one behind the other
  query_of_pairs,      ///< for each head its rows of the query, then of the output's gate: those of the query
  gate_of_pairs,       ///< the same: those of the gate
  qkvz_per_key_head,   ///< for each key head its rows of query, key, value and the output's gate; the weight has the
                       ///< gate's first, then all queries, keys and values (Qwen3-Next)
  ba_per_key_head,     ///< for each key head its rows of beta, then of the decay
  turning_pairs,       ///< of each head the numbers that turn lie pair by pair; the weight has the first of all pairs,
                       ///< then the second (GLM)
  steps_first,         ///< for each step of a position its heads, which the weight has the other way round
  gate_last,           ///< the second half comes first in the weight (Mamba's input, then the output's gate)
  expert_pairs,        ///< of each expert its rows of gate and up by turns
  experts_transposed,  ///< [E, in, out]
  expert_pairs_transposed,  ///< [E, in, out], of which the columns are gate and up by turns (gpt-oss)
};

/// A tensor of a checkpoint.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;  ///< in the file
  int layer = -1;                   ///< -1: outside the layers
  FloatArray LayerWeights::*of_layer = nullptr;
  FloatArray ModelWeights::*of_model = nullptr;
  std::int64_t first = 0;  ///< number of the weight at which it begins
  ParameterLayout layout = ParameterLayout::rows;
  bool zero_centered = false;  ///< the file holds what is beyond 1
  std::vector<float> factors;  ///< that rows of the file are multiplied by, one each or one for all; empty: none

  [[nodiscard]] std::int64_t elements() const;
};

/// Collects a family's parameters, with the prefix of its names before those that are not lm_head's.
class ParameterList {
 public:
  explicit ParameterList(const ModelConfig& config) : config_(config) {}

  void add(const std::string& name, std::vector<std::int64_t> shape, FloatArray ModelWeights::*weight);
  /// @param layer  of which those that follow are
  /// @param name   what names in it begin with, behind the prefix
  void begin_layer(int layer, std::string name);
  void add(const std::string& name, std::vector<std::int64_t> shape, FloatArray LayerWeights::*weight,
           std::int64_t first = 0, ParameterLayout layout = ParameterLayout::rows);
  /// The parameter that was added last holds what is beyond 1.
  void zero_centered() { parameters_.back().zero_centered = true; }
  /// The numbers of the parameter that was added last are multiplied by one factor, or each row by its own.
  void multiplied(std::vector<float> factors) { parameters_.back().factors = std::move(factors); }
  void scaled(float factor) {
    if (factor != 1) multiplied({factor});
  }
  /// Lists the matrix that makes logits, unless it is the embedding.
  void add_head();

  [[nodiscard]] std::vector<Parameter> take() { return std::move(parameters_); }

 private:
  const ModelConfig& config_;
  int layer_ = -1;
  std::string layer_name_;
  std::vector<Parameter> parameters_;
};

/// Every tensor that a checkpoint of this configuration must hold, in its family's names. The one table that says what
/// there is: shapes are checked against it, and weights are read by it.
std::vector<Parameter> parameters(const ModelConfig& config);

/// Puts the numbers of a tensor where they belong in the weight that it is a part of.
/// @param values  as in the file, all of them
void place_parameter(const ModelConfig& config, const Parameter& parameter, FloatArray values, FloatArray& weight);

/// The numbers of a tensor as in the file, from the weight that it is a part of: the inverse of place_parameter.
FloatArray take_parameter(const ModelConfig& config, const Parameter& parameter, const FloatArray& weight);
/// The gradient by a tensor, from that by the weight that it is a part of: what stands several times in it adds up.
FloatArray take_gradient(const ModelConfig& config, const Parameter& parameter, const FloatArray& gradient);

}  // namespace foxscope
