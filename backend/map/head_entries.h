#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/map/map.h"
#include "backend/map/mixing_entries.h"
#include "backend/map/team.h"
#include "backend/map/tile_reader.h"
#include "kernels/cpu/pooled_map.h"
#include "kernels/cpu/rounded_logits.h"

namespace foxscope {

/// Whether entries of softmax attention take row normalisers without the gate.
inline bool takes_ungated_rows(Quantity quantity) {
  return quantity == Quantity::attention_without_gate || quantity == Quantity::gate_effect;
}

/// Whether a request has so few rows that normalisers are computed for these rows alone. For more rows the normalisers
/// of all rows are computed, and kept beside the trace.
inline bool are_few(const Range& rows, std::int64_t length) { return rows.size() * 32 <= length; }

/// The source of one head's entries of one quantity: shared by the threads of a map, read only.
struct HeadEntries {
  /// Looks up all that the quantity needs.
  /// @param without_gate  log_normalizer_without_gate, where the quantity needs it
  /// @param channel       of forget and log_forget, MapRequest::channel
  /// @throws Error for parts that the trace did not keep
  HeadEntries(const HeadOf& of, Quantity which, std::span<const float> without_gate, std::optional<int> channel = {});

  /// Prepares what a linear mixer's entries need, row sums too. @returns false if the job was stopped
  /// @param own  holds row sums that were made for these rows alone
  bool prepare_mixing(const Range& rows, const Range& columns, FirstKey first_key, const Job& job, Team& team,
                      std::vector<float>& own);
  /// Prepares logits that are passed on from key to key (LayerMixer::path). @returns false if the job was stopped
  bool prepare_path(const Range& rows, const Range& columns, Team& team);
  /// Whether entries come from a softmax, which has their logarithms first.
  [[nodiscard]] bool is_softmax() const;
  [[nodiscard]] std::unique_ptr<TileReader> reader() const;

  /// Share of a row that its head's sink takes, in nats: log of the weight that no key has.
  [[nodiscard]] double log_sink_share(std::int64_t row) const;
  /// Takes one of attention's two parts away, for Quantity::attention.
  /// @param rows  [L] log-normalisers of what remains, nats; must outlive this
  void leave_out_gate(std::span<const float> rows);     ///< softmax of S: what content alone would do
  void leave_out_content(std::span<const float> rows);  ///< F normalised by rows: what decay alone would do

  /// The measures of keys that are computed before the first tile.
  struct KeyMeasures {
    bool norms = false;    ///< by which tiles are skipped
    bool rounded = false;  ///< by which largest entries are found; needs rounds_logits
  };
  /// @returns false if the job was stopped
  bool measure_keys(const KeyMeasures& wanted, const Range& keys, Team& team);

  HeadOf head;
  Quantity quantity;
  bool logarithm = false;                ///< tiles hold log2 of the entries; for both kinds of attention only
  const QueryKeyStore* store = nullptr;  ///< null where the quantity needs no queries and keys
  int key_head = 0;
  std::int64_t length = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;
  double scale = 0;
  double cap = 0;                       ///< of logits; 0: none
  std::optional<double> sink;           ///< logit of the head's sink, of entries of attention; nothing: there is none
  bool gated = false;                   ///< false: f = 1, and `gate` holds zeros where it is needed at all
  std::span<const double> gate;         ///< [L] nats
  std::span<const float> normalizer;    ///< [L] nats, with the gate
  std::span<const float> without_gate;  ///< [L] nats
  std::span<const std::int32_t> token;  ///< [L] that each position reads; empty where the trace does not say
  std::vector<double> zero_gate;        ///< what `gate` views when the head has none, or one channel is looked at
  /// Largest |k| of each block of kMapTile keys, NaN where a key or its gate is; empty: nothing is skipped.
  std::vector<double> block_norm;
  double skip_below = 0;  ///< log2 of the entries that may be left out
  /// Keys rounded to eight bits, [length, head_dim], what belongs to them, [length], and their blocks; or all empty.
  std::vector<std::int8_t> rounded_keys;
  std::vector<std::int32_t> rounded_offset;
  std::vector<kernels::cpu::RoundedKeys> rounded_blocks;
  std::shared_ptr<MixingEntries> mixing;  ///< of a linear mixer, where the quantity is not its scalar decay
  /// Products of queries and keys of attention that erases (LayerMixer::path); null: they are those of the store.
  std::shared_ptr<MixingEntries> path;
};

/// Tiles of softmax attention and of F: queries of a band packed, keys fetched chunk by chunk.
class EntryReader final : public TileReader {
 public:
  explicit EntryReader(const HeadEntries& entries);

  void set_band(const Range& rows) override;
  /// The queries that follow are these, in this order, 64 a strip; not of entries with a path.
  /// @param rows  at most kLongBandRows
  void set_rows(std::span<const std::int64_t> rows);
  void set_chunk(const Range& keys) override;
  [[nodiscard]] bool negligible(std::int64_t strip, const Range& keys, double log2_limit) const override;
  [[nodiscard]] bool negligible(std::int64_t strip, const Range& keys) const override {
    return negligible(strip, keys, entries_.skip_below);
  }
  void tile(std::int64_t strip, const Range& keys, float* out) override;
  void log_attention_tile(std::int64_t strip, const Range& keys, float* out) override;
  bool largest_of_parts(std::int64_t strip, const Range& keys, const kernels::cpu::TilePixels& pixels,
                        const float* current, float* result) override;

 private:
  struct Strip {
    double gate[kernels::cpu::kMapTile];          ///< c_i
    double with_gate[kernels::cpu::kMapTile];     ///< c_i - lse_i
    double without_gate[kernels::cpu::kMapTile];  ///< -lse_i of softmax without the gate
    double largest_term = 0;                      ///< of `with_gate`; NaN where one is
    double query_norm = 0;
    kernels::cpu::RoundedQueries rounded;
  };
  void read_keys();
  void set_terms(Strip& strip, std::int64_t lane, std::int64_t row) const;
  /// @param query  [count, head_dim] of a strip's lanes
  void pack(std::int64_t strip, const float* query, std::int64_t count);
  [[nodiscard]] kernels::cpu::LogTerms gated_terms(const Strip& strip, const Range& keys) const;
  void logits(std::int64_t strip, const Range& keys, float* out);
  void add_gated_terms(const Strip& strip, const Range& keys, float* out) const;
  static void add_ungated_terms(const Strip& strip, const Range& keys, float* out);

  const HeadEntries& entries_;
  std::vector<Strip> strips_;
  std::vector<float> packed_;
  std::vector<std::uint8_t> rounded_;
  int tiles_to_pass_ = 0;  ///< before a tile's largest entries are looked for again
  std::vector<float> query_scratch_;
  std::vector<float> key_scratch_;
  std::vector<float> second_;
  std::unique_ptr<TileReader> path_;  ///< of HeadEntries::path
  Range chunk_;
  std::span<const float> keys_;
};

}  // namespace foxscope
