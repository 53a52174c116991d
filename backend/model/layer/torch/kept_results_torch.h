#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace foxscope {

/// Results of the operations of a layer that cost most for their bytes. A pass without autograd's graph keeps them for
/// the pass that makes the graph, which computes the others alone (selective activation recomputation, Korthikanti et
/// al. 2022, Reducing Activation Recomputation in Large Transformer Models, section 5).
class KeptResults {
 public:
  enum class Of {
    product,  ///< of a layer's input
    sum,      ///< the residual stream with what a step adds
    mixing,   ///< what an operator over positions makes, with what its backward pass reads
  };

  /// From here on results are taken, each once, in the order in which they were kept.
  void take_from_here() { takes_ = true; }

  /// @param make  gives the results; it is called where none of this kind are left to take
  template <class Make>
  std::vector<at::Tensor> results(Of of, const Make& make) {
    if (!takes_) {
      entries_.emplace_back(of, make());
      return entries_.back().second;
    }
    const auto found = std::find_if(entries_.begin(), entries_.end(), [of](const auto& x) { return x.first == of; });
    if (found == entries_.end()) return make();
    std::vector<at::Tensor> taken = std::move(found->second);
    entries_.erase(found);
    return taken;
  }

 private:
  bool takes_ = false;
  std::vector<std::pair<Of, std::vector<at::Tensor>>> entries_;
};

/// KeptResults::results, or those of `make` where nothing is kept.
/// @param kept  may be null
template <class Make>
std::vector<at::Tensor> results_of(KeptResults* kept, KeptResults::Of of, const Make& make) {
  return kept != nullptr ? kept->results(of, make) : make();
}

/// The same of one result.
template <class Make>
at::Tensor result_of(KeptResults* kept, KeptResults::Of of, const Make& make) {
  return results_of(kept, of, [&] { return std::vector<at::Tensor>{make()}; }).front();
}

}  // namespace foxscope
