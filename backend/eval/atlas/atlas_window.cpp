#include "backend/eval/atlas/atlas_window.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/data/windows.h"
#include "backend/eval/atlas/head_vectors.h"
#include "backend/eval/atlas/window_rows.h"
#include "backend/map/statistics/gate_statistics.h"
#include "backend/map/team.h"
#include "backend/trace/dtype.h"

namespace foxscope {
namespace {

constexpr double kLogHalf = -0.6931471805599453;
/// How far rounding may put a difference of two sums from the log f that was added, in parts of the larger sum.
constexpr double kSumRounding = 2 * std::numeric_limits<double>::epsilon();

/// 64 bits that depend on every bit of a number (splitmix64; Steele, Lea, Flood, OOPSLA 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

/// Counts how many of 2^(1/16), ..., 2^(15/16) a number in [1, 2) reaches.
class Sixteenths {
 public:
  Sixteenths() {
    for (std::size_t n = 0; n < 16; ++n) edges_[n] = std::exp2(static_cast<double>(n + 1) / 16);
    // A step is shorter than the distance of two edges: it has at most one.
    for (std::size_t n = 0; n < kSteps; ++n) {
      const double from = 1 + static_cast<double>(n) / kSteps;
      first_[n] = static_cast<std::uint8_t>(std::ranges::upper_bound(edges_, from) - edges_.begin());
    }
  }
  [[nodiscard]] std::size_t of(double number) const {
    const std::size_t first = first_[static_cast<std::size_t>((number - 1) * kSteps)];
    return first + (number >= edges_[first] ? 1 : 0);
  }

 private:
  static constexpr std::size_t kSteps = 64;
  std::array<double, 16> edges_{};
  std::array<std::uint8_t, kSteps> first_{};
};

/// The bin whose lower end (log_gate_bin) is the last that is no larger.
std::size_t histogram_bin(double negative_log_gate) {
  static const Sixteenths sixteenths;
  if (!(negative_log_gate >= 0x1p-24)) return 0;
  if (negative_log_gate >= 0x1p10) return kLogGateBins - 1;
  const auto bits = std::bit_cast<std::uint64_t>(negative_log_gate);
  const std::uint64_t octave = (bits >> 52U) - (1023 - 24);
  const double rest = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFU) | 0x3FF0000000000000U);
  return 1 + 16 * octave + sixteenths.of(rest);
}

/// log f in a unit, rounded to the nearest even whole number.
std::int64_t whole_log_gate(double log_gate, double unit) {
  const double units = log_gate / unit;
  // Beside this number doubles are whole, and their last bits count them.
  constexpr double kWhole = 0x1.8p52;
  if (!(std::abs(units) < 0x1p51)) return static_cast<std::int64_t>(std::nearbyint(units));
  return std::bit_cast<std::int64_t>(units + kWhole) - std::bit_cast<std::int64_t>(kWhole);
}

/// Positions with a gate, 1 to L - 1, and the places on them that resets are counted by.
class ResetPlaces {
 public:
  /// @param classes  [L] of the window's tokens: position p reads token p - 1
  ResetPlaces(std::span<const BoundaryClassSet> classes, std::size_t positions, std::uint64_t key) {
    if (classes.empty()) return;
    // A byte counts the resets of a class. The places stand there twice, so that a shift needs no remainder.
    counters_.resize(2 * positions);
    for (std::size_t p = 0; p < positions; ++p) {
      std::uint64_t counter = 0;
      for (std::size_t n = 0; n < kResetClasses; ++n) counter |= std::uint64_t{(classes[p] >> n) & 1U} << (8 * n);
      counters_[p] = counters_[p + positions] = counter;
    }
    WindowRandom random(key);
    for (std::size_t& shift : shifts_) {
      shift = positions < 2 ? 0 : 1 + static_cast<std::size_t>(random.below(positions - 1));
    }
  }

  [[nodiscard]] bool known() const { return !counters_.empty(); }
  [[nodiscard]] std::size_t shift(std::size_t n) const { return shifts_[n]; }
  [[nodiscard]] std::span<const std::size_t> shifts() const { return shifts_; }

