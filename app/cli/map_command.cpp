#include <algorithm>
#include <tuple>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/command.h"
#include "app/cli/map_options.h"
#include "app/cli/output.h"
#include "app/cli/parse_error.h"
#include "app/cli/values.h"
#include "app/description/number_text.h"
#include "app/figure/figure_length.h"
#include "app/figure/figure_words.h"
#include "app/figure/maps/map_figure.h"
#include "app/figure/page/pdf_metadata.h"
#include "backend/agent/remote_run.h"
#include "backend/base/error.h"
#include "backend/file/map_file.h"

namespace foxscope::cli {
namespace {

// Tiles whose attention stays below this cannot be seen on a linear colour scale.
constexpr double kLinearSkipTolerance = 0x1p-24;

figure::ColourScale parseScale(const MapOptions& options, const MapRequest& request) {
  if (options.scale == "auto") return figure::defaultScale(request);
  if (options.scale == "linear") return figure::ColourScale::linear;
  if (options.scale == "log") {
    figure::requireLogarithmic(request);
    return figure::ColourScale::logarithmic;
  }
  throw UsageError(fmt::format("--scale {}: use auto, linear or log", options.scale));
}

/// Bins of distances that are not the same as the one before.
std::int64_t binCount(const MapRequest& request) {
  return static_cast<std::int64_t>(distinct(request.distances).size()) - 1;
}

void announce(const MapOptions& options, const std::vector<NamedMap>& maps, MapFormat format, Console& console) {
  const MapRequest& request = maps.front().request;
  if (request.by_distance()) {
    console.note(
        fmt::format("{} queries and {} bins of distances {} to {}, by {}: --size, --rows and --distances change that",
                    request.pixel_rows, binCount(request), request.columns.begin, request.columns.end - 1,
                    to_string(request.reduction)));
  } else if (isPicture(format)) {
    if (options.size.empty() &&
        (request.pixel_rows < request.rows.size() || request.pixel_columns < request.columns.size())) {
      console.note(
          fmt::format("{} x {} entries are drawn on {} x {} pixels by {}: --size and --rows, --cols change that",
                      request.rows.size(), request.columns.size(), request.pixel_rows, request.pixel_columns,
                      to_string(request.reduction)));
    }
  }
  if (isPicture(format)) return;
  constexpr double kBytesOfEntry = 4;
  const double bytes = kBytesOfEntry * static_cast<double>(request.pixel_rows) *
                       static_cast<double>(request.pixel_columns) * static_cast<double>(maps.size());
  if (bytes > static_cast<double>(kAnnouncedFileBytes)) {
    console.note(fmt::format("{} will hold {} of entries: --size RxC pools them, --rows and --cols choose a part",
                             options.output, sizeText(bytes)));
  }
}

/// Where a picture is asked for without a head: the head, and the positions that fit it unless they are asked for.
/// @returns nothing if the job was stopped
std::optional<MapOptions> withHead(const MapOptions& options, const RunOnDevice& trace, const CommandContext& context) {
  const bool crops = axesOf(options) == MapAxes::key && options.rows.empty() && options.columns.empty();
  const auto chosen = figure::headOnMap(trace, crops, context.job());
  if (!chosen) return std::nullopt;
  context.console.endProgress();
  context.console.note(chosen->note);
  MapOptions filled = options;
  filled.head = figure::wordOf(chosen->head);
  filled.cropped = chosen->positions.end < trace->info().length;
  if (filled.cropped) filled.rows = filled.columns = figure::wordOf(chosen->positions);
  return filled;
}

/// A picture of a whole text may be too large for what a head remembers.
void noteThinDiagonal(const MapOptions& options, const MapRequest& request, Console& console) {
  if (!options.rows.empty() || !options.columns.empty() || request.minus || request.by_distance()) return;
  const auto shown = figure::beginningThatShows(request.head);
  if (!shown) return;
  console.note(fmt::format(
      "{}: forgets within so few of {} positions that the map is a thin diagonal: --rows {} --cols "
      "{} shows its memory",
      figure::wordOf(headOf(options)), request.rows.size(), figure::wordOf(*shown), figure::wordOf(*shown)));
}

int drawPicture(const MapOptions& options, MapRequest request, const CommandContext& context) {
  const figure::FigureFormat format = figureFormat(options, formatOf(options));
  figure::MapFigure figure;
  figure.scale = parseScale(options, request);
  figure.colours.map = figure::parseColourMap(options.colours, figure::Diverging::offered);
  if (!options.limits.empty()) {
    std::tie(figure.colours.lower, figure.colours.upper) = figure::parseOpenLimits("--limits", options.limits);
  }
  figure.colours.blankBelow = options.threshold;
  figure.title = options.title;
  figure.cropped = options.cropped;
  if (figure.scale == figure::ColourScale::linear) request.skip_tolerance = kLinearSkipTolerance;
  auto image = compute_map(request, context.job());
  if (!image) return kInterrupted;
  figure.image = std::move(*image);
  figure.request = std::move(request);
  figure.command = context.commandLine;
  figure.plain = options.plain;
  const std::string picture = figure::drawMap(figure, format);
  if (context.stop.stop_requested()) return kInterrupted;
  context.console.endProgress();
  writeOutput(options.output, options.force, picture);
  if (const auto note = figure::pdfNote(picture)) context.console.note(*note);
  return kDone;
}

/// Opens the run; row normalisers that it lacks are computed for quantities that have them alone.
std::optional<RunFile> openRun(const MapOptions& options, const CommandContext& context) {
  const auto lacksRows = [](const std::string& name) {
    const Quantity quantity = quantity_from_string(name);
    return !is_of_attention(quantity) && quantity != Quantity::mixing;
  };
  if (std::ranges::all_of(split(options.quantities, ','), lacksRows)) {
    return agent::open_run(options.file, options.check, options.device);
  }
  return agent::open_run(options.file, options.check, context.job(), options.device);
}

int writeMap(MapOptions options, const CommandContext& context) {
  const std::optional<int> gpu = agent::gpu_for(options.file, options.device);
  const MapFormat format = formatOf(options);
  const bool chooses = options.head.empty();
  if (!chooses) {
    (void)headOf(options);
  } else if (!isPicture(format) || !options.layer.empty()) {
    throw UsageError(requiredText({"--head"}) + "see foxscope map --help");
  }
  if (isPicture(format)) {
    figure::requireDrawing();
    if (format != MapFormat::svg) requireNoTerminal(options.output);
  } else {
    requireNoPictureOptions(options);
    if (format == MapFormat::npy) requireNoTerminal(options.output);
  }
  requireDistinct(options.output, options.file);
  requireWritable(options.output, options.force);
  const Overwrite overwrite = options.force ? Overwrite::force : Overwrite::refuse;

  const std::optional<RunFile> opened = openRun(options, context);
  if (!opened) return kInterrupted;
  const RunFile& run = *opened;
  if (!isPicture(format)) noteUnchecked(context.console, options.file, options.check);
  context.console.setSubject(options.output);
  if (chooses) {
    auto filled = withHead(options, {run.trace(options.model), gpu}, context);
    if (!filled) return kInterrupted;
    options = std::move(*filled);
  }
  const auto maps = planMaps(options, run, format, gpu);
  announce(options, maps, format, context.console);
  if (isPicture(format) && !chooses) noteThinDiagonal(options, maps.front().request, context.console);
  const MapRequest& request = maps.front().request;
  const OutputPath output(options.output);
  bool whole = false;
  switch (format) {
    case MapFormat::png:
    case MapFormat::svg:
    case MapFormat::pdf:
      return drawPicture(options, request, context);
    case MapFormat::hdf5:
      whole = write_maps_hdf5(options.output, maps, {context.commandLine, ""}, overwrite, context.job());
      break;
    case MapFormat::npy:
      whole = write_map_npy(output.path(), request, overwrite, context.job());
      break;
    case MapFormat::csv:
      whole = write_map_csv(output.path(), request, overwrite, context.job());
      break;
  }
  if (!whole) return kInterrupted;
  context.console.endProgress();
  output.deliver();
  return kDone;
}

void addMapOptions(CLI::App& command, MapOptions& options) {
  command.add_option("file", options.file, "Run file")->type_name("RUN.h5")->required();
  command
      .add_option("--head", options.head,
                  "Layer and head, from 0 (default of a picture: a head, and a part of the text, that show its "
                  "memory)")
      ->type_name("LAYER:HEAD");
  command.add_option("--layer", options.layer)->type_name("N")->group("");  // beside --head N, as older versions had it
  command
      .add_option("--quantity", options.quantities,
                  "forget, log_forget, logits, attention, attention_without_gate, gate_effect or mixing; "
                  "several, with commas, only into .h5")
      ->type_name("QUANTITY,...")
      ->required();
  command
      .add_option("-o,--output", options.output,
                  "File to write: .npy, .h5, .csv (rows and columns named by position and token, pooled ones by their "
                  "range), .png, .svg or .pdf; - for standard output")
      ->type_name("FILE")
      ->required();
  command.add_option("--format", options.format, "Format of the output (default: by the ending of its name)")
      ->type_name("npy|csv|png|svg|pdf");
  command.add_option("--model", options.model, "Name of the model, where the file holds several")->type_name("NAME");
  command
      .add_option("--minus", options.minus,
                  "Subtract the map of this model, or of another head, entry by entry before reducing")
      ->type_name("NAME[:LAYER:HEAD]");
  command.add_option("--rows", options.rows, "Query positions from A up to, not including, B")->type_name("A:B");
  command.add_option("--cols", options.columns, "Key positions from A up to, not including, B")->type_name("A:B");
  command
      .add_option("--axes", options.axes,
                  "Columns of keys, or rows of distances i - j + 1 above columns of queries (default: key)")
      ->type_name("key|distance");
  command
      .add_option("--distances", options.distances,
                  "Distances from A up to, not including, B, with --axes distance; 1 is the query itself")
      ->type_name("A:B");
  command
      .add_option("--size", options.size,
                  "Pool to R x C pixels (default: exact entries, in a picture as far as it has dots for them); "
                  "distances to R bins of equal logarithms, or fewer where these hold no distance")
      ->type_name("RxC");
  command
      .add_option("--reduce", options.reduction,
                  "Reduction of the entries of a pixel (default: max; absmax where entries have signs)")
      ->type_name("max|mean|min|absmax");
  command
      .add_option(
          "--channel", options.channel,
          "Channel of forget and log_forget in a mixer whose channels decay each (default: the mean over channels)")
      ->type_name("N");
  command.add_flag("--without-first", options.withoutFirst,
                   "Leave out key 0, on which many heads park; rows of attention are divided by the rest of their sum");
  command.add_option("--scale", options.scale, "Colour scale of a picture (default: auto)")
      ->type_name("auto|linear|log");
  command.add_option("--limits", options.limits, "Ends of a picture's colour bar; A: and :B leave one to the values")
      ->type_name("A:B");
  command
      .add_option("--colours,--colors,--colour,--color", options.colours,
                  "Colours of a picture: viridis, cividis, magma, grey or diverging (default: by quantity)")
      ->type_name("viridis|cividis|magma|grey|diverging");
  command.add_option("--threshold", options.threshold, "Leave smaller entries of a picture white")->type_name("A");
  command.add_option("--title", options.title, "Title above a picture (default: the names of the heads)")
      ->type_name("TEXT");
  command.add_flag("--plain", options.plain,
                   "The axes and the colour bar of a picture alone: no notes, and no title but that of --title");
  command
      .add_option("--width", options.width,
                  "Width of a picture, as in 140mm or 5.5in, or " + figure::lengthPresets() + " (default: 5.5in)")
      ->type_name("LENGTH");
  command.add_option("--dpi", options.dpi, "Dots per inch of a .png, and of the map in .svg and .pdf (default: 300)")
      ->type_name("N");
  command
      .add_option("--font-size", options.fontSize,
                  "Size of a picture's letters, in points (default: 9, and 7.25 below 4in)")
      ->type_name("PT");
  command
      .add_option("--device", options.device, "Device that computes the map: auto, cpu, cuda or cuda:N (default: auto)")
      ->type_name("DEVICE");
  command.add_flag("--force", options.force, "Overwrite the output");
  addUnchecked(command, options.check);
}

}  // namespace

void addMapCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<MapOptions>();
  CLI::App* command = addSubcommand(
      program, parsed, "map", "Write or draw the map of one head: exact entries, or pooled to pixels",
      "  foxscope map run.h5 --quantity attention -o attention.png\n"
      "  foxscope map run.h5 --head 6:1 --quantity attention --width 67mm --font-size 8 -o attention.pdf\n"
      "  foxscope map run.h5 --head 6:1 --quantity forget --size 512x512 --reduce mean -o forget.npy\n"
      "  foxscope map mamba.h5 --head 6:1 --quantity mixing -o mixing.png\n"
      "  foxscope map run.h5 --head 1:0 --quantity forget --axes distance -o distances.png\n"
      "  foxscope map run.h5 --head 6:1 --quantity forget,attention --rows 1000:2000 -o maps.h5\n"
      "  foxscope map run.h5 --head 6:1 --quantity attention --rows 1000:1050 --cols 950:1050 -o words.csv\n"
      "  foxscope map both.h5 --model fox --head 6:1 --minus base:2:3 --quantity attention -o difference.png");
  addMapOptions(*command, *options);
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return writeMap(*options, context); };
  });
}

}  // namespace foxscope::cli
