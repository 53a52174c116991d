#pragma once

namespace foxscope {

/// What the way back makes again of each layer, to the same bits, where the way there did not keep it (Chen et al.
/// 2016, Training Deep Nets with Sublinear Memory Cost).
enum class Recompute {
  none,    ///< nothing: all that matrix products and attention made is kept
  mlp,     ///< the MLP's two inputs to its product, by one matrix product; all of a layer where autograd goes back
  layers,  ///< all of a layer, from x as it enters
};

}  // namespace foxscope
