#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "tests/model/model_test_support.h"

namespace foxscope::test {

inline double root_mean_square_difference(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t n = 0; n < a.size(); ++n) sum += std::pow(static_cast<double>(a[n]) - static_cast<double>(b[n]), 2);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

/// A small model with every part of a layer.
inline nlohmann::json pro_config() {
  nlohmann::json config = tiny_config();
  config.update({{"hidden_size", 32},
                 {"num_heads", 4},
                 {"num_kv_heads", 2},
                 {"num_hidden_layers", 2},
                 {"qk_norm", true},
                 {"use_k_shift", true},
                 {"use_v_shift", true},
                 {"use_rope", true},
                 {"use_output_norm", true},
                 {"use_output_gate", true}});
  return config;
}

/// Models that have every part of a layer between them.
inline std::vector<nlohmann::json> small_models() {
  nlohmann::json all = pro_config();
  all.update({{"hidden_size", 64}, {"window_size", 70}});
  nlohmann::json silu = tiny_config();
  silu.update({{"hidden_size", 64}, {"num_heads", 2}, {"use_output_gate", true}, {"ogate_act", "silu"}});
  nlohmann::json plain = tiny_config();
  plain.update({{"hidden_size", 32}, {"num_heads", 2}, {"fgate_type", "none"}});
  nlohmann::json biased = tiny_config("forgetting_transformer");
  biased.update({{"hidden_size", 64}, {"num_heads", 2}, {"qkv_bias", true}, {"use_output_gate", true}});
  nlohmann::json fixed = tiny_config();
  fixed.update({{"hidden_size", 64}, {"num_heads", 2}, {"fgate_type", "bias_only"}, {"tie_word_embeddings", true}});
  // Heads of 160, filled up to 192, and of 256.
  nlohmann::json filled = all;
  filled.update({{"hidden_size", 320}, {"num_heads", 2}, {"num_kv_heads", 1}});
  nlohmann::json wide = filled;
  wide.update({{"hidden_size", 512}, {"window_size", nullptr}});
  return {all, silu, plain, biased, fixed, filled, wide};
}

}  // namespace foxscope::test
