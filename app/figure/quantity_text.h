#pragma once

#include <string>

#include "backend/map/map.h"

namespace foxscope::figure {

/// A quantity and its unit for an axis or colour bar, symbols in italics: "attention *A*".
std::string quantityText(Quantity quantity);
/// A quantity's symbol alone: "*A*".
std::string quantitySymbol(Quantity quantity);
/// Names the channels that F or log F of a map is taken over, where each channel of the head decays: "channel 3 of 16",
/// or "mean over 16 channels". Elsewhere the text is empty.
std::string channelText(const MapRequest& request);

}  // namespace foxscope::figure
