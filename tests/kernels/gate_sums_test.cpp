// Sums of gates by many threads of a block, as a GPU makes them, against those of one thread.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "kernels/gate_sums_block.h"

namespace foxscope::kernels {
namespace {

/// One of the threads of a block.
class BlockOfThreads {
 public:
  BlockOfThreads(int thread, int threads, std::barrier<>& barrier)
      : thread_(thread), threads_(threads), barrier_(barrier) {}
  [[nodiscard]] int thread() const { return thread_; }
  [[nodiscard]] int threads() const { return threads_; }
  void sync() const { barrier_.arrive_and_wait(); }
  template <typename T>
  static void add(T* to, T value) {
    std::atomic_ref<T>(*to).fetch_add(value, std::memory_order_relaxed);
  }
  template <typename T>
  static void add_all(T* to, T value) {
    add(to, value);
  }
  static void set(std::uint32_t* to, std::uint32_t bits) {
    std::atomic_ref<std::uint32_t>(*to).fetch_or(bits, std::memory_order_relaxed);
  }
  static void least(std::uint64_t* to, std::uint64_t value) {
    std::atomic_ref<std::uint64_t> least(*to);
    std::uint64_t known = least.load(std::memory_order_relaxed);
    while (value < known && !least.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
    }
  }

 private:
  int thread_;
  int threads_;
  std::barrier<>& barrier_;
};

/// Two windows of heads, and all that is made of them.
struct GateProblem {
  static constexpr int kWindows = 2;
  static constexpr int kHeads = 3;
  static constexpr std::int64_t kVocabulary = 40;
  static constexpr std::int64_t kSlots = 12;

  explicit GateProblem(int length) : positions(index_of(length) - 1) {
    std::mt19937_64 random(static_cast<std::uint64_t>(length));
    const std::size_t rows = std::size_t{kWindows} * kHeads;
    std::exponential_distribution<double> size(1.0);
    for (std::size_t row = 0; row < rows; ++row) {
      double c = 0;
      for (int p = 0; p < length; ++p) {
        cumulative.push_back(c -= row % kHeads == 0 ? std::floor(2 * size(random)) / 2 : size(random) / 8);
      }
    }
    for (std::size_t n = 0; n < kWindows * positions; ++n) {
      token.push_back(static_cast<std::int32_t>(random() % kVocabulary));
      slot.push_back(token.back() < kSlots ? token.back() : -1);
      classes.push_back(static_cast<std::uint16_t>(random() % (1U << GateOfHead::kClasses)));
    }
    for (int n = 0; n < kWindows * GateSums::kShifts; ++n) {
      shift.push_back(static_cast<std::int32_t>(random() % positions));
    }
    for (std::size_t n = 0; n < kWindows * GateSums::kShiftedClasses * shifted_words(); ++n) {
      class_bits.push_back(static_cast<std::uint32_t>(random()));
    }
    for (std::size_t n = 0; n < std::size(bins.edge); ++n) bins.edge[n] = std::exp2(static_cast<double>(n + 1) / 16);
    for (std::size_t n = 0; n < GateBins::kSteps; ++n) {
      bins.first[n] = static_cast<std::uint8_t>(
          std::ranges::upper_bound(bins.edge, 1 + static_cast<double>(n) / GateBins::kSteps) - std::begin(bins.edge));
    }
    of_head.resize(rows);
    slot_sums.resize(kSlots * kHeads);
    token_log_gate.resize(kHeads * kVocabulary);
    token_below_half.resize(kHeads * kVocabulary);
    histogram.resize(kHeads * GateBins::kBins);
    class_histogram.resize(std::size_t{kHeads} * GateOfHead::kClasses * GateBins::kBins);
    gaps.resize(kHeads * GateSums::kGaps);
    class_shifted.resize(std::size_t{kHeads} * GateSums::kShiftedClasses * GateSums::kShifts);
    keys.resize(cumulative.size());
    resets.resize(rows * index_of(GateSums::reset_words(length - 1)));
    sums = {.windows = kWindows,
            .heads = kHeads,
            .length = length,
            .vocabulary = kVocabulary,
            .cumulative = cumulative.data(),
            .gated = gated.data(),
            .token = token.data(),
            .slot = slot.data(),
            .classes = classes.data(),
            .class_bits = class_bits.data(),
            .shift = shift.data(),
            .has_text = has_text.data(),
            .bins = &bins,
            .level = {-1, std::log(0.5), std::log(0.01)},
            .ranks = {5, 3},
            .rank = {},
            .of_head = of_head.data(),
            .slot_sums = slot_sums.data(),
            .slot_count = kSlots,
            .token_log_gate = token_log_gate.data(),
            .token_below_half = token_below_half.data(),
            .histogram = histogram.data(),
            .class_histogram = class_histogram.data(),
            .gaps = gaps.data(),
            .class_shifted = class_shifted.data(),
            .keys = keys.data(),
            .resets = resets.data()};
    for (int n = 0; n < 5; ++n) sums.rank[0][n] = n * (length - 2) / 4;
    for (int n = 0; n < 3; ++n) sums.rank[1][n] = (n + 1) * (length - 1) / 4;
  }
  GateProblem(const GateProblem&) = delete;
  GateProblem& operator=(const GateProblem&) = delete;

