// `foxscope bench text [TEXT...]`: this program's tokenizer and the `tokenizers` package, one thread each, in turns.

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/text/read_text.h"
#include "backend/text/tokenizer.h"
#include "tests/temporary_folder.h"

namespace {

namespace fs = std::filesystem;

constexpr int rounds = 3;
constexpr double seconds_a_round = 2;
constexpr std::size_t repeated_size = 4'000'000;

const std::string tokenizer_folder = FOXSCOPE_SOURCE_DIR "/tests/data/tokenizer";

struct Sample {
  std::string name;
  std::string text;
};

/// The sample texts as they are, and again and again until there are a few megabytes; or the files that were named.
std::vector<Sample> samples(const std::vector<std::string>& files) {
  std::vector<Sample> result;
  result.reserve(files.size());
  for (const std::string& file : files) {
    result.push_back({fs::path(file).filename(), foxscope::read_text(file, foxscope::InvalidUtf8::refuse)});
  }
  if (!result.empty()) return result;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(FOXSCOPE_SOURCE_DIR "/resources/texts")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  Sample once{"sample texts, once", {}};
  for (const fs::path& path : paths) once.text += foxscope::read_text(path, foxscope::InvalidUtf8::refuse);
  Sample repeated{"sample texts, repeated", {}};
  while (repeated.text.size() < repeated_size) repeated.text += once.text;
  return {once, repeated};
}

/// Least processor seconds of each way that the peer was timed in.
using Times = std::map<std::string, double>;

/// A folder for what this program and the peer tell each other.
class Exchange {
 public:
  void put_text(const std::string& text) const { folder_.write("text", text); }

  /// One round of the peer; empty where its package is missing.
  [[nodiscard]] Times peer() const {
    const std::string command = std::string(FOXSCOPE_TEST_PYTHON) +
                                " " FOXSCOPE_SOURCE_DIR "/tests/bench/tokenizers_peer.py " + tokenizer_folder +
                                "/tokenizer.json " + path("text") + " " + path("ids") + " " +
                                std::to_string(seconds_a_round) + " >" + path("times");
    const int status = WEXITSTATUS(std::system(command.c_str()));
    if (status == 77) return {};
    if (status != 0) throw foxscope::Error("tokenizers_peer.py failed: see its message above");
    return nlohmann::json::parse(content("times")).get<Times>();
  }

  [[nodiscard]] bool same_ids(const std::vector<std::int32_t>& ids) const {
    const std::string bytes = content("ids");
    const auto* begin = reinterpret_cast<const char*>(ids.data());
    return std::equal(bytes.begin(), bytes.end(), begin, begin + ids.size() * sizeof(std::int32_t));
  }

 private:
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::string content(const char* name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  foxscope::test::TemporaryFolder folder_;
};

/// What this process has computed so far: unlike the clock on the wall, other programs do not count.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// One round of our own: the least processor seconds of one encode.
double own(const foxscope::Tokenizer& tokenizer, const std::string& text) {
  double least = std::numeric_limits<double>::infinity();
  const auto begin = std::chrono::steady_clock::now();
  while (seconds_since(begin) < seconds_a_round) {
    const double start = processor_seconds();
    benchmark::DoNotOptimize(tokenizer.encode(text));
    least = std::min(least, processor_seconds() - start);
  }
  return least;
}

void measure(const foxscope::Tokenizer& tokenizer, const Sample& sample) {
  Exchange exchange;
  exchange.put_text(sample.text);
  const foxscope::Tokens tokens = tokenizer.encode(sample.text);
  double least = std::numeric_limits<double>::infinity();
  Times peer;
  for (int round = 0; round < rounds; ++round) {
    least = std::min(least, own(tokenizer, sample.text));
    for (const auto& [way, seconds] : exchange.peer()) {
      peer[way] = peer.contains(way) ? std::min(peer[way], seconds) : seconds;
    }
  }
  const double megabytes = static_cast<double>(sample.text.size()) / 1e6;
  std::printf("%s: %.2f MB, %zu tokens\n", sample.name.c_str(), megabytes, tokens.size());
  std::printf("  %-44s %8.2f MB/s\n", "foxscope, with byte offsets", megabytes / least);
  for (const auto& [way, seconds] : peer) {
    std::printf("  %-44s %8.2f MB/s   foxscope is %.1f x as fast\n", ("tokenizers, " + way).c_str(),
                megabytes / seconds, seconds / least);
  }
  if (peer.empty()) {
    std::printf("  the Python package tokenizers is missing: ./dev bench installs it\n");
  } else if (!exchange.same_ids(tokens.id)) {
    throw foxscope::Error(sample.name + ": the tokens differ from those of the package tokenizers");
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const std::vector<std::string> files(arguments + 1, arguments + count);
    if (!files.empty() && files.front() == "--help") {
      std::puts("foxscope bench text [TEXT...]: tokenising on one thread against the Python package tokenizers");
      return 0;
    }
    const double start = processor_seconds();
    const foxscope::Tokenizer tokenizer = foxscope::Tokenizer::load(tokenizer_folder);
    std::puts("processor time, the least of several turns");
    std::printf("reading the tokenizer (%d tokens): %.1f ms\n", tokenizer.vocabulary_size(),
                (processor_seconds() - start) * 1e3);
    for (const Sample& sample : samples(files)) measure(tokenizer, sample);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "foxscope bench text: %s\n", error.what());
    return 1;
  }
  return 0;
}