  /// Resets on tokens of each class, with the gate shifted.
  /// @param resets  places of resets, below the number of positions
  [[nodiscard]] std::array<std::int64_t, kResetClasses> count(std::span<const std::uint32_t> resets,
                                                              std::size_t shift) const {
    constexpr std::size_t kMost = 255;
    std::array<std::int64_t, kResetClasses> counts{};
    const std::uint64_t* const from = counters_.data() + shift;
    for (std::size_t begin = 0; begin < resets.size(); begin += kMost) {
      std::uint64_t sum = 0;
      for (const std::uint32_t reset : resets.subspan(begin, std::min(kMost, resets.size() - begin))) {
        sum += from[reset];
      }
      for (std::size_t n = 0; n < kResetClasses; ++n) counts[n] += static_cast<std::int64_t>(sum >> (8 * n) & 0xFFU);
    }
    return counts;
  }

 private:
  std::vector<std::uint64_t> counters_;
  std::array<std::size_t, kShifts> shifts_{};
};

/// The parts that work on several windows shares.
struct WindowsWork {
  const AtlasNumbers& numbers;
  DeviceGates* gates;  ///< null: processors read the gates
  WindowMemory& memory;
  AtlasSums& sums;
};

/// The work on one window.
class WindowWork {
 public:
  /// @param place_of_log_gates  of those of WindowMemory
  WindowWork(const AtlasWindow& window, const WindowsWork& shared, std::size_t place_of_log_gates)
      : run_(window.run),
        window_(window),
        numbers_(shared.numbers),
        sums_(shared.sums),
        length_(run_->info().length),
        positions_(index_of(length_) - 1),
        heads_(sums_.shape().head_count()),
        places_(window.classes, positions_, window.key),
        memory_(shared.memory),
        log_gates_(shared.memory.log_gates[place_of_log_gates]),
        gates_(shared.gates),
        found_(heads_),
        rows_(run_, wanted_rows(sums_.shape()), mixed(~window.key)) {
    if (gates_ == nullptr) log_gates_.resize(heads_ * positions_);
    find_tokens();
  }

  /// For the sums of gates on a GPU.
  [[nodiscard]] GateWindow gate_window() const {
    return {run_.trace.get(),
            window_.first.trace.get(),
            std::span(run_->tokens()->input_id).subspan(1),
            reads_,
            with_errors_,
            window_.classes,
            places_.shifts()};
  }
  /// @param number  of the window among those that DeviceGates added last
  void take_gates(std::size_t number) { gates_number_ = number; }
  /// Before anything is added; windows one after the other.
  void start() { document_ = &sums_.document(window_.document); }

  /// A GPU measures rows of attention of heads together. @returns false if the job was stopped
  bool measure_on_gpu(const Job& job) {
    if (!with_rows() || !run_.gpu) return true;
    return measure_heads(run_, measure_options(), job, [&](HeadMeasures measures) {
      const std::size_t place =
          index_of(measures.statistics.layer) * index_of(sums_.shape().heads) + index_of(measures.statistics.head);
      found_[place].measures = std::move(measures);
    });
  }
  /// Adds what one head does; a head's windows one after the other. @returns false if the job was stopped
  bool measure(std::size_t place, const Job& job);

  /// Adds what takes all heads. @returns false if the job was stopped
  bool finish(const Job& job, Team& team) {
    if (!put_document_tokens(team) || !put_entries(team)) return false;
    check_losses();
    if (gates_ == nullptr &&
        !multiply(
            AtlasSum::log_gate_product, positions_, [&](std::size_t head) { return gates_of(head); }, team)) {
      return false;
    }
    if (with_rows() &&
        !multiply(
            AtlasSum::mass_product, rows_.masses(), [&](std::size_t head) { return masses_of(rows_, head); }, team)) {
      return false;
    }
    if (window_.first.trace != nullptr && !compare_with_first(job, team)) return false;
    put_counts();
    ++document_->windows;
    sums_.windows.push_back(window_.number);
    return true;
  }

  void put_places(std::size_t head) {
    if (found_[head].gated) {
      put_place(AtlasList::resets, head, found_[head].lowest);
      put_place(AtlasList::samples, head, found_[head].drawn);
    }
    const auto put_row = [&](AtlasList list, const WindowRows::Largest& largest) {
      if (largest.position > 0) put_place(list, head, place_at(index_of(largest.position), largest.value));
    };
    put_row(AtlasList::reach, rows_.head(head).reach);
    put_row(AtlasList::gain, rows_.head(head).gain);
  }

 private:
  /// The numbers of a head once it is measured.
  struct Found {
    bool gated = false;
    std::optional<HeadMeasures> measures;  ///< made on a GPU, together with those of other heads
    AtlasPlace lowest;
    AtlasPlace drawn;
    std::array<std::int64_t, kBoundaryClasses> of_class = {};
    std::array<std::int64_t, kBoundaryClasses> resets_of_class = {};
    /// [entries] of AtlasNumbers, and their errors; NaN: the head has none. Empty before they are known. Sums of an
    /// entry lie side by side, head by head: they are added when all heads are measured, not by several threads at
    /// once.
    std::vector<double> entries;
    std::vector<double> errors;
  };

