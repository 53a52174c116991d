#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/figure/figure_style.h"

namespace foxscope::figure {

struct FigureRequest;

/// An option of `foxscope figure KIND`, and of a spec.
struct FigureOption {
  enum class Takes { flag, text, dots, integer, number, texts, list, numbers };
  const char* names;  ///< "-o,--output"
  const char* type;   ///< what stands behind it in the help; null: a flag's nothing
  Takes takes;        ///< dots: an int; texts: one each time that the option stands there; list, numbers: with commas
  std::string help;

  /// "output": the first of its long names, without dashes.
  [[nodiscard]] std::string_view name() const;
};

/// The help of options that other commands take too.
inline constexpr const char* kUncheckedHelp =
    "Open a run file although its arrays contradict one another; what is made of it is marked";
inline constexpr const char* kFalseDiscoveryHelp =
    "False discovery rate at which heads are told from chance, for instance 0.05 (default: each head by itself, at 5 "
    "%)";

/// A kind of figure: what the command line, a spec and the window know of it.
struct FigureKind {
  const char* name;
  const char* description;
  const char* examples;
  struct Files {
    const char* type;  ///< "RUN.h5"
    const char* help;
    bool folders = false;  ///< [NAME=]DIR each
    bool named = false;    ///< [NAME=]FILE each
  };
  Files files;
  std::vector<FigureOption> options;
  std::optional<DrawnFigure> (*draw)(FigureRequest&);  ///< @returns nothing if the job was stopped
  struct Traits {
    bool letters = false;     ///< (a), (b) before the titles of its panels
    bool forgetting = false;  ///< models without gates are left out
    bool bars = false;        ///< a colour bar for attention, and one for F where all runs have gates
  };
  Traits traits = {};

  /// @param option  by its name
  [[nodiscard]] bool takes(std::string_view option) const;
};

/// The options of a page of several figures: those of every figure but what its parts are told themselves.
const FigureKind& pageKind();

/// All kinds, in the order of the help.
std::span<const FigureKind> figureKinds();
/// Null unless there is a kind of this name.
const FigureKind* findFigureKind(std::string_view name);

}  // namespace foxscope::figure
