#include <algorithm>
#include <filesystem>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/figure/figure_kind.h"
#include "app/cli/figure/figure_options.h"
#include "app/figure/kinds/ablation.h"
#include "app/figure/kinds/perplexity.h"
#include "backend/base/error.h"
#include "backend/file/provenance.h"

// The kinds that draw losses: of evaluations, or of the only text of run files.

namespace foxscope::cli {
namespace {

struct LossArguments {
  FigureOptions figure;
  CurveOptions curves;
  std::vector<std::string> models;
  std::optional<std::int64_t> smooth;
  std::optional<std::int64_t> trainLength;
  std::string base;
};

std::vector<figure::LossSource> lossesIn(const std::string& file, RunCheck check) {
  const std::string content = read_content(file);
  if (content == kLossContent) return figure::lossesOf(LossEvaluation::open(file));
  if (!content.empty()) {
    throw Error(fmt::format("{}: holds {} and no losses: name a file that `foxscope eval loss` or `foxscope run` wrote",
                            file, content_words(content)));
  }
  std::vector<figure::LossSource> sources;
  for (const auto& run : RunFile::open(file, check).traces) sources.push_back(figure::lossesOf(run));
  return sources;
}

// Models of one name are told apart by their files.
std::vector<figure::LossSource> allLosses(const FigureOptions& options, const std::vector<std::string>& models) {
  std::vector<figure::LossSource> all;
  std::vector<std::string> origins;
  std::map<std::string, int> count;
  for (const std::string& file : options.files) {
    const auto sources = lossesIn(file, options.check);
    const std::string stem = std::filesystem::path(file).stem().string();
    for (const figure::LossSource& source : sources) {
      ++count[source.name];
      origins.push_back(sources.size() == 1 ? stem : stem + ":" + source.name);
      all.push_back(source);
    }
  }
  for (std::size_t index = 0; index < all.size(); ++index) {
    if (count[all[index].name] > 1) all[index].name = origins[index];
  }
  for (std::size_t index = 0; index < all.size(); ++index) {
    for (std::size_t other = index + 1; other < all.size(); ++other) {
      if (all[index].name != all[other].name) continue;
      throw UsageError(fmt::format("{}: this name stands for two models: rename one of the files", all[index].name));
    }
  }
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const figure::LossSource& source : all) names.push_back(source.name);
  std::vector<figure::LossSource> chosen;
  for (const std::size_t index : chosenModels(models, names)) chosen.push_back(all[index]);
  return chosen;
}

figure::LossOptions optionsOf(const LossArguments& arguments) {
  requireTrainLength(arguments.trainLength);
  return {arguments.smooth, arguments.trainLength, curveChoice(arguments.curves)};
}

using Draw = figure::DrawnFigure (*)(const std::vector<figure::LossSource>& sources, const LossArguments& arguments,
                                     const figure::FigureStyle& style);

std::shared_ptr<LossArguments> addLossKind(CLI::App& command, Selection& selection, Draw draw) {
  auto arguments = std::make_shared<LossArguments>();
  command.add_option("file", arguments->figure.files, "Evaluations, or run files with one text")
      ->type_name("FILE.h5")
      ->required();
  addModels(command, arguments->models);
  addTrainLength(command, arguments->trainLength);
  addCurveOptions(command, arguments->curves);
  addCurveLook(command, arguments->figure);
  addUnchecked(command, arguments->figure.check);
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, draw, &selection] {
    selection.action = [arguments, draw](const Session& session) {
      return writeFigure(arguments->figure, session, [&](const figure::FigureStyle& style, Notes& /*notes*/) {
        return std::optional(draw(allLosses(arguments->figure, arguments->models), *arguments, style));
      });
    };
  });
  return arguments;
}

void addSmoothing(CLI::App& command, LossArguments& arguments) {
  command
      .add_option(
          "--smooth", arguments.smooth,
          "Tokens of the moving average over positions: odd, from 1, which is none, up to half of the positions "
          "(default: 101; 1001 for few windows; less for short ones)")
      ->type_name("N");
}

void addLoss(CLI::App& command, Selection& selection) {
  addSmoothing(command,
               *addLossKind(command, selection, [](const auto& sources, const auto& arguments, const auto& style) {
                 return figure::drawLoss(sources, optionsOf(arguments), style);
               }));
}

void addPerplexity(CLI::App& command, Selection& selection) {
  addLossKind(command, selection, [](const auto& sources, const auto& arguments, const auto& style) {
    return figure::drawPerplexity(sources, optionsOf(arguments), style);
  });
}

void addAblation(CLI::App& command, Selection& selection) {
  const auto arguments = addLossKind(command, selection, [](const auto& sources, const auto& given, const auto& style) {
    return figure::drawAblation(sources, given.base, optionsOf(given), style);
  });
  addSmoothing(command, *arguments);
  command.add_option("--base", arguments->base, "What the others are subtracted from (default: the first)")
      ->type_name("NAME");
}

}  // namespace

const FigureKind kLossFigure = {
    "loss", "L(p): loss against position, from position 128 as in the paper where there are 1024, of several models",
    "  foxscope figure loss eval.h5 --train-length 2048 -o loss.pdf\n"
    "  foxscope figure loss eval.h5 --label fox='FoX (Pro)' --colour fox=#c2072c --y-limits 2.8:3.6 -o loss.pdf\n"
    "  foxscope figure loss run.h5 --smooth 501 -o loss.pdf",
    addLoss};

const FigureKind kPerplexityFigure = {
    "perplexity", "P(l): perplexity against context length, from 128 as in the paper where there are 1024",
    "  foxscope figure perplexity eval.h5 --train-length 2048 -o perplexity.pdf", addPerplexity};

const FigureKind kAblationFigure = {
    "ablation", "Losses, and below that of a base less each other, from position 128 where there are 1024",
    "  foxscope figure ablation whole.h5 cut.h5 no-gate.h5 --base whole --smooth 1001 -o ablation.pdf", addAblation};

}  // namespace foxscope::cli
