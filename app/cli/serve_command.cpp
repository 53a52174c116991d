#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/command.h"
#include "app/cli/distributed.h"
#include "app/cli/interrupt.h"
#include "app/cli/model_names.h"
#include "app/cli/running_options.h"
#include "backend/base/error.h"
#include "backend/serve/server.h"
#include "backend/text/file_bytes.h"

namespace foxscope::cli {
namespace {

/// `foxscope serve`, as typed.
struct ServeOptions : RunningOptions {
  std::vector<std::string> models;
  std::string host = "127.0.0.1";
  int port = 8080;
  std::optional<std::int64_t> maxLength;
  std::string token;
  std::string tokenFile;
  std::vector<std::string> origins;
  std::vector<std::string> devices;
};

constexpr std::size_t kMostTokenBytes = 4096;

/// The token that clients have to send; empty: none.
std::string readToken(const ServeOptions& options) {
  if (options.tokenFile.empty()) return options.token;
  if (!options.token.empty()) throw UsageError("--token-file: leave out --token, the file has the token");
  std::string token = read_file_bytes(options.tokenFile, "token", kMostTokenBytes);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.empty() || !std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; })) {
    throw Error(fmt::format("--token-file {}: expected one line of printable characters without spaces, the token",
                            options.tokenFile));
  }
  return token;
}

std::vector<DeviceChoice> parseDevices(const ServeOptions& options) {
  if (!options.devices.empty() && options.device != "auto") {
    throw UsageError("--devices: says where the models run: leave out --device");
  }
  std::vector<DeviceChoice> devices;
  for (const std::string& word : options.devices) devices.push_back(DeviceChoice::parse(word));
  return devices;
}

int runServe(const ServeOptions& options, const CommandContext& context) {
  requireSingleProcess("serve");
  if (options.port < 0 || options.port > 65535) {
    throw UsageError(fmt::format("--port {}: use a number from 0 (a free one) to 65535", options.port));
  }
  ServeRequest request;
  for (const NamedModel& named : parseModels(options.models)) request.models.push_back(modelRequest(options, named));
  request.host = options.host;
  request.port = options.port;
  request.max_length = options.maxLength;
  request.token = readToken(options);
  request.origins = options.origins;
  request.devices = parseDevices(options);
  context.interrupt.say("interrupted, nothing is served any more");
  serve(
      request,
      [&](const std::string& url) {
        context.console.endProgress();
        Console::write(fmt::format("listening on {}\n", url));
      },
      context.job());
  return kInterrupted;
}

}  // namespace

void addServeCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App* command = addSubcommand(
      program, parsed, "serve", "Answer requests for scores and continuations over HTTP",
      "  foxscope serve --model FOLDER --port 8080 --max-length 16384\n"
      "  lm_eval run --model local-completions --model_args \\\n"
      "    model=FOLDER,base_url=http://127.0.0.1:8080/v1/completions,max_length=16384,num_concurrent=4 \\\n"
      "    --batch_size 8 --tasks hellaswag,lambada_openai,wikitext\n"
      "\n"
      "The server speaks the completions protocol of OpenAI and vLLM, with scores of the prompt, so that\n"
      "lm-evaluation-harness runs unchanged. It prints \"listening on http://HOST:PORT\" when it is ready. Ctrl+C ends "
      "it.");
  command
      ->add_option("--model", options->models,
                   "Checkpoint folder or hub id, served under NAME (default: its last part); repeatable")
      ->type_name("[NAME=]DIR")
      ->required()
      ->allow_extra_args(false);
  command->add_option("--host", options->host, "Address to listen on (default: 127.0.0.1, this machine alone)")
      ->type_name("HOST");
  command->add_option("--port", options->port, "Port to listen on, 0 for a free one (default: 8080)")->type_name("N");
  command
      ->add_option("--max-length", options->maxLength,
                   "Positions that a text may have, BOS included (default: max_position_embeddings of each config)")
      ->type_name("N");
  command
      ->add_option(
          "--token", options->token,
          "Token that clients send as \"Authorization: Bearer TOKEN\"; needed with a host that other machines reach. "
          "All users of the machine see it in the list of processes")
      ->type_name("TOKEN");
  command
      ->add_option("--token-file", options->tokenFile,
                   "File whose only line is the token; the list of processes does not show the token")
      ->type_name("FILE");
  command
      ->add_option("--allow-origin", options->origins,
                   "Web pages of this origin may use the server, as https://example.org:8443 (default: no pages); "
                   "repeatable")
      ->type_name("ORIGIN")
      ->allow_extra_args(false);
  addRunningOptions(*command, *options, "a text");
  command
      ->add_option("--devices", options->devices,
                   "Several devices behind the one port, each with a copy of every model: cuda:0,cuda:1")
      ->type_name("DEVICE,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return runServe(*options, context); };
  });
}

}  // namespace foxscope::cli
