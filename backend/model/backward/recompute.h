#pragma once

namespace foxscope {

/// The arrays of each layer that the backward pass computes again, to the same bits, where the forward pass did not
/// keep it (Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost).
enum class Recompute {
  none,    ///< nothing: all that matrix products and attention made is kept
  mlp,     ///< the MLP's two inputs to its product, by one matrix product; where autograd goes back all of a layer, but
           ///< for what KeptResults holds: sums of the residual stream, and of linear mixers the projection in the
           ///< dtype of matrices, and what passes over the chunks of the delta rule or of decays a channel make
  layers,  ///< all of a layer, from x as it enters
};

}  // namespace foxscope