  [[nodiscard]] std::size_t shifted_words() const {
    return index_of(GateSums::shifted_words(static_cast<std::int64_t>(positions)));
  }

  /// As a GPU does it: blocks of threads.
  void run(int threads) {
    for (int window = 0; window < kWindows; ++window) {
      for (int head = 0; head < kHeads; ++head) {
        gates::Shared shared;
        std::barrier<> barrier(threads);
        std::vector<std::jthread> block;
        for (int thread = 0; thread < threads; ++thread) {
          block.emplace_back([&, thread] {
            BlockOfThreads own(thread, threads, barrier);
            gates::sum_gates(own, sums, window, head, shared);
          });
        }
      }
    }
  }

  std::size_t positions;
  std::vector<double> cumulative;
  std::vector<std::uint8_t> gated = {1, 1, 1};
  std::vector<std::int32_t> token, slot, shift;
  std::vector<std::uint16_t> classes;
  std::vector<std::uint32_t> class_bits;
  std::vector<std::uint8_t> has_text = {1, 0};
  GateBins bins;
  std::vector<GateOfHead> of_head;
  std::vector<std::int64_t> slot_sums, token_log_gate, token_below_half, histogram, class_histogram, gaps,
      class_shifted;
  std::vector<std::uint64_t> keys;
  std::vector<std::uint32_t> resets;
  GateSums sums;
};

TEST(GateSums, OfABlockOfThreadsAreThoseOfOne) {
  for (const int length : {2, 130}) {
    GateProblem one(length);
    ThreadPool alone(1);
    cpu::gate_sums(one.sums, alone);
    GateProblem many(length);
    many.run(3);
    const auto all = [](const GateProblem& p) {
      return std::tie(p.slot_sums, p.token_log_gate, p.token_below_half, p.histogram, p.class_histogram, p.gaps,
                      p.class_shifted, p.resets);
    };
    EXPECT_TRUE(all(many) == all(one)) << length;
    for (std::size_t n = 0; n < one.of_head.size(); ++n) {
      EXPECT_TRUE(many.of_head[n] == one.of_head[n]) << length << ", row " << n;
    }
  }
}

/// The order statistics of c written out: all differences, sorted.
TEST(GateSums, OrderStatisticsAreThoseOfSortedNumbers) {
  constexpr int kLength = 300;
  GateProblem problem(kLength);
  ThreadPool alone(1);
  cpu::gate_sums(problem.sums, alone);
  for (std::size_t row = 0; row < problem.of_head.size(); ++row) {
    const double* const c = problem.cumulative.data() + row * kLength;
    std::vector<double> log_gates;
    for (int p = 1; p < kLength; ++p) log_gates.push_back(c[p] - c[p - 1]);
    const GateOfHead& gate = problem.of_head[row];
    EXPECT_EQ(std::ranges::min_element(log_gates) - log_gates.begin() + 1, gate.lowest);
    std::ranges::sort(log_gates);
    std::vector<double> horizons;
    for (int p = 0; p < kLength; ++p) {
      int key = 0;
      while (c[p] - c[key] < problem.sums.level[0]) ++key;
      if (key == 0) {
        horizons.push_back(p);
        continue;
      }
      const double inside = c[p] - c[key];
      horizons.push_back(p - key + (inside - problem.sums.level[0]) / (inside - (c[p] - c[key - 1])));
    }
    std::ranges::sort(horizons);
    const auto expect = [&](const std::vector<double>& sorted, int of, int list) {
      for (int r = 0; r < problem.sums.ranks[of]; ++r) {
        const auto at = index_of(problem.sums.rank[of][r]);
        EXPECT_EQ(gate.low[list][r], sorted[at]) << row << ", list " << list;
        EXPECT_EQ(gate.high[list][r], sorted[std::min(at + 1, sorted.size() - 1)]) << row << ", list " << list;
      }
    };
    expect(log_gates, 0, 0);
    expect(horizons, 1, 1);
  }
}

}  // namespace
}  // namespace foxscope::kernels
