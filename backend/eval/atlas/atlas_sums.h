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

/// Tokens with smaller ids have errors. A vocabulary is numbered from its frequent tokens on, as byte pairs are joined.
inline constexpr std::int64_t kErrorTokens = 2048;
/// Circular shifts of the gate along a window that chance is taken from.
inline constexpr std::size_t kShifts = 200;
/// Bins of -log f: the first is below 2^-24 nats, then 16 an octave up to 2^10.
inline constexpr std::size_t kLogGateBins = 545;
/// The lower end of a bin, nats.
double log_gate_bin(std::size_t bin);
/// Bins of gaps between resets, tokens: 1, 2-3, 4-7...
inline constexpr std::size_t kGapBins = 40;

/// The sizes of an atlas of one model.
struct AtlasShape {
  std::int64_t layers = 0;
  std::int64_t heads = 0;  ///< H, the most of a layer
  std::int64_t vocabulary = 0;
  std::int64_t passages = 0;     ///< K, of each kind and head
  std::int64_t rows = 0;         ///< of attention in each window; 0: none, kAllRows
  std::int64_t numbers = 0;      ///< statistics of a head whose means have errors
  std::int64_t profiles = 0;     ///< statistics by distance
  std::int64_t bins = 0;         ///< of distance, of the longest window
  std::int64_t first_heads = 0;  ///< N of the first model, which read the same windows; 0: this is it, or it did not

  static constexpr std::int64_t kAllRows = -1;

  [[nodiscard]] std::size_t head_count() const { return static_cast<std::size_t>(layers * heads); }
  /// Numbers, then profiles bin by bin.
  [[nodiscard]] std::size_t entries() const { return static_cast<std::size_t>(numbers + profiles * bins); }
  [[nodiscard]] std::size_t entry_of(std::size_t profile, std::size_t bin) const {
    return static_cast<std::size_t>(numbers) + bin * static_cast<std::size_t>(profiles) + profile;
  }
  [[nodiscard]] std::size_t error_tokens() const {
    return static_cast<std::size_t>(vocabulary < kErrorTokens ? vocabulary : kErrorTokens);
  }
  /// Places that a head samples evenly, of which K come from the deciles.
  [[nodiscard]] std::size_t sampled() const { return static_cast<std::size_t>(2 * passages); }
  bool operator==(const AtlasShape&) const = default;
};

/// The arrays of whole numbers whose sums over positions, rows, windows or documents an atlas is. N heads, V tokens of
/// the vocabulary, E of them with errors. Sums over documents are of s, where s is a document's own sum.
enum class AtlasSum : std::uint8_t {
  token_count,             ///< [V] positions p >= 1 that read the token
  token_log_gate,          ///< [N, V] log f in kTokenLogGateUnit
  token_below_half,        ///< [N, V] positions with f < 1/2
  token_received,          ///< [N, V] attention that they get from all rows, in kMassUnit
  token_documents,         ///< [E] documents that read the token
  token_count_square,      ///< [E, limbs] of n^2, n readings of a document
  token_log_gate_square,   ///< [N, E, limbs] of s^2, s of log f
  token_log_gate_count,    ///< [N, E, limbs] of s n
  log_gate_histogram,      ///< [N, kLogGateBins] positions
  reset_gap,               ///< [N, kGapBins] neighbouring resets of a window, by their distance
  class_count,             ///< [C] positions p >= 1 that read a token of the class
  class_log_gate,          ///< [N, C] log f in kLogGateUnit
  class_resets,            ///< [N, C] resets there
  class_histogram,         ///< [N, C, kLogGateBins] positions
  class_documents,         ///< [C] documents that read the class
  class_count_square,      ///< [C, limbs] of n^2
  class_log_gate_square,   ///< [N, C, limbs] of s^2, s of log f
  class_log_gate_count,    ///< [N, C, limbs] of s n
  class_resets_square,     ///< [N, C, limbs] of s^2, s of resets
  class_resets_count,      ///< [N, C, limbs] of s n
  class_shifted,           ///< [N, reset classes, kShifts] class_resets of the gate that is shifted along the window
  log_gate,                ///< [N, limbs] log f
  log_gate_product,        ///< [N (N + 1) / 2, limbs] log f_n log f_m, m <= n
  first_log_gate_product,  ///< [N, N of the first model, limbs]
  mass_count,              ///< [1] sampled rows times bins of distance
  mass,                    ///< [N, limbs] mass of attention in them
  mass_product,            ///< [N (N + 1) / 2, limbs]
  first_mass_product,      ///< [N, N of the first model, limbs]
  row_variance,            ///< [entries, N, limbs] squared errors from sampling rows, over windows
};
inline constexpr std::size_t kAtlasSums = 29;

