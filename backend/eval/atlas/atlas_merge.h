#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/eval/atlas/atlas_file.h"

namespace foxscope {

/// Makes one atlas of several, which equals the atlas of one run over all their corpora, in their order. Memory is that
/// of two atlases, however many are added.
class AtlasMerge {
 public:
  /// @param name  of its file, for messages
  AtlasMerge(Atlas first, std::string name);

  /// @throws Error naming the file, where it does not go with those before: other models, weights, tokenizers or
  ///         settings, or a document that is there already
  void add(Atlas more, const std::string& name);
  [[nodiscard]] Atlas finish() &&;

 private:
  Atlas atlas_;
  std::string name_;                                        ///< of the first file
  std::vector<std::unique_ptr<EvaluatedWindows>> windows_;  ///< of each model
  std::map<std::string, std::string> documents_;            ///< by SHA-256, the file that holds it
};

}  // namespace foxscope
