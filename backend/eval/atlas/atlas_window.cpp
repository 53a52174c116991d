#include "backend/eval/atlas/atlas_window.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/eval/heads/head_measures.h"
#include "backend/map/statistics/gate_statistics.h"
#include "backend/map/team.h"

namespace foxscope {
namespace {

constexpr double kLogHalf = -0.6931471805599453;
/// How far rounding may put a difference of two sums from the log f that was added, in parts of the larger sum.
constexpr double kSumRounding = 2 * std::numeric_limits<double>::epsilon();
constexpr std::string_view kTimeOfDecay = "rate_decay_time";

/// 64 bits that depend on every bit of a number (splitmix64; Steele, Lea, Flood, OOPSLA 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

std::size_t histogram_bin(double negative_log_gate) {
  if (!(negative_log_gate > 0)) return 0;
  const double step = (std::log2(negative_log_gate) + 24) * 16;
  return step < 0 ? 0 : static_cast<std::size_t>(std::min(kLogGateBins - 1.0, 1.0 + std::floor(step)));
}

/// Positions with a gate, 1 to L - 1, and the places on them that resets are counted by.
class ResetPlaces {
 public:
  /// @param classes  [L] of the window's tokens: position p reads token p - 1
  ResetPlaces(std::span<const BoundaryClassSet> classes, std::size_t positions, std::uint64_t key)
      : positions_(positions) {
    if (classes.empty()) return;
    // A byte counts the resets of a class. The places stand there twice, so that a shift needs no remainder.
    counters_.resize(2 * positions);
    for (std::size_t p = 0; p < positions; ++p) {
      std::uint64_t counter = 0;
      for (std::size_t n = 0; n < kBoundaryClasses; ++n) counter |= std::uint64_t{(classes[p] >> n) & 1U} << (8 * n);
      counters_[p] = counters_[p + positions] = counter;
    }
    WindowRandom random(key);
    for (std::size_t& shift : shifts_) {
      shift = positions < 2 ? 0 : 1 + static_cast<std::size_t>(random.below(positions - 1));
    }
  }

  [[nodiscard]] bool known() const { return !counters_.empty(); }
  [[nodiscard]] std::size_t shift(std::size_t n) const { return shifts_[n]; }

  /// Resets on tokens of each class, with the gate shifted.
  /// @param resets  places of resets, below the number of positions
  [[nodiscard]] std::array<std::int64_t, kBoundaryClasses> count(std::span<const std::uint32_t> resets,
                                                                 std::size_t shift) const {
    constexpr std::size_t kMost = 255;
    std::array<std::int64_t, kBoundaryClasses> counts{};
    const std::uint64_t* const from = counters_.data() + shift;
    for (std::size_t begin = 0; begin < resets.size(); begin += kMost) {
      std::uint64_t sum = 0;
      for (const std::uint32_t reset : resets.subspan(begin, std::min(kMost, resets.size() - begin))) {
        sum += from[reset];
      }
      for (std::size_t n = 0; n < kBoundaryClasses; ++n) counts[n] += static_cast<std::int64_t>(sum >> (8 * n) & 0xFFU);
    }
    return counts;
  }

 private:
  std::size_t positions_;
  std::vector<std::uint64_t> counters_;
  std::array<std::size_t, kShifts> shifts_{};
};

/// The work on one window.
class WindowWork {
 public:
  WindowWork(const Trace& trace, const AtlasWindow& window, AtlasSums& sums)
      : trace_(trace),
        window_(window),
        sums_(sums),
        positions_(index_of(trace.info().length) - 1),
        heads_(sums.shape().head_count()),
        places_(window.classes, positions_, window.key),
        log_gates_(blocks() * kBlock * positions_),
        lowest_(heads_),
        sampled_(heads_),
        document_(sums.document(window.document, atlas_numbers().size())) {}

