#include "app/gui/window/figures/paper_figures.h"

#include <algorithm>

#include <QCoreApplication>

#include "app/figure/figure_words.h"

namespace foxscope::gui {
namespace {

using figure::FigureRun;
using figure::RunFigure;
using figure::wordOf;

QString tr(const char* text) { return QCoreApplication::translate("foxscope::gui::PaperFigures", text); }

// Each in the colour that it has in the window.
FigureRun runOf(const Run& run) {
  return {run.trace, run.name.toStdString(), run.file.toStdString(),
          figure::CurveLook{run.look.colour, run.look.change}};
}

/// The window's choices, as figures name them.
struct Chosen {
  FigureRun run;
  figure::HeadIndex head;
  Range rows;
  Range columns;
};

/// Whether a layer of softmax attention forgets, so that its rows end somewhere.
bool prunes(const TraceInfo& info) {
  for (int layer = 0; layer < info.layers; ++layer) {
    if (info.mixer(layer).has_softmax() && forgets(info, layer)) return true;
  }
  return false;
}

std::vector<PaperFigure> figuresOfRun(const Chosen& chosen) {
  std::vector<PaperFigure> figures;
  const auto add = [&](const QString& name, const char* kind) -> RunFigure& {
    return figures.emplace_back(PaperFigure{name, {{kind}, {chosen.run}}}).figure;
  };
  add(tr("F above A of heads of short, middle and long memory"), "maps");
  RunFigure& head = add(tr("F above A of the chosen head, in the range shown"), "maps");
  head.set("heads", wordOf(chosen.head));
  head.set("rows", wordOf(chosen.rows));
  head.set("cols", wordOf(chosen.columns));
  add(tr("all heads as small maps"), "grid");
  add(tr("attention against distance"), "distance");
  const TraceInfo& info = chosen.run.trace->info();
  if (forgets(info) && chosen.run.trace->has(TraceArray::cumulative_log_gate)) {
    add(tr("how the gates of every head are distributed"), "gates");
  }
  add(tr("heads over two of their statistics"), "scatter");
  if (prunes(info) && chosen.run.trace->query_key() != nullptr) {
    add(tr("what pruning may skip"), "pruning");
  }
  if (chosen.run.trace->has(TraceArray::log_forget_gradient)) {
    RunFigure& owed = add(tr("saliency of all heads, and the text shown, tinted by the chosen head's"), "saliency");
    owed.set("head", wordOf(chosen.head));
    owed.set("rows", wordOf(chosen.rows));
  }
  if (!chosen.run.trace->text()) return figures;
  RunFigure& losses = add(tr("the text shown, tinted by loss"), "text");
  losses.set("tint", "loss");
  losses.set("rows", wordOf(chosen.rows));
  RunFigure& gates = add(tr("the text shown, tinted by 1 − f"), "text");
  gates.set("tint", "gate");
  gates.set("head", wordOf(chosen.head));
  gates.set("rows", wordOf(chosen.rows));
  return figures;
}

std::vector<PaperFigure> figuresOfRuns(const std::vector<FigureRun>& runs, const Chosen& chosen) {
  std::vector<PaperFigure> figures;
  const auto add = [&](const QString& name, const char* kind) { figures.push_back({name, {{kind}, runs}}); };
  add(tr("losses"), "loss");
  add(tr("perplexity against context"), "perplexity");
  add(tr("labels of all heads"), "labels");
  if (std::any_of(runs.begin(), runs.end(), [](const FigureRun& run) { return forgets(run.trace->info()); })) {
    add(tr("decay times"), "decay");
  }
  if (runs.size() < 2) return figures;
  add(tr("losses, and the first minus each other"), "ablation");
  const auto other =
      *std::find_if(runs.begin(), runs.end(), [&](const FigureRun& run) { return run.trace != chosen.run.trace; });
  RunFigure compare{{"compare"}, {chosen.run, other}};
  compare.set("head", wordOf(chosen.head));
  compare.set("rows", wordOf(chosen.rows));
  compare.set("cols", wordOf(chosen.columns));
  figures.push_back({tr("the chosen head beside the nearest of another model"), std::move(compare)});
  if (chosen.run.trace->has(TraceArray::per_token_loss) && other.trace->has(TraceArray::per_token_loss)) {
    RunFigure comparison{{"comparison"}, {chosen.run, other}};
    comparison.set("rows", wordOf(chosen.rows));
    figures.push_back({tr("by how much two models differ, where, and at which words"), std::move(comparison)});
  }
  return figures;
}

}  // namespace

std::vector<PaperFigure> paperFigures(const RunList& list) {
  const Selection& selection = list.selection();
  const auto head = list.headOf(selection.head());
  const Run* run = list.run(selection.head().run);
  if (!head || run == nullptr) return {};
  // All of a run that ends before the part that is shown.
  const auto there = [&](const Range& range) {
    const auto places = list.placesOf(selection.head().run).fromReference;
    const Range part = places ? places->part(range) : range;
    return part.size() > 0 ? part : Range{0, head->trace->info().length};
  };
  const View& view = selection.view();
  const Chosen chosen{runOf(*run), {head->layer, head->head}, there(view.rows), there(view.columns)};
  // Runs on other texts cannot stand in one figure with it.
  std::vector<FigureRun> runs;
  for (const Run* one : list.runsOnText()) runs.push_back(runOf(*one));
  std::vector<PaperFigure> figures = figuresOfRun(chosen);
  for (PaperFigure& figure : figuresOfRuns(runs, chosen)) figures.push_back(std::move(figure));
  return figures;
}

}  // namespace foxscope::gui
