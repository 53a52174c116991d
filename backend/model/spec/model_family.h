#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "backend/model/spec/config_keys.h"
#include "backend/model/spec/model_config.h"
#include "backend/model/spec/parameters.h"

namespace foxscope {

/// A kind of checkpoint: how its config.json is read, and what its tensors are called. Each is one file in families/
/// and one line in model_family.cpp; how one is added stands in CONTRIBUTING.md.
struct ModelFamily {
  std::string_view model_type;   ///< of config.json
  std::string_view title;        ///< as people call it; empty: by the parts of its layers
  std::string_view name_prefix;  ///< what the names of tensors begin with; files without it are read too
  /// Fills in what config.json says; model_type and json are there.
  void (*read)(const ConfigKeys& keys, ModelConfig& config);
  /// Every tensor, in this family's names.
  void (*list)(const ModelConfig& config, ParameterList& parameters);
  std::string_view head_name = "lm_head.weight";  ///< of what makes logits; it has no prefix
  /// Whether a tensor that is not listed is known to hold nothing that is needed; null: none is.
  bool (*is_buffer)(std::string_view name) = nullptr;
};

/// The family that model_type names.
/// @throws Error naming the file, the model_type, the nearest, and what to do
const ModelFamily& family_of(const ConfigKeys& keys);

/// A model_type that is read.
struct SupportedModel {
  std::string_view model_type;
  std::string_view title;      ///< empty: by the parts of its layers
  std::string_view text_type;  ///< the language model that is read of a model of text and pictures; else empty
};
/// All of them, in the order in which they are described.
std::vector<SupportedModel> supported_models();

/// The language model of a config.json that describes towers for pictures beside it: the object under text_config, with
/// the keys of the whole that count for it. Notes the towers in `config`.
/// @returns nothing where the whole is a language model
/// @throws Error naming a key of the whole that Foxscope does not know
std::optional<nlohmann::json> text_model_of(const ConfigKeys& whole, ModelConfig& config);

/// Helpers that readers of config.json share.
namespace family {

/// Largest sizes that are read: far beyond any published model, and small enough that no product of two overflows.
inline constexpr std::int64_t kMaxVocabulary = 1 << 24;
inline constexpr std::int64_t kMaxHidden = 1 << 18;
inline constexpr std::int64_t kMaxIntermediate = 1 << 22;
inline constexpr std::int64_t kMaxLayers = 1024;
inline constexpr std::int64_t kMaxHeadDim = 1024;

/// Names of the keys that sizes stand under.
struct SizeKeys {
  const char* hidden = "hidden_size";
  const char* layers = "num_hidden_layers";  ///< null: they are known
  const char* heads = "num_attention_heads";
  const char* key_heads = "num_key_value_heads";  ///< null: there are as many as heads
  const char* head_dim = "head_dim";              ///< null: it is hidden size / heads
  int head_dim_otherwise = 0;                     ///< where the file has no such key; 0: hidden size / heads
  int heads_otherwise = 0;                        ///< likewise; 0: the key is required
  int key_heads_otherwise = 0;                    ///< likewise; 0: as many as heads
};
/// Vocabulary, hidden size, layers, heads and their dimension.
void read_sizes(const ConfigKeys& keys, const SizeKeys& names, ModelConfig& config);

/// The MLP's width as the FoX authors and the FLA library write it: intermediate_size, or from hidden_ratio.
/// @param otherwise  hidden_ratio where the file does not say
void read_swiglu_width(const ConfigKeys& keys, ModelConfig& config, double otherwise = 4);

/// Makes all layers the linear mixer that was read.
void use_linear_mixer_alone(ModelConfig& config);

void read_bos(const ConfigKeys& keys, ModelConfig& config);

/// How a family writes and reads the part of a head that turns.
struct RotaryKeys {
  const char* base = "rope_theta";      ///< of the base where it stands alone
  const char* fraction = nullptr;       ///< of the part that turns, likewise; null: there is none
  std::optional<double> otherwise = 1;  ///< the part that turns where nothing says; empty: heads turn whole
  double base_otherwise = 10000;        ///< the base where nothing says
  bool by_kind = false;  ///< rope_parameters holds an object for each kind of layer: full_attention's is read
};
/// Rotary embedding of all layers as Hugging Face's configurations write it: rope_parameters, or rope_theta and
/// rope_scaling. Families whose heads turn whole do not look at rope_parameters.partial_rotary_factor (transformers 5).
void read_rotary(const ConfigKeys& keys, const RotaryKeys& names, ModelConfig& config);

/// Gives the layers that have a window, which are known, a rotary embedding of their own: rope_parameters has it under
/// sliding_attention.
/// @param base  where nothing is said; then it is not stretched
void read_windowed_rotary(const ConfigKeys& keys, double base, ModelConfig& config);

/// The window of a file that does not name one; null is no window.
inline constexpr std::int64_t kWindowOtherwise = 4096;
/// Windows by layer: those that `layer_types` calls sliding_attention, or where the file has no such key those of which
/// `slides` says so.
/// @param window  0: there is none, so that no layer may ask for one
void read_windows(const ConfigKeys& keys, std::int64_t window, const std::function<bool(int layer)>& slides,
                  ModelConfig& config);
/// sliding_window; 0 where it is null.
std::int64_t read_window(const ConfigKeys& keys, std::int64_t otherwise = kWindowOtherwise);

/// The mixer of each layer by a word: full_attention, or linear_attention, which is `linear`. Files before transformers
/// 5.24 say attention and mamba. Nothing where the file has no such key.
std::optional<std::vector<Mixer>> read_mixer_words(const ConfigKeys& keys, const char* key, Mixer linear, int layers);

/// The activation of an MLP without a gate.
void read_gelu(const ConfigKeys& keys, const char* key, const char* otherwise, ModelConfig& config);

/// Keys of Hugging Face's configurations that change nothing in a forward pass.
std::span<const std::string_view> harmless_keys();

}  // namespace family
}  // namespace foxscope
