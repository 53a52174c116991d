#pragma once

#include <cstdint>

namespace foxscope {

/// Bytes of one memory: those that do not depend on the length of a text, and those that each token adds.
struct PassBytes {
  std::int64_t fixed = 0;
  std::int64_t per_token = 0;

  PassBytes& operator+=(const PassBytes& other) {
    fixed += other.fixed;
    per_token += other.per_token;
    return *this;
  }
};

/// Bytes that a pass takes beside the weights and the arrays that are kept of it.
struct PassNeeds {
  PassBytes host;
  PassBytes gpu;  ///< of a pass on a GPU
};

}  // namespace foxscope
