#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/model/weights/torch_weights_torch.h"
#include "backend/model/weights/weight_reader.h"

namespace foxscope {

/// Where each trained weight of a model lies in a flat array of float32: masters, gradients and moments are one array
/// each, alike (gradients in chunks), so that an optimiser's step and a sum over processes are one operation. Matrices
/// of the run's dtype come first, then what else is decayed, then the rest (the authors' groups: decayed are the
/// weights of matrices, embeddings and the head; norms, biases and gates that do not depend on data are not).
///
/// The arrays are cut into chunks: the matrices of each layer, the head, what else is decayed, the rest. Where W
/// processes train together each chunk is summed over them by itself, as soon as it is whole, and of each every process
/// updates one of W equal parts; zeros fill a chunk up to a size that allows that.
class FlatLayout {
 public:
  struct Chunk {
    std::int64_t begin = 0;
    std::int64_t end = 0;  ///< end - begin is a multiple of W
    bool decayed = false;
    int layer = -1;  ///< whose matrices they are; -1: what is not of one layer
  };

  /// @param weights    in float32, on their device
  /// @param processes  W
  FlatLayout(const TorchWeights& weights, int processes);

  [[nodiscard]] std::int64_t size() const { return size_; }  ///< with what fills weights up to whole cache lines
  [[nodiscard]] std::int64_t matrices() const { return matrices_; }  ///< [0, matrices()) are of the run's dtype
  [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }
  [[nodiscard]] std::int64_t trained() const { return trained_; }  ///< numbers, without what fills up

  /// The parts of a flat array as tensors; undefined for what is not trained or lies behind its end. A norm that all
  /// heads share is [d].
  [[nodiscard]] WeightTensors views(const at::Tensor& flat) const;
  /// Puts the parts of a stretch of such an array in their places; the others stay.
  /// @param stretch  numbers begin, begin + 1, ... of a flat array
  void view(const at::Tensor& stretch, std::int64_t begin, WeightTensors& into) const;

 private:
  struct Slot {
    at::Tensor WeightTensors::*outside = nullptr;
    int layer = -1;
    at::Tensor TorchLayer::*of_layer = nullptr;
    std::vector<std::int64_t> shape;
    std::int64_t offset = 0;
  };
  void add(const TorchWeights& weights, at::Tensor WeightTensors::*outside);
  void add(const TorchWeights& weights, int layer, at::Tensor TorchLayer::*of_layer);
  void place(Slot slot, at::IntArrayRef shape);
  void end_chunk(bool decayed, int layer = -1);

  int layers_ = 0;
  std::int64_t gate_row_ = 0;  ///< of projection_and_gate, where the output gate begins
  bool output_gate_ = false;
  std::vector<Slot> slots_;
  std::vector<Chunk> chunks_;
  int processes_ = 1;
  std::int64_t matrices_ = 0;
  std::int64_t size_ = 0;
  std::int64_t trained_ = 0;
};

/// Weights that are trained: what computes, and behind it float32 masters, gradients and moments in flat arrays. Each
/// of W processes holds one of W parts of the moments, of each chunk its own part, one behind the other.
class TrainedWeights {
 public:
  /// @param start  the weights to begin with, in float32 on their device
  /// @param dtype  of the matrices
  /// @param processes  W
  TrainedWeights(TorchWeights start, DType dtype, int processes);
  TrainedWeights(const TrainedWeights&) = delete;
  TrainedWeights& operator=(const TrainedWeights&) = delete;

  [[nodiscard]] const TorchWeights& computing() const { return computing_; }
  [[nodiscard]] const FlatLayout& layout() const { return layout_; }
  /// The arrays that a pass adds its gradients to. Those of a layer's matrices are defined from begin_gradients() on.
  [[nodiscard]] const WeightTensors& gradients() const { return gradients_; }
  /// Makes zeros for the gradients of a layer's matrices, unless they are there: they take the memory of what the
  /// backward pass has let go by then.
  void begin_gradients(int layer);
  /// The gradients of a chunk, [end - begin] float32.
  [[nodiscard]] const at::Tensor& gradient(std::size_t chunk) const { return chunk_gradients_[chunk]; }
  /// Numbers of gradients that begin_gradients() has yet to make.
  [[nodiscard]] std::int64_t absent_gradients() const;
  /// Brings gradients of what stands in several places together in their chunks, all of which are there then.
  void collect_gradients();
  /// Lets the gradients of layers' matrices go, and makes all others 0.
  void clear_gradients();
  /// Makes what computes from the masters.
  void refresh();

  at::Tensor master;                       ///< [layout().size()] float32
  at::Tensor first_moment, second_moment;  ///< [layout().size() / W] float32

 private:
  TorchWeights computing_;
  FlatLayout layout_;
  WeightTensors masters_;                    ///< views of `master`
  std::vector<at::Tensor> chunk_gradients_;  ///< undefined for layers' matrices that no pass has come to
  WeightTensors gradients_;
  WeightTensors flat_gradients_;  ///< views of chunk_gradients_
  at::Tensor matrices_;           ///< [layout().matrices()] bfloat16; undefined in float32
};

}  // namespace foxscope
