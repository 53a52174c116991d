#include "backend/agent/ssh_hosts.h"

#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string_view>

#include "backend/agent/remote_path.h"
#include "backend/base/error.h"

namespace foxscope::agent {
namespace {

constexpr int kDeepest = 16;  // files that include one another, as ssh has it
constexpr std::size_t kMostHosts = 2000;
constexpr std::streamsize kLongestFile = 1 << 20;

std::string lower(std::string word) {
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word;
}

/// The words of a line: its keyword, then the rest. Between these may stand blanks and one "=".
std::vector<std::string> words_of(std::string line) {
  const std::size_t first = line.find_first_not_of(" \t");
  if (first == std::string::npos || line[first] == '#') return {};
  const std::size_t behind = line.find_first_of(" \t=", first);
  const std::size_t value = behind == std::string::npos ? behind : line.find_first_not_of(" \t", behind);
  if (value != std::string::npos && line[value] == '=') line[value] = ' ';
  try {
    return shell_words(line, "ssh's configuration");
  } catch (const UsageError&) {
    return {};  // a quote is not closed: ssh says so
  }
}

class HostReader {
 public:
  explicit HostReader(std::filesystem::path beside) : beside_(std::move(beside)) {}

  void read(const std::filesystem::path& file, int depth) {
    std::error_code failed;
    if (depth > kDeepest || !std::filesystem::is_regular_file(file, failed)) return;
    std::ifstream stream(file, std::ios::binary);
    std::string content(static_cast<std::size_t>(kLongestFile), '\0');
    stream.read(content.data(), kLongestFile);
    content.resize(static_cast<std::size_t>(stream.gcount()));
    for (std::size_t begin = 0; begin < content.size();) {
      std::size_t end = std::min(content.find('\n', begin), content.size());
      std::string line = content.substr(begin, end - begin);
      begin = end + 1;
      if (line.ends_with('\r')) line.pop_back();
      take(words_of(std::move(line)), depth);
    }
  }

  std::vector<std::string> hosts;

 private:
  void take(const std::vector<std::string>& words, int depth) {
    const std::string keyword = words.empty() ? "" : lower(words.front());
    for (std::size_t n = 1; n < words.size(); ++n) {
      if (keyword == "host") add(words[n]);
      if (keyword == "include") include(words[n], depth);
    }
  }

  void add(const std::string& host) {
    const bool pattern = host.find_first_of("*?!") != std::string::npos;
    if (pattern || host.empty() || host.starts_with('-') || hosts.size() >= kMostHosts) return;
    if (known_.insert(host).second) hosts.push_back(host);
  }

  void include(std::string pattern, int depth) {
    if (!pattern.starts_with('/') && !pattern.starts_with('~')) pattern = (beside_ / pattern).string();
    glob_t found{};
    if (glob(pattern.c_str(), GLOB_TILDE, nullptr, &found) == 0) {
      for (std::size_t n = 0; n < found.gl_pathc; ++n) read(found.gl_pathv[n], depth + 1);
    }
    globfree(&found);
  }

  std::filesystem::path beside_;
  std::set<std::string> known_;
};

}  // namespace

std::filesystem::path ssh_configuration() {
  const char* const home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? std::filesystem::path() : std::filesystem::path(home) / ".ssh/config";
}

std::vector<std::string> ssh_hosts(const std::filesystem::path& configuration) {
  HostReader reader(configuration.parent_path());
  reader.read(configuration, 0);
  return std::move(reader.hosts);
}

}  // namespace foxscope::agent
