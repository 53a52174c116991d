#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace foxscope::gui {

enum class Theme { settings, light, dark };

/// The options of `foxscope open`.
struct ApplicationOptions {
  std::vector<std::string> paths;  ///< checkpoint folders, trainings, texts, run files, sessions
  std::string screenshot;          ///< PNG to write when all views are done; then the program ends. Empty: stay open
  int width = 0;                   ///< of the window, in pixels at scale 1; 0: as it was, or 1440 x 900
  int height = 0;
  double scale = 0;  ///< pixels of the screen to one of these; 0: as the system says
  Theme theme = Theme::settings;
  bool unchecked = false;               ///< run files whose arrays contradict one another are opened, marked
  std::filesystem::path programFolder;  ///< where the executable lies: demo and its models are looked up from there
};

/// Opens the window and returns when it is closed, with an exit status.
/// @throws UsageError where there is no display and no screenshot is wanted, Error for a build without Qt, a path that
///         cannot be opened or a picture that cannot be written while a screenshot is wanted
int openWindow(const ApplicationOptions& options);

/// The demo's session: in share/foxscope of an installation, or resources of the checkout that the program was built
/// in.
std::optional<std::filesystem::path> findDemo(const std::filesystem::path& programFolder);

}  // namespace foxscope::gui
