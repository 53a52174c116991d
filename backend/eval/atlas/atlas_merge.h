#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
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
  ///         settings, or a document that is there already. A window of --ids is there already where it begins with all
  ///         ids of one before, or one before begins with all of its own: that is a row read at another --length.
  void add(Atlas more, const std::string& name);
  [[nodiscard]] Atlas finish() &&;

 private:
  /// Windows of --ids, by their ids, and the file that holds them.
  using Rows = std::map<std::vector<std::int32_t>, std::string>;
  /// @returns the file of a row that begins with these ids, or that they begin with; null: there is none
  [[nodiscard]] const std::string* holder(const std::vector<std::int32_t>& ids) const;
  /// @throws Error as add() does
  void add_rows(const Atlas& atlas, const std::string& name);

  Atlas atlas_;
  std::string name_;                                        ///< of the first file
  std::vector<std::unique_ptr<EvaluatedWindows>> windows_;  ///< of each model
  std::map<std::string, std::string> documents_;            ///< by SHA-256, the file that holds it
  Rows rows_;                                               ///< without documents
  std::set<std::size_t> row_lengths_;                       ///< of rows_
};

}  // namespace foxscope
