#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/eval/heads/heads_evaluation.h"
#include "backend/eval/loss/loss_file.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Places of a head that a list of passages names.
struct AtlasPassage {
  std::int64_t window = 0;
  std::int64_t position = 0;  ///< 1 <= position < tokens of the window
  float value = 0;            ///< that the list is ordered by, in AtlasPassageKind::unit
  std::size_t rank = 0;       ///< in the file's list
};

/// One kind of passages that a file has, such as "resets".
struct AtlasPassageKind {
  std::string name;
  std::string unit;         ///< of the values; "1" for shares
  std::int64_t around = 0;  ///< positions on each side of a place whose log f the file has
};

/// A model of an atlas: all that does not grow with heads times tokens.
struct AtlasFacts {
  TraceInfo info;  ///< length: of the longest window
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;  ///< p >= 1 of all windows
  std::int64_t documents = 0;
  std::shared_ptr<const EvaluatedWindows> windows;  ///< without token ids
  std::vector<std::int32_t> token_id;               ///< [T] ascending, read by some position p >= 1
  std::vector<std::int64_t> token_count;            ///< [T] positions that read it
  std::vector<std::string> token_string;            ///< [T] bytes; empty without a tokenizer
  std::vector<HeadArray> numbers;                   ///< [layers, H] every number of heads that the file has
  std::vector<AtlasPassageKind> passages;           ///< kinds of lists
  std::vector<std::string> similarities;  ///< what heads are compared by, "log_gate" first; is_with_first last
  std::size_t first = 0;                  ///< of models(): whose heads is_with_first is about
  bool has_tokens = false;                ///< means by head and token
  bool has_histogram = false;
  bool has_resets = false;          ///< counts and gaps
  bool has_classes = false;         ///< where resets fall
  double false_discovery_rate = 0;  ///< of resets by class
  std::int64_t shifts = 0;          ///< that chance is taken from

  [[nodiscard]] std::size_t head_count() const {
    return static_cast<std::size_t>(info.layers) * static_cast<std::size_t>(info.heads);
  }
  /// Place of a token in the arrays [T]; nothing for one that no position p >= 1 read.
  [[nodiscard]] std::optional<std::size_t> place_of(std::int32_t id) const;
};

/// Means of one head by the token that is read, [T]; NaN for a head without a gate.
struct AtlasHeadTokens {
  std::vector<float> mean_log_gate;     ///< nats
  std::vector<float> share_below_half;  ///< share of resets, f < 1/2
  std::vector<float> error;             ///< of mean_log_gate; empty where the file has none
  std::vector<std::int32_t>
      discovered;  ///< 1: differs from the head's mean beyond chance; empty where the file has none
};

/// Where the resets of one head fall.
struct AtlasHeadResets {
  std::int64_t count = 0;
  std::vector<std::int64_t> gap;   ///< first distance of each bin, tokens
  std::vector<std::int64_t> gaps;  ///< neighbouring resets by their distance
  // The others are [C]; empty without classes.
  std::vector<std::string> token_class;
  std::vector<std::int64_t> tokens;   ///< positions that read a token of the class
  std::vector<double> share;          ///< of the head's resets
  std::vector<double> chance;         ///< that share with the gate shifted along the text
  std::vector<double> chance_spread;  ///< its standard deviation over shifts
  std::vector<double> p_value;
  std::vector<std::int32_t> discovered;
};

/// Positions of one head by -log f.
struct AtlasHistogram {
  std::vector<double> minus_log_gate;   ///< [bins] lower end, nats
  std::vector<std::int64_t> positions;  ///< [bins]
};

/// Correlations of all pairs of heads: of one model, or of a model (rows) and the first (columns).
struct AtlasSimilarity {
  std::vector<float> values;               ///< [N, N of the columns], NaN where a head has none
  std::vector<std::int64_t> order;         ///< [N] heads such that alike ones stand together
  std::vector<std::int64_t> column_order;  ///< likewise of the columns
};

/// Whether a comparison is one with the heads of the first model.
inline bool is_with_first(std::string_view similarity) { return similarity.starts_with("first_"); }

/// An atlas that stays in its file (docs/files.md): facts are read at once, a head's rows when somebody asks for them.
/// Sums are not read. Datasets that a file lacks are absent, not an error. Safe to use from several threads.
class AtlasReader {
 public:
  /// @throws Error naming the file, the object in it, and the remedy: not HDF5, another kind of file, newer schema,
  ///         damaged
  static std::shared_ptr<const AtlasReader> open(const std::filesystem::path& path);
  ~AtlasReader();

  [[nodiscard]] const EvaluatedCorpus& corpus() const { return corpus_; }
  [[nodiscard]] const std::vector<AtlasFacts>& models() const { return models_; }

  // Functions that read throw Error where the file is damaged. `model` is an index of models(), `place` = layer H +
  // head.
  /// Only where has_tokens.
  [[nodiscard]] AtlasHeadTokens tokens(std::size_t model, std::size_t place) const;
  /// Only where has_resets.
  [[nodiscard]] AtlasHeadResets resets(std::size_t model, std::size_t place) const;
  /// Only where has_histogram.
  [[nodiscard]] AtlasHistogram histogram(std::size_t model, std::size_t place) const;
  /// @param kind  an index of AtlasFacts::passages
  /// @returns those that there are, in the file's order; they are in memory
  [[nodiscard]] std::vector<AtlasPassage> passages(std::size_t model, std::size_t kind, std::size_t place) const;
  /// Log f at the positions around a list's places, `around` on each side: [places of the list, 2 around + 1] nats; NaN
  /// outside of the window. Only where the kind has it.
  [[nodiscard]] std::vector<float> log_gates_around(std::size_t model, std::size_t kind, std::size_t place) const;
  /// Token ids of windows that follow one another, of each [its tokens]. Position p reads id p - 1, and 0 the BOS.
  [[nodiscard]] std::vector<std::vector<std::int32_t>> windows(std::size_t model, std::int64_t first,
                                                               std::int64_t count) const;
  /// @param name  one of AtlasFacts::similarities
  [[nodiscard]] AtlasSimilarity similarity(std::size_t model, const std::string& name) const;

 private:
  class Opening;
  struct Tables;
  AtlasReader();

  EvaluatedCorpus corpus_;
  std::vector<AtlasFacts> models_;
  std::vector<Tables> tables_;  ///< [models]
};

}  // namespace foxscope
