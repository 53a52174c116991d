#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "backend/eval/atlas/boundary_class.h"
#include "backend/eval/atlas/exact_sum.h"

namespace foxscope {

/// The sizes of an atlas of one model.
struct AtlasShape {
  std::int64_t layers = 0;
  std::int64_t heads = 0;  ///< H, the most of a layer
  std::int64_t vocabulary = 0;
  std::int64_t passages = 0;  ///< K, of each kind and head

  [[nodiscard]] std::size_t head_count() const { return static_cast<std::size_t>(layers * heads); }
  /// Places that a head samples evenly, of which K come from each decile: as many as ten lists of passages.
  [[nodiscard]] std::size_t sampled() const { return static_cast<std::size_t>(10 * passages); }
  bool operator==(const AtlasShape&) const = default;
};

/// Circular shifts of the gate along a window that chance is taken from.
inline constexpr std::size_t kShifts = 200;
/// Bins of -log f: the first is below 2^-24 nats, then 16 an octave up to 2^10.
inline constexpr std::size_t kLogGateBins = 545;
/// The lower end of a bin, nats.
double log_gate_bin(std::size_t bin);
/// Bins of gaps between resets, tokens: 1, 2-3, 4-7...
inline constexpr std::size_t kGapBins = 40;

/// The arrays of whole numbers whose sums over positions, windows or documents an atlas is.
enum class AtlasSum : std::uint8_t {
  token_count,         ///< [V] positions p >= 1 that read the token
  token_log_gate,      ///< [N, V] log f in kLogGateUnit
  token_below_half,    ///< [N, V] positions with f < 1/2
  log_gate_histogram,  ///< [N, kLogGateBins] positions
  reset_gap,           ///< [N, kGapBins] neighbouring resets of a window, by their distance
  class_count,         ///< [C] positions p >= 1 that read a token of the class
  class_log_gate,      ///< [N, C] log f in kLogGateUnit
  class_resets,        ///< [N, C] resets there
  class_shifted,       ///< [N, C, kShifts] the same of the gate that is shifted along the window
  log_gate,            ///< [N, limbs] sum of log f
  log_gate_product,    ///< [N (N + 1) / 2, limbs] sum of log f_n log f_m, m <= n
};
inline constexpr std::size_t kAtlasSums = 11;

/// What stands behind an array's axes.
struct AtlasSumSpec {
  const char* name;
  bool by_head;         ///< its first axes are layer and head
  bool by_token;        ///< its last axis is the vocabulary
  std::size_t entries;  ///< of its last axes, if they are another; 0: see shape
};
const AtlasSumSpec& spec_of(AtlasSum sum);

/// A position of a window, and what a list of passages is ordered by.
struct AtlasPlace {
  float value = 0;             ///< log f, nats
  std::int64_t window = 0;     ///< among all windows
  std::int64_t position = 0;   ///< at least 1
  std::uint64_t priority = 0;  ///< random, of the window and head
  bool operator==(const AtlasPlace&) const = default;
};

/// Sums of the numbers of heads over windows of one document.
struct DocumentSums {
  std::int64_t windows = 0;
  std::vector<std::int64_t> sum;  ///< [numbers, N, limbs]
};
/// Documents of one number of windows: their number, and sums of s and s^2 over them, where s is a document's sum.
struct DocumentClass {
  std::int64_t documents = 0;
  std::vector<std::int64_t> sum;     ///< [numbers, N, limbs]
  std::vector<std::int64_t> square;  ///< [numbers, N, limbs]
};

/// All that is known of a model's heads over windows: whole numbers that add up, so that parts of the windows, in any
/// order, come to the same sums as all at once. Memory depends on heads and vocabulary, and on documents of which some
/// windows are yet to come.
class AtlasSums {
 public:
  explicit AtlasSums(const AtlasShape& shape);

  [[nodiscard]] const AtlasShape& shape() const { return shape_; }
  [[nodiscard]] std::span<std::int64_t> at(AtlasSum sum) { return sums_[static_cast<std::size_t>(sum)]; }
  [[nodiscard]] std::span<const std::int64_t> at(AtlasSum sum) const { return sums_[static_cast<std::size_t>(sum)]; }
  /// The row of one head.
  [[nodiscard]] std::span<std::int64_t> row(AtlasSum sum, std::size_t head);
  [[nodiscard]] std::span<const std::int64_t> row(AtlasSum sum, std::size_t head) const;

  /// Puts a place among the K of smallest value (ties: the earlier window).
  void add_reset(std::size_t head, const AtlasPlace& place);
  /// Puts a place among those of smallest priority.
  void add_sample(std::size_t head, const AtlasPlace& place);
  [[nodiscard]] const std::vector<AtlasPlace>& resets(std::size_t head) const { return resets_[head]; }
  [[nodiscard]] const std::vector<AtlasPlace>& samples(std::size_t head) const { return samples_[head]; }

  /// The document's sums, for a window that is added to them.
  /// @param numbers  how many numbers a head has
  DocumentSums& document(std::int32_t document, std::size_t numbers);
  /// Takes documents whose windows are all there into the classes.
  /// @param windows  of each document, as many as there are to be
  void close_documents(std::span<const std::int64_t> windows);
  [[nodiscard]] const std::map<std::int64_t, DocumentClass>& classes() const { return classes_; }
  void add_class(std::int64_t windows, const DocumentClass& more);

  /// The windows that the sums are of.
  std::vector<std::int64_t> windows;

  /// Numbers the windows as if so many came before them.
  void move_windows(std::int64_t before);

  /// All of it as words; tokens that nothing read are left out.
  [[nodiscard]] std::vector<std::int64_t> packed() const;
  /// Adds the sums of other windows.
  /// @param words  what packed() of sums of the same shape gave
  /// @throws Error where a sum leaves its range, and for other words
  void add_packed(std::span<const std::int64_t> words);

  /// Bytes of such sums.
  static std::int64_t bytes(const AtlasShape& shape);

 private:
  AtlasShape shape_;
  std::array<std::vector<std::int64_t>, kAtlasSums> sums_;
  std::vector<std::vector<AtlasPlace>> resets_;
  std::vector<std::vector<AtlasPlace>> samples_;
  std::map<std::int32_t, DocumentSums> open_;
  std::map<std::int64_t, DocumentClass> classes_;
};

}  // namespace foxscope
