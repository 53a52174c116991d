#include <CLI/CLI.hpp>

#include "app/cli/eval/eval_options.h"
#include "app/cli/figure/figure_kind.h"
#include "app/cli/figure/figure_options.h"
#include "app/figure/kinds/sweep.h"

namespace foxscope::cli {
namespace {

struct SweepFigureArguments {
  FigureOptions figure;
  std::optional<double> fdr;
};

int drawSweep(const SweepFigureArguments& arguments, const Session& session) {
  return writeFigure(arguments.figure, session, [&](const figure::FigureStyle& style, Notes& /*notes*/) {
    std::vector<SweepEvaluation> sweeps;
    for (const std::string& file : arguments.figure.files) sweeps.push_back(SweepEvaluation::open(file));
    return std::optional(figure::drawSweep(sweeps, style, arguments.fdr));
  });
}

void addSweep(CLI::App& command, Selection& selection) {
  const auto arguments = std::make_shared<SweepFigureArguments>();
  command.add_option("file", arguments->figure.files, "Sweeps, a panel each")->type_name("SWEEP.h5")->required();
  addFalseDiscoveryRate(command, arguments->fdr);
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) { return drawSweep(*arguments, session); };
  });
}

}  // namespace

const FigureKind kSweepFigure = {"sweep", "What changing each head does to the loss: layers down, heads across",
                                 "  foxscope figure sweep sweep.h5 -o sweep.pdf\n"
                                 "  foxscope figure sweep one.h5 cut.h5 --width neurips -o both.pdf\n"
                                 "  foxscope figure sweep sweep.h5 --fdr 0.05 -o found.pdf",
                                 addSweep};

}  // namespace foxscope::cli
