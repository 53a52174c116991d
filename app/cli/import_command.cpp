#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/command.h"
#include "app/cli/values.h"
#include "app/description/facts.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/base/plural.h"
#include "backend/data/tensor_run.h"
#include "backend/file/file_trace.h"
#include "backend/file/run_file.h"
#include "backend/map/complete_rows.h"

namespace foxscope::cli {
namespace {

/// `foxscope import`, as typed.
struct RunImportOptions {
  std::string file;
  std::string output;
  std::optional<std::string> name;
  std::optional<std::string> mixer;
  std::optional<std::int64_t> window;
  std::string tokenizer;
  bool lengthFirst = false;
  bool force = false;
  bool json = false;
};

/// A run that goes into the output, and how many heads had no row normalisers before.
struct ImportedRun {
  std::shared_ptr<const Trace> trace;
  std::int64_t computedHeads = 0;
};

bool beginsAsHdf5(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string head(8, '\0');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head == "\x89HDF\r\n\x1a\n";
}

std::optional<Mixer> linearMixerOf(const RunImportOptions& options) {
  if (!options.mixer) return std::nullopt;
  const std::optional<Mixer> mixer = parse_mixer(*options.mixer);
  for (const Mixer known :
       {Mixer::gated_linear_attention, Mixer::delta_rule, Mixer::mamba2, Mixer::mamba, Mixer::delta_product}) {
    if (mixer == known) return mixer;
  }
  throw UsageError(fmt::format("--mixer {}: choose gated_linear_attention, delta_rule, mamba2, mamba or delta_product",
                               *options.mixer));
}

std::string importedName(const RunImportOptions& options) {
  std::string name = options.name.value_or(std::filesystem::path(options.file).stem().string());
  if (is_model_name(name)) return name;
  throw UsageError(fmt::format("model name '{}': use letters, digits, '.', '_' and '-' (--name NAME)", name));
}

void checkImport(const RunImportOptions& options, bool runFile) {
  if (options.window && *options.window < 1) {
    throw UsageError(fmt::format("--window {}: use a number from 1 on", *options.window));
  }
  if (!runFile) return;
  for (const auto& [option, given] : {std::pair("--name", options.name.has_value()),
                                      {"--mixer", options.mixer.has_value()},
                                      {"--window", options.window.has_value()},
                                      {"--tokenizer", !options.tokenizer.empty()},
                                      {"--length-first", options.lengthFirst}}) {
    if (given) throw UsageError(fmt::format("{}: {} is a run file, which says it itself", option, options.file));
  }
}

/// The runs as the input has them. @returns nothing if it was stopped
std::optional<std::vector<std::shared_ptr<const Trace>>> runsToImport(const RunImportOptions& options, bool runFile,
                                                                      const CommandContext& context) {
  if (runFile) return RunFile::open(options.file).traces;
  TensorRunOptions of;
  of.name = importedName(options);
  of.length_first = options.lengthFirst;
  of.mixer = linearMixerOf(options);
  of.window_size = options.window.value_or(0);
  of.tokenizer = options.tokenizer;
  auto trace = read_tensor_run(options.file, of, context.job());
  if (!trace) return std::nullopt;
  return std::vector{std::move(trace)};
}

std::string importText(const std::string& output, const std::vector<ImportedRun>& runs) {
  std::string text;
  for (const ImportedRun& run : runs) {
    const TraceInfo& info = run.trace->info();
    text +=
        fmt::format("{}: {} {}, {} {}, {} {}", info.name, count_text(info.length), plural(info.length, "token"),
                    info.layers, plural(info.layers, "layer"), info.head_count(), plural(info.head_count(), "head"));
    if (run.computedHeads > 0) text += fmt::format(", row normalisers of {} computed", run.computedHeads);
    text += '\n';
  }
  return text + "written to " + output + '\n';
}

std::string importJson(const std::string& output, const std::vector<ImportedRun>& runs) {
  auto models = nlohmann::ordered_json::array();
  for (const ImportedRun& run : runs) {
    const TraceInfo& info = run.trace->info();
    const double loss = meanOf(run.trace->per_token_loss()).value_or(std::numeric_limits<double>::quiet_NaN());
    models.push_back({{"name", info.name},
                      {"tokens", info.length},
                      {"layers", info.layers},
                      {"heads", info.head_count()},
                      {"dtype", to_string(info.dtype)},
                      {"mean_loss", jsonNumber(loss)},
                      {"heads_with_computed_rows", run.computedHeads}});
  }
  const nlohmann::ordered_json summary{{"output", output}, {"models", std::move(models)}};
  return summary.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

int importRun(const RunImportOptions& options, const CommandContext& context) {
  const bool runFile = beginsAsHdf5(options.file);
  checkImport(options, runFile);
  requireDistinct(options.output, options.file);
  requireHdf5Name(options.output);
  requireWritable(options.output, options.force);
  context.console.setSubject(options.file);
  const auto read = runsToImport(options, runFile, context);
  if (!read) return kInterrupted;

  std::vector<ImportedRun> runs;
  std::vector<std::shared_ptr<const Trace>> traces;
  for (const auto& trace : *read) {
    std::int64_t computed = 0;
    for (int layer = 0; layer < trace->info().layers; ++layer) {
      if (can_complete_rows(*trace, layer)) computed += trace->info().mixer(layer).heads;
    }
    traces.push_back(complete_rows(trace, context.job()));
    if (!traces.back()) return kInterrupted;
    runs.push_back({traces.back(), computed});
  }
  context.console.setSubject(options.output);
  const Provenance provenance{context.commandLine, ""};
  const Overwrite overwrite = options.force ? Overwrite::force : Overwrite::refuse;
  if (!write_run_file(options.output, traces, provenance, overwrite, context.job())) return kInterrupted;
  context.console.endProgress();
  if (options.json) {
    Console::write(importJson(options.output, runs));
  } else {
    context.console.report(importText(options.output, runs));
  }
  return kDone;
}

}  // namespace

void addImportCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<RunImportOptions>();
  CLI::App* command =
      addSubcommand(program, parsed, "import", "Make a run file of tensors that another program computed",
                    "  foxscope import tensors.safetensors -o run.h5\n"
                    "  foxscope import tensors.safetensors --length-first --name fox -o fox.h5\n"
                    "  foxscope import tensors.safetensors --tokenizer FOLDER -o words.h5\n"
                    "  foxscope import without-rows.h5 -o whole.h5");
  command->footer(
      "Tensors, of F64, F32, F16 or BF16: layers.N.q [H, L, d], layers.N.k [H_k, L, d], layers.N.v (all layers or "
      "none),\n"
      "and of softmax attention layers.N.log_f [H, L], or of linear attention layers.N.log_decay [H, L] or [H_k, L, "
      "d]\n"
      "and layers.N.beta [H, L]; ids [L] (I64, I32), what each position reads; where there are such labels [L], loss\n"
      "[L], scale (a number) and text (U8, or metadata). A layer without tensors has no mixer. c and row normalisers\n"
      "are computed. docs/files.md says more.\n"
      "Of a run file that lacks row normalisers a whole one is made.\n\n" +
      command->get_footer());
  command->add_option("file", options->file, "Tensors, or a run file without row normalisers")
      ->type_name("FILE")
      ->required();
  command->add_option("-o,--output", options->output, "Run file to write (HDF5)")->type_name("RUN.h5")->required();
  command->add_option("--name", options->name, "Name of the model in the run file (default: that of the file)")
      ->type_name("NAME");
  command->add_flag("--length-first", options->lengthFirst, "Positions come first: tensors are [L, H, d] and [L, H]");
  command
      ->add_option(
          "--mixer", options->mixer,
          "What layers without log_f are (default: delta_rule with beta, gated_linear_attention with log_decay "
          "alone, and softmax attention without either)")
      ->type_name("gated_linear_attention|delta_rule|mamba2|mamba|delta_product");
  command->add_option("--window", options->window, "Keys that each query of softmax attention sees (default: all)")
      ->type_name("N");
  command->add_option("--tokenizer", options->tokenizer, "Folder of the tokenizer that made ids, for words")
      ->type_name("DIR");
  command->add_flag("--force", options->force, "Overwrite the output");
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return importRun(*options, context); };
  });
}

}  // namespace foxscope::cli
