#include "app/cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "app/cli/console.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"

namespace foxscope::cli {

bool isStandardOutput(const std::string& output) { return output == "-"; }

void requireNoTerminal(const std::string& output) {
  if (isStandardOutput(output) && isatty(STDOUT_FILENO) == 1) {
    throw UsageError("-o -: these bytes are nothing to read in a terminal: send them into a file or a pipe");
  }
}

void writeOutput(const std::string& output, bool force, std::string_view bytes) {
  if (isStandardOutput(output)) return Console::write(bytes);
  AtomicFile file(output, force);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

OutputPath::OutputPath(const std::string& output) : m_path(output) {
  if (!isStandardOutput(output)) return;
  std::string folder = (std::filesystem::temp_directory_path() / "foxscope-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    throw Error(fmt::format("{}: cannot write there ({}): set TMPDIR to a folder that you may write to", folder,
                            std::strerror(errno)));
  }
  m_folder = folder;
  m_path = m_folder / "output";
}

OutputPath::~OutputPath() {
  std::error_code failed;
  if (!m_folder.empty()) std::filesystem::remove_all(m_folder, failed);
}

void OutputPath::deliver() const {
  if (m_folder.empty()) return;
  std::ifstream file(m_path, std::ios::binary);
  std::vector<char> piece(std::size_t{1} << 20);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    Console::write({piece.data(), static_cast<std::size_t>(file.gcount())});
  }
}

}  // namespace foxscope::cli