  bool run(const Job& job) {
    const Job quiet{job.stop, {}, job.executor};
    Team team(quiet);
    const auto heads = static_cast<std::int64_t>(heads_);
    if (!team.run({"measuring gates", "heads", heads}, heads, [&](std::int64_t head, int) { measure(index_of(head)); }))
      return false;
    // The last block has the most products.
    const auto count = static_cast<std::int64_t>(blocks());
    if (!team.run({"comparing heads", "blocks", count}, count,
                  [&](std::int64_t block, int) { multiply(index_of(count - 1 - block)); })) {
      return false;
    }
    const auto& inputs = trace_.tokens()->input_id;
    for (std::size_t p = 0; p < positions_; ++p) ++sums_.at(AtlasSum::token_count)[index_of(inputs[p + 1])];
    for (std::size_t p = 0; p < (places_.known() ? positions_ : 0); ++p) {
      for (std::size_t n = 0; n < kBoundaryClasses; ++n) {
        sums_.at(AtlasSum::class_count)[n] += (window_.classes[p] >> n) & 1U;
      }
    }
    for (std::size_t head = 0; head < heads_; ++head) {
      if (lowest_[head].position == 0) continue;
      sums_.add_reset(head, lowest_[head]);
      sums_.add_sample(head, sampled_[head]);
    }
    ++document_.windows;
    sums_.windows.push_back(window_.number);
    return true;
  }

 private:
  void measure(std::size_t place) {
    const auto row = index_of(sums_.shape().heads);
    const auto layer = static_cast<int>(place / row);
    const auto head = static_cast<int>(place % row);
    if (head >= trace_.info().mixer(layer).heads || !forgets(trace_.info(), layer)) return;
    const std::span<const double> c = trace_.cumulative_log_gate(layer, head);
    if (!std::ranges::all_of(c, [](double value) { return std::isfinite(value); })) {
      throw Error(
          fmt::format("the gate of layer {}, head {} in window {} is not a number: check the weights and "
                      "--dtype",
                      layer, head, window_.number));
    }
    read_gates(place, c);
    put_numbers(place, c);
  }

  void read_gates(std::size_t place, std::span<const double> c) {
    const auto& inputs = trace_.tokens()->input_id;
    const auto token_sums = sums_.row(AtlasSum::token_log_gate, place);
    const auto token_resets = sums_.row(AtlasSum::token_below_half, place);
    const auto histogram = sums_.row(AtlasSum::log_gate_histogram, place);
    const auto class_sums = sums_.row(AtlasSum::class_log_gate, place);
    std::vector<std::uint32_t> resets;
    double sum = 0;
    std::size_t lowest = 1;
    for (std::size_t p = 1; p < c.size(); ++p) {
      const double log_gate = c[p] - c[p - 1];
      gate_at(p - 1, place) = log_gate;
      sum += log_gate;
      const auto whole = static_cast<std::int64_t>(std::nearbyint(log_gate / kLogGateUnit));
      const std::int64_t one[] = {whole};
      add_whole(one, token_sums.subspan(index_of(inputs[p]), 1));
      ++histogram[histogram_bin(-log_gate)];
      if (places_.known()) {
        for (unsigned set = window_.classes[p - 1]; set != 0; set &= set - 1) {
          add_whole(one, class_sums.subspan(index_of(std::countr_zero(set)), 1));
        }
      }
      if (log_gate < c[lowest] - c[lowest - 1]) lowest = p;
      if (log_gate < kLogHalf - kSumRounding * std::abs(c[p])) {
        ++token_resets[index_of(inputs[p])];
        resets.push_back(static_cast<std::uint32_t>(p - 1));
      }
    }
    add_exactly(sum, sums_.row(AtlasSum::log_gate, place).first<kExactLimbs>());
    const std::uint64_t priority = mixed(window_.key + place);
    const std::size_t drawn = 1 + static_cast<std::size_t>(mixed(priority) % positions_);
    const auto place_at = [&](std::size_t p) {
      return AtlasPlace{static_cast<float>(c[p] - c[p - 1]), window_.number, static_cast<std::int64_t>(p), priority};
    };
    lowest_[place] = place_at(lowest);
    sampled_[place] = place_at(drawn);
    put_resets(place, resets);
  }