  static std::int64_t wanted_rows(const AtlasShape& shape) {
    return shape.rows == AtlasShape::kAllRows ? WindowRows::kAll : shape.rows;
  }
  [[nodiscard]] bool with_rows() const { return sums_.shape().rows != 0; }
  /// Whether the statistics are of the rows that are drawn too.
  [[nodiscard]] bool measures_drawn() const { return rows_.draws(sums_.shape().rows); }
  [[nodiscard]] int layer_of(std::size_t place) const {
    return static_cast<int>(place / index_of(sums_.shape().heads));
  }
  [[nodiscard]] int head_of(std::size_t place) const { return static_cast<int>(place % index_of(sums_.shape().heads)); }

  /// The tokens that the window reads, and which of them each position does.
  void find_tokens() {
    const auto read = std::span(run_->tokens()->input_id).subspan(1);
    ids_.assign(read.begin(), read.end());
    std::ranges::sort(ids_);
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
    reads_.resize(positions_);
    for (std::size_t p = 0; p < positions_; ++p) {
      reads_[p] = static_cast<std::uint32_t>(std::ranges::lower_bound(ids_, read[p]) - ids_.begin());
    }
    const auto is_without_error = [&](std::int32_t id) { return index_of(id) >= sums_.shape().error_tokens(); };
    with_errors_ = index_of(std::ranges::find_if(ids_, is_without_error) - ids_.begin());
    if (gates_ == nullptr) token_log_gate_.resize(heads_ * with_errors_);
  }

  /// Adds readings of tokens with errors to the document's. @returns false if the job was stopped
  bool put_document_tokens(Team& team) {
    std::vector<std::int64_t*> of_token(with_errors_);
    for (std::size_t n = 0; n < with_errors_; ++n) {
      auto& values = document_->tokens[ids_[n]];
      values.resize(1 + heads_);
      of_token[n] = values.data();
    }
    for (std::size_t p = 0; p < positions_; ++p) {
      if (reads_[p] < with_errors_) ++of_token[reads_[p]][0];
    }
    constexpr std::size_t kTogether = 8;  // numbers of a cache line
    const auto tasks = static_cast<std::int64_t>((with_errors_ + kTogether - 1) / kTogether);
    return team.run({"adding tokens", "tokens", tasks}, tasks, [&](std::int64_t task, int) {
      const std::size_t first = index_of(task) * kTogether;
      const std::size_t end = std::min(with_errors_, first + kTogether);
      for (std::size_t n = first; gates_ != nullptr && n < end; ++n) {
        add_whole(gates_->token_sums(gates_number_).subspan(n * heads_, heads_), {of_token[n] + 1, heads_});
      }
      for (std::size_t head = 0; gates_ == nullptr && head < heads_; ++head) {
        const std::int64_t* const sums = token_log_gate_.data() + head * with_errors_;
        for (std::size_t n = first; n < end; ++n) of_token[n][1 + head] += sums[n];
      }
    });
  }

  [[nodiscard]] MeasureOptions measure_options() {
    MeasureOptions options;
    options.statistics.events = 0;
    options.statistics.with_gates = gates_ == nullptr;
    options.with_split = sums_.shape().rows == AtlasShape::kAllRows;
    options.statistics.rows = std::max<std::int64_t>(0, sums_.shape().rows);
    options.statistics.rows_seed = rows_.seed();
    options.with_sketch = false;
    if (measures_drawn()) {
      options.statistics.shared = rows_.shared();
      options.statistics.take_rows = [this](const HeadStatistics& of, const RowSample& sample,
                                            const SampledRows& rows) { rows_.take(of, sample, rows); };
    }
    return options;
  }

  /// Adds a head's gate, and sets what statistics have of it.
  void read_gate(std::size_t place, std::span<const double> c, const Job& job, HeadStatistics& statistics) {
    if (gates_ == nullptr) {
      if (!std::ranges::all_of(c, [](double value) { return std::isfinite(value); })) fail("the gate", place);
      read_gates(place, c);
      // With rows of attention the gate has been measured.
      if (!with_rows()) gate_statistics({&c, 1}, 0, job, {&statistics, 1});
      return;
    }
    const kernels::GateOfHead& gate = gates_->of(gates_number_, place);
    if ((gate.problems & kernels::GateOfHead::kNotFinite) != 0) fail("the gate", place);
    put_gate_sums(place, gate.sum, gate.of_class, gate.resets_of_class);
    put_gate_places(place, c, index_of(gate.lowest));
    if (gate.problems == 0) {
      set_gate_statistics(gate, c, statistics);
    } else {
      gate_statistics({&c, 1}, 0, job, {&statistics, 1});
    }
  }

