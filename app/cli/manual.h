#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace foxscope::cli {

/// A page in man(7)'s language of troff.
struct ManualPage {
  std::string file;  ///< "foxscope-eval-loss.1"
  std::string text;
};

/// The program's page, then one for each command that has options, from what the commands say of themselves.
std::vector<ManualPage> manualPages(const CLI::App& program, const std::string& version);

}  // namespace foxscope::cli
