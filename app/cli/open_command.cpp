#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/command.h"
#include "app/gui/application.h"
#include "backend/agent/remote_path.h"
#include "backend/base/error.h"
#include "backend/model/weights/hub_cache.h"

namespace foxscope::cli {
namespace {

struct OpenOptions {
  std::vector<std::string> paths;
  std::string screenshot;
  std::string size;
  double scale = 0;
  std::string theme;
  bool unchecked = false;
};

constexpr int kLeastSide = 320;
constexpr int kMostSide = 8192;
constexpr double kLeastScale = 0.5;
constexpr double kMostScale = 4;

void parseWindowSize(const std::string& text, gui::ApplicationOptions& window) {
  if (text.empty()) return;
  char beyond = '\0';
  const int read = std::sscanf(text.c_str(), "%dx%d%c", &window.width, &window.height, &beyond);
  const auto fits = [](int side) { return side >= kLeastSide && side <= kMostSide; };
  if (read != 2 || !fits(window.width) || !fits(window.height)) {
    throw UsageError(fmt::format("--size {}: use WxH in pixels, each from {} to {}", text, kLeastSide, kMostSide));
  }
}

gui::Theme parseTheme(const std::string& word) {
  if (word.empty()) return gui::Theme::settings;
  if (word == "light") return gui::Theme::light;
  if (word == "dark") return gui::Theme::dark;
  throw UsageError(fmt::format("--theme {}: use light or dark", word));
}

int openWindow(const OpenOptions& options, const CommandContext& context) {
  for (const std::string& path : options.paths) {
    std::error_code failed;
    if (agent::is_remote(path)) {
      (void)agent::parse_remote_path(path);
      continue;
    }
    if (std::filesystem::exists(path, failed) || is_hub_id(path)) continue;
    throw Error(fmt::format("{}: there is no such file or folder", path));
  }
  gui::ApplicationOptions window;
  window.paths = options.paths;
  window.screenshot = options.screenshot;
  window.theme = parseTheme(options.theme);
  window.unchecked = options.unchecked;
  window.programFolder = context.programFolder;
  parseWindowSize(options.size, window);
  if (options.scale != 0 && !(options.scale >= kLeastScale && options.scale <= kMostScale)) {
    throw UsageError(fmt::format("--scale {}: use a factor from {} to {}", options.scale, kLeastScale, kMostScale));
  }
  window.scale = options.scale;
  if (!window.screenshot.empty()) {
    if (!window.screenshot.ends_with(".png")) {
      throw UsageError(fmt::format("--screenshot {}: it is a PNG: give the file the ending .png", window.screenshot));
    }
    for (const std::string& path : options.paths) requireDistinct(window.screenshot, path);
    requireWritable(window.screenshot, true);
  }
  return gui::openWindow(window);
}

}  // namespace

void addOpenCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<OpenOptions>();
  CLI::App* command = addSubcommand(program, parsed, "open", "Open the window (also without a command)",
                                    "  foxscope open run.h5\n"
                                    "  foxscope open path/to/checkpoint book.txt\n"
                                    "  foxscope open run.h5 --screenshot window.png --size 1600x1000 --theme dark");
  command
      ->add_option("path", options->paths,
                   "Checkpoint folders, trainings, texts, run files, evaluations, sessions, told apart by content")
      ->type_name("PATH");
  command->add_option("--screenshot", options->screenshot, "Write a PNG of the window when all views are done, and end")
      ->type_name("FILE");
  command->add_option("--size", options->size, "Size of the window in pixels")->type_name("WxH");
  command->add_option("--scale", options->scale, "Dots of the screen in a pixel of the window: 1, 1.5, 2 ...")
      ->type_name("S");
  command->add_option("--theme", options->theme, "Colours of the window (default: as in the preferences)")
      ->type_name("light|dark");
  command->add_flag("--unchecked", options->unchecked,
                    "Open run files although their arrays contradict one another; they are marked");
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return openWindow(*options, context); };
  });
}

}  // namespace foxscope::cli
