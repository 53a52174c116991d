#include "app/figure/figure_kind.h"

#include <algorithm>

#include <fmt/format.h>

#include "app/figure/figure_length.h"
#include "app/figure/kinds/ablation.h"
#include "app/figure/kinds/atlas/passages.h"
#include "app/figure/kinds/atlas/resets.h"
#include "app/figure/kinds/atlas/similarity.h"
#include "app/figure/kinds/atlas/tokens.h"
#include "app/figure/kinds/compare.h"
#include "app/figure/kinds/comparison.h"
#include "app/figure/kinds/decay.h"
#include "app/figure/kinds/distance.h"
#include "app/figure/kinds/grid.h"
#include "app/figure/kinds/heads/gates.h"
#include "app/figure/kinds/heads/pruning.h"
#include "app/figure/kinds/heads/scatter.h"
#include "app/figure/kinds/labels.h"
#include "app/figure/kinds/loss.h"
#include "app/figure/kinds/maps.h"
#include "app/figure/kinds/needle.h"
#include "app/figure/kinds/passage.h"
#include "app/figure/kinds/perplexity.h"
#include "app/figure/kinds/saliency.h"
#include "app/figure/kinds/sweep.h"
#include "app/figure/kinds/training.h"
#include "app/figure/maps/map_figure.h"

