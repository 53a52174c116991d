#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "backend/base/index.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/stream.h"
#include "kernels/executor.h"
#include "tests/largest_error.h"

namespace foxscope::kernels::testing {

inline double widen(std::uint16_t x) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16));
}

/// To the nearest bfloat16, ties to even; NaN stays NaN.
inline std::uint16_t narrow(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The threads that references are computed by.
inline ThreadPool& all_cores() {
  static ThreadPool pool;
  return pool;
}

template <class T>
cuda::DeviceBuffer to_device(const std::vector<T>& host) {
  cuda::DeviceBuffer buffer(host.size() * sizeof(T));
  if (!buffer.upload(std::as_bytes(std::span(host)))) throw std::runtime_error("upload failed");
  return buffer;
}

template <class T>
std::vector<T> to_host(const cuda::DeviceBuffer& buffer) {
  std::vector<T> host(buffer.bytes() / sizeof(T));
  if (!buffer.download(std::as_writable_bytes(std::span(host)))) throw std::runtime_error("download failed");
  return host;
}

inline std::vector<float> normal_numbers(std::int64_t count, std::uint64_t seed, float deviation = 1, float mean = 0) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> numbers(index_of(count));
  for (float& x : numbers) x = normal(engine);
  return numbers;
}

/// Numbers of either type on the device, with poison before and after them.
class DeviceNumbers {
 public:
  /// @param shift  elements by which the first lies past a multiple of 256 bytes
  DeviceNumbers(cuda::ElementType type, const std::vector<float>& values, std::int64_t shift = 0)
      : type_(type), count_(std::ssize(values)), shift_(kMargin + shift) {
    std::vector<float> padded(index_of(count_ + shift_ + kMargin), std::nanf(""));
    std::copy(values.begin(), values.end(), padded.begin() + shift_);
    if (type == cuda::ElementType::float32) {
      buffer_ = to_device(padded);
    } else {
      std::vector<std::uint16_t> low;
      low.reserve(padded.size());
      for (const float x : padded) low.push_back(narrow(x));
      buffer_ = to_device(low);
    }
  }
  /// Poison alone, for an output.
  DeviceNumbers(cuda::ElementType type, std::int64_t count, std::int64_t shift = 0)
      : DeviceNumbers(type, std::vector<float>(index_of(count), std::nanf("")), shift) {}

  [[nodiscard]] void* data() const { return static_cast<std::byte*>(buffer_.data()) + shift_ * size(); }
  [[nodiscard]] float* floats() const { return static_cast<float*>(data()); }

  /// As the device has them; throws where something beside them was written.
  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> all;
    if (type_ == cuda::ElementType::float32) {
      for (const float x : to_host<float>(buffer_)) all.push_back(static_cast<double>(x));
    } else {
      for (const std::uint16_t x : to_host<std::uint16_t>(buffer_)) all.push_back(widen(x));
    }
    for (std::int64_t i = 0; i < std::ssize(all); ++i) {
      const bool beside = i < shift_ || i >= shift_ + count_;
      if (beside && !std::isnan(all[index_of(i)])) throw std::runtime_error("written beside the output");
    }
    return {all.begin() + shift_, all.begin() + shift_ + count_};
  }

 private:
  static constexpr std::int64_t kMargin = 128;
  [[nodiscard]] std::int64_t size() const { return type_ == cuda::ElementType::float32 ? 4 : 2; }

  cuda::ElementType type_;
  std::int64_t count_;
  std::int64_t shift_;
  cuda::DeviceBuffer buffer_;
};

/// Largest |value - reference| / (|reference| + floor); infinity where a value is NaN.
inline double largest_error(const std::vector<double>& values, const std::vector<double>& reference, double floor) {
  if (values.size() != reference.size()) throw std::runtime_error("sizes differ");
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = test::largest_error(largest, (values[i] - reference[i]) / (std::abs(reference[i]) + floor));
  }
  return largest;
}

/// Half a unit in the last place of bfloat16, and float32 arithmetic before it.
constexpr double kBfloat16Error = 1.0 / 256 + 1e-5;
constexpr double kFloat32Error = 1e-5;

}  // namespace foxscope::kernels::testing