  void read_gates(std::size_t place, std::span<const double> c) {
    const auto histogram = sums_.row(AtlasSum::log_gate_histogram, place);
    const auto class_histogram = sums_.row(AtlasSum::class_histogram, place);
    const std::span<double> log_gates = this->log_gates(place);
    std::array<std::int64_t, kBoundaryClasses> of_class{};
    std::vector<std::int64_t> token_sums(ids_.size());
    std::vector<std::int64_t> token_resets(ids_.size());
    std::vector<std::uint32_t> resets;
    double sum = 0;
    std::size_t lowest = 1;
    for (std::size_t p = 1; p < c.size(); ++p) {
      const double log_gate = c[p] - c[p - 1];
      log_gates[p - 1] = log_gate;
      sum += log_gate;
      const std::int64_t whole = whole_log_gate(log_gate, kLogGateUnit);
      token_sums[reads_[p - 1]] += whole_log_gate(log_gate, kTokenLogGateUnit);
      const std::size_t bin = histogram_bin(-log_gate);
      ++histogram[bin];
      if (places_.known()) {
        for (unsigned set = window_.classes[p - 1]; set != 0; set &= set - 1) {
          const std::size_t n = index_of(std::countr_zero(set));
          of_class[n] += whole;
          ++class_histogram[n * kLogGateBins + bin];
        }
      }
      if (log_gate < c[lowest] - c[lowest - 1]) lowest = p;
      if (log_gate < kLogHalf - kSumRounding * std::abs(c[p])) {
        ++token_resets[reads_[p - 1]];
        resets.push_back(static_cast<std::uint32_t>(p - 1));
      }
    }
    const auto all_sums = sums_.row(AtlasSum::token_log_gate, place);
    const auto all_resets = sums_.row(AtlasSum::token_below_half, place);
    for (std::size_t n = 0; n < ids_.size(); ++n) {
      add_whole(std::span(token_sums).subspan(n, 1), all_sums.subspan(index_of(ids_[n]), 1));
      all_resets[index_of(ids_[n])] += token_resets[n];
    }
    std::copy_n(token_sums.begin(), with_errors_,
                token_log_gate_.begin() + static_cast<std::ptrdiff_t>(place * with_errors_));
    put_gate_sums(place, sum, of_class, put_resets(place, resets));
    put_gate_places(place, c, lowest);
  }

  /// @param sum                        of log f over the positions
  /// @param of_class, resets_of_class  [classes]
  void put_gate_sums(std::size_t place, double sum, std::span<const std::int64_t> of_class,
                     std::span<const std::int64_t> resets_of_class) {
    add_exactly(sum, sums_.exact(AtlasSum::log_gate, place));
    add_whole(of_class, sums_.row(AtlasSum::class_log_gate, place));
    add_whole(resets_of_class, sums_.row(AtlasSum::class_resets, place));
    std::ranges::copy(of_class, found_[place].of_class.begin());
    std::ranges::copy(resets_of_class, found_[place].resets_of_class.begin());
  }

  void put_gate_places(std::size_t place, std::span<const double> c, std::size_t lowest) {
    const std::uint64_t priority = mixed(window_.key + place);
    const std::size_t drawn = 1 + static_cast<std::size_t>(mixed(priority) % positions_);
    found_[place].lowest = place_at(lowest, c[lowest] - c[lowest - 1]);
    found_[place].drawn = place_at(drawn, c[drawn] - c[drawn - 1]);
    found_[place].drawn.priority = priority;
  }

  /// [1 + 2 N] of the document.
  [[nodiscard]] std::span<std::int64_t> class_slot(std::size_t token_class) {
    return std::span(document_->classes).subspan(token_class * (1 + 2 * heads_), 1 + 2 * heads_);
  }

