#include "app/cli/manual.h"

#include <algorithm>
#include <regex>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/command.h"

namespace foxscope::cli {
namespace {

/// A command and the words that call it: "foxscope eval loss".
struct Named {
  std::string name;
  const CLI::App* command = nullptr;
};

// Each before its subcommands.
void collect(const CLI::App& command, const std::string& name, std::vector<Named>& all) {
  all.push_back({name, &command});
  for (const CLI::App* sub : commandsOf(command)) collect(*sub, name + ' ' + sub->get_name(), all);
}

std::vector<Named> everyCommand(const CLI::App& program) {
  std::vector<Named> all;
  collect(program, program.get_name(), all);
  return all;
}

// Escapes one line of text for troff; a dash is what one types, not a hyphen.
std::string escaped(const std::string& line) {
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

std::string optionsOf(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    std::string names = option->get_positional() ? option->get_name(true) : option->get_name(false, true);
    std::replace(names.begin(), names.end(), ',', ' ');
    const std::string type = option->get_items_expected_max() == 0 ? "" : option->get_type_name();
    text += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", escaped(names), type.empty() ? "" : " \\fI" + escaped(type) + "\\fR",
                        escaped(option->get_description()));
  }
  return text;
}

std::string shellWords(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::vector<std::string> optionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// "auto|linear|log" is what an option chooses from.
bool isChoice(const std::string& type) {
  static const std::regex kChoice(R"([a-z0-9-]+(\|[a-z0-9-]+)+)");
  return std::regex_match(type, kChoice);
}

}  // namespace

std::string manualPage(const CLI::App& program, const std::string& version) {
  const std::string& name = program.get_name();
  std::string page = fmt::format(".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n", name, name, version);
  page += fmt::format(".SH NAME\n{} \\- see what each head of a Forgetting Transformer forgets, and when\n", name);
  page +=
      fmt::format(".SH SYNOPSIS\n.B {0}\n[\\fIPATH\\fR ...]\n.br\n.B {0}\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n", name);
  page += ".SH DESCRIPTION\n" + escaped(program.get_description()) + '\n' + asWritten(program.get_footer());
  page += ".SH COMMANDS\n";
  for (const Named& each : everyCommand(program)) {
    page += fmt::format(
        ".SS {}\n{}\n", escaped(each.name),
        each.command == &program ? "Options of the program itself." : escaped(each.command->get_description()));
    page += optionsOf(*each.command);
    if (each.command != &program) page += asWritten(each.command->get_footer());
  }
  return page;
}

std::string bashCompletion(const CLI::App& program) {
  const std::vector<Named> all = everyCommand(program);
  std::string steps;
  std::string options;
  std::string choices;
  for (const Named& each : all) {
    std::vector<std::string> below;
    for (const CLI::App* sub : commandsOf(*each.command)) {
      below.push_back(sub->get_name());
      steps += fmt::format("      '{} {}') ;;\n", each.name, sub->get_name());
    }
    options += fmt::format("    '{}') commands='{}' options='{}' ;;\n", each.name, shellWords(below),
                           shellWords(optionNames(*each.command)));
    for (const CLI::Option* option : each.command->get_options()) {
      std::string type = option->get_type_name();
      if (!isChoice(type)) continue;
      std::replace(type.begin(), type.end(), '|', ' ');
      for (const std::string& long_name : option->get_lnames()) {
        choices += fmt::format("    '{} --{}') words='{}' ;;\n", each.name, long_name, type);
      }
    }
  }
  return fmt::format(R"(# bash completion of {0}
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command={0} word commands='' options='' words=''
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$command $word" in
{1}      *) continue ;;
    esac
    command="$command $word"
  done
  case "$command" in
{2}  esac
  case "$command $before" in
{3}  esac
  if [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current" || :; compgen -f -- "$current")
  fi
}}
complete -o filenames -F _{0} {0}
)",
                     program.get_name(), steps, options, choices);
}

}  // namespace foxscope::cli
