#include "backend/agent/remote_path.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/text/tokenizer.h"

namespace foxscope::agent {
namespace {

constexpr std::string_view kScheme = "ssh://";
constexpr int kLargestPort = 65535;
constexpr const char* kPercent = "a % needs two hexadecimal digits behind it, and one of a name is written %25";

[[noreturn]] void refuse_url(const std::string& url, std::string_view problem) {
  throw UsageError(fmt::format("{}: {}: write ssh://[USER@]HOST[:PORT]/PATH, /~/ for the home folder", url, problem));
}

/// A path as an URL has it: what would be taken for an escape, and what no line shows, is escaped.
std::string escaped(std::string_view path) {
  std::string text;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte < 0x20 || byte == 0x7f || c == '%' ? fmt::format("%{:02X}", byte) : std::string(1, c);
  }
  return text;
}

std::string unescaped(const std::string& url, std::string_view part) {
  std::string text;
  for (std::size_t n = 0; n < part.size(); ++n) {
    if (part[n] != '%') {
      text += part[n];
      continue;
    }
    unsigned byte = 0;
    const char* const digits = part.data() + n + 1;
    const bool whole = part.size() - n > 2;
    const auto read = whole ? std::from_chars(digits, digits + 2, byte, 16) : std::from_chars_result{digits, {}};
    if (!whole || read.ptr != digits + 2) refuse_url(url, kPercent);
    text += static_cast<char>(byte);
    n += 2;
  }
  if (text.find('\0') != std::string::npos) refuse_url(url, "no path has a byte of 0");
  if (find_invalid_utf8(text)) {
    throw UsageError(fmt::format(
        "{}: this name is not UTF-8, and no request can hold it: rename the file there, or make a link to it", url));
  }
  return text;
}

/// ssh takes words that begin with a dash for its options, of which some start programs.
void check_word(const std::string& url, std::string_view what, const std::string& word) {
  if (word.starts_with('-')) refuse_url(url, fmt::format("a {} does not begin with a dash", what));
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7f) refuse_url(url, fmt::format("a {} has no blanks", what));
  }
}

int parse_port(const std::string& url, std::string_view text) {
  int port = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (failed != std::errc() || end != text.data() + text.size() || port < 1 || port > kLargestPort) {
    refuse_url(url, fmt::format("a port is a number from 1 to {}", kLargestPort));
  }
  return port;
}

std::string environment_or(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

}  // namespace

std::string RemoteHost::words() const {
  const bool address = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}{}", user.empty() ? "" : user + "@", address ? "[" + host + "]" : host,
                     port == 0 ? "" : ":", port == 0 ? "" : std::to_string(port));
}

std::string RemotePath::url() const {
  return fmt::format("{}{}{}{}", kScheme, host.words(), path.starts_with('/') ? "" : "/", escaped(path));
}

std::string said_there(std::string_view host, std::string_view sentence) {
  if (!sentence.starts_with('/')) return fmt::format("{}: {}", host, sentence);
  const std::size_t end = std::min(sentence.find(": "), sentence.size());
  return fmt::format("{}{}{}{}", kScheme, host, escaped(sentence.substr(0, end)), sentence.substr(end));
}

bool is_remote(std::string_view path) { return path.starts_with(kScheme); }

std::string name_without_folder(const std::string& path) {
  return without_folder(is_remote(path) ? parse_remote_path(path).path : path);
}

RemotePath parse_remote_path(const std::string& url) {
  const std::string_view rest = std::string_view(url).substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) refuse_url(url, "it names no file or folder");
  std::string_view place = rest.substr(0, slash);
  RemotePath remote;
  if (const std::size_t at = place.rfind('@'); at != std::string_view::npos) {
    remote.host.user = unescaped(url, place.substr(0, at));
    if (remote.host.user.empty()) refuse_url(url, "there is no user before the @");
    if (const std::size_t colon = place.find(':'); colon < at) {
      // It is shown nowhere.
      const std::string shown = fmt::format("{}{}:...{}", kScheme, place.substr(0, colon), rest.substr(at));
      refuse_url(shown, "passwords are ssh's own concern, and stand in no URL");
    }
    place.remove_prefix(at + 1);
  }
  std::string_view port;
  if (place.starts_with('[')) {
    const std::size_t end = place.find(']');
    if (end == std::string_view::npos) refuse_url(url, "a [ has no ] behind it");
    remote.host.host = place.substr(1, end - 1);
    port = place.substr(end + 1);
    if (!port.empty() && !port.starts_with(':')) refuse_url(url, "behind a ] comes : and a port, or the path");
  } else {
    const std::size_t colon = std::min(place.find(':'), place.size());
    remote.host.host = unescaped(url, place.substr(0, colon));
    port = place.substr(colon);
  }
  if (remote.host.host.empty()) refuse_url(url, "it names no host");
  if (!port.empty()) remote.host.port = parse_port(url, port.substr(1));
  check_word(url, "user", remote.host.user);
  check_word(url, "host", remote.host.host);
  remote.path = unescaped(url, rest.substr(slash));
  if (remote.path == "/~" || remote.path.starts_with("/~/")) remote.path.erase(0, 1);
  return remote;
}

std::vector<std::string> shell_words(std::string_view line, const std::string& name) {
  std::vector<std::string> words;
  bool open = false;
  char quote = '\0';
  for (std::size_t n = 0; n < line.size(); ++n) {
    const char c = line[n];
    const bool blank = c == ' ' || c == '\t' || c == '\n';
    if (quote == '\0' && blank) {
      open = false;
      continue;
    }
    if (!open) words.emplace_back();
    open = true;
    const bool escapes = c == '\\' && quote != '\'' && n + 1 < line.size() &&
                         (quote == '\0' || line[n + 1] == '"' || line[n + 1] == '\\');
    if (escapes) {
      words.back() += line[++n];
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = '\0';
    } else {
      words.back() += c;
    }
  }
  if (quote != '\0') throw UsageError(fmt::format("{}: a {} is not closed: {}", name, quote, line));
  return words;
}

std::vector<std::string> agent_command(const RemoteHost& host) {
  std::vector<std::string> words = shell_words(environment_or("FOXSCOPE_SSH", "ssh"), "FOXSCOPE_SSH");
  if (words.empty()) words = {"ssh"};
  if (host.port != 0) words.insert(words.end(), {"-p", std::to_string(host.port)});
  words.push_back(host.user.empty() ? host.host : host.user + "@" + host.host);
  words.push_back(environment_or("FOXSCOPE_REMOTE_PROGRAM", "foxscope"));
  words.emplace_back("agent");
  return words;
}

}  // namespace foxscope::agent
