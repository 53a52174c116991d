#pragma once

#include <filesystem>
#include <string>

namespace foxscope::bench {

/// A checkpoint of random bfloat16 weights in a temporary folder that goes away with the object: matrices N(0, 0.02),
/// norms 1, biases 0.
class RandomCheckpoint {
 public:
  /// @param config  content of config.json
  explicit RandomCheckpoint(const std::string& config);
  ~RandomCheckpoint();
  RandomCheckpoint(const RandomCheckpoint&) = delete;
  RandomCheckpoint& operator=(const RandomCheckpoint&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace foxscope::bench
