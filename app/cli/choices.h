#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace foxscope::cli {

/// The words that an option chooses from.
struct Choice {
  std::vector<std::string> words;  ///< empty: the option takes other values
  bool several = false;            ///< with commas between them
  /// How values look that are none of the words and are taken too, "cuda:N"; empty: there are no others.
  std::vector<std::string> others = {};
};

/// Told by the type that --help shows of an option: the words themselves, auto|linear|log, or a name for them, as
/// DTYPE; ",..." behind it says that there may be several. Messages and the completions of shells follow it.
Choice choiceOf(const CLI::Option& option);

/// Answers a misspelt word among the options of the commands that were chosen with the word that was probably meant.
/// A word that is near to none is left to whoever reads it.
/// @throws UsageError "--dtype flaot32: did you mean float32? else choose auto, float32 or bfloat16"
void checkChoices(const CLI::App& program);

/// The names of an option that --help, manuals and completions show, "-o", "--output"; spellings of older versions are
/// taken and not shown.
std::vector<std::string> shownNames(const CLI::Option& option);

}  // namespace foxscope::cli
