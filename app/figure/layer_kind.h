#pragma once

#include <string>
#include <vector>

#include "app/figure/colour_map.h"
#include "backend/trace/trace.h"

namespace foxscope::figure {

/// The mixer of a layer: in words, and the colour that it has beside other kinds.
struct LayerKind {
  std::string words;  ///< of layer_texts
  Rgb colour;         ///< of Okabe and Ito's palette, apart in grey print and for the colour-blind; lavender of windows
};

/// The colour of the kind of a layer.
Rgb kindColour(const TraceInfo& info, int layer);

/// The kinds that a model has, in the order of the layers that have them first; none for a model of attention alone
/// whose layers have one window.
std::vector<LayerKind> kindsOf(const TraceInfo& info);

}  // namespace foxscope::figure
