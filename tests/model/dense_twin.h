#pragma once

#include <map>
#include <string>

#include <ATen/ATen.h>

#include "backend/model/model_config.h"

namespace foxscope::test {

/// Every layer option of model.md once more, the plain way and in float64: one head at a time, all entries of its rows
/// written out.
class DenseTwin {
 public:
  /// @param weights  float64, in the dialect's names
  DenseTwin(ModelConfig config, std::map<std::string, at::Tensor> weights)
      : config_(std::move(config)), weights_(std::move(weights)) {}

  /// @param input_ids  [L] int64
  /// @returns logits [L, V] float64
  [[nodiscard]] at::Tensor logits(const at::Tensor& input_ids) const;

 private:
  [[nodiscard]] bool has(const std::string& name) const { return weights_.contains(name); }
  [[nodiscard]] const at::Tensor& weight(const std::string& name) const { return weights_.at(name); }
  [[nodiscard]] at::Tensor project(const at::Tensor& x, const std::string& name) const;
  [[nodiscard]] at::Tensor project_shifted(const at::Tensor& x, const std::string& name, bool shift) const;
  [[nodiscard]] at::Tensor normalize_heads(const at::Tensor& x, const std::string& name, double epsilon) const;
  [[nodiscard]] at::Tensor log_gate(const at::Tensor& x, const std::string& name) const;
  [[nodiscard]] at::Tensor attend(const at::Tensor& x, const std::string& name) const;
  [[nodiscard]] at::Tensor mlp(const at::Tensor& x, const std::string& name) const;

  ModelConfig config_;
  std::map<std::string, at::Tensor> weights_;
};

}  // namespace foxscope::test