/// The entries of an axis of such an array. Those of a head come as layer and head in files.
enum class AtlasAxis : std::uint8_t {
  head,
  token,
  error_token,
  log_gate_bin,
  gap,
  token_class,
  reset_class,
  shift,
  pair,
  first_head,
  entry,
  mass_count,
  limb
};
struct AtlasSumSpec {
  const char* name;
  std::vector<AtlasAxis> axes;
  bool of_rows;  ///< there is none without rows of attention
  [[nodiscard]] bool by_token() const { return axes.back() == AtlasAxis::token; }
};
const AtlasSumSpec& spec_of(AtlasSum sum);
std::size_t size_of(AtlasAxis axis, const AtlasShape& shape);
/// Numbers of an array; 0: the shape has none.
std::size_t size_of(AtlasSum sum, const AtlasShape& shape);

/// Lists of places, by what orders them: the smallest log f; the largest share of a row beyond half the window; the
/// largest gain; and a random priority, of which decile_places chooses.
enum class AtlasList : std::uint8_t { resets, reach, gain, samples };
inline constexpr std::size_t kAtlasLists = 4;
const char* to_string(AtlasList list);

/// Positions to either side of a place whose log f it keeps.
inline constexpr std::int64_t kSurroundings = 64;
inline constexpr std::size_t kSurrounding = 2 * kSurroundings + 1;

/// Log f as it is kept around places, nats: float16 of 7 significant bits, which tint a passage.
std::uint16_t surrounding_log_gate(float log_gate);

/// A position of a window, and what a list of passages is ordered by.
struct AtlasPlace {
  float value = 0;
  std::int64_t window = 0;     ///< among all windows
  std::int64_t position = 0;   ///< at least 1
  std::uint64_t priority = 0;  ///< random, of the window and head; 0 in lists that do not need it
  /// surrounding_log_gate around it; NaN outside of the window, at position 0, and of heads without a gate
  std::array<std::uint16_t, kSurrounding> log_gate = {};
  bool operator==(const AtlasPlace&) const = default;
};

/// Sums of the numbers of heads over windows of one document.
struct DocumentSums {
  std::int64_t windows = 0;
  std::vector<std::int64_t> sum;    ///< [entries, N, limbs]
  std::vector<std::int64_t> count;  ///< [entries, N] windows that have the number
  /// [1 + N] of each token with errors: readings, and log f in kTokenLogGateUnit by head
  std::map<std::int32_t, std::vector<std::int64_t>> tokens;
  std::vector<std::int64_t> classes;  ///< [C, 1 + 2 N]: readings, log f by head, resets by head
};
/// Documents by how many of their windows have a number: how many they are, and sums of s and s^2 over them, where s is
/// a document's sum.
struct DocumentClass {
  std::vector<std::int64_t> documents;  ///< [entries, N]
  std::vector<std::int64_t> sum;        ///< [entries, N, limbs]
  std::vector<std::int64_t> square;     ///< [entries, N, limbs]
};

/// All that is known of a model's heads over windows: whole numbers that add up, so that parts of the windows, in any
/// order, come to the same sums as all at once. Memory depends on heads and vocabulary, and on documents of which some
/// windows are yet to come.
class AtlasSums {
 public:
  explicit AtlasSums(const AtlasShape& shape);
  /// Makes the sums those of no windows again, in the same memory.
  void clear();

