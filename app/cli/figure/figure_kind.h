#pragma once

#include "app/cli/command.h"

namespace foxscope::cli {

/// A kind of figure: `foxscope figure NAME`.
struct FigureKind {
  const char* name;
  const char* description;
  const char* examples;
  /// Adds the kind's options to its command, and the callback that sets `selection.action`.
  void (*add)(CLI::App& command, Selection& selection);
};

/// @throws UsageError with the kinds that exist, unless the word is one of them
const FigureKind& figureKind(const std::string& word);

/// `foxscope figure spec`: any kind, as a file describes it.
void addFigureSpec(CLI::App& figure, Selection& selection);

extern const FigureKind kDecayFigure;
extern const FigureKind kDistanceFigure;
extern const FigureKind kLabelsFigure;
extern const FigureKind kNeedleFigure;
extern const FigureKind kSaliencyFigure;
extern const FigureKind kSweepFigure;
extern const FigureKind kTrainingFigure;
extern const FigureKind kMapsFigure;
extern const FigureKind kGridFigure;
extern const FigureKind kCompareFigure;
extern const FigureKind kTextFigure;
extern const FigureKind kLossFigure;
extern const FigureKind kPerplexityFigure;
extern const FigureKind kAblationFigure;

}  // namespace foxscope::cli
