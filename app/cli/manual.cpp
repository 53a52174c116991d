#include "app/cli/manual.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/choices.h"
#include "app/cli/command.h"
#include "app/cli/command_tree.h"

namespace foxscope::cli {
namespace {

/// A line of a section that a page has where one of its options takes such a value.
struct Fact {
  std::string_view type;  ///< a part of what --help shows behind an option; empty: every page has the line
  const char* name;
  const char* words;
};

constexpr std::array<Fact, 12> kFiles = {{
    {"DIR", "config.json, model.safetensors, tokenizer.json", "A checkpoint folder, as Hugging Face writes it."},
    {"RUN.h5", "RUN.h5", "A run file (HDF5). `foxscope run` writes it."},
    {"NEEDLE.h5", "NEEDLE.h5", "A needle test (HDF5). `foxscope eval needle` writes it."},
    {"SWEEP.h5", "SWEEP.h5", "A sweep over heads (HDF5). `foxscope eval sweep` writes it."},
    {"EVAL.h5", "EVAL.h5", "Losses over a corpus (HDF5). `foxscope eval loss` and `foxscope eval import` write it."},
    {"SPEC.json", "SPEC.json", "The kind and the options of a figure. `foxscope figure spec --write` writes it."},
    {"OUT", "OUT/recipe.json, OUT/log.jsonl, OUT/evaluation.jsonl", "All settings of a training, and a line a step."},
    {"OUT", "OUT/checkpoints/step-NNNNNN", "Checkpoint folders of a training."},
    {"PATH", "*.foxscope.json", "A session of the window."},
    {"PATH", "~/.config/foxscope", "Settings of the window; XDG_CONFIG_HOME moves it."},
    {"PATH", "~/.cache/foxscope",
     "Files that the program can make again, as token ids of training texts; XDG_CACHE_HOME moves it."},
    {"DIR", "~/.cache/huggingface/hub",
     "The hub cache, in which a hub id owner/name is looked up. Nothing is downloaded."},
}};

constexpr std::array<Fact, 7> kEnvironment = {{
    {"DIR", "HF_HUB_CACHE, HF_HOME", "Folder of the hub cache: HF_HUB_CACHE, else HF_HOME/hub."},
    {"DEVICE", "CUDA_VISIBLE_DEVICES", "The GPUs that may be used; empty: the CPU."},
    {"DIR", "RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT",
     "Set by torchrun: several processes share a training or an evaluation. The variables of srun do the same."},
    {"PATH", "XDG_CACHE_HOME", "Folder of the cache (default: ~/.cache)."},
    {"FILE", "TMPDIR", "Folder in which a file lies until it goes to standard output (default: /tmp)."},
    {"", "OMP_NUM_THREADS", "Number of threads that compute on the CPU (default: one a core)."},
    {"", "NO_COLOR", "If it is set, messages have no colours."},
}};

/// Escapes one line of text for troff; a dash is what one types, not a hyphen.
std::string escaped(std::string_view line) {
  std::string text = line.starts_with('.') || line.starts_with('\'') ? "\\&" : "";
  for (const char character : line) {
    if (character == '\\') {
      text += "\\e";
    } else if (character == '-') {
      text += "\\-";
    } else {
      text += character;
    }
  }
  return text;
}

std::string asWritten(const std::string& text) {
  std::string lines = ".PP\n.nf\n";
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines += escaped(text.substr(begin, end - begin)) + '\n';
    begin = end + 1;
  }
  return lines + ".fi\n";
}

std::string item(const std::string& head, const std::string& type, std::string_view words) {
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", escaped(head), type.empty() ? "" : " \\fI" + escaped(type) + "\\fR",
                     escaped(words));
}

std::string optionsOf(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    const std::string names =
        option->get_positional() ? option->get_name(true) : fmt::format("{}", fmt::join(shownNames(*option), " "));
    const Choice choice = choiceOf(*option);
    const std::string type = option->get_items_expected_max() == 0 ? "" : option->get_type_name();
    std::string words = option->get_description();
    // The type shows them already where it is made of them.
    if (!choice.words.empty() && type.find('|') == std::string::npos) {
      words += fmt::format(". Words: {}", fmt::join(choice.words, ", "));
    }
    text += item(names, type, words);
  }
  return text;
}

