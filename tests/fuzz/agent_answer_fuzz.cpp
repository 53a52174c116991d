// Any bytes as what an agent answers: the beginning of a connection, and messages that are taken for each answer there
// is.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "backend/agent/channel.h"
#include "backend/agent/connection.h"
#include "backend/agent/described.h"
#include "backend/agent/file_reference.h"
#include "backend/agent/remote_run.h"
#include "backend/agent/run_reference.h"
#include "backend/base/error.h"
#include "tests/fuzz/memory_file.h"

namespace {

namespace agent = foxscope::agent;

template <typename T>
void take_as(const agent::Message& message) {
  try {
    static_cast<void>(agent::take<T>(message, "answer"));
  } catch (const foxscope::Error&) {
    // A user would be told.
  }
}

void take_run(const agent::Message& message) {
  try {
    const foxscope::RunFile run = agent::run_of_answer({"", "box", 0}, message, "auto");
    for (const auto& trace : run.traces) {
      for (int layer = 0; layer < trace->info().layers; ++layer) static_cast<void>(trace->lacking(layer));
      for (const foxscope::ArraySpec& spec : foxscope::kTraceArrays) static_cast<void>(trace->has(spec.array, 0));
    }
  } catch (const foxscope::Error&) {
    // A user would be told.
  }
}

/// Colours and tokens, of which more than their types has to be right.
void take_parts(const agent::Message& message) {
  for (const char* const name : {"answer", "stage"}) {
    try {
      const auto image = foxscope::image_of(agent::take<foxscope::ShadedImage>(message, name));
      if (image.value.size() > agent::kMostParts) std::abort();
    } catch (const foxscope::Error&) {
      // A user would be told.
    }
  }
  try {
    const auto part = agent::take<agent::OpenedTokens>(message, "answer");
    foxscope::Text text;
    text.content = "a text of some bytes";
    foxscope::TokenTable tokens;
    agent::unpack_tokens(part, &text, tokens);
    agent::unpack_tokens(part, &text, tokens);
    if (tokens.id.size() != tokens.input_id.size()) std::abort();
  } catch (const foxscope::Error&) {
    // A user would be told.
  }
}

void read_messages(int in) {
  agent::Channel channel(in, -1);
  while (const std::optional<agent::Message> message = channel.receive()) {
    take_run(*message);
    take_parts(*message);
    take_as<std::vector<foxscope::RunCheckReport>>(*message);
    take_as<std::vector<std::int32_t>>(*message);
    take_as<foxscope::Image>(*message);
    take_as<foxscope::PairReading>(*message);
    take_as<foxscope::HeadStatistics>(*message);
    take_as<foxscope::DecaySplit>(*message);
    take_as<std::vector<foxscope::LogitMeans>>(*message);
    take_as<foxscope::PruningBound>(*message);
    take_as<agent::FileFacts>(*message);
    take_as<agent::FolderList>(*message);
    take_as<std::vector<agent::DeviceFacts>>(*message);
    take_as<std::vector<double>>(*message);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile answers;
  static const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  answers.fill(data, size);
  const int in = open(answers.path().c_str(), O_RDONLY | O_CLOEXEC);
  if (in < 0) std::abort();
  try {
    read_messages(in);
  } catch (const foxscope::Error&) {
    // A user would be told.
  }
  try {
    // As an answer that was kept in a folder.
    static_cast<void>(agent::decoded({reinterpret_cast<const std::byte*>(data), size}));
  } catch (const foxscope::Error&) {
    // It would be asked for anew.
  }
  lseek(in, 0, SEEK_SET);
  try {
    const agent::Connection connection(in, nowhere, "box", {}, {});
  } catch (const foxscope::Error&) {
    // A user would be told.
  }
  close(in);
  return 0;
}
