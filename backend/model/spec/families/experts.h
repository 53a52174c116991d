#pragma once

#include <functional>
#include <string>

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

/// Names of the keys of a mixture of experts.
struct ExpertKeys {
  const char* experts = "num_experts";
  int experts_otherwise = 0;  ///< where the file has no such key; 0: the key is required
  const char* chosen = "num_experts_per_tok";
  int chosen_otherwise = 0;                    ///< likewise
  const char* size = "moe_intermediate_size";  ///< I of an expert
  const char* normalized = nullptr;            ///< null: ExpertMixture::normalized stays what it is
  bool normalized_otherwise = false;
};
/// How many experts there are, how wide they are and how many a position reads. Drops keys of their training.
void read_experts(const ConfigKeys& keys, const ExpertKeys& names, ExpertMixture& mixture);
/// Makes the layers that `is_sparse` names a mixture of experts, and where none is forgets the mixture.
void use_experts(const ExpertMixture& mixture, const std::function<bool(int layer)>& is_sparse, ModelConfig& config);

/// Names of the tensors of a mixture of experts below its layer.
struct ExpertNames {
  std::string router = "mlp.gate";
  std::string expert = "mlp.experts.{}.";  ///< of one of them
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
  std::string selection_bias = {};  ///< where the mixture has one
  std::string shared = {};          ///< of the expert that all positions read, "mlp.shared_expert."
  std::string shared_gate = {};
};
/// Router, shared expert, and experts that are three matrices each.
void list_experts(const ModelConfig& config, const ExpertNames& names, ParameterList& list);
/// The experts alone, of three matrices each.
void list_each_expert(const ModelConfig& config, const ExpertNames& names, ParameterList& list);
/// Router and shared expert alone.
void list_router(const ModelConfig& config, const ExpertNames& names, ParameterList& list);

}  // namespace foxscope::family
