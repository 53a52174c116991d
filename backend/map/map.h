#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/base/job.h"
#include "backend/base/range.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// The quantity of a map, for query i and key j <= i (inside the window). In a linear mixer attention is |M_ij| / sum_j
/// |M_ij|, and F_ij is the mean over channels of exp(P_ic - P_jc) where each channel decays (log F: the mean of P_ic -
/// P_jc); logits, attention_without_gate and gate_effect are of softmax attention alone.
enum class Quantity {
  forget,                  ///< F_ij = exp(c_i - c_j)
  log_forget,              ///< c_i - c_j, nats
  logits,                  ///< S_ij = q_i.k_j / sqrt(d), without the gate
  attention,               ///< A_ij = exp(S_ij + c_i - c_j - lse_i)
  attention_without_gate,  ///< softmax of S from the same q and k
  gate_effect,             ///< attention minus attention_without_gate
  mixing,                  ///< M_ij, signed, with y_i = sum_j M_ij v_j; of softmax attention M = A
};

/// How the entries of a bin become one pixel; absmax is the entry of largest size, with its sign (of two as large, the
/// positive one).
enum class Reduction { max, mean, min, absmax };

const char* to_string(Quantity quantity);  ///< the command line's name
const char* to_string(Reduction reduction);
/// @throws UsageError naming those that exist
Quantity quantity_from_string(const std::string& name);
Reduction reduction_from_string(const std::string& name);
/// absmax for signed quantities (logits, gate_effect, mixing) and differences, else max.
Reduction default_reduction(Quantity quantity, bool difference);

/// Whether the first key counts, on which many heads park their attention. Left out, its entries are absent, and the
/// others of row i are divided by what it leaves: A'_ij = A_ij / (1 - A_i0). NaN in rows that have nothing else.
enum class FirstKey { counted, left_out };

/// The reason why a layer has no such quantity, one sentence with the remedy; empty: it has.
std::string why_not(const TraceInfo& info, int layer, Quantity quantity);

/// Whether key 0 can be left out of it: attention, attention_without_gate, gate_effect.
bool is_of_attention(Quantity quantity);

/// First position of bin `index` of `bins` over `range`: begin + floor(index * size / bins).
std::int64_t bin_begin(const Range& range, std::int64_t bins, std::int64_t index);

/// A run, and the device that computes its maps, lines and statistics.
struct RunOnDevice {
  std::shared_ptr<const Trace> trace;
  std::optional<int> gpu;  ///< none: the CPU, as for what the GPU's kernels do not take

  RunOnDevice() = default;
  /// On the GPU on which the run was made, if any.
  RunOnDevice(std::shared_ptr<const Trace> run) : trace(std::move(run)), gpu(trace ? trace->made_on() : std::nullopt) {}
  RunOnDevice(std::shared_ptr<const Trace> run, std::optional<int> on) : trace(std::move(run)), gpu(on) {}
  const Trace& operator*() const { return *trace; }
  const Trace* operator->() const { return trace.get(); }
  bool operator==(const RunOnDevice&) const = default;
};

/// One head of one run.
struct HeadOf : RunOnDevice {
  int layer = 0;
  int head = 0;
  bool operator==(const HeadOf&) const = default;
};

/// The colours that a map is wanted for, in the terms of a colour scale (app/figure). They are all that decides how
/// exactly its values must be known.
struct Shades {
  bool logarithmic = false;
  std::optional<double> lower = {};  ///< limits that were chosen
  std::optional<double> upper = {};
  std::optional<double> blank_below = {};  ///< values (where there are signs, sizes) below have no colour
  bool operator==(const Shades&) const = default;
};

/// A picture of one quantity: rows x columns of positions, onto pixel_rows x pixel_columns bins. By distance a column
/// is a bin of distances i - j + 1 instead of one of keys: 1 is the query itself.
struct MapRequest {
  HeadOf head;
  Quantity quantity = Quantity::attention;
  Reduction reduction = Reduction::max;
  Range rows;                      ///< queries
  Range columns;                   ///< keys; by distance: distances, from distances.front() to distances.back()
  std::int64_t pixel_rows = 0;     ///< 1..rows.size()
  std::int64_t pixel_columns = 0;  ///< 1..columns.size()
  /// Subtracted entry by entry before reducing; same length of text. With two windows the narrower one counts: an entry
  /// is present where both heads have it.
  std::optional<HeadOf> minus;
  /// Entries of attention below this may be left out as 0, tile by tile. 0: exact (below 2^-126 they are 0 all the
  /// same); 2^-24 for a linear picture.
  double skip_tolerance = 0;
  /// For attention, attention_without_gate and gate_effect.
  FirstKey first_key = FirstKey::counted;
  /// The channel of forget and log_forget where each channel decays; absent: the mean over channels.
  std::optional<int> channel = {};
  /// [pixel_columns + 1] edges of bins of distances (distance_axis.h), from 1 on: column n holds the entries with
  /// distances[n] <= i - j + 1 < distances[n + 1]. A column whose edges are equal repeats the next one that has
  /// distances. Empty: columns are keys.
  std::vector<std::int64_t> distances = {};
  /// Absent: exact values. Else they need be no more exact than these colours, which saves most of the bytes of a run
  /// on another machine (map_shades.h); of a run here they are exact all the same.
  std::optional<Shades> shades = {};

  [[nodiscard]] bool by_distance() const { return !distances.empty(); }
  /// Sets bins of distances, and columns and pixel_columns with them.
  void set_distances(std::vector<std::int64_t> edges);
  /// The keys that its entries may have; begin = end where there are none.
  [[nodiscard]] Range keys() const;
};

/// Pixels, row-major float32. A pixel with no entry (above the diagonal, outside the window) is NaN.
struct Image {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> value;
};

/// Computes a map. Nothing of size L x L is ever held: F by its closed form (docs/maps.md), attention by one pass of
/// tiles, on the GPU that the request names (RunOnDevice).
/// @returns nothing if the job was stopped
/// @throws UsageError for ranges, sizes, layers or heads that do not exist; Error for parts that the trace did not keep
std::optional<Image> compute_map(const MapRequest& request, const Job& job);

/// Log-normaliser of softmax(S) without the gate, [L] nats, computed on first use and kept beside the trace.
/// @returns an empty span if the job was stopped
std::span<const float> log_normalizer_without_gate(const HeadOf& head, const Job& job);

}  // namespace foxscope
