#pragma once

#include <functional>
#include <map>
#include <string>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "backend/model/spec/model_config.h"

namespace foxscope::test {

/// What a test changes while the twin runs: each function gets a layer's tensor and changes it in place.
struct TwinChange {
  std::function<void(int layer, at::Tensor& log_gate)> gates;  ///< log f [L, H]
  std::function<void(int layer, at::Tensor& output)> heads;    ///< [L, H, d], as o_proj is about to read it
};

/// Every layer option of docs/models.md once more, the plain way and in float64: one head at a time, all entries of its
/// rows written out.
class DenseTwin {
 public:
  /// @param weights  float64, in the dialect's names
  DenseTwin(ModelConfig config, std::map<std::string, at::Tensor> weights)
      : config_(std::move(config)), weights_(std::move(weights)) {}

  /// @param input_ids  [L] int64
  /// @returns logits [L, V] float64
  [[nodiscard]] at::Tensor logits(const at::Tensor& input_ids, const TwinChange& change = {}) const;

 private:
  [[nodiscard]] bool has(const std::string& name) const { return weights_.contains(name); }
  [[nodiscard]] const at::Tensor& weight(const std::string& name) const { return weights_.at(name); }
  [[nodiscard]] at::Tensor project(const at::Tensor& x, const std::string& name) const;
  [[nodiscard]] at::Tensor project_shifted(const at::Tensor& x, const std::string& name, bool shift) const;
  [[nodiscard]] at::Tensor normalize_heads(const at::Tensor& x, const std::string& name, double epsilon) const;
  [[nodiscard]] at::Tensor log_gate(const at::Tensor& x, const std::string& name) const;
  [[nodiscard]] at::Tensor attend(const at::Tensor& x, int layer, const TwinChange& change) const;
  [[nodiscard]] at::Tensor mlp(const at::Tensor& x, const std::string& name) const;

  ModelConfig config_;
  std::map<std::string, at::Tensor> weights_;
};

/// The twin's many small operations gain nothing from a team, and tests run beside each other.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace foxscope::test
