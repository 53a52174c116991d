#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "backend/model/weights/safetensors.h"

// What the benchmarks of models share.
namespace foxscope::bench {

/// Input ids shifted right behind the BOS token, and labels.
struct Sequence {
  std::vector<std::int32_t> input_ids;
  std::vector<std::int32_t> labels;
};

/// The first tokens of a window of the held-out books.
/// @param file  tests/data/heldout/reference.safetensors
inline Sequence heldout_window(const SafetensorsFile& file, std::int32_t bos, int window, std::int64_t length) {
  const TensorView& tokens = file.tensors().at("tokens");
  const auto* first = reinterpret_cast<const std::int32_t*>(tokens.bytes.data()) + window * tokens.shape[1];
  Sequence sequence{{bos}, {first, first + length}};
  sequence.input_ids.insert(sequence.input_ids.end(), first, first + length - 1);
  return sequence;
}

inline double seconds_of(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Wall time, and the time that all threads of this process had a processor, which others on the machine change little.
struct Spent {
  double wall = 0;
  double processor = 0;
};
inline Spent time_of(const std::function<void()>& action) {
  const auto processor = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double before = processor();
  Spent spent;
  spent.wall = seconds_of(action);
  spent.processor = processor() - before;
  return spent;
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Largest resident memory of this process so far, GiB.
inline double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / (1024.0 * 1024.0);
  }
  return 0;
}

}  // namespace foxscope::bench
