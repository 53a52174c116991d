#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "app/figure/figure_style.h"
#include "backend/file/run_file.h"

namespace foxscope::cli {

/// What every kind of figure takes on its command line.
struct FigureOptions {
  std::vector<std::string> files;
  std::string output;
  std::optional<std::string> width;   ///< 140mm, 5.5in, 397pt or a preset
  std::optional<std::string> height;  ///< likewise without presets
  std::optional<int> dpi;
  std::optional<std::string> font;
  std::optional<double> fontSize;   ///< pt
  std::optional<double> lineWidth;  ///< pt
  std::string title;
  std::vector<std::string> labels;  ///< NAME=TEXT
  std::string device = "auto";
  RunCheck check = RunCheck::whole;  ///< of run files
  bool svgText = false;
  std::string legendAt = "auto";
  std::vector<std::string> looks;  ///< NAME=COLOUR[:STYLE]
  bool noLetters = false;
  bool force = false;
};

/// What kinds that draw curves take beside that.
struct CurveOptions {
  std::optional<std::string> xLimits;  ///< A:B
  std::optional<std::string> yLimits;
  std::vector<double> xTicks;
  std::vector<double> yTicks;
  std::vector<std::string> legend;   ///< names of curves in their order
  std::vector<std::string> colours;  ///< NAME=#RRGGBB
};

void addFigureOptions(CLI::App& command, FigureOptions& options);
/// The width of lines and the place of the legend, of kinds that have curves.
void addCurveLook(CLI::App& command, FigureOptions& options);
/// --unchecked, of all that reads run files.
void addUnchecked(CLI::App& command, RunCheck& check);
/// A note that the file was opened so, for what prints or writes its numbers: pictures have a mark of their own.
void noteUnchecked(Console& console, const std::string& file, RunCheck check);
/// Which models of the files are drawn.
void addModels(CLI::App& command, std::vector<std::string>& models);
/// The places of these names among those that there are, or all of them where no name is given.
/// @throws UsageError naming those that exist
std::vector<std::size_t> chosenModels(const std::vector<std::string>& names, const std::vector<std::string>& present);
/// The length that models were trained on, of kinds with lengths or positions along an axis.
void addTrainLength(CLI::App& command, std::optional<std::int64_t>& length);
/// @throws UsageError unless it is above 0
void requireTrainLength(const std::optional<std::int64_t>& length);
void addCurveOptions(CLI::App& command, CurveOptions& options);

/// "140mm", "5.5in", "397pt", or the width of a paper's column or text by its name, in millimetres.
/// @throws UsageError naming the option and what is understood
double parseLength(const std::string& option, const std::string& text);

/// Lists the presets, "neurips 5.5in, ...", for a help text.
std::string lengthPresets();

/// "NAME=TEXT" as a pair.
/// @throws UsageError naming the option
std::pair<std::string, std::string> parsePair(const std::string& option, const std::string& text);

/// "L:H" as a head.
/// @throws UsageError likewise
std::pair<int, int> parseHead(const std::string& option, const std::string& text);

/// @throws UsageError for what cannot be understood and sizes that figures cannot have
figure::FigureStyle figureStyle(const FigureOptions& options, const std::string& commandLine);
figure::CurveChoice curveChoice(const CurveOptions& options);

/// What is to be said of a figure once it is drawn, one line each.
using Notes = std::vector<std::string>;

/// @param runs  of these files
/// @throws UsageError naming the option, with the names that exist
std::shared_ptr<const Trace> namedRun(const std::vector<std::shared_ptr<const Trace>>& runs,
                                      const std::vector<std::string>& files, const char* option,
                                      const std::string& name);

/// The run of this name in the files; without a name the first that has a gate, else the first of all, with a note if
/// there was a choice.
/// @throws UsageError with the names that exist
std::shared_ptr<const Trace> chooseRun(const FigureOptions& options, const std::optional<std::string>& name,
                                       Notes& notes);
/// The same of runs that were read.
std::shared_ptr<const Trace> chooseRun(const FigureOptions& options,
                                       const std::vector<std::shared_ptr<const Trace>>& runs,
                                       const std::optional<std::string>& name, Notes& notes);

/// The two runs of these names, or the first two of the files, one with a gate before one without, with a note if there
/// was a choice.
/// @throws UsageError with the names that exist
std::pair<std::shared_ptr<const Trace>, std::shared_ptr<const Trace>> chooseTwoRuns(
    const FigureOptions& options, const std::vector<std::string>& names, Notes& notes);

/// Every run of every file, in their order, its maps computed on the device that was asked for.
/// @throws Error, UsageError as RunFile::open, DeviceChoice::parse and gpu_chosen; UsageError for two runs of one name
std::vector<std::shared_ptr<const Trace>> allRuns(const FigureOptions& options);

/// Checks output and inputs, draws, writes the file and says what the figure's notes say.
/// @returns the command's exit code
int writeFigure(
    const FigureOptions& options, const Session& session,
    const std::function<std::optional<figure::DrawnFigure>(const figure::FigureStyle& style, Notes& notes)>& draw);

}  // namespace foxscope::cli
