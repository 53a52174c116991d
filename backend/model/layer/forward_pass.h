#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/base/index.h"
#include "backend/base/job.h"
#include "backend/model/layer/pass_bytes.h"
#include "backend/model/layer/pass_options.h"
#include "backend/model/layer/probe.h"
#include "backend/model/spec/model_config.h"

namespace foxscope {

/// The state of one sequence that a model carries from position to position.
class ForwardState {
 public:
  virtual ~ForwardState() = default;
  /// The same state, to be continued in another way; what both hold is shared.
  [[nodiscard]] virtual std::unique_ptr<ForwardState> copy() const = 0;
  /// Keys that each layer and head may still see, [layers * H].
  [[nodiscard]] virtual std::vector<std::int64_t> held_keys() const = 0;

  /// Positions read so far.
  [[nodiscard]] std::int64_t length() const { return length_; }
  void advance(std::int64_t positions) { length_ += positions; }

  /// Bytes that a state takes: the states of linear mixers, and for each position keys, values and c, before any is
  /// dropped.
  static PassBytes bytes(const ModelConfig& config, DType dtype) {
    PassBytes bytes;
    for (int layer = 0; layer < config.layers; ++layer) bytes.fixed += 4 * config.carried_size(layer);
    const std::int64_t keys = 2 * config.key_size() * static_cast<std::int64_t>(size_of(dtype));
    bytes.per_token = config.attention_layers() * (keys + 8 * static_cast<std::int64_t>(config.heads));
    return bytes;
  }

 private:
  std::int64_t length_ = 0;
};

/// The texts of a forward pass, B of n positions.
struct ForwardInput {
  std::int64_t batch = 1;
  std::span<const std::int32_t> ids;     ///< [B, n]
  std::span<const std::int32_t> labels;  ///< [B, n]; empty where neither losses nor logits are kept
  int first_layer = 0;                   ///< those before it are not run
  std::span<const float> hidden;         ///< [B, n, D] what enters that layer; empty: the embedding
  double pruning_tolerance = 0;          ///< of whole texts; a state has its own
  /// [B] positions of each text, behind which its row is filled up; empty: n. Where they are given, what a text
  /// gives does not depend on those beside it: on a GPU to the last digit, which takes some time.
  std::span<const std::int64_t> lengths;
};

/// The input of a forward pass, as each of its steps sees it: texts, what keeps and changes what passes, what lies
/// before the texts. The caller owns what spans and pointers name.
class ForwardPass {
 public:
  /// @param config  must outlive it
  ForwardPass(const ModelConfig& config, std::int64_t batch, std::int64_t length)
      : config_(&config), batch_(batch), length_(length) {}

  /// Sets the input of the next run.  @param states  [B], or empty
  void set_run(const ForwardInput& input, std::span<const Probe> probes, std::span<ForwardState* const> states,
               const Job& job, ForwardReport& report);

  [[nodiscard]] const ModelConfig& config() const { return *config_; }
  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] std::int64_t length() const { return length_; }  ///< n
  [[nodiscard]] std::int64_t rows() const { return batch_ * length_; }
  /// Positions of a text without those that fill its row up.
  [[nodiscard]] std::int64_t text_length(std::int64_t sequence) const {
    return input_.lengths.empty() ? length_ : input_.lengths[index_of(sequence)];
  }
  [[nodiscard]] const ForwardInput& input() const { return input_; }
  [[nodiscard]] std::span<const Probe> probes() const { return probes_; }
  [[nodiscard]] bool has_states() const { return !states_.empty(); }
  [[nodiscard]] bool has_state(std::int64_t sequence) const {
    return has_states() && states_[index_of(sequence)] != nullptr;
  }
  [[nodiscard]] ForwardState& state(std::int64_t sequence) const { return *states_[index_of(sequence)]; }
  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] ForwardReport& report() const { return *report_; }
  /// The position of a sequence's first row.
  [[nodiscard]] std::int64_t first_position(std::int64_t sequence = 0) const {
    return has_states() ? state(sequence).length() : 0;
  }
  [[nodiscard]] bool continues() const { return first_position() > 0; }
  /// Whether any probe keeps a part.
  [[nodiscard]] bool keeps(Keep part) const;
  /// Whether any probe changes the gates of a layer.
  [[nodiscard]] bool changes_gates(int layer) const;
  /// Whether the layer has gates, of its own or given by an intervention.
  [[nodiscard]] bool gated(int layer) const;

 private:
  const ModelConfig* config_;
  std::int64_t batch_;
  std::int64_t length_;
  ForwardInput input_;
  std::span<const Probe> probes_;
  std::span<ForwardState* const> states_;
  Job job_;
  ForwardReport* report_ = nullptr;
};

}  // namespace foxscope
