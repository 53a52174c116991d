#include "app/gui/window/map_command.h"

#include <vector>

#include <QCoreApplication>
#include <fmt/format.h>

#include "backend/agent/remote_path.h"
#include "backend/base/command_line.h"

namespace foxscope::gui {
namespace {

QString told(const char* text) { return QCoreApplication::translate("foxscope::gui::MapCommand", text); }

std::string colourWord(const figure::ColourMap* map) {
  if (map == &figure::diverging()) return "diverging";
  for (const figure::NamedColourMap& one : figure::namedColourMaps()) {
    if (one.map == map) return one.name;
  }
  return "";
}

}  // namespace

QString mapCommandObstacle(const ShownMap& shown, const RunCommands& runs) {
  if (shown.picture->values.size() > 1)
    return told("The pane is divided: the command line draws one map, or a difference.");
  const MapRequest& request = shown.picture->computed;
  if (!runs.obstacle().isEmpty()) return runs.obstacle();
  const QString file = runs.fileOf(*request.head.trace);
  const QString minus = request.minus ? runs.fileOf(*request.minus->trace) : file;
  if (file.isEmpty() || minus.isEmpty()) return told("Its run is not open any more.");
  if (file != minus) return told("The runs are in two files: the command line subtracts within one.");
  return {};
}

std::string mapCommand(const figure::MapFigure& figure, const figure::FigureFormat& format, const RunCommands& runs,
                       const std::string& output, figure::Folders folders) {
  const MapRequest& request = figure.request;
  const auto path = [&](const std::string& whole) {
    const std::string shown = folders == figure::Folders::kept ? whole : agent::name_without_folder(whole);
    return shown.starts_with('-') ? "./" + shown : shown;
  };
  std::vector<std::string> words{"foxscope", "map", path(runs.fileOf(*request.head.trace).toStdString())};
  const auto option = [&](const char* name, const std::string& value) {
    if (value.starts_with('-')) return words.push_back(fmt::format("--{}={}", name, value));
    words.insert(words.end(), {std::string("--") + name, value});
  };
  option("model", request.head.trace->info().name);
  option("head", fmt::format("{}:{}", request.head.layer, request.head.head));
  option("quantity", to_string(request.quantity));
  if (request.minus) {
    option("minus",
           fmt::format("{}:{}:{}", request.minus->trace->info().name, request.minus->layer, request.minus->head));
  }
  if (request.first_key == FirstKey::left_out) words.emplace_back("--without-first");
  option("rows", fmt::format("{}:{}", request.rows.begin, request.rows.end));
  if (request.by_distance()) option("axes", "distance");
  option(request.by_distance() ? "distances" : "cols",
         fmt::format("{}:{}", request.columns.begin, request.columns.end));
  option("reduce", to_string(request.reduction));
  option("scale", figure.scale == figure::ColourScale::logarithmic ? "log" : "linear");
  const auto end = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : std::string(); };
  if (figure.colours.lower || figure.colours.upper) {
    option("limits", end(figure.colours.lower) + ':' + end(figure.colours.upper));
  }
  const std::string colours = colourWord(figure.colours.map);
  if (!colours.empty()) option("colours", colours);
  if (figure.colours.blankBelow) option("threshold", end(figure.colours.blankBelow));
  if (!figure.title.empty()) option("title", figure.title);
  if (figure.plain) words.emplace_back("--plain");
  option("width", fmt::format("{}mm", format.widthMm));
  if (format.dpi != figure::FigureFormat{}.dpi) option("dpi", std::to_string(format.dpi));
  if (format.fontSizePt) option("font-size", fmt::format("{}", *format.fontSizePt));
  words.insert(words.end(), {"-o", path(output)});
  return quoted_command_line(words);
}

}  // namespace foxscope::gui
