#pragma once

#include <span>
#include <string>
#include <vector>

namespace foxscope::figure {

/// The name of a model of a file that was given as NAME=FILE: NAME of a file's only model, "NAME:model" of several.
/// @param given   NAME; empty: none, and the model keeps its own
/// @param models  how many the file has
std::string nameInFile(const std::string& given, const std::string& own, std::size_t models);

/// A model of a file, as its figure calls it.
struct SourceName {
  std::string name;
  std::string file;    ///< path or URL
  std::string own;     ///< name in the file
  bool alone = false;  ///< the file has no other model
};

/// Names that differ: of models of one name each is called by its file's name without the ending, with as many of the
/// last folders as it takes ("run", "there/run"), and with its own name behind it where the file has several
/// ("run:fox").
/// @throws UsageError where the same model of the same file is there twice
std::vector<std::string> namesToldApart(std::span<const SourceName> models);

}  // namespace foxscope::figure
