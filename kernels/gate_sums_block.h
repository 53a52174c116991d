// The sums of one head and window as a block of threads makes them, for the GPU and for the host. Every loop goes over
// what belongs to a thread, and a block waits for its threads (sync) between what one writes and others read.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/gate_sums.h"

#ifdef __CUDACC__
#define FOXSCOPE_BLOCK __device__ inline
#else
#define FOXSCOPE_BLOCK inline
#endif

namespace foxscope::kernels::gates {

constexpr double kLogHalf = -0.6931471805599453;
/// How far rounding may put a difference of two sums from the log f that was added, in parts of the larger sum: a power
/// of 2, so that fused multiply-add changes nothing.
constexpr double kSumRounding = 0x1p-51;
/// Gates that are not above are cut to 0 (decay_time.h).
constexpr double kCutLogGate = -1000.0 * (1 - 1e-6);
/// Larger numbers are not whole in these units, and no gate is so small.
constexpr double kLargest = 0x1p38;
constexpr double kFineUnit = 0x1p-24;
constexpr double kTokenUnit = 0x1p-17;

FOXSCOPE_BLOCK std::uint64_t bits_of(double value) {
  std::uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}
FOXSCOPE_BLOCK double number_of(std::uint64_t bits) {
  double value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/// A whole number with the order of doubles.
FOXSCOPE_BLOCK std::uint64_t key_of(double value) {
  const std::uint64_t bits = bits_of(value);
  return (bits >> 63U) != 0 ? ~bits : bits | (std::uint64_t{1} << 63U);
}
FOXSCOPE_BLOCK double of_key(std::uint64_t key) {
  return number_of((key >> 63U) != 0 ? key & ~(std::uint64_t{1} << 63U) : ~key);
}

FOXSCOPE_BLOCK int count_bits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __popc(bits);
#else
  return __builtin_popcount(bits);
#endif
}
/// @param bits  not 0
FOXSCOPE_BLOCK int lowest_bit(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __ffs(static_cast<int>(bits)) - 1;
#else
  return __builtin_ctz(bits);
#endif
}
FOXSCOPE_BLOCK int highest_bit(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return 31 - __clz(static_cast<int>(bits));
#else
  return 31 - __builtin_clz(bits);
#endif
}

/// A number in a unit that is a power of 2, rounded to the nearest even whole number.
FOXSCOPE_BLOCK std::int64_t whole(double value, double unit) { return static_cast<std::int64_t>(rint(value / unit)); }

/// The bin whose lower end is the last that is no larger.
FOXSCOPE_BLOCK int bin_of(double negative_log_gate, const GateBins& bins) {
  if (!(negative_log_gate >= 0x1p-24)) return 0;
  if (negative_log_gate >= 0x1p10) return GateBins::kBins - 1;
  const std::uint64_t bits = bits_of(negative_log_gate);
  const int octave = static_cast<int>(bits >> 52U) - (1023 - 24);
  const double rest = number_of((bits & 0xFFFFFFFFFFFFFU) | 0x3FF0000000000000U);
  // A step is shorter than the distance of two edges: it has at most one.
  const int first = bins.first[static_cast<int>((rest - 1) * GateBins::kSteps)];
  return 1 + 16 * octave + first + (rest >= bins.edge[first] ? 1 : 0);
}

/// Adds a number to the three whole numbers that a sum is. @returns false where it is too large
template <typename Add>
FOXSCOPE_BLOCK bool add_limbs(double value, std::int64_t* sum, const Add& add) {
  if (!(fabs(value) < 0x1p60)) return false;
  const double units[3] = {0x1p-2, 0x1p-42, 0x1p-82};
  for (int n = 0; n < 3; ++n) {
    const double parts = rint(value / units[n]);
    value -= parts * units[n];  // exact
    add(sum + n, static_cast<std::int64_t>(parts));
  }
  return true;
}

/// The memory that the threads of a block share.
struct Shared {
  static constexpr int kRanks = GateOfHead::kMostRanks;
  static constexpr int kDigits = 256;
  static constexpr int kGroup = 16;
  std::uint64_t prefix[2][kRanks];  ///< digits of the keys so far, of this round and the next
  std::uint64_t next[kRanks];       ///< the smallest key beyond
  std::uint64_t least;
  std::uint64_t place;
  std::uint32_t count[kRanks * kDigits];
  std::uint32_t group[kRanks * kDigits / kGroup];
  std::int32_t left[kRanks];
  bool more[kRanks];  ///< the key comes again
};

/// The rank whose digits are counted for this one: the first with the same digits so far.
FOXSCOPE_BLOCK int leader_of(const std::uint64_t* prefix, int rank) {
  while (rank > 0 && prefix[rank - 1] == prefix[rank]) --rank;
  return rank;
}

/// The keys of some ranks, digit by digit, and the next ones.
/// @param block  thread(), threads(), sync(); add and least, which other threads may do at the same time
template <typename Block>
FOXSCOPE_BLOCK void order_keys(Block& block, const std::uint64_t* keys, int count, const int* rank, int ranks,
                               Shared& shared, double* low, double* high) {
  constexpr int kDigits = Shared::kDigits;
  constexpr int kGroup = Shared::kGroup;
  constexpr int kGroups = kDigits / kGroup;
  for (int r = block.thread(); r < ranks; r += block.threads()) {
    shared.prefix[0][r] = 0;
    shared.left[r] = rank[r];
    shared.next[r] = ~std::uint64_t{0};
  }
  for (int round = 0; round < 8; ++round) {
    const int shift = 56 - 8 * round;
    const std::uint64_t* const prefix = shared.prefix[round % 2];
    block.sync();
    for (int n = block.thread(); n < ranks * kDigits; n += block.threads()) shared.count[n] = 0;
    block.sync();
    for (int i = block.thread(); i < count; i += block.threads()) {
      const std::uint64_t key = keys[i];
      for (int r = 0; r < ranks; ++r) {
        if (r > 0 && prefix[r] == prefix[r - 1]) continue;
        if (round > 0 && ((key ^ prefix[r]) >> (shift + 8)) != 0) continue;
        block.add(shared.count + r * kDigits + static_cast<int>(key >> shift & 0xFFU), 1U);
      }
    }
    block.sync();
    for (int n = block.thread(); n < ranks * kGroups; n += block.threads()) {
      std::uint32_t sum = 0;
      for (int digit = 0; digit < kGroup; ++digit) sum += shared.count[n * kGroup + digit];
      shared.group[n] = sum;
    }
    block.sync();
    for (int r = block.thread(); r < ranks; r += block.threads()) {
      const int leader = leader_of(prefix, r);
      const std::uint32_t* const groups = shared.group + leader * kGroups;
      const std::uint32_t* const digits = shared.count + leader * kDigits;
      auto left = static_cast<std::uint32_t>(shared.left[r]);
      int group = 0;
      while (left >= groups[group]) left -= groups[group++];
      int digit = group * kGroup;
      while (left >= digits[digit]) left -= digits[digit++];
      shared.left[r] = static_cast<std::int32_t>(left);
      shared.more[r] = left + 1 < digits[digit];
      shared.prefix[(round + 1) % 2][r] = prefix[r] | static_cast<std::uint64_t>(digit) << shift;
    }
  }
  block.sync();
  const std::uint64_t* const found = shared.prefix[0];
  for (int r = 0; r < ranks; ++r) {
    if (shared.more[r]) continue;
    std::uint64_t next = ~std::uint64_t{0};
    for (int i = block.thread(); i < count; i += block.threads()) {
      if (keys[i] > found[r] && keys[i] < next) next = keys[i];
    }
    block.least(shared.next + r, next);
  }
  block.sync();
  for (int r = block.thread(); r < ranks; r += block.threads()) {
    low[r] = of_key(found[r]);
    high[r] = shared.more[r] || shared.next[r] == ~std::uint64_t{0} ? low[r] : of_key(shared.next[r]);
  }
  block.sync();
}

/// Where between `kept` tokens, with log F `inside`, and one more, with log F `beyond`, log F is `level`.
FOXSCOPE_BLOCK double crossing(int kept, double inside, double beyond, double level) {
  return static_cast<double>(kept) + (inside - level) / (inside - beyond);
}

/// How far back log F stays at a level or above, of one row. c falls, so that a search halves the keys.
FOXSCOPE_BLOCK double horizon(const double* c, int row, double level, std::int64_t& cut_off) {
  int key = 0;
  int end = row;
  while (key < end) {
    const int middle = key + (end - key) / 2;
    if (c[row] - c[middle] < level) {
      key = middle + 1;
    } else {
      end = middle;
    }
  }
  if (key > 0) return crossing(row - key, c[row] - c[key], c[row] - c[key - 1], level);
  ++cut_off;
  return static_cast<double>(row);
}

/// How far ahead log F stays at a level or above, of one key.
FOXSCOPE_BLOCK double survival(const double* c, int length, int key, double level, std::int64_t& cut_off) {
  int beyond = key + 1;
  int end = length;
  while (beyond < end) {
    const int middle = beyond + (end - beyond) / 2;
    if (c[middle] - c[key] < level) {
      end = middle;
    } else {
      beyond = middle + 1;
    }
  }
  if (beyond < length) return crossing(beyond - 1 - key, c[beyond - 1] - c[key], c[beyond] - c[key], level);
  ++cut_off;
  return static_cast<double>(length - 1 - key);
}

/// Sums over positions. Needs shared.least and shared.place at their largest, and of_head, resets at 0.
template <typename Block>
FOXSCOPE_BLOCK void read_positions(Block& block, const GateSums& sums, int window, int head, Shared& shared) {
  const int positions = sums.length - 1;
  const std::int64_t row = std::int64_t{window} * sums.heads + head;
  const double* const c = sums.cumulative + row * sums.length;
  const std::int32_t* const token = sums.token + std::int64_t{window} * positions;
  const std::int32_t* const slot = sums.slot + std::int64_t{window} * positions;
  const std::uint16_t* const classes =
      sums.has_text[window] != 0 ? sums.classes + std::int64_t{window} * positions : nullptr;
  std::int64_t* const class_histogram =
      sums.class_histogram + std::int64_t{head} * GateOfHead::kClasses * GateBins::kBins;
  std::uint32_t* const resets = sums.resets + row * GateSums::reset_words(positions);
  std::uint64_t* const keys = sums.keys + row * sums.length;
  GateOfHead& out = sums.of_head[row];
  std::int64_t of_class[GateOfHead::kClasses] = {};
  std::int64_t resets_of_class[GateOfHead::kClasses] = {};
  std::int64_t reset_count = 0;
  std::int64_t cut = 0;
  std::uint32_t problems = 0;
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t place = ~std::uint64_t{0};
  for (int n = block.thread(); n < positions; n += block.threads()) {
    const double log_gate = c[n + 1] - c[n];
    if (!(fabs(log_gate) < kLargest)) {
      problems |= GateOfHead::kNotFinite;
      continue;
    }
    if (log_gate > 0) problems |= GateOfHead::kRises;
    const std::uint64_t key = key_of(log_gate + 0.0);  // of one zero
    keys[n] = key;
    if (key < least) {
      least = key;
      place = static_cast<std::uint64_t>(n) + 1;
    }
    if (!(log_gate > kCutLogGate)) ++cut;
    const bool reset = log_gate < kLogHalf - kSumRounding * fabs(c[n + 1]);
    const std::int64_t at = std::int64_t{head} * sums.vocabulary + token[n];
    const std::int64_t of_token = whole(log_gate, kTokenUnit);
    block.add(sums.token_log_gate + at, of_token);
    if (slot[n] >= 0) block.add(sums.slot_sums + std::int64_t{slot[n]} * sums.heads + head, of_token);
    const int bin = bin_of(-log_gate, *sums.bins);
    block.add(sums.histogram + std::int64_t{head} * GateBins::kBins + bin, std::int64_t{1});
    if (reset) {
      ++reset_count;
      block.add(sums.token_below_half + at, std::int64_t{1});
      block.set(resets + n / 32, std::uint32_t{1} << (static_cast<unsigned>(n) % 32U));
    }
    if (classes == nullptr) continue;
    const std::int64_t fine = whole(log_gate, kFineUnit);
    const unsigned set = classes[n];
    for (int k = 0; k < GateOfHead::kClasses; ++k) {
      if ((set >> static_cast<unsigned>(k) & 1U) == 0) continue;
      of_class[k] += fine;
      resets_of_class[k] += reset ? 1 : 0;
      block.add(class_histogram + k * GateBins::kBins + bin, std::int64_t{1});
    }
  }
  for (int k = 0; k < GateOfHead::kClasses; ++k) {
    block.add_all(out.of_class + k, of_class[k]);
    block.add_all(out.resets_of_class + k, resets_of_class[k]);
  }
  block.add_all(&out.resets, reset_count);
  block.add_all(&out.cut, cut);
  if (problems != 0) block.set(&out.problems, problems);
  block.least(&shared.least, least);
  block.sync();
  if (least == shared.least) block.least(&shared.place, place);
  block.sync();
  if (block.thread() != 0) return;
  out.lowest = static_cast<std::int32_t>(shared.place);
  if (!(fabs(c[0]) < kLargest)) block.set(&out.problems, GateOfHead::kNotFinite);
  double sum = 0;
  for (int p = 1; p <= positions; ++p) sum += c[p] - c[p - 1];
  out.sum = sum;
}

/// Gaps between resets, and resets on tokens of each class with the gate shifted.
template <typename Block>
FOXSCOPE_BLOCK void count_resets(Block& block, const GateSums& sums, int window, int head) {
  const int positions = sums.length - 1;
  const auto words = static_cast<int>(GateSums::reset_words(positions));
  const std::int64_t row = std::int64_t{window} * sums.heads + head;
  const std::uint32_t* const resets = sums.resets + row * words;
  std::int64_t* const gaps = sums.gaps + std::int64_t{head} * GateSums::kGaps;
  for (int word = block.thread(); word < words; word += block.threads()) {
    std::uint32_t bits = resets[word];
    if (bits == 0) continue;
    int before = word;
    while (before > 0 && resets[before - 1] == 0) --before;
    int last = before > 0 ? 32 * (before - 1) + highest_bit(resets[before - 1]) : -1;
    for (; bits != 0; bits &= bits - 1) {
      const int here = 32 * word + lowest_bit(bits);
      if (last >= 0) block.add(gaps + highest_bit(static_cast<std::uint32_t>(here - last)), std::int64_t{1});
      last = here;
    }
  }
  if (sums.has_text[window] == 0) return;
  const std::int64_t class_words = GateSums::shifted_words(positions);
  for (int task = block.thread(); task < GateSums::kShiftedClasses * GateSums::kShifts; task += block.threads()) {
    const int of_class = task / GateSums::kShifts;
    const auto shift =
        static_cast<unsigned>(sums.shift[std::int64_t{window} * GateSums::kShifts + task % GateSums::kShifts]);
    const std::uint32_t* const bits =
        sums.class_bits + (std::int64_t{window} * GateSums::kShiftedClasses + of_class) * class_words + shift / 32;
    std::int64_t count = 0;
    for (int word = 0; word < words; ++word) {
      const std::uint32_t here = resets[word];
      if (here == 0) continue;
      const std::uint64_t two = std::uint64_t{bits[word + 1]} << 32U | bits[word];
      count += count_bits(here & static_cast<std::uint32_t>(two >> (shift % 32)));
    }
    if (count > 0) {
      block.add(sums.class_shifted + std::int64_t{head} * GateSums::kShiftedClasses * GateSums::kShifts + task, count);
    }
  }
}

/// Order statistics of all lists. The keys of log f are there.
template <typename Block>
FOXSCOPE_BLOCK void order_gates(Block& block, const GateSums& sums, int window, int head, Shared& shared) {
  const int length = sums.length;
  const std::int64_t row = std::int64_t{window} * sums.heads + head;
  const double* const c = sums.cumulative + row * length;
  std::uint64_t* const keys = sums.keys + row * length;
  GateOfHead& out = sums.of_head[row];
  order_keys(block, keys, length - 1, sums.rank[0], sums.ranks[0], shared, out.low[0], out.high[0]);
  for (int list = 0; list < 2 * GateOfHead::kLevels; ++list) {
    const double level = sums.level[list % GateOfHead::kLevels];
    std::int64_t cut_off = 0;
    for (int p = block.thread(); p < length; p += block.threads()) {
      const double tokens =
          list < GateOfHead::kLevels ? horizon(c, p, level, cut_off) : survival(c, length, p, level, cut_off);
      keys[p] = key_of(tokens);
    }
    block.add_all(out.cut_off + list, cut_off);
    block.sync();
    order_keys(block, keys, length, sums.rank[1], sums.ranks[1], shared, out.low[1 + list], out.high[1 + list]);
  }
}

/// All of one head and window, by all threads of a block.
template <typename Block>
FOXSCOPE_BLOCK void sum_gates(Block& block, const GateSums& sums, int window, int head, Shared& shared) {
  if (sums.gated[head] == 0) return;
  if (block.thread() == 0) shared.least = shared.place = ~std::uint64_t{0};
  block.sync();
  read_positions(block, sums, window, head, shared);
  block.sync();
  const GateOfHead& out = sums.of_head[std::int64_t{window} * sums.heads + head];
  if (out.resets > 0) count_resets(block, sums, window, head);
  if (out.problems == 0) order_gates(block, sums, window, head, shared);
}

}  // namespace foxscope::kernels::gates
