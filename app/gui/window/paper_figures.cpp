#include "app/gui/window/paper_figures.h"

#include <algorithm>
#include <memory>

#include <QCoreApplication>

#include "app/figure/kinds/ablation.h"
#include "app/figure/kinds/compare.h"
#include "app/figure/kinds/decay.h"
#include "app/figure/kinds/distance.h"
#include "app/figure/kinds/grid.h"
#include "app/figure/kinds/labels.h"
#include "app/figure/kinds/loss.h"
#include "app/figure/kinds/maps.h"
#include "app/figure/kinds/passage.h"
#include "app/figure/kinds/perplexity.h"
#include "backend/eval/heads_file.h"

namespace foxscope::gui {
namespace {

using figure::FigureStyle;
using TracePointer = std::shared_ptr<const Trace>;

QString tr(const char* text) { return QCoreApplication::translate("foxscope::gui::PaperFigures", text); }

std::optional<std::string> fileOf(std::optional<figure::DrawnFigure> drawn) {
  return drawn ? std::optional(std::move(drawn->file)) : std::nullopt;
}

/// What is chosen in the window, as figures name it.
struct Chosen {
  TracePointer trace;
  figure::HeadIndex head;
  Range rows;
  Range columns;
};

std::vector<PaperFigure> figuresOfRun(const Chosen& chosen) {
  std::vector<PaperFigure> figures;
  figures.push_back({"maps", tr("F above A of heads of short, middle and long memory"),
                     [trace = chosen.trace](const FigureStyle& style, const Job& job) {
                       return fileOf(drawMaps(trace, {}, style, job));
                     }});
  figures.push_back({"maps", tr("F above A of the chosen head, as far as it is shown"),
                     [chosen](const FigureStyle& style, const Job& job) {
                       figure::MapsOptions options;
                       options.heads = {chosen.head};
                       options.rows = chosen.rows;
                       options.columns = chosen.columns;
                       return fileOf(drawMaps(chosen.trace, options, style, job));
                     }});
  figures.push_back(
      {"grid", tr("all heads as small maps"), [trace = chosen.trace](const FigureStyle& style, const Job& job) {
         return fileOf(drawGrid(trace, {}, style, job));
       }});
  figures.push_back({"labels", tr("labels of all heads"),
                     [chosen](const FigureStyle& style, const Job& job) -> std::optional<std::string> {
                       const auto heads = evaluate_run(chosen.trace, job);
                       if (!heads) return std::nullopt;
                       return drawLabels({&*heads, 1}, style).file;
                     }});
  figures.push_back({"distance", tr("attention against distance"),
                     [chosen](const FigureStyle& style, const Job& job) -> std::optional<std::string> {
                       const auto heads = evaluate_run(chosen.trace, job);
                       if (!heads) return std::nullopt;
                       return drawDistance(*heads, {}, style).file;
                     }});
  if (!chosen.trace->text()) return figures;
  for (const auto& [tint, name] : {std::pair{figure::PassageTint::loss, tr("the text shown, tinted by loss")},
                                   std::pair{figure::PassageTint::gate, tr("the text shown, tinted by 1 − f")}}) {
    figures.push_back({"text", name, [chosen, tint = tint](const FigureStyle& style, const Job& job) {
                         figure::PassageOptions options;
                         options.tint = tint;
                         options.head = chosen.head;
                         options.positions = chosen.rows;
                         return fileOf(drawPassage(chosen.trace, options, style, job));
                       }});
  }
  return figures;
}

std::vector<PaperFigure> figuresOfRuns(const std::vector<Run>& runs, const Chosen& chosen) {
  std::vector<PaperFigure> figures;
  std::vector<TracePointer> traces;
  for (const Run& run : runs) traces.push_back(run.trace);
  const auto losses = [runs] {
    std::vector<figure::LossSource> sources;
    sources.reserve(runs.size());
    for (const Run& run : runs) {
      sources.push_back(figure::lossesOf(run.trace));
      sources.back().name = run.name.toStdString();
    }
    return sources;
  };
  figures.push_back({"loss", tr("losses"), [losses](const FigureStyle& style, const Job&) {
                       return std::optional(drawLoss(losses(), {}, style).file);
                     }});
  figures.push_back({"perplexity", tr("perplexity against context"), [losses](const FigureStyle& style, const Job&) {
                       return std::optional(drawPerplexity(losses(), {}, style).file);
                     }});
  if (std::any_of(traces.begin(), traces.end(), [](const TracePointer& trace) { return trace->info().gated; })) {
    figures.push_back(
        {"decay", tr("decay times"), [traces](const FigureStyle& style, const Job& job) -> std::optional<std::string> {
           std::vector<EvaluatedHeads> models;
           for (const TracePointer& trace : traces) {
             auto heads = evaluate_run(trace, job);
             if (!heads) return std::nullopt;
             models.push_back(std::move(*heads));
           }
           return drawDecay(models, style).file;
         }});
  }
  if (traces.size() < 2) return figures;
  figures.push_back(
      {"ablation", tr("losses, and the first less each other"), [losses](const FigureStyle& style, const Job&) {
         return std::optional(drawAblation(losses(), {}, {}, style).file);
       }});
  const auto other =
      *std::find_if(traces.begin(), traces.end(), [&](const TracePointer& trace) { return trace != chosen.trace; });
  figures.push_back({"compare", tr("the chosen head beside the nearest of another model"),
                     [chosen, other](const FigureStyle& style, const Job& job) {
                       figure::CompareOptions options;
                       options.first = chosen.head;
                       options.rows = chosen.rows;
                       options.columns = chosen.columns;
                       return fileOf(drawCompare(chosen.trace, other, options, style, job));
                     }});
  return figures;
}

}  // namespace

std::vector<PaperFigure> paperFigures(const Document& document) {
  const Selection& selection = document.selection();
  const auto head = document.headOf(selection.head());
  if (!head) return {};
  // Of a run that ends before the part that is shown, all of it.
  const auto there = [&](const Range& range) {
    const auto places = document.placesOf(selection.head().run).fromReference;
    const Range part = places ? places->part(range) : range;
    return part.size() > 0 ? part : Range{0, head->trace->info().length};
  };
  const View& view = selection.view();
  const Chosen chosen{head->trace, {head->layer, head->head}, there(view.rows), there(view.columns)};
  // Those on other texts cannot stand in one figure with it.
  std::vector<Run> runs;
  for (const Run* run : document.runsOnText()) runs.push_back(*run);
  std::vector<PaperFigure> figures = figuresOfRun(chosen);
  for (PaperFigure& figure : figuresOfRuns(runs, chosen)) figures.push_back(std::move(figure));
  return figures;
}

}  // namespace foxscope::gui
