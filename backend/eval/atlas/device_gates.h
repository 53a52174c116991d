#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/eval/atlas/atlas_sums.h"
#include "backend/eval/atlas/boundary_class.h"
#include "backend/map/team.h"
#include "backend/trace/trace.h"
#include "kernels/gate_sums.h"

namespace foxscope {

/// The parts of a window that the sums of gates need.
struct GateWindow {
  const Trace* run = nullptr;
  const Trace* first = nullptr;               ///< the same window as the first model read it; null: not compared
  std::span<const std::int32_t> tokens;       ///< [P] that positions p >= 1 read
  std::span<const std::uint32_t> reads;       ///< [P] which of the window's tokens
  std::size_t with_errors = 0;                ///< of these, which come first
  std::span<const BoundaryClassSet> classes;  ///< [L]; empty: it has no text
  std::span<const std::size_t> shifts;        ///< [kShifts]
};

/// Sums of gates over windows, made by a GPU: those that no document needs by itself stay there until they are taken.
/// They are those of the processors in every bit, from the same gates.
class DeviceGates {
 public:
  /// @param info   of the model
  /// @param first  of the model that it is compared with; null: none
  /// @param gpu    none: the kernels' twin on the host
  /// @throws std::bad_alloc where the GPU has no room
  DeviceGates(const AtlasShape& shape, const TraceInfo& info, const TraceInfo* first, std::optional<int> gpu);
  ~DeviceGates();
  DeviceGates(const DeviceGates&) = delete;
  DeviceGates& operator=(const DeviceGates&) = delete;

  /// Windows of a length that go to the GPU together, at least one: what they take there is below kBytes, and fits into
  /// what was reserved.
  [[nodiscard]] std::size_t most_windows(std::int64_t length) const;
  static constexpr std::size_t kBytes = std::size_t{1} << 30U;

  /// Bytes of the GPU that sums and windows up to a length take at most.
  static std::int64_t bytes(const AtlasShape& shape, std::int64_t length);
  /// Takes memory for so many windows of a length, or as many as go together.
  /// @throws std::bad_alloc where the GPU has no room
  void reserve(std::size_t windows, std::int64_t length);

  /// Adds windows of one length, two tokens or more; none should be added twice.
  /// @returns false if the job was stopped; then the sums are of no use
  /// @throws Error naming the GPU where it fails
  bool add(std::span<const GateWindow> windows, Team& team);
  /// The gate of a head in one of the windows that were added last.
  [[nodiscard]] const kernels::GateOfHead& of(std::size_t window, std::size_t head) const;
  /// Log f in kTokenLogGateUnit of the window's tokens with errors, [with_errors, heads].
  [[nodiscard]] std::span<const std::int64_t> token_sums(std::size_t window) const;

  /// Positions of windows that were added since the sums were taken.
  [[nodiscard]] std::int64_t positions() const { return positions_; }
  /// More of them could make a sum leave its range on the way.
  static constexpr std::int64_t kMostPositions = std::int64_t{1} << 28;
  /// Adds what there is to an atlas, and begins anew.
  /// @throws Error as add_whole, and naming the GPU where it fails
  void take(AtlasSums& sums);

 private:
  class Memory;
  struct Layout;
  void fill(const GateWindow& window, std::size_t n, const Layout& layout);

  AtlasShape shape_;
  std::vector<std::uint8_t> gated_;        ///< [heads]
  std::vector<std::uint8_t> first_gated_;  ///< [heads of the first model]
  std::unique_ptr<Memory> memory_;
  kernels::GateSums sums_;  ///< of all windows; its arrays of windows are those of the last ones
  std::int64_t* products_ = nullptr;
  std::int64_t* first_products_ = nullptr;
  std::uint32_t* failed_ = nullptr;
  std::size_t sum_words_ = 0;
  std::int64_t positions_ = 0;
  std::span<std::byte> host_;  ///< what goes up, then what comes down
  std::size_t windows_ = 0;
  std::vector<std::size_t> slot_begin_;  ///< [windows + 1]
  std::size_t of_head_at_ = 0;           ///< bytes of host_
  std::size_t slot_sums_at_ = 0;
};

}  // namespace foxscope