bool takes(const CLI::App& command, std::string_view type) {
  return type.empty() || std::ranges::any_of(command.get_options(), [&](const CLI::Option* option) {
           return option->get_type_name().find(type) != std::string::npos;
         });
}

/// @param every  all lines, whatever the options
template <std::size_t count>
std::string section(const char* title, const std::array<Fact, count>& facts, const CLI::App& command, bool every) {
  std::string text;
  for (const Fact& fact : facts) {
    if (every || takes(command, fact.type)) text += item(fact.name, "", fact.words);
  }
  return text.empty() ? text : fmt::format(".SH {}\n{}", title, text);
}

std::string exitStatus() {
  return ".SH \"EXIT STATUS\"\n" + item("0", "", "Done.") +
         item("1", "", "Failed; standard error says why, in a line.") +
         item("2", "", "The command line was not understood.") + item("130", "", "Interrupted by a signal.");
}

/// "foxscope eval loss" as the name of a page: "foxscope-eval-loss".
std::string pageName(std::string name) {
  std::ranges::replace(name, ' ', '-');
  return name;
}

/// Commands that only pass their arguments on have no options and no page.
bool hasPage(const CLI::App& command) { return command.get_help_ptr() != nullptr && command.get_name() != "help"; }

std::string reference(const std::string& name) { return fmt::format("\\fB{}\\fR(1)", escaped(pageName(name))); }

/// The pages of the group that a command is in and of its own subcommands.
std::string seeAlso(const NamedCommand& of, const std::vector<NamedCommand>& all) {
  std::vector<std::string> pages;
  for (const NamedCommand& each : all) {
    if (each.command == of.command || !hasPage(*each.command)) continue;
    const CLI::App* group = each.command->get_parent();
    const bool above = each.command == of.command->get_parent();
    const bool beside = group != nullptr && group == of.command->get_parent();
    if (above || beside || group == of.command) pages.push_back(reference(each.name));
  }
  return fmt::format(".SH \"SEE ALSO\"\n{}\n", fmt::join(pages, ",\n"));
}

std::string commandsIn(const NamedCommand& of) {
  std::string text;
  for (const CLI::App* sub : commandsOf(*of.command)) text += item(sub->get_name(), "", sub->get_description());
  return text.empty() ? text : ".SH COMMANDS\n" + text;
}

std::string pageOf(const NamedCommand& of, const std::vector<NamedCommand>& all, const std::string& version) {
  const bool whole = of.command->get_parent() == nullptr;
  const std::string name = pageName(of.name);
  std::string page = fmt::format(".TH {} 1 \"\" \"foxscope {}\" \"User Commands\"\n", escaped(name), version);
  page += fmt::format(".SH NAME\n{} \\- {}\n", escaped(name),
                      whole ? "see what each head of a Forgetting Transformer forgets, and when"
                            : escaped(of.command->get_description()));
  page += whole ? ".SH SYNOPSIS\n.B foxscope\n[\\fIPATH\\fR ...]\n.br\n.B foxscope\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
                : fmt::format(".SH SYNOPSIS\n.B {}\n{}[\\fIOPTIONS\\fR]\n", escaped(of.name),
                              commandsOf(*of.command).empty() ? "" : "\\fICOMMAND\\fR ");
  page += ".SH DESCRIPTION\n" + escaped(of.command->get_description()) + '\n' + asWritten(of.command->get_footer());
  page += commandsIn(of);
  page += ".SH OPTIONS\n" + optionsOf(*of.command);
  page += exitStatus();
  page += section("FILES", kFiles, *of.command, whole);
  page += section("ENVIRONMENT", kEnvironment, *of.command, whole);
  return page + seeAlso(of, all);
}

}  // namespace

std::vector<ManualPage> manualPages(const CLI::App& program, const std::string& version) {
  const std::vector<NamedCommand> all = everyCommand(program);
  std::vector<ManualPage> pages;
  for (const NamedCommand& each : all) {
    if (hasPage(*each.command)) pages.push_back({pageName(each.name) + ".1", pageOf(each, all, version)});
  }
  return pages;
}

}  // namespace foxscope::cli
