#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/eval/heads/head_measures.h"
#include "backend/eval/loss/loss_file.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Something that is known of every head of a model, with standard errors; NaN where it does not exist or cannot be
/// known.
struct HeadArray {
  std::string name;
  std::string unit;           ///< "tokens", "nats", "octaves", "nats per nat", "1"
  std::vector<double> value;  ///< [layers, H], [layers, H, bins] or [layers, H, classes]
  std::vector<double> error;  ///< likewise
};

/// The statistics of one model's heads: of one run, or as means over windows of a corpus. A mean over windows has the
/// error over documents of loss_statistics.h; NaN where a window has no such number leaves that window out. Decay times
/// are -1 / mean log f of all windows together. Gates by class are those of all windows' positions together: mean and
/// share have the error of a ratio, quartiles have none.
struct EvaluatedHeads {
  TraceInfo info;                                   ///< length: of the longest window
  std::shared_ptr<const EvaluatedWindows> windows;  ///< null: one run
  std::vector<HeadArray> numbers;                   ///< [layers, H] of head_measures.h, those that there are
  std::vector<DistanceBin> distances;
  std::vector<HeadArray> by_distance;  ///< [layers, H, bins] HeadMeasures::profiles; empty without attention
  /// [layers, H, channels] mean_log_decay, nats per token, of each channel of heads that decay by channel; empty where
  /// no layer does
  std::vector<HeadArray> by_channel;
  std::vector<std::int64_t> class_tokens;  ///< [kTokenClasses] positions of each class; empty without classes
  /// [layers, H, kTokenClasses] mean_log_gate, gate_lower_quartile, gate_median, gate_upper_quartile, share_below_half
  std::vector<HeadArray> by_class;

  /// Places of heads in the arrays.
  [[nodiscard]] std::size_t head_count() const {
    return static_cast<std::size_t>(info.layers) * static_cast<std::size_t>(info.heads);
  }
  /// Whether the layer has so many heads: arrays have room for the most that a layer has.
  [[nodiscard]] bool has_head(std::size_t place) const {
    const auto heads = static_cast<std::size_t>(info.heads);
    return static_cast<int>(place % heads) < info.mixer(static_cast<int>(place / heads)).heads;
  }
  /// The groups that errors are over: the documents of all windows. A number that some windows do not have is over
  /// fewer.
  [[nodiscard]] ErrorGroups documents() const;
};

/// Lets `info.forgetting` be what was measured: a layer forgets where a head's mean of log f is not 0.
void set_forgetting(EvaluatedHeads& heads);

/// The array of that name, or null.
const HeadArray* find_array(const std::vector<HeadArray>& arrays, std::string_view name);

/// Adds up what is measured, head by head and window by window. Layers may be of several kinds: a number that a head
/// does not have is NaN, and so are all numbers of a head that its layer does not have.
class HeadsAccumulator {
 public:
  /// @param info  its length is the longest window's
  explicit HeadsAccumulator(TraceInfo info) : info_(std::move(info)) {}

  /// A head of the window, of the layer and number that its statistics name.
  /// @throws ShapeError for a head that the model does not have, and one with classes where those before it had none,
  ///         or without
  void add(const HeadMeasures& measures);
  /// Ends the window to which heads were added.
  /// @param document  any number that tells documents apart
  void end_window(std::int32_t document);
  /// Appends the windows of another accumulator, as if they had been added here.
  /// @throws ShapeError if their arrays are not the arrays of the windows before
  void take(HeadsAccumulator&& windows);
  /// @pre a window is whole
  [[nodiscard]] EvaluatedHeads finish();

  /// The sums as bytes of MessagePack, for another process of the same program.
  [[nodiscard]] std::vector<std::uint8_t> packed() const;
  /// @param info    equal to the info of the accumulator that was packed
  /// @param packed  what packed() gave
  static HeadsAccumulator unpacked(TraceInfo info, std::span<const std::byte> packed);

 private:
  /// One array's values, [windows][heads * entries]; NaN where a head has none.
  struct Series {
    std::string name;
    std::string unit;
    std::size_t entries = 1;
    std::vector<std::vector<double>> windows;
  };
  /// Gates of one class in one head.
  struct ClassSeries {
    std::vector<double> sum;    ///< [windows] of log f
    std::vector<double> count;  ///< [windows]
    std::vector<double> below_half;
    GateTally all;
  };

  [[nodiscard]] std::size_t head_count() const {
    return static_cast<std::size_t>(info_.layers) * static_cast<std::size_t>(info_.heads);
  }
  void put(std::vector<Series>& list, std::size_t head, std::string_view name, const char* unit,
           const std::vector<double>& values);
  void add_classes(const std::vector<GateTally>& classes, std::size_t head);
  [[nodiscard]] HeadArray mean(const Series& series) const;
  void finish_classes(EvaluatedHeads& heads) const;

  TraceInfo info_;
  std::vector<std::int32_t> documents_;  ///< of the windows that are whole
  std::vector<Series> numbers_;
  std::vector<Series> profiles_;
  std::vector<Series> channels_;
  std::vector<ClassSeries> classes_;  ///< [heads * kTokenClasses]; empty without classes
  bool any_ = false;                  ///< a head was added
};

/// Computes the statistics of one run's heads: gates by class where it has a text, the split where it has attention.
/// @returns nothing if the job was stopped
/// @throws Error for gates that were not kept
std::optional<EvaluatedHeads> evaluate_run(const RunOnDevice& run, const Job& job);

}  // namespace foxscope