  [[nodiscard]] const AtlasShape& shape() const { return shape_; }
  [[nodiscard]] std::span<std::int64_t> at(AtlasSum sum) { return sums_[static_cast<std::size_t>(sum)]; }
  [[nodiscard]] std::span<const std::int64_t> at(AtlasSum sum) const { return sums_[static_cast<std::size_t>(sum)]; }
  /// The row of one head, of arrays that begin with heads.
  [[nodiscard]] std::span<std::int64_t> row(AtlasSum sum, std::size_t head);
  [[nodiscard]] std::span<const std::int64_t> row(AtlasSum sum, std::size_t head) const;
  /// The limbs of an exact sum.
  /// @param index  of the number, axes but the last flattened
  [[nodiscard]] std::span<std::int64_t, kExactLimbs> exact(AtlasSum sum, std::size_t index) {
    return at(sum).subspan(index * kExactLimbs).first<kExactLimbs>();
  }
  [[nodiscard]] std::span<const std::int64_t, kExactLimbs> exact(AtlasSum sum, std::size_t index) const {
    return at(sum).subspan(index * kExactLimbs).first<kExactLimbs>();
  }

  /// Whether add_place would put it into the list.
  [[nodiscard]] bool takes_place(AtlasList list, std::size_t head, const AtlasPlace& place) const;
  /// Puts a place where the list has room for it, or worse places. Ties: the earlier window.
  void add_place(AtlasList list, std::size_t head, const AtlasPlace& place);
  [[nodiscard]] const std::vector<AtlasPlace>& places(AtlasList list, std::size_t head) const {
    return places_[static_cast<std::size_t>(list)][head];
  }
  /// Places that a list has room for.
  [[nodiscard]] std::size_t most(AtlasList list) const;

  /// The document's sums, for a window that is added to them.
  DocumentSums& document(std::int32_t document);
  /// Takes documents whose windows are all there into the classes.
  /// @param windows  of each document, as many as there are to be
  void close_documents(std::span<const std::int64_t> windows);
  /// By the number of windows.
  [[nodiscard]] const std::map<std::int64_t, DocumentClass>& classes() const { return classes_; }
  void add_class(std::int64_t windows, const DocumentClass& more);
  /// How many documents have how many windows.
  [[nodiscard]] const std::map<std::int64_t, std::int64_t>& documents() const { return documents_; }
  void add_documents(std::int64_t windows_of_each, std::int64_t count) { documents_[windows_of_each] += count; }

  /// The windows that the sums are of.
  std::vector<std::int64_t> windows;

  /// Numbers the windows as if so many came before them.
  void move_windows(std::int64_t before);
  /// Makes room for windows with more bins of distance, in which those so far have no attention.
  /// @param masses  profiles that are 0 where there is no attention; others are unknown there
  void widen(std::int64_t bins, std::int64_t masses);

  /// All of it as words; tokens that nothing read are left out.
  [[nodiscard]] std::vector<std::int64_t> packed() const;
  /// The windows of packed sums.
  /// @throws Error for words that are too few
  static std::span<const std::int64_t> packed_windows(std::span<const std::int64_t> words);
  /// Adds the sums of other windows.
  /// @param words  what packed() of sums of the same shape gave
  /// @throws Error where a sum leaves its range, and for other words
  void add_packed(std::span<const std::int64_t> words);

  /// Bytes of such sums.
  static std::int64_t bytes(const AtlasShape& shape);

 private:
  void close_tokens(const DocumentSums& of);
  void close_classes(const DocumentSums& of);
  void add_product(AtlasSum sum, std::size_t index, double a, double b);

  AtlasShape shape_;
  std::array<std::vector<std::int64_t>, kAtlasSums> sums_;
  std::array<std::vector<std::vector<AtlasPlace>>, kAtlasLists> places_;
  std::map<std::int32_t, DocumentSums> open_;
  std::map<std::int64_t, DocumentClass> classes_;
  std::map<std::int64_t, std::int64_t> documents_;
};

}  // namespace foxscope