  void put_resets(std::size_t place, std::span<const std::uint32_t> resets) {
    const auto gaps = sums_.row(AtlasSum::reset_gap, place);
    for (std::size_t n = 1; n < resets.size(); ++n) {
      ++gaps[index_of(std::bit_width(resets[n] - resets[n - 1]) - 1)];
    }
    if (!places_.known()) return;
    const auto counts = places_.count(resets, 0);
    add_whole(counts, sums_.row(AtlasSum::class_resets, place));
    const auto shifted = sums_.row(AtlasSum::class_shifted, place);
    for (std::size_t n = 0; n < kShifts; ++n) {
      const auto by_chance = places_.count(resets, places_.shift(n));
      for (std::size_t k = 0; k < kBoundaryClasses; ++k) shifted[k * kShifts + n] += by_chance[k];
    }
  }

  void put_numbers(std::size_t place, std::span<const double> c) {
    HeadStatistics statistics;
    kernels::ThreadPool alone(1);
    gate_statistics({&c, 1}, 0, Job{{}, {}, &alone}, {&statistics, 1});
    std::size_t number = 0;
    for (const HeadNumber& one : gate_numbers(statistics)) {
      if (one.name == kTimeOfDecay) continue;
      const std::size_t at = (number++ * heads_ + place) * kExactLimbs;
      add_exactly(one.value, std::span(document_.sum).subspan(at).first<kExactLimbs>());
    }
  }

  /// Products of log f of a block of heads with those of the heads up to it: position by position, so that the order of
  /// terms is always the same.
  void multiply(std::size_t block) {
    const auto products = sums_.at(AtlasSum::log_gate_product);
    for (std::size_t other = 0; other <= block; ++other) {
      const double* const a = log_gates_.data() + block * positions_ * kBlock;
      const double* const b = log_gates_.data() + other * positions_ * kBlock;
      double sum[kBlock][kBlock] = {};
      for (std::size_t p = 0; p < positions_ * kBlock; p += kBlock) {
        for (std::size_t n = 0; n < kBlock; ++n) {
          for (std::size_t m = 0; m < kBlock; ++m) sum[n][m] += a[p + n] * b[p + m];
        }
      }
      for (std::size_t n = 0; n < kBlock; ++n) {
        for (std::size_t m = 0; m < kBlock; ++m) {
          const std::size_t head = block * kBlock + n;
          const std::size_t with = other * kBlock + m;
          if (head >= heads_ || with > head) continue;
          const std::size_t pair = head * (head + 1) / 2 + with;
          add_exactly(sum[n][m], products.subspan(pair * kExactLimbs).first<kExactLimbs>());
        }
      }
    }
  }

  static constexpr std::size_t kBlock = 4;  ///< heads whose products are in registers
  [[nodiscard]] std::size_t blocks() const { return (heads_ + kBlock - 1) / kBlock; }
  [[nodiscard]] double& gate_at(std::size_t position, std::size_t place) {
    return log_gates_[(place / kBlock * positions_ + position) * kBlock + place % kBlock];
  }

  const Trace& trace_;
  const AtlasWindow& window_;
  AtlasSums& sums_;
  std::size_t positions_;
  std::size_t heads_;
  ResetPlaces places_;
  std::vector<double> log_gates_;  ///< [blocks, positions, kBlock]
  std::vector<AtlasPlace> lowest_;
  std::vector<AtlasPlace> sampled_;
  DocumentSums& document_;
};

}  // namespace

std::uint64_t window_key(std::uint64_t seed, std::span<const std::int32_t> ids) {
  std::uint64_t key = mixed(seed);
  for (const std::int32_t id : ids) key = mixed(key ^ static_cast<std::uint64_t>(id));
  return key;
}

const std::vector<AtlasNumber>& atlas_numbers() {
  static const std::vector<AtlasNumber> numbers = [] {
    std::vector<AtlasNumber> list;
    for (HeadNumber& number : gate_numbers({})) {
      if (number.name != kTimeOfDecay) list.push_back({std::move(number.name), number.unit});
    }
    return list;
  }();
  return numbers;
}

bool add_window(const Trace& trace, const AtlasWindow& window, const Job& job, AtlasSums& sums) {
  return WindowWork(trace, window, sums).run(job);
}

}  // namespace foxscope