  /// @returns the resets of each class
  std::array<std::int64_t, kBoundaryClasses> put_resets(std::size_t place, std::span<const std::uint32_t> resets) {
    const auto gaps = sums_.row(AtlasSum::reset_gap, place);
    for (std::size_t n = 1; n < resets.size(); ++n) {
      ++gaps[index_of(std::bit_width(resets[n] - resets[n - 1]) - 1)];
    }
    std::array<std::int64_t, kBoundaryClasses> counts{};
    if (!places_.known()) return counts;
    for (const std::uint32_t reset : resets) {
      for (unsigned set = window_.classes[reset]; set != 0; set &= set - 1) ++counts[index_of(std::countr_zero(set))];
    }
    const auto shifted = sums_.row(AtlasSum::class_shifted, place);
    for (std::size_t n = 0; n < kShifts; ++n) {
      const auto by_chance = places_.count(resets, places_.shift(n));
      for (std::size_t k = 0; k < kResetClasses; ++k) shifted[k * kShifts + n] += by_chance[k];
    }
    return counts;
  }

  /// A place, without what is around it.
  [[nodiscard]] AtlasPlace place_at(std::size_t position, double value) const {
    return {static_cast<float>(value), window_.number, static_cast<std::int64_t>(position), 0, {}};
  }

  void put_place(AtlasList list, std::size_t head, AtlasPlace place) {
    if (!sums_.takes_place(list, head, place)) return;
    const std::span<const double> c =
        found_[head].gated ? run_->cumulative_log_gate(layer_of(head), head_of(head)) : std::span<const double>();
    for (std::int64_t n = 0; n < std::ssize(place.log_gate); ++n) {
      const std::int64_t p = place.position - kSurroundings + n;
      const bool known = p >= 1 && p < std::ssize(c);
      place.log_gate[index_of(n)] = surrounding_log_gate(known ? static_cast<float>(c[index_of(p)] - c[index_of(p - 1)])
                                                               : std::numeric_limits<float>::quiet_NaN());
    }
    sums_.add_place(list, head, place);
  }

  /// Adds the numbers of all heads. @returns false if the job was stopped
  bool put_entries(Team& team) {
    constexpr std::size_t kTogether = 8;  // numbers of a cache line
    const std::size_t entries = sums_.shape().entries();
    const auto tasks = static_cast<std::int64_t>((entries + kTogether - 1) / kTogether);
    return team.run({"adding numbers", "numbers", tasks}, tasks, [&](std::int64_t task, int) {
      const std::size_t first = index_of(task) * kTogether;
      for (std::size_t entry = first; entry < std::min(entries, first + kTogether); ++entry) {
        for (std::size_t place = 0; place < heads_; ++place) {
          if (!found_[place].entries.empty()) put_entry(entry, place, found_[place]);
        }
      }
    });
  }

  void put_entry(std::size_t entry, std::size_t place, const Found& found) {
    const std::size_t at = entry * heads_ + place;
    if (const double value = found.entries[entry]; std::isfinite(value)) {
      add_exactly(value, std::span(document_->sum).subspan(at * kExactLimbs).first<kExactLimbs>());
      ++document_->count[at];
    }
    if (const double error = found.errors[entry]; std::isfinite(error)) {
      add_exactly(error * error, sums_.exact(AtlasSum::row_variance, at));
    }
  }

  void take_measures(std::size_t place, const HeadMeasures& measures) {
    const HeadStatistics& of = measures.statistics;
    if (of.has_attention && std::isnan(of.entropy)) fail("attention", place);
    const bool gated = forgets(run_->info(), layer_of(place));
    const std::size_t of_gates = gate_number_count();
    const std::vector<HeadNumber> values = numbers_.of(measures);
    Found& found = found_[place];
    found.entries.assign(sums_.shape().entries(), std::numeric_limits<double>::quiet_NaN());
    found.errors = found.entries;
    for (std::size_t n = 0; n < values.size(); ++n) {
      if (n < of_gates && !gated) continue;
      found.entries[n] = values[n].value;
      if (with_rows() && values[n].error && std::isfinite(values[n].value)) found.errors[n] = *values[n].error;
    }
    for (const HeadProfile& profile : measures.profiles) {
      const auto known = std::ranges::find(numbers_.profiles, profile.name, &AtlasNumber::name);
      if (known == numbers_.profiles.end()) continue;
      const std::size_t n = index_of(known - numbers_.profiles.begin());
      for (std::size_t bin = 0; bin < index_of(sums_.shape().bins); ++bin) {
        // A window that is shorter has no mass beyond its length, and no logits.
        const bool there = bin < profile.bins.size();
        if (!there && n >= numbers_.masses) continue;
        const std::size_t entry = sums_.shape().entry_of(n, bin);
        found.entries[entry] = there ? profile.bins[bin] : 0.0;
        if (with_rows() && bin < profile.errors.size()) found.errors[entry] = profile.errors[bin];
      }
    }
  }

