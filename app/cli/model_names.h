#pragma once

#include <span>
#include <string>
#include <vector>

namespace foxscope::cli {

/// One `--model [NAME=]DIR`.
struct NamedModel {
  std::string name;  ///< NAME, or the last part of DIR
  std::string path;  ///< folder or hub id
};

/// The same argument where checkpoints lie in the working folder, for files that are published: the folder's last part,
/// or the hub id.
std::string modelWithoutFolder(const std::string& argument);

/// One `[NAME=]FILE`: what stands before the first `=` is a name unless it has a slash, or a file of all these words is
/// there. The name is empty where none is given.
/// @throws UsageError for a name of other letters than a model's, and where the file is missing
NamedModel parseNamedFile(const std::string& argument);

/// Letters, digits, `.`, `_` and `-`.
bool isModelName(const std::string& text);

/// Splits and checks the models of a run, or folders that are named likewise: what stands before the first `=` is a
/// name unless it has a slash; names are of letters, digits, `.`, `_`, `-` and differ from each other.
/// @param option  that they were given to, with a space behind it; empty: none
/// @throws UsageError that says how to name them
std::vector<NamedModel> parseModels(std::span<const std::string> arguments, const std::string& option = "--model ");

}  // namespace foxscope::cli
