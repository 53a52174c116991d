#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/executor.h"
#include "kernels/status.h"

namespace foxscope::kernels {

/// Limits of the bins of -log f: those of one octave, and where each step of 1/64 of the octave finds its first one.
struct GateBins {
  static constexpr int kBins = 545;  ///< below 2^-24 nats; 16 an octave; the last from 2^10 on
  static constexpr int kSteps = 64;
  double edge[16] = {};             ///< 2^(1/16), ..., 2^(16/16)
  std::uint8_t first[kSteps] = {};  ///< of the edges, the first beyond 1 + n / 64
};

/// The numbers of one head's gate in one window.
struct GateOfHead {
  static constexpr int kClasses = 12;
  static constexpr int kLevels = 3;
  /// Lists that order statistics are taken of: log f; how far back F stays at each level or above, of every row; how
  /// far ahead, of every key.
  static constexpr int kLists = 1 + 2 * kLevels;
  static constexpr int kMostRanks = 5;
  static constexpr std::uint32_t kNotFinite = 1;
  static constexpr std::uint32_t kRises = 2;  ///< c does somewhere, so that order statistics are not known

  double low[kLists][kMostRanks] = {};     ///< the number of each rank
  double high[kLists][kMostRanks] = {};    ///< the next one, or the same where there is none
  std::int64_t cut_off[2 * kLevels] = {};  ///< numbers of the lists but the first that an end of the text cut off
  std::int64_t cut = 0;                    ///< positions whose gate is cut to 0
  double sum = 0;                          ///< of log f, term by term from the first, nats
  std::int64_t of_class[kClasses] = {};    ///< log f of the positions that read a class, in 2^-24 nats
  std::int64_t resets_of_class[kClasses] = {};
  std::int64_t resets = 0;
  std::int32_t lowest = 0;  ///< the first position with the smallest log f
  std::uint32_t problems = 0;

  bool operator==(const GateOfHead&) const = default;
};

/// Sums of the gates of all heads over windows of one length L, with P = L - 1 positions from 1 on. All numbers are
/// whole, or the order of their terms is fixed: on a GPU they are those of the host in every bit. A position p >= 1 has
/// log f = c_p - c_(p-1), and is a reset where that is below log(1/2) less what rounding of c may be.
struct GateSums {
  static constexpr int kShiftedClasses = 8;  ///< the first of the classes
  static constexpr int kShifts = 200;
  static constexpr int kGaps = 40;

  int windows = 0;
  int heads = 0;
  int length = 0;  ///< L >= 2
  std::int64_t vocabulary = 0;
  const double* cumulative = nullptr;         ///< [windows, heads, L] c, nats, non-increasing
  const std::uint8_t* gated = nullptr;        ///< [heads] 0: there is no c
  const std::int32_t* token = nullptr;        ///< [windows, P] id that the position reads
  const std::int32_t* slot = nullptr;         ///< [windows, P] row of slot_sums; -1: none
  const std::uint16_t* classes = nullptr;     ///< [windows, P] bit n: reads class n
  const std::uint32_t* class_bits = nullptr;  ///< [windows, kShiftedClasses, shifted_words(P)] positions of each, twice
  const std::int32_t* shift = nullptr;        ///< [windows, kShifts] of the gate, below P
  const std::uint8_t* has_text = nullptr;     ///< [windows] 0: there are no classes
  const GateBins* bins = nullptr;
  double level[GateOfHead::kLevels] = {};    ///< logarithms
  int ranks[2] = {};                         ///< of the first list; of the others
  int rank[2][GateOfHead::kMostRanks] = {};  ///< ascending

  GateOfHead* of_head = nullptr;      ///< [windows, heads]
  std::int64_t* slot_sums = nullptr;  ///< [slot_count, heads] log f in 2^-17 nats
  std::int64_t slot_count = 0;
  // The kernels add to these.
  std::int64_t* token_log_gate = nullptr;    ///< [heads, vocabulary] log f in 2^-17 nats
  std::int64_t* token_below_half = nullptr;  ///< [heads, vocabulary] resets
  std::int64_t* histogram = nullptr;         ///< [heads, GateBins::kBins]
  std::int64_t* class_histogram = nullptr;   ///< [heads, kClasses, GateBins::kBins]
  std::int64_t* gaps = nullptr;              ///< [heads, kGaps] of neighbouring resets: 1, 2-3, 4-7, ... tokens
  std::int64_t* class_shifted = nullptr;     ///< [heads, kShiftedClasses, kShifts] resets of the shifted gate
  // Scratch.
  std::uint64_t* keys = nullptr;    ///< [windows, heads, L]
  std::uint32_t* resets = nullptr;  ///< [windows, heads, reset_words(P)]

  static constexpr std::int64_t reset_words(std::int64_t positions) { return (positions + 31) / 32; }
  static constexpr std::int64_t shifted_words(std::int64_t positions) { return (2 * positions + 62) / 32 + 2; }
};

/// Products of log f of pairs of heads, summed over the positions of each window in their order by fused multiply-add,
/// and these sums over windows as three whole numbers each, of 2^-2, 2^-42 and 2^-82 (exact_sum.h).
struct GateProducts {
  struct Heads {
    const double* cumulative = nullptr;   ///< [windows, count, L]
    const std::uint8_t* gated = nullptr;  ///< [count]
    int count = 0;
  };
  int windows = 0;
  int length = 0;
  Heads own;
  Heads other;
  bool pairs = false;               ///< the heads are the same: pairs of own n and other m <= n only
  std::int64_t* sums = nullptr;     ///< [n (n + 1) / 2 + m, 3], or [own, other, 3]; added to
  std::uint32_t* failed = nullptr;  ///< set to 1 where a product is not below 2^60
};

namespace cpu {

/// Makes what cuda::gate_sums makes, with the same code: a reference, not a fast way.
void gate_sums(const GateSums& sums, Executor& executor);
void gate_products(const GateProducts& products, Executor& executor);

}  // namespace cpu
}  // namespace foxscope::kernels
