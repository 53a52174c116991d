#pragma once

#include <string>

#include "backend/map/map.h"

namespace foxscope::figure {

/// A quantity and its unit for an axis or colour bar, symbols in italics: "attention *A*".
std::string quantityText(Quantity quantity);
/// A quantity's symbol alone: "*A*".
std::string quantitySymbol(Quantity quantity);

}  // namespace foxscope::figure
