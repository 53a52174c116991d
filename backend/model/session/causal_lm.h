#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/base/range.h"
#include "backend/model/layer/pass_options.h"
#include "backend/model/layer/score.h"
#include "backend/model/spec/model_config.h"
#include "backend/model/weights/device.h"
#include "backend/trace/recorder.h"

namespace foxscope {

/// One forward pass over B sequences of L positions.
struct ForwardRequest : PassOptions {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::span<const std::int32_t> input_ids = {};  ///< [B, L] what each position reads
  std::span<const std::int32_t> labels = {};     ///< [B, L] what each position predicts
  /// The layer at which a pass begins if another pass over the same ids has computed the layers before: these are
  /// neither computed nor recorded.
  struct Start {
    int layer = 0;
    std::span<const float> hidden = {};  ///< [B, L, D] the layer's input (Recorder::hidden_states); empty at layer 0
  };
  Start start = {};
  /// Range of positions whose mean loss the gradients are of, for recorders that keep saliency; none: all.
  std::optional<Range> saliency = {};
};

class Checkpoint;
class DecodeState;
struct PromptRequest;

/// A causal language model with (forgetting) attention, ready to run. LibTorch inside, none of it in this header.
class CausalLM {
 public:
  /// Takes the weights of an open checkpoint to a device.
  /// @param dtype  of the matrices: float32, or bfloat16 (CUDA only; residuals, norms, gates and loss stay float32)
  /// @returns nothing if the job was stopped: asked after each mebibyte that is read
  static std::unique_ptr<CausalLM> load(const Checkpoint& checkpoint, const Device& device, DType dtype,
                                        const Job& job = {});
  virtual ~CausalLM() = default;

  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  [[nodiscard]] virtual const Device& device() const = 0;
  [[nodiscard]] virtual DType dtype() const = 0;

  /// Runs the model (docs/models.md) and fills one recorder per sequence: gates, row normalisers, loss, and what else
  /// each keeps. Attention is tiled; lm_head and loss go in chunks, so no [L, V] array exists unless logits are kept.
  /// @returns nothing if the job was stopped
  /// @throws ShapeError for spans of another size; UsageError for ids or interventions out of range
  virtual std::optional<ForwardReport> forward(const ForwardRequest& request, std::span<Recorder* const> recorders,
                                               const Job& job) = 0;

  /// Scores positions of texts: log p of given tokens, whether each is the greedy choice, the likeliest ones.
  /// @returns of each text its positions [end - first]; nothing if the job was stopped
  /// @throws what check_score does; Error for a text that does not fit into memory
  virtual std::optional<std::vector<TextScores>> score(const ScoreRequest& request, const Job& job) = 0;

  /// Whether prefill reads prompts of several lengths in one pass, those that keep and change nothing, each to the same
  /// digits as alone.
  [[nodiscard]] virtual bool reads_prompts_together() const = 0;
  /// Reads prompts, each to be continued token by token (decode_state.h): those of one length in one pass, or all.
  /// @returns of each prompt; nothing if the job was stopped
  /// @throws what check_prompts does
  virtual std::vector<std::unique_ptr<DecodeState>> prefill(std::span<const PromptRequest> prompts, const Job& job) = 0;
  /// Reads one more token for each of several different continuations of this model. Those without interventions share
  /// one pass if the device can, the others follow one after the other. Each gets the same digits whatever is beside
  /// it.
  /// @param ids  [continuations]
  /// @throws what check_next_token does, before any token is read; ShapeError for another number of ids
  virtual void decode_step(std::span<DecodeState* const> decode_states, std::span<const std::int32_t> ids) = 0;
  /// Reads one.
  /// @returns null if the job was stopped
  std::unique_ptr<DecodeState> begin(const PromptRequest& prompt, const Job& job);
};

/// The sizes of a request and its ids, checked.
/// @throws ShapeError, UsageError
void check_request(const ForwardRequest& request, std::span<Recorder* const> recorders, const ModelConfig& config);

}  // namespace foxscope
