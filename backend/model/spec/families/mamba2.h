#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kMamba2Baseline;  ///< mamba2-project_fox
extern const ModelFamily kMamba2;          ///< FLA's and Hugging Face's

/// Names of the keys that a file describes its Mamba-2 mixer by, and what it has where it does not say.
struct Mamba2Keys {
  const char* heads = "num_heads";
  const char* head_dim = "head_dim";
  const char* state = "state_size";
  const char* groups = "n_groups";
  const char* taps = "conv_kernel";
  const char* convolution_bias = "use_conv_bias";  ///< null: it has one
  const char* bias = "use_bias";                   ///< of the projection and the output
  const char* expand = "expand";                   ///< of the width in parts of the hidden size; null: heads say it all
  const char* limits = "time_step_limit";          ///< of the least step and the largest
  const char* lowest = nullptr;                    ///< of the least step, in the place of limits, which change nothing
  int heads_otherwise = 128;                       ///< 0: as many as the width holds
  int head_dim_otherwise = 64;
  int state_otherwise = 128;
  int groups_otherwise = 8;
};
/// The mixer of such a file, with the norm's epsilon of `config`; its norm is over the channels of a group.
void read_mamba2_mixer(const ConfigKeys& keys, const Mamba2Keys& names, ModelConfig& config);

/// A file's projections are multiplied by these.
struct Mamba2Factors {
  float input = 1;                                 ///< what the projection reads
  std::optional<std::array<float, 5>> parts = {};  ///< z, x, B, C and dt, which the projection makes
  float output = 1;                                ///< what the output makes
};
/// Its tensors, in the layer that was begun.
/// @param name  what their names begin with
void list_mamba2_mixer(const ModelConfig& config, const std::string& name, const Mamba2Factors& factors,
                       ParameterList& list);

/// Keys of Mamba-2 that concern training alone, or how a kernel is called.
std::span<const std::string_view> mamba2_training_keys();
/// refuse_others() with these and the harmless keys of all families.
void refuse_mamba2_rest(const ConfigKeys& keys);

}  // namespace foxscope::family
