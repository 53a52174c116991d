#include <CLI/CLI.hpp>

#include "app/cli/figure_kind.h"
#include "app/cli/figure_options.h"
#include "app/figure/kinds/sweep.h"

namespace foxscope::cli {
namespace {

int drawSweep(const FigureOptions& options, const Session& session) {
  return writeFigure(options, session, [&](const figure::FigureStyle& style, Notes& /*notes*/) {
    std::vector<SweepEvaluation> sweeps;
    for (const std::string& file : options.files) sweeps.push_back(SweepEvaluation::open(file));
    return std::optional(figure::drawSweep(sweeps, style));
  });
}

void addSweep(CLI::App& command, Selection& selection) {
  const auto options = std::make_shared<FigureOptions>();
  command.add_option("file", options->files, "Sweeps, a panel each")->type_name("SWEEP.h5")->required();
  addFigureOptions(command, *options);
  command.callback([options, &selection] {
    selection.action = [options](const Session& session) { return drawSweep(*options, session); };
  });
}

}  // namespace

const FigureKind kSweepFigure = {"sweep", "What changing each head does to the loss: layers down, heads across",
                                 "  foxscope figure sweep sweep.h5 -o sweep.pdf\n"
                                 "  foxscope figure sweep one.h5 cut.h5 --width neurips -o both.pdf",
                                 addSweep};

}  // namespace foxscope::cli
