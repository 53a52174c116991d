#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "app/cli/command.h"

namespace {

// Fonts of a wheel (python/wheel) lie beside the program.
void findOwnFonts() {
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::filesystem::path fonts = program.parent_path().parent_path() / "share/foxscope/fonts/fonts.conf";
  if (!failed && std::filesystem::exists(fonts, failed)) setenv("FONTCONFIG_FILE", fonts.c_str(), 0);
}

// Qt looks for plugins and fonts where an installation puts them. FOXSCOPE_DEPS is the folder into which ./dev unpacked
// them where there is no root, else empty. What the user has set stays.
void findUnpackedPackages() {
  const std::filesystem::path deps = FOXSCOPE_DEPS;
  if (deps.empty()) return;
  for (const auto& [name, path] : std::initializer_list<std::pair<const char*, const char*>>{
           {"QT_PLUGIN_PATH", "usr/lib/x86_64-linux-gnu/qt6/plugins"},
           {"FONTCONFIG_FILE", "fonts.conf"},
           {"XKB_CONFIG_ROOT", "usr/share/X11/xkb"}}) {
    std::error_code failed;
    if (std::filesystem::exists(deps / path, failed)) setenv(name, (deps / path).c_str(), 0);
  }
}

}  // namespace

int main(int count, char** arguments) {
  findOwnFonts();
  findUnpackedPackages();
  const int status = foxscope::cli::runProgram(std::vector<std::string>(arguments, arguments + count));
#ifdef NDEBUG
  // LibTorch spends a tenth of a second on taking apart what the end of the process frees at once.
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(status);
#else
  return status;
#endif
}
