#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/command.h"
#include "app/cli/map_options.h"
#include "app/cli/output.h"
#include "app/cli/values.h"
#include "app/description/number_text.h"
#include "app/figure/figure_words.h"
#include "app/page/page.h"
#include "backend/agent/remote_run.h"
#include "backend/base/error.h"
#include "backend/base/nearest_name.h"
#include "backend/file/run_file.h"

namespace foxscope::cli {
namespace {

struct PageOptions {
  std::string file;
  RunCheck check = RunCheck::whole;
  std::optional<std::string> model;
  std::optional<std::string> minus;
  std::vector<std::string> heads;
  std::string title;
  std::string output;
  bool force = false;
};

void checkOutput(const PageOptions& options) {
  if (!isStandardOutput(options.output)) {
    const std::string ending = std::filesystem::path(options.output).extension().string();
    if (ending != ".html" && ending != ".htm") {
      throw UsageError(fmt::format("-o {}: a page is HTML: give the file the ending .html", options.output));
    }
  }
  requireDistinct(options.output, options.file);
  requireWritable(options.output, options.force);
}

/// The runs of the page: the model first that is asked for, or was run first; then that whose losses are subtracted.
std::vector<page::PageModel> modelsOf(const PageOptions& options, const RunFile& file) {
  std::vector<std::shared_ptr<const Trace>> traces = file.default_first();
  const auto toPlace = [&](const std::optional<std::string>& name, std::ptrdiff_t place) {
    if (!name) return;
    const auto found = std::ranges::find(traces, file.trace(name));
    if (found < traces.begin() + place) {
      throw UsageError(fmt::format("--minus {}: a model differs from itself in nothing: choose another", *name));
    }
    std::rotate(traces.begin() + place, found, found + 1);
  };
  toPlace(options.model, 0);
  if (options.minus && !options.model && file.trace(options.minus) == traces.front() && traces.size() > 1) {
    std::rotate(traces.begin(), traces.begin() + 1, traces.begin() + 2);
  }
  toPlace(options.minus, 1);
  std::vector<page::PageModel> models;
  for (const auto& trace : traces) {
    models.push_back({{trace, std::nullopt}, trace->info().name, static_cast<int>(models.size()), {}});
  }
  return models;
}

/// --heads L:H,NAME:L:H: without a name of the first model. Models of which none is named have no maps.
void takeHeads(const PageOptions& options, std::vector<page::PageModel>& models) {
  for (const std::string& words : options.heads) {
    for (const std::string& word : split(words, ',')) {
      page::PageModel* model = &models.front();
      std::string numbers = word;
      if (std::ranges::count(word, ':') == 2) {
        const std::string name = word.substr(0, word.find(':'));
        numbers = word.substr(name.size() + 1);
        const auto named = std::ranges::find(models, name, &page::PageModel::name);
        if (named == models.end()) {
          std::vector<std::string> names;
          for (const page::PageModel& one : models) names.push_back(one.name);
          throw UsageError(fmt::format("--heads {}: the run file holds no model '{}', but {}{}", word, name,
                                       fmt::join(names, ", "), nearest_question(name, names)));
        }
        model = &*named;
      }
      const figure::HeadIndex head = figure::parseHead("--heads", numbers);
      figure::requireHead(model->trace->info(), head);
      if (std::ranges::find(model->heads, head) != model->heads.end()) {
        throw UsageError(fmt::format("--heads {}: stands there twice: leave one out", word));
      }
      model->heads.push_back(head);
    }
  }
  if (models.front().heads.empty()) {
    throw UsageError(fmt::format("--heads {}: name at least one head of '{}', which the page is about",
                                 options.heads.front(), models.front().name));
  }
}

std::string chosenNote(const std::vector<page::PageModel>& models) {
  std::string note;
  for (const page::PageModel& model : models) {
    note += fmt::format("{}{}:", note.empty() ? "" : "; ", model.name);
    for (const figure::HeadIndex& head : model.heads) note += ' ' + figure::wordOf(head);
  }
  return "heads of short to long memory, of each kind of layer: " + note + ": --heads chooses others";
}

int writePage(const PageOptions& options, const CommandContext& context) {
  checkOutput(options);
  const auto file = agent::open_run(options.file, options.check, context.job());
  if (!file) return kInterrupted;
  page::PageRequest request;
  request.models = modelsOf(options, *file);
  request.title = options.title;
  request.command = context.commandLine;
  request.run_command = file->command_line;
  if (options.heads.empty()) {
    page::chooseHeads(request.models);
    context.console.note(chosenNote(request.models));
  } else {
    takeHeads(options, request.models);
  }
  context.console.setSubject(options.output);
  const auto html = page::makePage(request, context.job());
  if (!html) return kInterrupted;
  context.console.endProgress();
  noteUnchecked(context.console, options.file, options.check);
  writeOutput(options.output, options.force, *html);
  const auto bytes = static_cast<double>(html->size());
  if (isStandardOutput(options.output)) return kDone;
  context.console.note(fmt::format(
      "{}: {}{}", options.output, sizeText(bytes),
      bytes > page::kWantedPage ? ", much for a mail: fewer --heads, or a shorter text, make it smaller" : ""));
  return kDone;
}

}  // namespace

void addPageCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<PageOptions>();
  CLI::App* command =
      addSubcommand(program, parsed, "page", "Write a run as one HTML file that opens in any browser",
                    "  foxscope page run.h5 -o page.html\n"
                    "  foxscope page run.h5 --heads 1:2,7:2 -o page.html\n"
                    "  foxscope page run.h5 --heads 7:2,transformer-pro:1:1 -o - | gzip > page.html.gz");
  command->footer(
      "The page holds F and A of the heads with zoom and the value of each entry, the text tinted by losses, gates or\n"
      "a pinned row, and the losses of all models. It needs no network, and nothing but a browser of 2023 or "
      "later.\n\n" +
      command->get_footer());
  command->add_option("file", options->file, "Run file")->type_name("RUN.h5")->required();
  command
      ->add_option("--heads", options->heads,
                   "Heads whose maps the page holds: of the first model, or NAME:LAYER:HEAD of another (default: up to "
                   "eight, from the fastest to the slowest of each kind of layer)")
      ->type_name("L:H,...");
  command
      ->add_option("--model", options->model,
                   "First model, which foxscope.value of the page is about (default: the model that was run first)")
      ->type_name("NAME");
  command
      ->add_option("--minus", options->minus,
                   "Second model, whose losses are subtracted (default: the one after the first)")
      ->type_name("NAME");
  command->add_option("--title", options->title, "Title of the page (default: the models and the text's first words)")
      ->type_name("TEXT");
  command->add_option("-o,--output", options->output, "File to write, .html; - for standard output")
      ->type_name("FILE")
      ->required();
  command->add_flag("--force", options->force, "Overwrite the output");
  addUnchecked(*command, options->check);
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return writePage(*options, context); };
  });
}

}  // namespace foxscope::cli
