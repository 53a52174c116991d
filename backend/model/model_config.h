#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foxscope {

/// How a head's forget gate f_t comes about (config key `fgate_type`).
enum class ForgetGate {
  full,       ///< f_t = sigmoid(w_f.x_t + b_f)
  bias_only,  ///< data-independent: f_t = sigmoid(b_h), a parameter
  fixed,      ///< the same, a buffer
  none,       ///< f = 1: a plain Transformer
};

enum class QueryKeyNorm { none, per_head, shared };  ///< RMSNorm over d, weight [D] or [d]
enum class OutputGateActivation { sigmoid, silu };

/// Which checkpoint dialect the parameter names follow.
enum class Dialect {
  project_fox,              ///< `forgetting_transformer-project_fox`
  transformer_project_fox,  ///< `transformer-project_fox`
  fla,                      ///< the FLA library's `forgetting_transformer`
};

/// One description of all layers, whatever the dialect: models differ in this table, not in class.
struct ModelConfig {
  Dialect dialect = Dialect::project_fox;
  std::string model_type;
  std::string json;  ///< config.json as it was read, paths in it (_name_or_path) without their folders

  std::int64_t vocabulary_size = 0;
  std::int64_t hidden_size = 0;        ///< D
  std::int64_t intermediate_size = 0;  ///< I
  int layers = 0;
  int heads = 0;
  int key_heads = 0;
  int head_dim = 0;
  double norm_epsilon = 1e-6;
  bool tie_word_embeddings = false;
  std::optional<std::int32_t> bos_token_id;

  ForgetGate forget_gate = ForgetGate::full;
  bool key_shift = false;  ///< one shift gate a key head
  bool value_shift = false;
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  bool query_key_norm_by_shape = false;  ///< the config does not say which: a weight of size [d] means shared
  bool query_key_value_bias = false;
  bool rope = false;
  double rope_base = 500000.0;
  bool output_norm = false;
  bool output_gate = false;
  OutputGateActivation output_gate_activation = OutputGateActivation::sigmoid;
  std::int64_t window_size = 0;                 ///< 0: none
  std::optional<double> log_pruning_tolerance;  ///< of config.json
  std::vector<std::string> notes;               ///< what the user should be told, one line each

  static constexpr double kQueryKeyNormEpsilon = 1e-5;

  /// Number of columns of keys and of values, H_kv d.
  [[nodiscard]] std::int64_t key_size() const { return static_cast<std::int64_t>(key_heads) * head_dim; }
  [[nodiscard]] bool gated() const { return forget_gate != ForgetGate::none; }

  /// Reads config.json.
  /// @throws Error naming the file, the key, the value and what is allowed
  static ModelConfig from_json(std::string_view content, std::string_view name);
};

/// A tensor that a checkpoint of this configuration must hold.
struct ExpectedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// Parameter names of one layer, in a dialect's spelling. An empty name: this configuration has no such tensor.
struct LayerNames {
  std::string attention_norm;
  std::string query, query_bias;
  std::string key, key_bias, key_shift;
  std::string value, value_bias, value_shift;
  std::string query_norm, key_norm;
  std::string forget, forget_bias;  ///< `forget` is empty where the gate is a bias alone
  std::string output_gate, output_norm, output;
  std::string mlp_norm;
  std::string mlp_gate;  ///< [2 I, D], or [I, D] where `mlp_up` has a name
  std::string mlp_up;
  std::string mlp_down;
};
LayerNames layer_names(const ModelConfig& config, int layer);

/// Names outside the layers; the same in all dialects.
inline constexpr const char* kEmbeddingName = "model.embeddings.weight";
inline constexpr const char* kFinalNormName = "model.norm.weight";
inline constexpr const char* kLanguageModelHeadName = "lm_head.weight";

/// Every tensor of a checkpoint, in the dialect's names. With tied embeddings lm_head is not among them.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

}  // namespace foxscope
