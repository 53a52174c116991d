#include <cmath>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/cli/command.h"
#include "app/cli/eval/atlas_report.h"
#include "app/cli/eval/eval_loss_command.h"
#include "app/cli/eval/eval_sweep_command.h"
#include "app/cli/info/experts_report.h"
#include "app/cli/info/predictions_report.h"
#include "app/cli/map_options.h"
#include "app/cli/text_table.h"
#include "app/description/facts.h"
#include "app/description/model_description.h"
#include "app/description/number_text.h"
#include "app/figure/figure_words.h"
#include "backend/agent/remote_files.h"
#include "backend/agent/remote_run.h"
#include "backend/base/error.h"
#include "backend/eval/heads/heads_file.h"
#include "backend/eval/needle/needle_file.h"
#include "backend/file/provenance.h"
#include "backend/file/run_file.h"
#include "backend/model/spec/model_family.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/trace/run_origin.h"

namespace foxscope::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InfoOptions {
  std::string path;
  bool supported = false;
  bool json = false;
  bool checksum = false;                  ///< of a checkpoint's weights
  RunCheck check = RunCheck::glance;      ///< nothing is computed from a run file's arrays
  std::vector<std::int64_t> predictions;  ///< positions
  std::vector<std::string> checkpoints;
  std::optional<int> top;
  bool experts = false;
  std::optional<int> layer;
  bool csv = false;
  std::string table;  ///< of an atlas
  std::string model;
  std::string head;
};

