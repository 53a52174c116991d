#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backend/map/head_entries.h"
#include "backend/map/statistics/sampled_spread.h"
#include "backend/trace/device_heads.h"
#include "kernels/status.h"

namespace foxscope {

/// The spread of attention of several heads of one layer, measured at once on a GPU while the caller does other work.
/// Holds the GPU's part of the trace until it is destroyed.
class DeviceSpreads {
 public:
  /// Whether the kernels take a head.
  static bool takes(const HeadEntries& entries);
  /// Heads of this kind that go into memory together, at least one.
  /// @param rows  that are sampled; 0: all are measured
  static std::size_t most_heads(const HeadEntries& entries, std::int64_t rows);

  /// @param heads  that it takes, of one layer, all of the same parts; must outlive this
  DeviceSpreads(std::vector<const HeadEntries*> heads, int gpu);
  /// Waits for what was started.
  ~DeviceSpreads();
  DeviceSpreads(const DeviceSpreads&) = delete;
  DeviceSpreads& operator=(const DeviceSpreads&) = delete;

  /// Gives the work to the GPU.
  /// @param sample  rows to measure; null: all
  /// @returns ok, or unsupported for what is left to the CPU
  /// @throws Error as device_map
  kernels::Status start(const RowSample* sample);
  /// Waits for it. @throws Error where the GPU failed
  void finish();

  [[nodiscard]] std::size_t size() const { return heads_.size(); }
  /// The spread that was measured of a head, after `finish`; safe to call from several threads.
  [[nodiscard]] AttentionSpread spread(std::size_t head, std::int64_t repeats) const;
  [[nodiscard]] SampledRows sampled(std::size_t head) const;

 private:
  struct Layout;
  /// @returns false where the GPU has no room for a block of a linear mixer
  [[nodiscard]] bool put_arrays(std::byte* memory, const Layout& layout);
  template <typename T>
  [[nodiscard]] std::span<const T> taken(std::size_t at, std::size_t count) const {
    return {reinterpret_cast<const T*>(host_.data() + at), count};
  }

  std::vector<const HeadEntries*> heads_;
  int gpu_;
  const RowSample* sample_ = nullptr;
  std::shared_ptr<DeviceHeads> device_;
  std::unique_lock<std::mutex> lock_;
  kernels::cuda::DeviceScope scope_;
  std::vector<DeviceHead> held_;
  std::vector<kernels::cuda::MapHead> arrays_;
  std::vector<kernels::cuda::PreparedMixer> mixers_;  ///< [heads] of linear mixers
  std::byte* results_ = nullptr;
  std::size_t result_bytes_ = 0;
  std::span<std::byte> host_;  ///< what is given, then the results: numbers of heads, then sums by distance
  std::size_t distances_ = 0;  ///< where these begin
};

}  // namespace foxscope