  void put_rows(std::size_t place) {
    const auto received = sums_.row(AtlasSum::token_received, place);
    const std::vector<double>& by_key = rows_.head(place).received;
    std::vector<double> by_token(ids_.size());
    for (std::size_t key = 1; key < by_key.size(); ++key) by_token[reads_[key - 1]] += by_key[key];
    for (std::size_t n = 0; n < ids_.size(); ++n) {
      // Up or down by chance, so that a mean over many windows is right however small its terms are.
      const std::uint64_t random = mixed(window_.key ^ mixed(place << 32U | static_cast<std::uint32_t>(ids_[n])));
      const double by_chance = static_cast<double>(random >> 11U) * 0x1p-53;
      const std::int64_t one[] = {static_cast<std::int64_t>(std::floor(by_token[n] / kMassUnit + by_chance))};
      add_whole(one, received.subspan(index_of(ids_[n]), 1));
    }
    const std::vector<double>& masses = rows_.head(place).masses;
    add_exactly(std::accumulate(masses.begin(), masses.end(), 0.0), sums_.exact(AtlasSum::mass, place));
  }

  [[nodiscard]] std::span<double> log_gates(std::size_t place) {
    return std::span(log_gates_).subspan(place * positions_, positions_);
  }
  /// The same; empty without a gate.
  [[nodiscard]] std::span<const double> gates_of(std::size_t place) {
    return found_[place].gated ? log_gates(place) : std::span<const double>();
  }
  static std::span<const double> masses_of(const WindowRows& rows, std::size_t place) {
    return rows.head(place).masses;
  }

  /// @param of  HeadVectors::set_block
  /// @returns false if the job was stopped
  template <typename Of>
  static bool put_side_by_side(std::size_t heads, std::size_t entries, const Of& of, Team& team, HeadVectors& vectors) {
    vectors.resize(heads, entries);
    const auto blocks = static_cast<std::int64_t>(vectors.blocks());
    return team.run({"comparing heads", "blocks", blocks}, blocks,
                    [&](std::int64_t block, int) { vectors.set_block(index_of(block), of); });
  }

  /// Products of all pairs of heads.
  /// @param of  HeadVectors::set_block
  /// @returns false if the job was stopped
  template <typename Of>
  bool multiply(AtlasSum products, std::size_t entries, const Of& of, Team& team) {
    HeadVectors& vectors = memory_.own;
    if (!put_side_by_side(heads_, entries, of, team, vectors)) return false;
    // The last block has the most products.
    const auto count = static_cast<std::int64_t>(vectors.blocks());
    return team.run({"comparing heads", "blocks", count}, count, [&](std::int64_t task, int) {
      const std::size_t block = vectors.blocks() - 1 - index_of(task);
      for (std::size_t other = 0; other <= block; ++other) {
        each_product(vectors, block, vectors, other, [&](std::size_t head, std::size_t with, double sum) {
          if (with <= head) add_exactly(sum, sums_.exact(products, head * (head + 1) / 2 + with));
        });
      }
    });
  }

  bool compare_with_first(const Job& job, Team& team) {
    const Trace& trace = *window_.first;
    const std::size_t heads = index_of(trace.info().layers) * index_of(trace.info().heads);
    std::vector<std::vector<double>> first_gates(heads);
    WindowRows rows(window_.first, rows_.count(), rows_.seed());
    const auto read = [&](std::int64_t place, int /*thread*/) {
      const auto layer = static_cast<int>(place / trace.info().heads);
      const auto head = static_cast<int>(place % trace.info().heads);
      if (head >= trace.info().mixer(layer).heads) return;
      if (gates_ == nullptr && forgets(trace.info(), layer)) {
        const std::span<const double> c = trace.cumulative_log_gate(layer, head);
        std::vector<double>& own = first_gates[index_of(place)];
        for (std::size_t p = 1; p < c.size(); ++p) own.push_back(c[p] - c[p - 1]);
      }
      kernels::ThreadPool alone(1);
      if (with_rows() && !rows.measure(layer, head, {job.stop, {}, &alone})) stopped_ = true;
    };
    const auto count = static_cast<std::int64_t>(heads);
    if (!team.run({"reading the first model", "heads", count}, count, read) || stopped_) return false;
    const auto first_of = [&](std::size_t head) { return std::span<const double>(first_gates[head]); };
    const auto own_of = [&](std::size_t head) { return gates_of(head); };
    if (gates_ == nullptr &&
        !multiply_with(AtlasSum::first_log_gate_product, positions_, own_of, heads, first_of, team)) {
      return false;
    }
    if (!with_rows()) return true;
    const auto first_masses_of = [&](std::size_t head) { return masses_of(rows, head); };
    const auto own_masses_of = [&](std::size_t head) { return masses_of(rows_, head); };
    return multiply_with(AtlasSum::first_mass_product, rows_.masses(), own_masses_of, heads, first_masses_of, team);
  }

