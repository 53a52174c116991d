#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/console.h"
#include "app/figure/figure_format.h"
#include "app/figure/heads/head_choice.h"
#include "backend/file/map_file.h"
#include "backend/file/run_file.h"
#include "backend/map/distance_axis.h"
#include "backend/map/map.h"

namespace CLI {
class App;
}

namespace foxscope::cli {

/// `foxscope map`, as typed.
struct MapOptions {
  std::string file;
  RunCheck check = RunCheck::whole;
  std::optional<std::string> model;
  std::string layer;       ///< beside a head of one number; empty: none
  std::string head;        ///< LAYER:HEAD, or HEAD; empty: chosen, for a picture
  std::string quantities;  ///< Q[,Q...]
  std::string minus;       ///< NAME[:LAYER:HEAD]
  std::string rows;        ///< A:B
  std::string columns;     ///< A:B
  std::string axes;        ///< key or distance; empty: key
  std::string distances;   ///< A:B
  std::string size;        ///< RxC
  std::string reduction;
  std::string scale = "auto";
  std::string limits;  ///< A:B
  std::string colours;
  std::optional<double> threshold;
  std::string title;
  bool plain = false;
  std::optional<std::string> width;  ///< 140mm or 5.5in
  std::optional<int> dpi;
  std::optional<double> fontSize;  ///< pt
  std::optional<int> channel;
  bool withoutFirst = false;
  std::string device = "auto";
  std::string output;
  std::string format;  ///< a word of `--format`; empty: by the output's ending
  bool force = false;
  bool cropped = false;  ///< rows and columns were chosen, and are the beginning of the text
};

/// The head that is asked for: --head LAYER:HEAD, or --head HEAD beside --layer LAYER.
/// @throws UsageError that says how to write it
figure::HeadIndex headOf(const MapOptions& options);

/// The kind of file that the name of an output asks for.
enum class MapFormat { npy, hdf5, csv, png, svg, pdf };
bool isPicture(MapFormat format);

/// Most pixels on a side that a picture is asked to have.
inline constexpr std::int64_t kMostPicturePixels = 8192;

/// @throws UsageError naming the endings that exist, and for HDF5 on standard output
MapFormat formatOf(const MapOptions& options);

/// The picture's file and size, from what was typed.
/// @throws UsageError for a width without a unit, and sizes that figures cannot have
figure::FigureFormat figureFormat(const MapOptions& options, MapFormat format);

/// @throws UsageError for options of pictures beside an output that holds numbers
void requireNoPictureOptions(const MapOptions& options);

/// --unchecked, of all that reads run files.
void addUnchecked(CLI::App& command, RunCheck& check);
/// A note that the file was opened so, for what prints or writes its numbers: pictures have a mark of their own.
void noteUnchecked(Console& console, const std::string& file, RunCheck check);

struct MapSize {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// "RxC" for rows x columns of that many entries; an empty text gives every entry its pixel, up to `most`.
/// @throws UsageError naming what is allowed
MapSize parseSize(const std::string& text, const Range& rows, const Range& columns, const MapSize& most);

/// @throws UsageError for axes that do not exist, and options of the other ones
MapAxes axesOf(const MapOptions& options);

/// The maps that a command line asks for: one a quantity.
/// @param gpu  that computes them; none: the CPU
/// @throws UsageError for what does not exist in the file
std::vector<NamedMap> planMaps(const MapOptions& options, const RunFile& run, MapFormat format, std::optional<int> gpu);

}  // namespace foxscope::cli