Json numberOrNull(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

Json modelJson(const Trace& trace) {
  const TraceInfo& info = trace.info();
  const auto loss = meanOf(trace.per_token_loss());
  Json description = {{"name", info.name},
                      {"model_type", info.model_type},
                      {"layers", info.layers},
                      {"heads", info.heads},
                      {"key_heads", info.key_heads},
                      {"head_dim", info.head_dim},
                      {"tokens", info.length},
                      {"gated", forgets(info)},
                      {"window_size", info.window_size},
                      {"softmax_scale", info.softmax_scale},
                      {"mean_loss", numberOrNull(loss)},
                      {"perplexity", numberOrNull(loss ? std::optional(std::exp(*loss)) : std::nullopt)},
                      {"kept", keptWords(trace)},
                      {"saliency_target", info.saliency_target},
                      {"dtype", to_string(info.dtype)},
                      {"device", info.device},
                      {"pruning_tolerance", info.pruning_tolerance},
                      {"intervention", info.intervention},
                      {"weights_sha256", info.weights_sha256}};
  if (info.unchecked) description["unchecked"] = true;
  if (has_windows_by_layer(info)) description["window_sizes"] = info.window_sizes;
  if (info.logit_cap > 0) description["logit_cap"] = info.logit_cap;
  for (const LayerMixer& mixer : info.mixers) description["mixers"].push_back(to_string(mixer.mixer));
  for (int layer = 0; layer < info.layers; ++layer) {
    if (is_unrecorded(info, layer)) description["unrecorded_layers"].push_back(layer);
  }
  return description;
}

std::string runFileJson(const std::string& path, const RunFile& file) {
  const auto& text = file.traces.front()->text();
  Json description{{"kind", "run file"},
                   {"path", path},
                   {"bytes", agent::bytes_of(path)},
                   {"created", file.created},
                   {"program_version", file.program_version},
                   {"command_line", file.command_line},
                   {"text", text ? Json{{"bytes", text->content.size()}, {"sha256", text->sha256}} : Json(nullptr)},
                   {"models", Json::array()}};
  for (const auto& trace : file.traces) description["models"].push_back(modelJson(*trace));
  return description.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string modelLines(const Trace& trace) {
  Facts lines = {{"model", trace.info().name}};
  for (const auto& [name, value] : runFacts(trace)) lines.emplace_back("  " + name, value);
  return nameValueLines(lines);
}

std::string runFileText(const std::string& path, const RunFile& file) {
  const auto& text = file.traces.front()->text();
  std::string description =
      nameValueLines({{"run file", fmt::format("{}, {}", path, sizeText(static_cast<double>(agent::bytes_of(path))))},
                      {"  created", fmt::format("{} by foxscope {}", file.created, file.program_version)},
                      {"  command", file.command_line},
                      {"  text", textFact(text.get())}});
  for (const auto& trace : file.traces) description += '\n' + modelLines(*trace);
  return description;
}

std::string describeLosses(const InfoOptions& options) {
  const LossEvaluation evaluation = LossEvaluation::open(agent::file_here(options.path));
  if (options.json) return lossJson("losses of windows", options.path, evaluation, {});
  const auto bytes = static_cast<double>(agent::bytes_of(options.path));
  return nameValueLines(
             {{"losses of windows", fmt::format("{}, {}", options.path, sizeText(bytes))},
              {"  created", fmt::format("{} by foxscope {}", evaluation.created, evaluation.program_version)},
              {"  command", evaluation.command_line},
              {"  source", evaluation.corpus.source}}) +
         '\n' + lossText(evaluation, {});
}

std::string describeSweep(const InfoOptions& options) {
  const SweepEvaluation sweep = SweepEvaluation::open(agent::file_here(options.path));
  if (options.json) return sweepJson("sweep over heads", options.path, sweep, nullptr);
  const auto bytes = static_cast<double>(agent::bytes_of(options.path));
  return nameValueLines({{"sweep over heads", fmt::format("{}, {}", options.path, sizeText(bytes))},
                         {"  created", fmt::format("{} by foxscope {}", sweep.created, sweep.program_version)},
                         {"  command", sweep.command_line},
                         {"  source", sweep.source}}) +
         '\n' + sweepText(sweep);
}

AtlasChoice chosenHeads(const InfoOptions& options) {
  AtlasChoice choice;
  if (!options.model.empty()) choice.model = options.model;
  if (!options.head.empty()) {
    const figure::HeadIndex head = figure::parseHead("--head", options.head);
    choice.head = {head.layer, head.head};
  }
  return choice;
}

std::string describeAtlas(const InfoOptions& options) {
  const Atlas atlas = Atlas::open(agent::file_here(options.path));
  if (!options.table.empty()) {
    const AtlasChoice choice = chosenHeads(options);
    if (options.csv) return atlasTableCsv(atlas, options.table, choice);
    return options.json ? atlasTableJson(atlas, options.table, choice) : atlasTableText(atlas, options.table, choice);
  }
  const auto bytes = agent::bytes_of(options.path);
  if (options.json) return atlasJson(options.path, bytes, atlas);
  return nameValueLines({{"atlas of heads", fmt::format("{}, {}", options.path, sizeText(static_cast<double>(bytes)))},
                         {"  created", fmt::format("{} by foxscope {}", atlas.created, atlas.program_version)},
                         {"  command", atlas.command_line},
                         {"  source", atlas.corpus.source}}) +
         '\n' + atlasText(atlas);
}

/// Names the commands that draw or print a file which is described by its origin alone.
std::string readersOf(const FileOrigin& origin) {
  if (origin.content == kHeadsContent || origin.content == kEvalHeadsContent) {
    return "foxscope figure decay, distance or labels";
  }
  if (origin.content == kNeedleContent) return "foxscope figure needle";
  return "h5py, silx view";
}

std::string describeOrigin(const InfoOptions& options, const FileOrigin& origin) {
  const std::string kind = origin.content.empty() ? "maps (`foxscope map -o`)" : content_words(origin.content);
  const auto bytes = agent::bytes_of(options.path);
  if (options.json) {
    const Json description = {{"kind", kind.substr(0, kind.find(" ("))},
                              {"path", options.path},
                              {"bytes", bytes},
                              {"created", origin.created},
                              {"program_version", origin.program_version},
                              {"command_line", origin.command_line},
                              {"models", origin.models},
                              {"maps", origin.maps}};
    return description.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  }
  Facts lines = {{"file", fmt::format("{}, {}", options.path, sizeText(static_cast<double>(bytes)))},
                 {"  holds", kind},
                 {"  created", fmt::format("{} by foxscope {}", origin.created, origin.program_version)},
                 {"  command", origin.command_line}};
  if (!origin.models.empty()) lines.emplace_back("  models", fmt::format("{}", fmt::join(origin.models, ", ")));
  if (!origin.maps.empty()) lines.emplace_back("  maps", fmt::format("{}", fmt::join(origin.maps, ", ")));
  lines.emplace_back("  read by", readersOf(origin));
  return nameValueLines(lines);
}

/// @param checksum  of its weights; empty: not asked for
std::string checkpointJson(const std::string& path, const Checkpoint& checkpoint, const std::string& checksum) {
  const ModelConfig& config = checkpoint.config();
  Json description{{"kind", "checkpoint"},
                   {"path", path},
                   {"folder", checkpoint.folder().string()},
                   {"name", modelTitle(config)},
                   {"model_type", config.model_type},
                   {"parameters", checkpoint.parameter_count()},
                   {"dtype", dtypesOf(checkpoint)},
                   {"options", Json::object()},
                   {"tokenizer", tokenizerOf(checkpoint)},
                   {"files", Json::array()},
                   {"notes", config.notes}};
  for (const ConfigOption& option : configOptions(config)) description["options"][option.key] = option.value;
  for (const auto& file : checkpoint.weight_files()) {
    description["files"].push_back({{"name", file.filename().string()}, {"bytes", std::filesystem::file_size(file)}});
  }
  for (const Checkpoint::Unread& part : checkpoint.unread()) {
    description["not_run"].push_back({{"part", part.words}, {"prefix", part.prefix}, {"tensors", part.tensors}});
  }
  if (!checksum.empty()) description["weights_sha256"] = checksum;
  return description.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string checkpointText(const Checkpoint& checkpoint, const std::string& checksum) {
  Facts lines = {{"checkpoint", checkpoint.folder().string()}};
  for (const auto& [name, value] : checkpointFacts(checkpoint)) lines.emplace_back("  " + name, value);
  if (!checksum.empty()) lines.emplace_back("  checksum", "SHA-256 " + checksum);
  return nameValueLines(lines);
}

std::string describeCheckpoint(const InfoOptions& options, const Job& job) {
  const Checkpoint checkpoint = Checkpoint::open(options.path);
  const std::string checksum = options.checksum ? checkpoint.weights_sha256(job).value_or("") : "";
  return options.json ? checkpointJson(options.path, checkpoint, checksum) : checkpointText(checkpoint, checksum);
}

/// The paper's models are called by the parts of their layers.
std::string titleOf(const SupportedModel& model) {
  if (!model.title.empty()) return std::string(model.title);
  return model.model_type.starts_with("forgetting") ? "FoX (LLaMA, Pro)" : "Transformer (LLaMA, Pro)";
}

std::string describeSupported(bool json) {
  const std::vector<SupportedModel> models = supported_models();
  if (json) {
    Json description = Json::array();
    for (const SupportedModel& model : models) {
      description.push_back({{"model_type", model.model_type},
                             {"model", titleOf(model)},
                             {"text_config", model.text_type.empty() ? Json(nullptr) : Json(model.text_type)}});
    }
    return description.dump(2) + '\n';
  }
  const std::vector<TableColumn<SupportedModel>> columns = {
      {{"model_type"},
       [](const SupportedModel& model) { return std::string(model.model_type); },
       TextTable::Align::left},
      {{"model"}, titleOf, TextTable::Align::left},
      {{"what is read of it"},
       [](const SupportedModel& model) {
         return model.text_type.empty() ? "all" : fmt::format("its language model, {}", model.text_type);
       },
       TextTable::Align::left}};
  return tableText(columns, models);
}

std::string describePredictions(const InfoOptions& options, const Job& job) {
  const RunFile run = agent::open_run(options.path, options.check);
  PredictionsRequest request{options.path, options.predictions, 10, options.checkpoints};
  if (options.top && *options.top < 1) {
    throw UsageError(fmt::format("--top {}: use a number from 1 on", *options.top));
  }
  if (options.top) request.top = *options.top;
  return options.json ? predictionsJson(run, request, job) : predictionsText(run, request, job);
}

std::string describeExperts(const InfoOptions& options) {
  if (options.csv && options.json) throw UsageError("info: --json and --csv exclude each other: choose one");
  const RunFile run = agent::open_run(options.path, options.check);
  const ExpertsRequest request{options.path, options.layer};
  if (options.csv) return expertsCsv(run, request);
  return options.json ? expertsJson(run, request) : expertsText(run, request);
}

void checkTable(const InfoOptions& options) {
  for (const auto& [name, given] : {std::pair("--model", options.model), {"--head", options.head}}) {
    if (options.table.empty() && !given.empty()) {
      throw UsageError(fmt::format("{} is for --table: give that too", name));
    }
  }
  if (options.table.empty()) return;
  if (options.csv && options.json) throw UsageError("info --table: --csv and --json exclude each other: choose one");
}

void checkExperts(const InfoOptions& options) {
  if (options.experts || !options.table.empty()) return;
  for (const auto& [name, given] : {std::pair("--layer", options.layer.has_value()), {"--csv", options.csv}}) {
    if (given)
      throw UsageError(fmt::format("{} is for --experts{}: give that too", name, options.csv ? " and --table" : ""));
  }
}

void checkPredictions(const InfoOptions& options) {
  if (!options.predictions.empty()) return;
  for (const auto& [name, given] :
       {std::pair("--checkpoint", !options.checkpoints.empty()), {"--top", options.top.has_value()}}) {
    if (given) throw UsageError(fmt::format("{} is for --predictions POSITION: say of which position", name));
  }
}

std::string describe(const InfoOptions& options, const Job& job) {
  if (options.supported) return describeSupported(options.json);
  if (options.path.empty()) throw UsageError("info: name a checkpoint folder or a file, or give --supported");
  checkTable(options);
  checkPredictions(options);
  checkExperts(options);
  if (options.experts && !options.predictions.empty())
    throw UsageError("info: --experts and --predictions exclude each other: choose one");
  if (options.experts) return describeExperts(options);
  if (!options.predictions.empty()) return describePredictions(options, job);
  std::error_code failed;
  const bool remote = agent::is_remote(options.path);
  if (!remote && !std::filesystem::is_regular_file(options.path, failed)) {
    const std::filesystem::path folder = options.path;
    if (std::filesystem::exists(folder / "recipe.json", failed) &&
        !std::filesystem::exists(folder / "config.json", failed)) {
      throw Error(
          fmt::format("{0}: is a training: foxscope figure training {0} -o training.pdf draws it, foxscope open {0} "
                      "shows it, and info describes a model in {0}/checkpoints",
                      options.path));
    }
    return describeCheckpoint(options, job);
  }
  if (options.checksum) throw UsageError(fmt::format("--checksum is for a checkpoint folder, not {}", options.path));
  const auto there = remote ? std::optional(agent::file_facts(options.path)) : std::nullopt;
  const std::string content = there ? agent::content_of(*there) : read_content(options.path);
  if (content == kLossContent) return describeLosses(options);
  if (content == kSweepContent) return describeSweep(options);
  if (content == kAtlasContent) return describeAtlas(options);
  if (!options.table.empty()) {
    throw Error(fmt::format("{}: holds {} and no atlas: name a file that `foxscope eval atlas` wrote", options.path,
                            content.empty() ? "a run or maps" : content_words(content)));
  }
  // A run file stays where it lies; where one there is damaged, opening it says how.
  if (!there || (there->holds != "runs" && !there->holds.empty())) {
    const FileOrigin origin = read_origin(agent::file_here(options.path));
    if (!content.empty() || (origin.models.empty() && !origin.maps.empty())) return describeOrigin(options, origin);
  }
  const RunFile run = agent::open_run(options.path, options.check);
  return options.json ? runFileJson(options.path, run) : runFileText(options.path, run);
}

}  // namespace

void addInfoCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<InfoOptions>();
  CLI::App* command = addSubcommand(program, parsed, "info",
                                    "Say what a checkpoint folder, a run file, an evaluation or a file of maps holds",
                                    "  foxscope info resources/models/fox-pro-12m\n"
                                    "  foxscope info owner/name\n"
                                    "  foxscope info run.h5 --json\n"
                                    "  foxscope info run.h5 --predictions 650 --checkpoint path/to/checkpoint\n"
                                    "  foxscope info run.h5 --experts --layer 3\n"
                                    "  foxscope info atlas.h5 --table tokens --model fox --head 6:1 --csv\n"
                                    "  foxscope info --supported");
  command->add_option("path", options->path, "Checkpoint folder, hub id, run file, evaluation or file of maps")
      ->type_name("PATH");
  command->add_flag("--supported", options->supported, "List the model_types that are read instead");
  command->add_flag("--json", options->json, "Print as JSON");
  command->add_flag("--checksum", options->checksum,
                    "Of a checkpoint: say the SHA-256 of its weights too, all of which are read for it");
  command
      ->add_option("--predictions", options->predictions,
                   "Say instead what the models of a run file expected at these positions, of runs with --keep "
                   "predictions, hidden or logits: the likeliest tokens, and rank and p of the token that came")
      ->type_name("POSITION,...")
      ->delimiter(',');
  command
      ->add_option("--checkpoint", options->checkpoints,
                   "With --predictions: checkpoint folder or hub id of a model of the file, whose head makes logits of "
                   "the states that were kept (repeatable)")
      ->type_name("DIR")
      ->allow_extra_args(false);
  command->add_option("--top", options->top, "With --predictions: how many of the likeliest tokens (default: 10)")
      ->type_name("N");
  command->add_flag("--experts", options->experts,
                    "Say instead how runs with --keep experts use the experts of their layers: for each expert the "
                    "share of tokens that read it and where it is the heaviest, its mean weight, and the tokens that "
                    "read it most");
  command->add_option("--layer", options->layer, "With --experts: this layer alone (default: all that have experts)")
      ->type_name("N");
  command
      ->add_option("--table", options->table,
                   fmt::format("Print a table of an atlas instead, in columns or as --csv or --json: {}",
                               fmt::join(AtlasTable::names(), ", ")))
      ->type_name("NAME");
  command->add_option("--model", options->model, "With --table: this model alone (default: all)")->type_name("NAME");
  command->add_option("--head", options->head, "With --table: this head alone (default: all)")->type_name("L:H");
  command->add_flag("--csv", options->csv, "With --experts and --table: print as CSV");
  addUnchecked(*command, options->check);
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) {
      noteUnchecked(context.console, options->path, options->check);
      const std::string description = describe(*options, context.job());
      if (context.stop.stop_requested()) return static_cast<int>(kInterrupted);
      options->json || options->csv ? Console::write(description) : Console::print(description);
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace foxscope::cli