  /// @param own_of, first_of  HeadVectors::set_block, of this model and of the first, which has so many heads
  template <typename Own, typename First>
  bool multiply_with(AtlasSum products, std::size_t entries, const Own& own_of, std::size_t first_heads,
                     const First& first_of, Team& team) {
    const HeadVectors& own = memory_.own;
    const HeadVectors& first = memory_.first;
    if (!put_side_by_side(heads_, entries, own_of, team, memory_.own) ||
        !put_side_by_side(first_heads, entries, first_of, team, memory_.first)) {
      return false;
    }
    const auto count = static_cast<std::int64_t>(own.blocks());
    return team.run({"comparing models", "blocks", count}, count, [&](std::int64_t block, int) {
      for (std::size_t other = 0; other < first.blocks(); ++other) {
        each_product(own, index_of(block), first, other, [&](std::size_t head, std::size_t with, double sum) {
          add_exactly(sum, sums_.exact(products, head * first.heads() + with));
        });
      }
    });
  }

  void put_counts() {
    const auto& inputs = run_->tokens()->input_id;
    for (std::size_t p = 0; p < positions_; ++p) ++sums_.at(AtlasSum::token_count)[index_of(inputs[p + 1])];
    for (std::size_t p = 0; p < (places_.known() ? positions_ : 0); ++p) {
      for (std::size_t n = 0; n < kBoundaryClasses; ++n) {
        const std::int64_t here = (window_.classes[p] >> n) & 1U;
        sums_.at(AtlasSum::class_count)[n] += here;
        class_slot(n)[0] += here;
      }
    }
    for (std::size_t n = 0; n < kBoundaryClasses; ++n) {
      for (std::size_t place = 0; place < heads_; ++place) {
        class_slot(n)[1 + place] += found_[place].of_class[n];
        class_slot(n)[1 + heads_ + place] += found_[place].resets_of_class[n];
      }
    }
    if (with_rows()) sums_.at(AtlasSum::mass_count)[0] += static_cast<std::int64_t>(rows_.masses());
  }

  void check_losses() const {
    const std::span<const float> loss = run_->per_token_loss();
    for (std::size_t p = 0; p < loss.size(); ++p) {
      if (std::isfinite(loss[p])) continue;
      throw Error(fmt::format("the loss at position {} of window {} is not a number: check the weights and --dtype", p,
                              window_.number));
    }
  }

  [[noreturn]] void fail(const char* what, std::size_t place) const {
    throw Error(fmt::format("{} of layer {}, head {} in window {} is not a number: check the weights and --dtype", what,
                            layer_of(place), head_of(place), window_.number));
  }

  const RunOnDevice& run_;
  const AtlasWindow& window_;
  const AtlasNumbers& numbers_;
  AtlasSums& sums_;
  std::int64_t length_;
  std::size_t positions_;
  std::size_t heads_;
  ResetPlaces places_;
  WindowMemory& memory_;
  std::vector<double>& log_gates_;  ///< [heads, positions]
  const DeviceGates* gates_;
  std::size_t gates_number_ = 0;
  std::vector<Found> found_;
  WindowRows rows_;
  DocumentSums* document_ = nullptr;
  std::vector<std::int32_t> ids_;             ///< that positions from 1 on read, each once, in their order
  std::size_t with_errors_ = 0;               ///< of them, which come first
  std::vector<std::uint32_t> reads_;          ///< [positions] which of ids_
  std::vector<std::int64_t> token_log_gate_;  ///< [heads, with_errors_] in kTokenLogGateUnit
  std::atomic<bool> stopped_ = false;
};

