#pragma once

#include <filesystem>
#include <string>

#include "tests/temporary_folder.h"

namespace foxscope::bench {

/// A checkpoint of random bfloat16 weights in a temporary folder that goes away with the object: matrices N(0, 0.02),
/// norms 1, biases 0.
class RandomCheckpoint {
 public:
  /// @param config  content of config.json
  explicit RandomCheckpoint(const std::string& config);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
};

}  // namespace foxscope::bench
