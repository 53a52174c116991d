#include <CLI/CLI.hpp>

#include "app/cli/figure/figure_kind.h"
#include "app/cli/figure/figure_options.h"
#include "app/cli/model_names.h"
#include "app/figure/kinds/training.h"

namespace foxscope::cli {
namespace {

struct TrainingArguments {
  FigureOptions figure;
  CurveOptions curves;
  std::vector<std::string> folders;  ///< [NAME=]DIR
  std::optional<std::int64_t> smooth;
};

int drawTrainings(const TrainingArguments& arguments, const Session& session) {
  return writeFigure(arguments.figure, session, [&](const figure::FigureStyle& style, Notes& /*notes*/) {
    std::vector<figure::TrainingSource> trainings;
    for (const NamedModel& folder : parseModels(arguments.folders, "")) {
      trainings.push_back({folder.name, read_training(folder.path)});
    }
    return std::optional(figure::drawTraining(trainings, {arguments.smooth, curveChoice(arguments.curves)}, style));
  });
}

void addTraining(CLI::App& command, Selection& selection) {
  const auto arguments = std::make_shared<TrainingArguments>();
  command.add_option("file", arguments->folders, "Folders that `foxscope train` wrote, also while it is writing")
      ->type_name("[NAME=]DIR")
      ->required();
  command
      .add_option(
          "--smooth", arguments->smooth,
          "Steps of the training loss's moving average: odd, from 1, which is none (default: a fiftieth of all)")
      ->type_name("N");
  addCurveOptions(command, arguments->curves);
  addCurveLook(command, arguments->figure);
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) { return drawTrainings(*arguments, session); };
  });
}

}  // namespace

const FigureKind kTrainingFigure = {
    "training", "Loss and decay times of every head while models are trained, over the tokens seen",
    "  foxscope figure training out -o training.pdf\n"
    "  foxscope figure training fox=out-fox base=out-transformer --x-limits 0:8e6 --y-limits 4:7 -o training.pdf",
    addTraining};

}  // namespace foxscope::cli
