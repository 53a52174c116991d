#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/file/run_file.h"
#include "tests/error_of.h"
#include "tests/file/synthetic_trace.h"
#include "tests/temporary_folder.h"

namespace foxscope::test {

/// A folder of its own for each test, removed afterwards.
class FolderTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator{}));
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

using Traces = std::vector<std::shared_ptr<const Trace>>;

inline Traces make_traces(const std::vector<SyntheticRun>& runs) {
  Traces traces;
  traces.reserve(runs.size());
  for (const SyntheticRun& run : runs) traces.push_back(make_trace(run));
  return traces;
}

inline void write_run(const std::filesystem::path& path, const Traces& traces) {
  ASSERT_TRUE(write_run_file(path, traces, {"foxscope run -o x.h5", "2026-11-21T12:00:00Z"}, Overwrite::force, {}));
}

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_content(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

/// `work` must throw an Error of one line that holds all parts.
inline void expect_error(const std::function<void()>& work, const std::vector<std::string>& parts) {
  const std::string message = error_of(work);
  EXPECT_FALSE(message.empty());
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
}

/// Runs a script of tests/file with the test peers' Python; the script says what is wrong and exits with another
/// status than 0.
inline void run_python(const std::string& script, const std::vector<std::string>& arguments) {
  std::string command = fmt::format("'{}' '{}/tests/file/{}'", FOXSCOPE_TEST_PYTHON, FOXSCOPE_SOURCE_DIR, script);
  for (const std::string& argument : arguments) command += fmt::format(" '{}'", argument);
  const int status = std::system(command.c_str());  // NOLINT(cert-env33-c): paths of our own
  EXPECT_EQ(status, 0) << command;
}

/// The files that such a script makes of a good run file in a folder, as its cases.json lists them.
inline nlohmann::json made_cases(const std::string& script, const std::filesystem::path& good,
                                 const std::filesystem::path& folder) {
  run_python(script, {good.string(), folder.string()});
  return nlohmann::json::parse(content_of(folder / "cases.json"));
}

/// Numbers as raw bytes, for a script to compare with.
template <typename T>
void dump(const std::filesystem::path& path, std::span<const T> values) {
  write_content(path, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

/// Everything that two traces hold is equal, to the last bit.
void expect_equal(const Trace& left, const Trace& right);

/// Opens a run file and reads every number in it.
/// @returns the sum of all, so that nothing is left out
double read_everything(const std::filesystem::path& path);

}  // namespace foxscope::test
