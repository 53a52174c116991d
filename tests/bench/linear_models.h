#pragma once

#include <string_view>

// Linear mixers that benchmarks of a GPU run.
namespace foxscope::bench {

/// A model of linear mixers of 760M shape: D 1536; 48 mixers of Mamba-2, or 24 layers of mixer and SwiGLU, 21 of Gated
/// DeltaNet, whose mixers are larger.
struct LinearShape {
  std::string_view name;
  const char* config;  ///< content of config.json
};

inline constexpr LinearShape kLinearShapes[] = {
    {"Mamba-2",
     R"({"model_type": "mamba2-project_fox", "vocab_size": 50257, "hidden_size": 1536, "num_hidden_layers": 48,
         "num_heads": 48, "head_dim": 64, "state_size": 128, "n_groups": 1, "bos_token_id": 50256})"},
    {"HGRN2",
     R"({"model_type": "hgrn2-project_fox", "vocab_size": 50257, "hidden_size": 1536, "num_hidden_layers": 24,
         "expand_ratio": 128, "hidden_ratio": 4, "bos_token_id": 50256})"},
    {"GLA",
     R"({"model_type": "gla", "vocab_size": 50257, "hidden_size": 1536, "num_hidden_layers": 24, "num_heads": 4,
         "expand_k": 0.5, "expand_v": 1.0, "hidden_ratio": 4, "bos_token_id": 50256})"},
    {"DeltaNet",
     R"({"model_type": "delta_net-project_fox", "vocab_size": 50257, "hidden_size": 1536, "num_hidden_layers": 24,
         "num_heads": 12, "hidden_ratio": 4, "bos_token_id": 50256})"},
    {"Gated-DeltaNet",
     R"({"model_type": "gated_deltanet", "vocab_size": 50257, "hidden_size": 1536, "num_hidden_layers": 21,
         "num_heads": 6, "head_dim": 192, "expand_v": 2.0, "hidden_ratio": 4, "bos_token_id": 50256})"},
};

}  // namespace foxscope::bench
