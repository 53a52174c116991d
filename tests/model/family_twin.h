#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

namespace foxscope::test {

using TwinWeights = std::map<std::string, at::Tensor>;
using TwinShapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

/// The sizes of a family, by its own keys.
struct TwinSizes {
  explicit TwinSizes(const nlohmann::json& config);
  std::string type;
  bool gpt2, olmo = false, gemma = false, glm = false;
  std::int64_t hidden = 0, layers = 0, heads = 0, key_heads = 0, head_dim = 0, inner = 0, vocabulary = 0;
  bool tied = false;
};

/// Every parameter of a family by its published name.
TwinShapes shapes_of(const nlohmann::json& config, bool prefixed);

/// The families in float64, the plain way, from what their config.json says: no description of ours is asked.
class FamilyTwin {
 public:
  FamilyTwin(nlohmann::json config, TwinWeights weights);
  /// Whether a longer text's heads turn otherwise.
  [[nodiscard]] bool turns_by_length() const;
  /// @param ids  [L] int64
  /// @returns [L, V]
  [[nodiscard]] at::Tensor logits(const at::Tensor& ids) const;

 private:
  /// A layer whose norms stand behind attention and MLP.
  [[nodiscard]] at::Tensor behind(const at::Tensor& before, const std::string& layer, int index) const;
  [[nodiscard]] at::Tensor cap(const at::Tensor& x, const std::string& key) const;
  [[nodiscard]] bool neox() const { return sizes_.type == "gpt_neox"; }
  [[nodiscard]] const at::Tensor& weight(const std::string& name) const { return weights_.at(prefix_ + name); }
  [[nodiscard]] at::Tensor dense(const at::Tensor& x, const std::string& name) const;
  [[nodiscard]] at::Tensor norm(const at::Tensor& x, const std::string& name) const;
  /// A layer's entry of rope_parameters, or the keys of older files; null where its heads do not turn.
  [[nodiscard]] nlohmann::json rope(int layer) const;
  /// The same in families whose layers turn by whether they have a window.
  [[nodiscard]] nlohmann::json rope_of_kind(bool slides) const;
  /// The angle a position of a pair, and what its cosine and sine are multiplied by.
  struct Turn {
    double rate;
    double factor = 1;
  };
  [[nodiscard]] Turn turn(const nlohmann::json& keys, std::int64_t pair, std::int64_t turning,
                          std::int64_t length) const;
  /// x [L, d] of one head of a text.
  [[nodiscard]] at::Tensor rotate_pairs(const at::Tensor& x, int layer) const;
  /// Llama 4's factor of the queries of each position, [L, 1].
  [[nodiscard]] at::Tensor growth(std::int64_t length, int layer) const;
  /// 0: none.
  [[nodiscard]] std::int64_t window(int layer) const;
  /// softmax(scale Q K^T) V of one head, all entries written out.
  [[nodiscard]] at::Tensor attend_head(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                       int layer) const;
  [[nodiscard]] at::Tensor attend(const at::Tensor& x, const std::string& layer, int index) const;
  [[nodiscard]] at::Tensor mlp(const at::Tensor& x, const std::string& layer) const;
  nlohmann::json config_;
  TwinSizes sizes_;
  TwinWeights weights_;
  std::string prefix_;
};

}  // namespace foxscope::test
