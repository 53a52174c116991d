#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/figure/figure_kind.h"
#include "app/cli/figure/figure_options.h"
#include "app/figure/kinds/needle.h"
#include "backend/base/error.h"

namespace foxscope::cli {
namespace {

struct NeedleArguments {
  FigureOptions figure;
  std::string tint = "gain";
  std::string head;
  std::optional<std::int64_t> trainLength;
};

figure::NeedleTint parseTint(const std::string& text) {
  if (text == "gain") return figure::NeedleTint::gain;
  if (text == "mass") return figure::NeedleTint::mass;
  if (text == "gate") return figure::NeedleTint::gate;
  throw UsageError(fmt::format("--tint {}: use gain, mass or gate", text));
}

int drawNeedle(const NeedleArguments& arguments, const Session& session) {
  return writeFigure(arguments.figure, session, [&](const figure::FigureStyle& style, Notes& /*notes*/) {
    if (arguments.figure.files.size() > 1) {
      throw UsageError("figure needle: takes one file: test all models in one command");
    }
    figure::NeedleOptions options;
    options.tint = parseTint(arguments.tint);
    requireTrainLength(arguments.trainLength);
    options.trainLength = arguments.trainLength;
    if (!arguments.head.empty()) {
      const auto [layer, head] = parseHead("--head", arguments.head);
      options.head = figure::HeadIndex{layer, head};
      if (options.tint == figure::NeedleTint::gain) {
        throw UsageError("--head: the gain is of the whole model: choose --tint mass or gate too");
      }
    }
    return std::optional(figure::drawNeedle(NeedleEvaluation::open(arguments.figure.files.front()), options, style));
  });
}

void addNeedle(CLI::App& command, Selection& selection) {
  const auto arguments = std::make_shared<NeedleArguments>();
  command.add_option("file", arguments->figure.files, "Needle test")->type_name("NEEDLE.h5")->required();
  command
      .add_option("--tint", arguments->tint,
                  "gain of the answer's log-probability, or of one head the attention mass on the needle or its gate "
                  "F (default: gain)")
      ->type_name("gain|mass|gate");
  command.add_option("--head", arguments->head, "Head of mass and gate (default: that with the most mass)")
      ->type_name("L:H");
  addTrainLength(command, arguments->trainLength);
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) { return drawNeedle(*arguments, session); };
  });
}

}  // namespace

const FigureKind kNeedleFigure = {"needle", "The needle test: length across, depth down, one panel a model",
                                  "  foxscope figure needle needle.h5 -o needle.pdf\n"
                                  "  foxscope figure needle needle.h5 --tint mass --head 6:1 -o carried.pdf",
                                  addNeedle};

}  // namespace foxscope::cli