namespace foxscope::figure {
namespace {

using Takes = FigureOption::Takes;
using Options = std::vector<FigureOption>;
using Draw = std::optional<DrawnFigure> (*)(FigureRequest&);

/// The function that draws a kind; a build without Qt has the table and no such function.
template <Draw draw>
Draw drawing() {
  if constexpr (FOXSCOPE_DRAWS != 0) {
    return draw;
  } else {
    return [](FigureRequest&) {
      requireDrawing();
      return std::optional<DrawnFigure>();
    };
  }
}

Options operator+(Options first, const Options& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

const FigureKind::Files kRun{"RUN.h5", "Run file"};
const FigureKind::Files kHeads{
    .type = "[NAME=]FILE.h5",
    .help = "Files of `foxscope eval heads`, `foxscope heads -o` or `foxscope eval atlas`, or run files",
    .named = true};
const FigureKind::Files kAtlas{"ATLAS.h5", "Atlas of heads"};
const FigureKind::Files kLosses{
    .type = "[NAME=]FILE.h5", .help = "Evaluations, or run files with one text", .named = true};

Options common() {
  return {
      {"-o,--output", "FILE", Takes::text,
       "File to write: .pdf, .svg, .png, or .csv for the numbers that are drawn; - for standard output"},
      {"--format", "pdf|svg|png|csv", Takes::text, "Format of the output (default: by the ending of its name)"},
      {"--write-spec", "SPEC.json", Takes::text, "Write these options to a file that `foxscope figure spec` draws"},
      {"--width", "LENGTH", Takes::text, "Width, as in 140mm or 5.5in, or " + lengthPresets() + " (default: 5.5in)"},
      {"--height", "LENGTH", Takes::text, "Height (default: what the content needs)"},
      {"--dpi", "N", Takes::dots, "Dots per inch of a .png, and of maps in .svg and .pdf (default: 300)"},
      {"--font", "FAMILY", Takes::text, "Family of the font (default: DejaVu Sans)"},
      {"--font-size", "PT", Takes::number, "Size of the letters, in points (default: 9, and 7.25 below 4in)"},
      {"--title", "TEXT", Takes::text, "A title above everything (default: none)"},
      {"--label", "NAME=TEXT", Takes::texts,
       "Text to write for a model, or for the text of a sweep; *F* is an italic F"},
      {"--device", "DEVICE", Takes::text,
       "Device that computes maps and statistics of runs: auto, cpu, cuda or cuda:N (default: auto)"},
      {"--svg-text", nullptr, Takes::flag,
       "Keep text of a .svg as text that can be edited, not as outlines; the file does not hold the font"},
      {"--no-letters", nullptr, Takes::flag, "No (a), (b) before the titles of panels"},
      {"--force", nullptr, Takes::flag, "Overwrite the output"}};
}

/// The options of kinds that read run files.
Options runs() { return Options{{"--unchecked", nullptr, Takes::flag, kUncheckedHelp}} + common(); }

Options model() { return {{"--model", "NAME", Takes::text, "Name of the model (default: the first with a gate)"}}; }

Options models() {
  return {{"--models,--model", "NAME,...", Takes::list, "Names of the models, in this order (default: all)"}};
}

Options twoModels() { return {{"--models,--model", "A,B", Takes::list, "Names of the two (default: the first two)"}}; }

Options head(const char* names, const char* help) { return {{names, "L:H", Takes::text, help}}; }

Options rows(const char* ofThem) {
  return {
      {"--rows", "A:B", Takes::text, fmt::format("Positions from A up to, not including, B (default: {})", ofThem)}};
}

Options trainLength() {
  return {{"--train-length", "N", Takes::integer, "Draw a dashed line at this length, the length of training"}};
}

Options smooth(const char* help) { return {{"--smooth", "N", Takes::integer, help}}; }

Options axes() {
  return {{"--x-limits", "A:B", Takes::text, "Ends of the horizontal axis"},
          {"--y-limits", "A:B", Takes::text, "Ends of the vertical axis"},
          {"--x-ticks", "X,...", Takes::numbers, "Values to label on the horizontal axis"},
          {"--y-ticks", "Y,...", Takes::numbers, "Values to label on the vertical axis"},
          {"--legend", "NAME,...", Takes::list, "Order of the curves; those left out follow"},
          {"--colour,--color,--colours,--colors", "NAME=#RRGGBB", Takes::texts, "Colour of a curve"}};
}

Options curves() {
  return {{"--line-width", "PT", Takes::number, "Width of curves, in points (default: 1.2)"},
          {"--look", "NAME=N[:N]", Takes::texts,
           "Number of a model's colour in the palette, from 0, and perhaps of its style of line, as in fox=0:1 "
           "(default: by its place)"},
          {"--legend-at", "auto|above|none", Takes::text,
           "Where the legend is; auto puts it inside where it covers nothing (default: auto)"}};
}

constexpr const char* kScales = "auto|linear|log";
constexpr const char* kScaleHelp =
    "Scale of the axis across; auto is log for numbers above 0 that differ by a factor of 50 and more (default: auto)";

/// @param quantities  the default
Options maps(const std::string& quantities) {
  return {{"--quantity", "QUANTITY,...", Takes::list,
           "forget, log_forget, logits, attention, attention_without_gate, gate_effect or mixing (default: " +
               quantities + ")"},
          {"--rows", "A:B", Takes::text, "Query positions from A up to, not including, B"},
          {"--cols", "A:B", Takes::text, "Key positions from A up to, not including, B"},
          {"--colours,--colors,--colour,--color", "MAP", Takes::text,
           "viridis, cividis, magma or grey, which differences take too (default: viridis)"},
          {"--limits", "Q=A:B", Takes::texts, "Ends of a quantity's colour bar; A: and :B leave one to the values"}};
}

Options losses() { return models() + trainLength() + axes() + curves() + runs(); }

Options meanOfLosses() {
  return smooth(
      "Tokens of the moving average over positions: odd, from 1, which is none, up to half of the positions (default: "
      "101; 1001 for few windows; less for short ones)");
}

std::vector<FigureKind> kinds() {
  return {
      {"loss", "L(p): loss against position, from position 128 as in the paper where there are 1024, of several models",
       "  foxscope figure loss eval.h5 --train-length 2048 -o loss.pdf\n"
       "  foxscope figure loss eval.h5 --label fox='FoX (Pro)' --colours fox=#c2072c --y-limits 2.8:3.6 -o loss.pdf\n"
       "  foxscope figure loss run.h5 --smooth 501 -o loss.pdf",
       kLosses, losses() + meanOfLosses(), drawing<drawLoss>()},
      {"perplexity", "P(l): perplexity against context length, from 128 as in the paper where there are 1024",
       "  foxscope figure perplexity eval.h5 --train-length 2048 -o perplexity.pdf", kLosses, losses(),
       drawing<drawPerplexity>()},
      {"ablation",
       "Losses, and below them the loss of a base minus each other loss, from position 128 where there are 1024",
       "  foxscope figure ablation whole.h5 cut.h5 no-gate.h5 --base whole --smooth 1001 -o ablation.pdf", kLosses,
       losses() + meanOfLosses() +
           Options{
               {"--base", "NAME", Takes::text, "Model from whose loss the others are subtracted (default: the first)"}},
       drawing<drawAblation>()},
      {"maps",
       "F above A of some heads",
       "  foxscope figure maps run.h5 -o maps.pdf\n"
       "  foxscope figure maps run.h5 --heads 6:2,6:1,7:2 --width icml-wide -o maps.pdf\n"
       "  foxscope figure maps run.h5 --heads fox:7:2,mamba:12:1 -o memories.pdf\n"
       "  foxscope figure maps run.h5 --heads 1:0,7:2 --axes distance -o distances.pdf\n"
       "  foxscope figure maps run.h5 --rows 100:130 --cols 100:130 -o tokens.svg",
       {"RUN.h5", "Run files"},
       model() +
           Options{{"--heads", "L:H,...", Takes::list,
                    "Heads to show, of other models as MODEL:L:H (default: of short, middle and long memory, of those "
                    "whose decay can be seen on this map; without --rows and --cols, of a text of many memories its "
                    "beginning)"}} +
           maps("forget,attention") +
           Options{
               {"--axes", "key|distance|auto", Takes::text,
                "Keys downwards beside queries, or distances i - j + 1 on a logarithmic axis above queries; auto "
                "takes distances where a head forgets, or its window ends, within 2 % of the positions (default: key)"},
               {"--threshold", "A", Takes::number, "Leave smaller entries of attention white"}} +
           runs(),
       drawing<drawMaps>(),
       {.letters = true, .bars = true}},
      {"grid", "Every layer and head as a small map: nats forgotten, F, A",
       "  foxscope figure grid run.h5 -o grid.pdf\n"
       "  foxscope figure grid run.h5 --quantity attention --rows 0:512 --cols 0:512 -o a.pdf",
       kRun, model() + maps("forget; attention without a gate") + runs(), drawing<drawGrid>()},
      {"compare",
       "Heads of two models on the same text, and their difference",
       "  foxscope figure compare run.h5 -o compare.pdf\n"
       "  foxscope figure compare run.h5 --models fox,base --head 7:2 --with 3:1 -o c.pdf",
       {"RUN.h5", "Run files, two models in all"},
       twoModels() + head("--head", "Head of the first (default: its longest memory)") +
           head("--with", "Head of the second (default: the nearest by distance profile)") +
           maps("attention, and forget above it where both have a gate") + runs(),
       drawing<drawCompare>(),
       {.letters = true, .bars = true}},
      {"comparison",
       "What one model's loss is less than another's: with its error, by octave of position, and the words",
       "  foxscope figure comparison run.h5 -o comparison.pdf\n"
       "  foxscope figure comparison run.h5 --models fox,base --rows 1024: --words 5 -o comparison.pdf",
       {"RUN.h5", "Run files, two models in all"},
       twoModels() + rows("all") + Options{{"--words", "N", Takes::integer, "Tokens in each list (default: 8)"}} +
           runs(),
       drawing<drawComparison>(),
       {.letters = true}},
      {"text", "A passage with its tokens tinted by loss, gate, F or attention",
       "  foxscope figure text run.h5 -o text.pdf\n"
       "  foxscope figure text run.h5 --tint attention --head 6:1 --rows 200:320 --position 310 -o text.pdf",
       kRun,
       model() +
           Options{{"--tint", "loss|gate|forget|attention", Takes::text,
                    "Number that tints a token; gate is 1 - f (default: loss)"}} +
           head("--head", "Head whose gate, F or attention is shown (default: a head whose memory can be seen)") +
           Options{
               {"--position", "P", Takes::integer, "Query of forget and attention (default: the last that is shown)"}} +
           rows("the first") + runs(),
       drawing<drawPassage>()},
      {"decay",
       "Decay times of every head, their distribution, and by class of the token",
       "  foxscope figure decay heads.h5 -o decay.pdf\n"
       "  foxscope figure decay run.h5 -o decay.pdf",
       kHeads,
       models() + curves() + runs(),
       drawing<drawDecay>(),
       {.letters = true, .forgetting = true}},
      {"gates",
       "How the forget gates f of every head or layer are distributed, as violins, or of one as a histogram",
       "  foxscope figure gates run.h5 -o gates.pdf\n"
       "  foxscope figure gates run.h5 --by time --each layer --width icml -o gates.pdf\n"
       "  foxscope figure gates atlas.h5 --each layer -o gates.pdf\n"
       "  foxscope figure gates atlas.h5 --head 6:3 --by log -o gates.pdf",
       {"FILE.h5", "Run file, or atlas of heads"},
       model() +
           Options{{"--by", "gate|time|log", Takes::text,
                    "Axis: the gate f, the decay time -1 / log f that it alone would give, tokens, or -log f, nats "
                    "(default: gate)"},
                   {"--each", "auto|head|layer", Takes::text,
                    "A violin for each head, or for all heads of a layer (default: a head where they have room)"}} +
           head("--head", "A histogram of this head's gates instead of violins") +
           Options{{"--layer", "L", Takes::integer, "A histogram of the gates of all heads of this layer"}} +
           rows("all; not of an atlas") + runs(),
       drawing<drawGates>()},
      {"tokens",
       "Tokens at which a head forgets most, and least, over a corpus",
       "  foxscope figure tokens atlas.h5 --head 6:3 -o tokens.pdf\n"
       "  foxscope figure tokens atlas.h5 --model mamba --count 30 --fewest 100 -o tokens.pdf",
       kAtlas,
       model() + head("--head", "Head whose tokens are shown (default: one of middle memory)") +
           Options{{"--count", "N", Takes::integer, "Tokens in each list (default: 15)"},
                   {"--by", "gate|resets", Takes::text,
                    "Bars: mean -log f, nats, or the share of readings that are resets, f < 1/2 (default: gate)"},
                   {"--holding", "TEXT", Takes::text, "Tokens that hold this text, whatever its case"},
                   {"--fewest", "N", Takes::integer,
                    "Readings that a token needs; fewer than 30 are drawn in grey (default: 30)"}} +
           common(),
       drawing<drawTokens>(),
       {.letters = true}},
      {"passages",
       "Passages of a corpus in which a head forgets most, and others that an atlas keeps",
       "  foxscope figure passages atlas.h5 --head 6:1 -o passages.pdf\n"
       "  foxscope figure passages atlas.h5 --head 6:1 --kind resets,deciles --count 10 -o passages.pdf\n"
       "  foxscope figure passages atlas.h5 --head all --holding \"he said\" -o passages.pdf",
       kAtlas,
       model() +
           Options{{"--head,--heads", "L:H,...", Takes::list,
                    "Heads whose passages are shown, or all; those of several are merged by their values (default: one "
                    "of middle memory)"},
                   {"--kind", "KIND,...", Takes::list,
                    "Kinds of passages, as `foxscope info ATLAS.h5 --table passages` names them, or all (default: the "
                    "first)"},
                   {"--holding", "TEXT", Takes::text, "Passages that hold this text, whatever its case"},
                   {"--count", "N", Takes::integer, "Passages of each kind (default: 12)"}} +
           common(),
       drawing<drawPassages>(),
       {.letters = true}},
      {"resets",
       "Where the resets of a head fall over a corpus, f < 1/2: by class of token, against chance, and how far apart",
       "  foxscope figure resets atlas.h5 --head 6:3 -o resets.pdf\n"
       "  foxscope figure resets atlas.h5 --head 6:3 --of distances --width icml -o distances.pdf",
       kAtlas,
       model() + head("--head", "Head whose resets are shown (default: the one of most resets)") +
           Options{{"--of", "all|classes|distances", Takes::text,
                    "Shares by class of the token that is read, distances of neighbouring resets, or both (default: "
                    "all)"}} +
           common(),
       drawing<drawResets>(),
       {.letters = true}},
      {"similarity", "How alike heads are: the correlation of log f, or of attention, of every two heads over a corpus",
       "  foxscope figure similarity atlas.h5 -o similarity.pdf\n"
       "  foxscope figure similarity atlas.h5 --of attention --order depth --width icml -o similarity.pdf\n"
       "  foxscope figure similarity atlas.h5 --model mamba --with-first -o similarity.pdf",
       kAtlas,
       model() +
           Options{{"--order", "clusters|depth", Takes::text,
                    "Alike heads side by side, or heads by layer (default: clusters)"},
                   {"--of", "auto|gates|attention", Takes::text,
                    "Correlation of log f, or of the mass of attention by distance (default: gates, without any "
                    "attention)"},
                   {"--with-first", nullptr, Takes::flag,
                    "The model's heads downwards, and those of the atlas's first model across"}} +
           common(),
       drawing<drawSimilarity>()},
      {"scatter", "Heads as points over two statistics, coloured by label or layer, named where they are extreme",
       "  foxscope figure scatter run.h5 -o scatter.pdf\n"
       "  foxscope figure scatter heads.h5 --x rate_decay_time --y entropy --colour-by layer -o scatter.pdf\n"
       "  foxscope figure scatter atlas.h5 --colour-by gate_median --heads 1:2,6:3 -o scatter.pdf",
       kHeads,
       model() +
           Options{{"--x", "NAME", Takes::text,
                    "Statistic across, as `foxscope heads` and docs/maps.md name it, or layer or head (default: "
                    "rate_decay_time, without a gate in every layer d50)"},
                   {"--y", "NAME", Takes::text, "Statistic up (default: d90_without_first)"},
                   {"--colour-by,--color-by", "label|layer|NAME", Takes::text,
                    "What colours tell: the label, the layer, or a statistic, with a colour bar (default: label, where "
                    "labels are known)"},
                   {"--heads", "L:H,...", Takes::list, "Heads to ring and to name"},
                   {"--x-scale", kScales, Takes::text, kScaleHelp},
                   {"--y-scale", kScales, Takes::text, "The same of the axis up (default: auto)"},
                   {"--colour-scale,--color-scale", kScales, Takes::text, "The same of colours (default: auto)"},
                   {"--colour-limits,--color-limits", "A:B", Takes::text,
                    "Ends of the colours of layers or of a statistic (default: those of the heads)"},
                   {"--x-limits", "A:B", Takes::text, "Ends of the horizontal axis"},
                   {"--y-limits", "A:B", Takes::text, "Ends of the vertical axis"},
                   {"--names", "N", Takes::integer, "Heads to name at each end of each axis (default: 2)"}} +
           runs(),
       drawing<drawScatter>()},
      {"pruning",
       "What adaptive computation pruning may skip: its boundary over maps, and the share of each head's entries",
       "  foxscope figure pruning run.h5 -o pruning.pdf\n"
       "  foxscope figure pruning run.h5 --heads 1:2,6:1 --quantity attention --tolerance 1e-6 -o pruning.pdf",
       kRun,
       model() +
           Options{{"--heads", "L:H,...", Takes::list,
                    "Heads whose maps are drawn (default: those of which a quarter, half and three quarters are "
                    "skipped, or nearly)"},
                   {"--tolerance", "E", Takes::number,
                    "Share of a row's attention that may be skipped (default: exp(-10), as in the paper)"}} +
           maps("forget") + runs(),
       drawing<drawPruning>(),
       {.letters = true}},
      {"distance",
       "Attention against distance, with and without the gate",
       "  foxscope figure distance heads.h5 -o distance.pdf\n"
       "  foxscope figure distance run.h5 --heads 1:2,6:1 --with-first -o distance.pdf",
       kHeads,
       model() +
           Options{{"--heads", "L:H,...", Takes::list,
                    "Heads to show (default: of short, middle and long memory, and one without a gate beside them)"},
                   {"--with-first", nullptr, Takes::flag, "Count the attention on key 0, where many heads park"}} +
           curves() + runs(),
       drawing<drawDistance>(),
       {.letters = true}},
      {"labels",
       "The strongest label of every head, and what the labels mean",
       "  foxscope figure labels run.h5 -o labels.pdf\n"
       "  foxscope figure labels heads.h5 --width icml -o labels.pdf",
       kHeads,
       models() + runs(),
       drawing<drawLabels>(),
       {.letters = true}},
      {"needle",
       "The needle test: length across, depth down, one panel a model",
       "  foxscope figure needle needle.h5 -o needle.pdf\n"
       "  foxscope figure needle needle.h5 --tint mass --head 6:1 -o carried.pdf",
       {"NEEDLE.h5", "Needle test"},
       Options{{"--tint", "gain|mass|gate", Takes::text,
                "gain of the answer's log-probability, or of one head the attention mass on the needle or its gate F "
                "(default: gain)"}} +
           head("--head", "Head of mass and gate (default: the head with the most mass)") + trainLength() + common(),
       drawing<drawNeedle>()},
      {"sweep",
       "Change of the loss where one head is changed: layers down, heads across",
       "  foxscope figure sweep sweep.h5 -o sweep.pdf\n"
       "  foxscope figure sweep one.h5 cut.h5 --width neurips -o both.pdf\n"
       "  foxscope figure sweep sweep.h5 --fdr 0.05 -o found.pdf",
       {"SWEEP.h5", "Sweeps, a panel each"},
       Options{{"--fdr", "Q", Takes::number, kFalseDiscoveryHelp}} + common(),
       drawing<drawSweep>()},
      {"saliency",
       "Gradient of the loss by each head's gates, and a passage tinted by the gradient of one head",
       "  foxscope figure saliency run.h5 -o saliency.pdf\n"
       "  foxscope figure saliency run.h5 --head 7:2 --rows 200:360 --width icml -o saliency.pdf",
       {"RUN.h5", "Run file with saliency"},
       model() + head("--head", "Head whose saliency tints the passage (default: the head of the largest number)") +
           Options{{"--by", "saliency_absolute|saliency_scale|saliency_per_nat", Takes::text,
                    "Number of each head: saliency_absolute, the sum of |g log f|; saliency_scale, the sum of g log f, "
                    "of which scale=0.9 changes the loss by -0.1; saliency_per_nat, the mean of |g| (default: "
                    "saliency_absolute, without gates saliency_per_nat)"}} +
           rows("the first, or those that a target ends with") + runs(),
       drawing<drawSaliency>()},
      {"training",
       "Loss and decay times of every head while models are trained, over the tokens seen",
       "  foxscope figure training out -o training.pdf\n"
       "  foxscope figure training fox=out-fox base=out-transformer --x-limits 0:8e6 --y-limits 4:7 -o training.pdf",
       {"[NAME=]DIR", "Folders that `foxscope train` wrote, also while it is writing", true},
       smooth("Steps of the training loss's moving average: odd, from 1, which is none (default: a fiftieth of all)") +
           axes() + curves() + common(),
       drawing<drawTraining>()}};
}

}  // namespace

std::string_view FigureOption::name() const {
  const std::string_view all = names;
  const std::string_view first = all.substr(all.find("--") + 2);
  return first.substr(0, first.find(','));
}

bool FigureKind::takes(std::string_view option) const {
  return std::ranges::find(options, option, &FigureOption::name) != options.end();
}

const FigureKind& pageKind() {
  static const FigureKind kPage = [] {
    FigureKind page{"panels", "", "", {"FILE.h5", ""}, {}, nullptr};
    for (const FigureOption& option : common()) {
      const std::string_view name = option.name();
      if (name != "height" && name != "label" && name != "device" && name != "write-spec")
        page.options.push_back(option);
    }
    return page;
  }();
  return kPage;
}

std::span<const FigureKind> figureKinds() {
  static const std::vector<FigureKind> all = kinds();
  return all;
}

const FigureKind* findFigureKind(std::string_view name) {
  const auto all = figureKinds();
  const auto found = std::ranges::find(all, name, &FigureKind::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace foxscope::figure
