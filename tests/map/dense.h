#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backend/map/map.h"
#include "backend/trace/recorder.h"

namespace foxscope::test {

/// A run made of random numbers.
struct RunShape {
  std::int64_t length = 300;
  int layers = 1;
  int heads = 1;
  int key_heads = 1;
  int head_dim = 16;
  std::int64_t window = 0;
  std::vector<std::int64_t> windows = {};  ///< of each layer; empty: `window`
  double logit_cap = 0;
  std::vector<float> sinks = {};  ///< [heads] logits beside those of keys; empty: there are none
  bool gated = true;
  DType dtype = DType::float32;
  unsigned seed = 1;
  /// log f of a position in a head, from a number drawn from N(0, 1); by default decay times differ between heads.
  std::function<double(int head, std::int64_t position, double normal)> log_gate;
  /// Added to every query's logit with key 0, by making that key the direction that all queries share; 0: nothing.
  double parks_on_first = 0;
  /// Overwrites queries and keys, all float32, before anything is made of them; may be empty.
  std::function<void(HostQueryKeyStore&)> fill;
  /// What a position reads; by default every position another token.
  std::function<std::int32_t(std::int64_t position)> token;
  bool keeps_gates = true;
  bool keeps_rows = true;
  bool keeps_query_key = true;
  /// Row normalisers are computed densely in float64, or left as 0 where a test does not look at them.
  bool normalized = true;
  /// Changes the arrays of layer 0 when all of them are there; may be empty.
  std::function<void(Recorder&, HostQueryKeyStore&)> spoil;
  std::int64_t nan_normalizer = -1;  ///< the row whose normaliser is NaN, in every head; -1: none
  std::int64_t nan_query = -1;       ///< the row whose first query is NaN, likewise; its normaliser stays as it is
};

std::shared_ptr<const Trace> make_run(const RunShape& shape);

/// Every entry of one head in float64, made the plain way: [L, L], NaN where absent.
class DenseHead {
 public:
  explicit DenseHead(const HeadOf& head);
  [[nodiscard]] std::vector<double> entries(Quantity quantity) const;
  [[nodiscard]] std::int64_t length() const { return length_; }

 private:
  [[nodiscard]] std::vector<double> softmax(bool with_gate) const;

  std::int64_t length_;
  std::vector<double> logits_;
  std::vector<double> c_;
  double sink_;  ///< -infinity: there is none
};

/// Dense entries [length, length] gathered bin by bin, for every reduction at once.
class DenseBins {
 public:
  DenseBins(const std::vector<double>& entries, std::int64_t length, const MapRequest& request);
  [[nodiscard]] std::vector<double> pixels(Reduction reduction) const;

 private:
  struct Bin {
    double high = 0;
    double low = 0;
    double sum = 0;
    std::int64_t count = 0;
  };
  std::vector<Bin> bins_;
};

/// Dense entries pooled as the request says.
std::vector<double> pool(const std::vector<double>& entries, std::int64_t length, const MapRequest& request);

/// Largest difference of two pictures, relative to the largest entry of the reference; infinite where one has NaN and
/// the other has not.
double largest_difference(const Image& image, const std::vector<double>& reference, double largest_entry);
double largest_size(const std::vector<double>& values);

}  // namespace foxscope::test