bool WindowWork::measure(std::size_t place, const Job& job) {
  const int layer = layer_of(place);
  const int head = head_of(place);
  if (head >= run_->info().mixer(layer).heads) return true;
  kernels::ThreadPool alone(1);
  const Job quiet{job.stop, {}, &alone};
  HeadMeasures measures;
  if (with_rows() && run_.gpu) {
    if (found_[place].measures) measures = std::move(*found_[place].measures);
    found_[place].measures.reset();
  } else if (with_rows()) {
    auto measured = measure_head({run_, layer, head}, measure_options(), quiet);
    if (!measured) return false;
    measures = std::move(*measured);
  } else if (run_->info().mixer(layer).decays_by_channel()) {
    measures.statistics.channel_log_decay = channel_log_decays({run_, layer, head});
  }
  if (forgets(run_->info(), layer)) {
    found_[place].gated = true;
    read_gate(place, run_->cumulative_log_gate(layer, head), quiet, measures.statistics);
  }
  take_measures(place, measures);
  if (!with_rows()) return true;
  if (!measures_drawn() && !rows_.measure(layer, head, quiet)) return false;
  put_rows(place);
  return true;
}

/// A GPU measures rows of attention, those of several windows side by side: it waits for none of them, and processors
/// are at the rows of one window while it is at those of others.
/// @returns false if the job was stopped
bool measure_on_gpu(std::span<const std::unique_ptr<WindowWork>> works, const Job& job, Team& team) {
  if (works.size() == 1) return works.front()->measure_on_gpu({job.stop, {}, team.executor()});
  std::atomic<bool> stopped = false;
  const auto count = std::ssize(works);
  const int threads = std::max(1, team.threads() / static_cast<int>(count));
  const bool done = team.run({"measuring rows", "windows", count}, count, [&](std::int64_t n, int /*thread*/) {
    kernels::ThreadPool own(threads);
    if (!stopped && !works[index_of(n)]->measure_on_gpu({job.stop, {}, &own})) stopped = true;
  });
  return done && !stopped;
}

/// Adds some windows that are in memory together.
/// @returns false if the job was stopped
bool add_together(std::span<const AtlasWindow> windows, const WindowsWork& shared, const Job& job, Team& team) {
  shared.memory.log_gates.resize(std::max(shared.memory.log_gates.size(), windows.size()));
  std::vector<std::unique_ptr<WindowWork>> works(windows.size());
  const auto count = std::ssize(windows);
  const auto prepare = [&](std::int64_t n, int /*thread*/) {
    works[index_of(n)] = std::make_unique<WindowWork>(windows[index_of(n)], shared, index_of(n));
  };
  if (!team.run({"reading windows", "windows", count}, count, prepare)) return false;
  if (shared.gates != nullptr) {
    std::vector<GateWindow> of_gates;
    for (std::size_t n = 0; n < works.size(); ++n) {
      of_gates.push_back(works[n]->gate_window());
      works[n]->take_gates(n);
    }
    if (!shared.gates->add(of_gates, team)) return false;
  }
  for (const auto& work : works) work->start();
  if (!measure_on_gpu(works, job, team)) return false;
  const auto heads = static_cast<std::int64_t>(shared.sums.shape().head_count());
  std::atomic<bool> stopped = false;
  const auto measure = [&](std::int64_t head, int /*thread*/) {
    for (const auto& work : works) {
      if (!stopped && !work->measure(index_of(head), job)) stopped = true;
    }
  };
  if (!team.run({"measuring heads", "heads", heads}, heads, measure) || stopped) return false;
  for (const auto& work : works) {
    if (!work->finish(job, team)) return false;
  }
  return team.run({"finding passages", "heads", heads}, heads, [&](std::int64_t head, int /*thread*/) {
    for (const auto& work : works) work->put_places(index_of(head));
  });
}

}  // namespace

std::uint64_t window_key(std::uint64_t seed, std::span<const std::int32_t> ids) {
  std::uint64_t key = mixed(seed);
  for (const std::int32_t id : ids) key = mixed(key ^ static_cast<std::uint64_t>(id));
  return key;
}

bool add_windows(std::span<const AtlasWindow> windows, const AtlasNumbers& numbers, const Job& job, DeviceGates* gates,
                 WindowMemory& memory, AtlasSums& sums) {
  const Job quiet{job.stop, {}, job.executor};
  Team team(quiet);
  // Rows of attention take much memory of the host, and all rows all threads.
  std::size_t most = windows.size();
  if (sums.shape().rows != 0 && !(sums.shape().rows > 0 && windows.front().run.gpu)) most = 1;
  if (gates != nullptr) most = std::min(most, gates->most_windows(windows.front().run->info().length));
  for (std::size_t first = 0; first < windows.size(); first += most) {
    const auto some = windows.subspan(first, std::min(most, windows.size() - first));
    if (!add_together(some, {numbers, gates, memory, sums}, quiet, team)) return false;
  }
  return true;
}

}  // namespace foxscope
