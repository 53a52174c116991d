#include <algorithm>
#include <span>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/figure/figure_kind.h"
#include "app/cli/figure/figure_options.h"
#include "app/figure/kinds/decay.h"
#include "app/figure/kinds/distance.h"
#include "app/figure/kinds/labels.h"
#include "backend/base/error.h"
#include "backend/eval/heads/heads_file.h"
#include "backend/file/provenance.h"
#include "backend/map/device/map_device.h"

namespace foxscope::cli {
namespace {

/// Of decay and labels.
struct ModelsArguments {
  FigureOptions figure;
  std::vector<std::string> models;
};

struct DistanceArguments {
  FigureOptions figure;
  std::optional<std::string> model;
  std::vector<std::string> heads;
  bool withFirst = false;
};

// The heads of every model of the files, which hold statistics of heads or runs. @returns nothing if stopped
std::optional<std::vector<EvaluatedHeads>> readHeads(const FigureOptions& options, const Session& session) {
  const std::optional<int> gpu = gpu_chosen(DeviceChoice::parse(options.device));
  std::vector<EvaluatedHeads> models;
  for (const std::string& file : options.files) {
    const std::string content = read_content(file);
    if (content == kHeadsContent || content == kEvalHeadsContent) {
      for (EvaluatedHeads& model : HeadsEvaluation::open(file).models) models.push_back(std::move(model));
      continue;
    }
    if (!content.empty()) {
      throw Error(fmt::format(
          "{}: holds {} and no statistics of heads: name a file that `foxscope eval heads`, `foxscope heads "
          "-o` or `foxscope run` wrote",
          file, content_words(content)));
    }
    for (const auto& trace : RunFile::open(file, options.check).traces) {
      trace->compute_on(gpu);
      auto heads = evaluate_run(trace, session.job());
      if (!heads) return std::nullopt;
      models.push_back(std::move(*heads));
    }
  }
  return models;
}

const EvaluatedHeads& chooseModel(const std::vector<EvaluatedHeads>& models, const std::optional<std::string>& name,
                                  Notes& notes) {
  std::string names;
  for (const EvaluatedHeads& model : models) {
    if (model.info.name == name) return model;
    names += (names.empty() ? "" : ", ") + model.info.name;
  }
  if (name) throw UsageError(fmt::format("--model {}: there is no such model: use one of {}", *name, names));
  const auto gated =
      std::find_if(models.begin(), models.end(), [](const EvaluatedHeads& model) { return forgets(model.info); });
  const EvaluatedHeads& chosen = gated == models.end() ? models.front() : *gated;
  if (models.size() > 1) {
    notes.push_back(fmt::format("of {} this is {}: --model chooses another", names, chosen.info.name));
  }
  return chosen;
}

int drawModels(const ModelsArguments& arguments, const Session& session,
               figure::DrawnFigure (*draw)(std::span<const EvaluatedHeads>, const figure::FigureStyle&)) {
  return writeFigure(arguments.figure, session,
                     [&](const figure::FigureStyle& style, Notes& /*notes*/) -> std::optional<figure::DrawnFigure> {
                       const auto models = readHeads(arguments.figure, session);
                       if (!models) return std::nullopt;
                       std::vector<std::string> names;
                       for (const EvaluatedHeads& model : *models) names.push_back(model.info.name);
                       std::vector<EvaluatedHeads> chosen;
                       for (const std::size_t index : chosenModels(arguments.models, names)) {
                         chosen.push_back((*models)[index]);
                       }
                       return draw(chosen, style);
                     });
}

int drawDistanceFigure(const DistanceArguments& arguments, const Session& session) {
  return writeFigure(arguments.figure, session,
                     [&](const figure::FigureStyle& style, Notes& notes) -> std::optional<figure::DrawnFigure> {
                       const auto models = readHeads(arguments.figure, session);
                       if (!models) return std::nullopt;
                       figure::DistanceOptions options;
                       for (const std::string& text : arguments.heads) {
                         const auto [layer, head] = parseHead("--heads", text);
                         options.heads.push_back({layer, head});
                       }
                       options.first = arguments.withFirst ? figure::FirstKey::counted : figure::FirstKey::leftOut;
                       return figure::drawDistance(chooseModel(*models, arguments.model, notes), options, style);
                     });
}

void addFiles(CLI::App& command, FigureOptions& options) {
  command.add_option("file", options.files, "Files of `foxscope eval heads` or `foxscope heads -o`, or run files")
      ->type_name("FILE.h5")
      ->required();
}

void addDecay(CLI::App& command, Selection& selection) {
  const auto arguments = std::make_shared<ModelsArguments>();
  addFiles(command, arguments->figure);
  addModels(command, arguments->models);
  addCurveLook(command, arguments->figure);
  addUnchecked(command, arguments->figure.check);
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) {
      return drawModels(*arguments, session, figure::drawDecay);
    };
  });
}

void addLabels(CLI::App& command, Selection& selection) {
  const auto arguments = std::make_shared<ModelsArguments>();
  addFiles(command, arguments->figure);
  addModels(command, arguments->models);
  addUnchecked(command, arguments->figure.check);
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) {
      return drawModels(*arguments, session, figure::drawLabels);
    };
  });
}

void addDistance(CLI::App& command, Selection& selection) {
  const auto arguments = std::make_shared<DistanceArguments>();
  addFiles(command, arguments->figure);
  command.add_option("--model", arguments->model, "Which model (default: the first with a gate)")->type_name("NAME");
  command.add_option("--heads", arguments->heads, "Which heads (default: of short, middle and long memory)")
      ->type_name("L:H[,L:H...]")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_flag("--with-first", arguments->withFirst, "Count the attention on key 0, where many heads park");
  addCurveLook(command, arguments->figure);
  addUnchecked(command, arguments->figure.check);
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) { return drawDistanceFigure(*arguments, session); };
  });
}

}  // namespace

const FigureKind kDecayFigure = {"decay", "Decay times of every head, their distribution, and by class of the token",
                                 "  foxscope figure decay heads.h5 -o decay.pdf\n"
                                 "  foxscope figure decay run.h5 -o decay.pdf",
                                 addDecay};

const FigureKind kDistanceFigure = {"distance", "Attention against distance, with and without the gate",
                                    "  foxscope figure distance heads.h5 -o distance.pdf\n"
                                    "  foxscope figure distance run.h5 --heads 1:2,6:1 --with-first -o distance.pdf",
                                    addDistance};

const FigureKind kLabelsFigure = {"labels", "What every head does: the strongest label of each, and what labels are",
                                  "  foxscope figure labels run.h5 -o labels.pdf\n"
                                  "  foxscope figure labels heads.h5 --width icml -o labels.pdf",
                                  addLabels};

}  // namespace foxscope::cli
